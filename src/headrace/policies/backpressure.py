"""The pace of a use case, or of a sink, that is asked for more than it can do.

A sink that is overloaded answers late, or refuses. To go on asking makes it worse, so the rate is
brought down to what it does. Spark's old streaming had a controller for that: the new rate is the
old one less its distance from the rate at which records were really processed (proportional), less
a part of what piled up meanwhile (integral), less a part of the trend (derivative), and never below
a minimum (``PIDRateEstimator`` in ``org.apache.spark.streaming.scheduler.rate``, Spark 1.5 to 3.x;
the gains here are its defaults). Ours is this formula with three differences, each for a trouble
its users had:

- *No limit without overload.* A limit that is always in force costs throughput when nothing is
  wrong. It begins when waves take over half as long again as they should, or when the sink refuses,
  and is lifted when for some windows all that came was done.
- *No spiral.* A small batch looks slow because of its fixed cost, so the next one is smaller still,
  down to the minimum. Here a window without overload never lowers the rate: it is raised, by little
  after too much, then by twice as much each time (as TCP CUBIC probes, RFC 9438), until waves take
  a tenth longer than they should. There it stays.
- *Refusals count.* A sink that says no (down, or 429) halves the rate at once, down to the
  minimum: a probe now and then, no hot loop.

Nothing here measures or waits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

#: waves that take so much longer than they should, as a part of their target, are too much
OVERRUN = 0.5
#: and those that take so much longer are just right: neither lower nor higher
STRETCHED = 0.1
#: first raise after too much, as a part of the rate; doubles with every good window
_FIRST_RAISE = 0.02
_MOST_RAISE = 0.25
#: windows in which all that came was done, after which the limit is lifted
_LIFT_AFTER = 5


@dataclass(frozen=True, slots=True)
class PidGains:
    """How strongly to answer; Spark's defaults, but for the minimum (there 100)."""

    proportional: float = 1.0
    integral: float = 0.2
    derivative: float = 0.0
    min_rate_per_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Window:
    """What came back in one window of time."""

    seconds: float
    records: int
    #: wall seconds of the waves that ended in it, one after the other
    busy_s: float
    #: seconds a wave should take, and by how much the mean one took longer
    target_s: float
    overrun_s: float
    #: slices that the sink refused for now: down, or throttled
    refused: int
    #: records that wait
    waiting_records: int

    @property
    def processing_per_s(self) -> float:
        """Records a second while it was at work."""
        return self.records / max(min(self.busy_s, self.seconds), 1e-6)


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate in force, and what is remembered to set the next."""

    #: None: no limit
    rate_per_s: float | None = None
    #: rate less processing rate, in the last window with overload
    error_per_s: float = 0.0
    #: windows in a row without overload
    good: int = 0
    #: windows in a row in which nothing was left waiting
    idle: int = 0


def paced(pace: Pace, gains: PidGains, window: Window) -> Pace:
    """The pace after one more window.

    Returns:
        ``rate_per_s`` None, or finite and at least ``gains.min_rate_per_s``.
    """
    if window.refused:
        before = pace.rate_per_s
        if before is None:
            before = window.records / max(window.seconds, 1e-6)
        return Pace(max(gains.min_rate_per_s, before / 2))
    if window.records and window.overrun_s > OVERRUN * window.target_s:
        return _lowered(pace, gains, window)
    idle = pace.idle + 1 if not window.waiting_records else 0
    if pace.rate_per_s is None or idle >= _LIFT_AFTER:
        return Pace()
    if not window.records or window.overrun_s > STRETCHED * window.target_s:
        return replace(pace, good=0, idle=idle)
    return _raised(pace, pace.rate_per_s, gains, idle)


def _raised(pace: Pace, rate_per_s: float, gains: PidGains, idle: int) -> Pace:
    share = min(_MOST_RAISE, _FIRST_RAISE * 2.0**pace.good)
    raised = rate_per_s + max(share * rate_per_s, gains.min_rate_per_s)
    if not math.isfinite(raised):
        return Pace()
    return replace(pace, rate_per_s=raised, good=min(pace.good + 1, 32), idle=idle)


def _lowered(pace: Pace, gains: PidGains, window: Window) -> Pace:
    processing = window.processing_per_s
    if pace.rate_per_s is None:
        # As Spark's first estimate: what was really done.
        return Pace(max(gains.min_rate_per_s, processing))
    error = pace.rate_per_s - processing
    piled_up = window.overrun_s * processing / max(window.seconds, 1e-6)
    trend = (error - pace.error_per_s) / max(window.seconds, 1e-6)
    lowered = (
        pace.rate_per_s
        - gains.proportional * error
        - gains.integral * piled_up
        - gains.derivative * trend
    )
    # Overload is no reason to go faster, however quick the few that came through were.
    rate = min(pace.rate_per_s, lowered)
    return Pace(max(gains.min_rate_per_s, rate), error)
