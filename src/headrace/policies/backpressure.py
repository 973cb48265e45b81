"""How many records a second a use case, or a sink, is given while it is overloaded.

A database that slows down is not helped by eight tasks asking at once, and a mail server that says
"later" is not helped by being asked again. Spark's answer is a controller that sets a rate after
each batch (``PIDRateEstimator`` in org.apache.spark.streaming.scheduler.rate, SPARK-8975). Two
troubles are known of it. A small batch has the same fixed cost as a large one, so it looks slow;
the rate is lowered, the next batch is smaller yet, and so down to the minimum. And a limit that is
in force all the time costs throughput when nothing is overloaded.

So here no limit is in force until there is a sign of overload, and there are two:

* *Waves overrun* their target by more than half, three windows in a row. Then the controller sets
  the rate: by default to what is done, less a fifth of what a second of overrun holds.
* A *sink refuses* because it is down or throttled. Then the rate is halved at once, and again in
  each window with a refusal, down to one probe a second. This is how TCP treats loss. Where the
  sink names rows, and takes the others, the rate falls by half the share that it did not take, as
  DCTCP has it (RFC 8257): a tenth refused costs a twentieth, and less than half of that nothing.

A rate is never compared with how fast a batch was, only with how much was done at the concurrency
that there was, and it is lowered only while waves overrun; so small batches harm nobody.

What was done under overload is kept as the *ceiling*. While waves meet their target and work waits,
the rate grows: below the ceiling it doubles, around it by a fiftieth (less if not all of it is
used), and once clearly more is done than the ceiling, by a fifth. This is the shape of CUBIC
(RFC 9438), which stays close to the last known capacity and then searches for more. The limit is
lifted after eight windows in which it held nobody back.

Worked example, windows of a second: a sink does 1,000 records/s and 900 come in. It falls to 250;
waves take 1.5, 4, 6.7 and 8 s, and after the third that is far too long a limit of 247 is set, then
230 and, until what is queued in the sink is worked off, 213. It recovers: the limit is 225, 266,
313 and so on, 994 after ten windows, 1,186 at most, and then moves between 950 and 1,040 until what
waited is done and it is lifted. Of a sink that refuses all above 1,000 records/s, between 880 and
1,000 are used in eight of nine windows, and half in the ninth.

It does not limit one tenant for another's sake (shares do), does not say which slice to take, and
in a system whose slots alone bound the work it seldom does anything: slices are cut by what records
cost now, which is the first and gentler answer to a slow sink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: overrun, as a share of the target, that is a sign of overload
_OVERLOADED = 0.5
#: so many such windows in a row are no accident and no cold start
_WINDOWS_OVERLOADED = 3
#: overrun, as a share of the target, that a rate in force tolerates: waves are never exact
_TOLERATED = 0.1
#: windows without effect after which a limit is lifted; were a fifth of the rate piling up behind
#: the sink instead, its waves would have overrun by then
_WINDOWS_CALM = 8
#: share of the newest window in what is thought to be done
_WEIGHT = 0.5
#: a backlog behind the sink is worked off with no less than this share of what it does
_LEAST_SHARE = 0.85
#: less than this share of the rate used: something else holds the work back
_USED = 0.8
#: share of rows refused that is no sign of overload: they are offered again all the same
_FEW_REFUSED = 0.05
#: more than this share of the rate used: the plant keeps up
_KEEPS_UP = 0.95
#: shares of the ceiling between which growth is slow
_NEAR, _BEYOND = 0.9, 1.15
#: growth in a window below the ceiling, around it, around it if not all is used, and above it
_DOUBLE, _SLOW, _CREEP, _FAST = 2.0, 1.02, 1.003, 1.18


@dataclass(frozen=True, slots=True)
class PidGains:
    """How strongly the rate answers; the defaults are Spark's, but for the least rate."""

    proportional: float = 1.0
    integral: float = 0.2
    derivative: float = 0.0
    #: above 0, so that there is always something to learn from
    min_rate_per_s: float = 1.0


@dataclass(frozen=True, slots=True)
class LoadWindow:
    """What came back from a use case, or from all that write to a sink, in about a second.

    ``slots_used`` is how many of its waves ran at once, averaged over the time of the window. With
    waves much longer than a window, ``busy_s / seconds`` would leap instead.
    """

    seconds: float
    #: done by the waves that ended
    records: int
    #: wall seconds of these waves, added up
    busy_s: float
    slots_used: float
    #: measured less target seconds of these waves, at least 0 each, averaged
    overrun_s: float
    #: slices that the sink refused for now
    refused: int
    #: records that wait, those in flight included
    waiting_records: int
    #: what the waves were meant to take, averaged
    target_s: float = 1.0
    #: of the rows that it was given, the part that the sink did not take for now
    refused_share: float = 0.0


@dataclass(frozen=True, slots=True)
class PaceBounds:
    """What an operator knows of a server: records a second that it is given; None: whatever.

    By this driver: drivers that share it add up.
    """

    #: to begin with, until it has shown that it takes more
    initial_per_s: float | None = None
    #: however much it refuses
    least_per_s: float | None = None
    #: however much it takes
    most_per_s: float | None = None

    def gains(self, gains: PidGains) -> PidGains:
        """The gains with this least rate."""
        if self.least_per_s is None:
            return gains
        return replace(gains, min_rate_per_s=self.least_per_s)

    def first(self) -> Pace:
        """The pace of what has not been used yet."""
        return Pace(rate_per_s=self.initial_per_s)

    def held(self, rate_per_s: float | None) -> float | None:
        """What a pace lets through, which is never more than the most."""
        said = [rate for rate in (rate_per_s, self.most_per_s) if rate is not None]
        return min(said, default=None)


@dataclass(frozen=True, slots=True)
class Pace:
    """The limit in force, and what it was concluded from."""

    #: None is no limit
    rate_per_s: float | None = None
    #: what was done lately, as a moving average
    done_per_s: float = 0.0
    #: what was done when it was last too much; 0 is not known
    ceiling_per_s: float = 0.0
    #: rate less what was done, when last overrun
    error_per_s: float = 0.0
    #: windows in a row with overload, while no limit is in force
    overloaded: int = 0
    #: windows in a row in which the limit held nobody back
    calm: int = 0


def paced(pace: Pace, gains: PidGains, window: LoadWindow) -> Pace:
    """The pace after another window.

    Args:
        pace: the pace during the window; ``Pace()`` at first.
        gains: how strongly to answer.
        window: what came back. Growth and halving are by window, so let windows be even.

    Returns:
        The pace from now on; its rate is None or at least ``gains.min_rate_per_s``.
    """
    if not (window.records or window.refused or window.refused_share):
        # Where work waits, its waves are still running: nothing is known, so nothing changes.
        return pace if window.waiting_records else _calmer(replace(pace, overloaded=0))
    now_per_s = _processing_rate(window)
    if window.records:
        known = pace.done_per_s
        done_per_s = known + _WEIGHT * (now_per_s - known) if known else now_per_s
        pace = replace(pace, done_per_s=done_per_s)
    if window.refused or window.refused_share > _FEW_REFUSED:
        return _lowered(pace, gains, window)
    if pace.rate_per_s is None:
        return _watched(pace, gains, window)
    if window.overrun_s > _TOLERATED * window.target_s:
        return _governed(pace, pace.rate_per_s, gains, window)
    # While the rate doubles, the average is left behind.
    used = max(now_per_s, pace.done_per_s) >= _USED * pace.rate_per_s
    if not used or window.waiting_records <= pace.rate_per_s * window.target_s:
        return _calmer(pace)
    rate_per_s = _grown(pace, pace.rate_per_s, now_per_s, gains.min_rate_per_s)
    return replace(pace, rate_per_s=rate_per_s, error_per_s=0.0, calm=0)


def _watched(pace: Pace, gains: PidGains, window: LoadWindow) -> Pace:
    """The step while no limit is in force."""
    overran = window.overrun_s > _OVERLOADED * window.target_s
    overloaded = pace.overloaded + 1 if overran else 0
    if overloaded < _WINDOWS_OVERLOADED:
        return replace(pace, overloaded=overloaded)
    return _governed(pace, pace.done_per_s, gains, window)


def _processing_rate(window: LoadWindow) -> float:
    """Records a second at the concurrency that there was."""
    if window.busy_s <= 0.0:
        return window.records / window.seconds
    return window.records / window.busy_s * window.slots_used


def _governed(pace: Pace, rate_per_s: float, gains: PidGains, window: LoadWindow) -> Pace:
    """The controller's step, for waves that overran; the formula is Spark's."""
    done_per_s = pace.done_per_s
    error = rate_per_s - done_per_s
    # Records in the overrun, spread over one target: without them there would be none.
    historical = window.overrun_s * done_per_s / window.target_s
    change = (error - pace.error_per_s) / window.seconds
    wanted = (
        rate_per_s
        - gains.proportional * error
        - gains.integral * historical
        - gains.derivative * change
    )
    bounded = min(max(rate_per_s, done_per_s), max(wanted, _LEAST_SHARE * done_per_s))
    return Pace(
        rate_per_s=max(gains.min_rate_per_s, bounded),
        done_per_s=done_per_s,
        # One window that did little is no proof: the ceiling comes down by halves.
        ceiling_per_s=max(done_per_s, (done_per_s + pace.ceiling_per_s) / 2),
        error_per_s=error,
    )


def _lowered(pace: Pace, gains: PidGains, window: LoadWindow) -> Pace:
    """The step for a sink that refused something: all of it, or a share of rows."""
    share = 1.0 if window.refused else window.refused_share
    before = pace.done_per_s if pace.rate_per_s is None else pace.rate_per_s
    # A sink that is down does nothing at all, and that says nothing about what it can do.
    learnt = window.records > 0 or not pace.ceiling_per_s
    return Pace(
        rate_per_s=max(gains.min_rate_per_s, before * (1 - share / 2)),
        done_per_s=pace.done_per_s,
        ceiling_per_s=pace.done_per_s if learnt else pace.ceiling_per_s,
    )


def _calmer(pace: Pace) -> Pace:
    """The step for a window in which the limit held nobody back."""
    if pace.rate_per_s is None:
        return pace
    if pace.calm + 1 >= _WINDOWS_CALM:
        return Pace(done_per_s=pace.done_per_s)
    return replace(pace, error_per_s=0.0, calm=pace.calm + 1)


def _grown(pace: Pace, rate_per_s: float, now_per_s: float, least_step: float) -> float:
    """The rate after a window that went well, with work waiting."""
    near = _NEAR * pace.ceiling_per_s
    if rate_per_s < near:
        return min(_DOUBLE * rate_per_s, near)
    # Where the rate is one record a second, a fiftieth more is never seen in whole records.
    stepped = rate_per_s + least_step
    if pace.done_per_s > _BEYOND * pace.ceiling_per_s:
        return max(stepped, _FAST * min(rate_per_s, now_per_s))
    if pace.done_per_s < _KEEPS_UP * rate_per_s:
        return _CREEP * rate_per_s
    return max(stepped, _SLOW * rate_per_s)
