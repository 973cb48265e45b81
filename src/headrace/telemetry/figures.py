"""What a driver tells of its streams, made anew only where something happened.

Of a thousand streams most do nothing at a given moment, and to describe each of them every other
second would cost a driver more than to run them. So what was told of a stream is told again as long
as nothing happened to it. Of those where something did, so many at a time are described anew, those
that wait longest first: with up to 250 busy streams every report has all of them, with a thousand
one in four, and no figure is older than 8 s. What a person has to see at once, a state, a failure,
an error, does not wait.

Also here: rates of what came in, which nobody but the observer of ends knows, and how late a stream
is (`lateness.py`). Publishing is `publishing.py`'s matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.board import Board, HeldStream, Lane
from headrace.model.buckets import share_of
from headrace.model.places import UNKNOWN, Place, Places
from headrace.model.statistics import LagIs, LaneFigures, Point, Spread, StreamFigures
from headrace.model.streams import StreamId
from headrace.telemetry.history import FRESH_SPAN_S
from headrace.telemetry.lateness import EndSample, lag_s, remembered
from headrace.telemetry.long_runs import long_runs
from headrace.telemetry.meters import WINDOW_S, Meter, MeterWindow, merged_of
from headrace.telemetry.report import Reporter, Shown, shown, shown_wave
from headrace.telemetry.sketches import packed, spread_of

#: streams described anew in one report, besides those that cannot wait
AT_ONCE = 250
_NO_DELAYS = Spread()
_NO_LOOKS: tuple[EndSample, ...] = ()


class LastMinute(NamedTuple):
    """What was counted of a stream in a minute that is over."""

    stream: StreamId
    windows: list[MeterWindow]
    from_s: float

    def point(self) -> Point:
        """The same as history keeps it; may be asked in another thread, as nothing changes it."""
        sketch = merged_of(self.windows)
        return Point(
            stream=self.stream,
            from_s=self.from_s,
            span_s=FRESH_SPAN_S,
            lag_records=max(window.lag_records for window in self.windows),
            lag_s=max(window.lag_s for window in self.windows),
            records_in=sum(window.records_in for window in self.windows),
            records_out=sum(window.records_out for window in self.windows),
            task_s=sum(window.task_s for window in self.windows),
            delay=spread_of(sketch),
            sketch=packed(sketch),
        )


class _Now(NamedTuple):
    """When a look is taken."""

    now_s: float
    steady_s: float
    #: of all streams, lately
    task_s: float
    #: how long "lately" is
    span_s: float
    #: what is said of streams because slots are held for long
    long: Mapping[StreamId, str]


@dataclass(slots=True)
class _Track:
    """What the last look saw of a stream."""

    figures: StreamFigures
    #: what a person has to see at once
    urgent: Shown | None = None
    #: what else the figures were made of
    mark: tuple[object, ...] = ()
    #: they change without anything happening: a lag grows older, a rate fades
    restless: bool = True
    #: when it was last seen to be as described, by the steady clock
    seen_s: float = 0.0
    #: ends by lane
    ends: dict[str, Place] = field(default_factory=dict)
    #: of lanes that lag
    looks: dict[str, tuple[EndSample, ...]] = field(default_factory=dict)
    #: what its delay was read from: the meter's version, and its windows
    delay_of: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class BoardFigures:
    """Describes the streams of a board."""

    board: Board
    reporter: Reporter
    _tracks: dict[StreamId, _Track] = field(default_factory=dict)
    #: streams to describe anew, those that wait longest first
    _due: dict[StreamId, None] = field(default_factory=dict)

    def describe(self, now_s: float, steady_s: float) -> tuple[StreamFigures, ...]:
        """Every stream held, in no order, as of now; called every second or two."""
        everyone = self.reporter.all
        everyone.window(now_s)  # from the first look on there is something to count
        task_s = sum(window.task_s for window in everyone.recent(now_s))
        long = long_runs(self.board, steady_s)
        now = _Now(now_s, steady_s, task_s, everyone.span_s(now_s), long)
        tracks, streams = self._tracks, self.board.streams
        for name in [name for name in tracks if name not in streams]:
            del tracks[name]
        for name, held in streams.items():
            self._scan(name, held, now)
        for name in list(self._due)[:AT_ONCE]:
            del self._due[name]
            if name in streams:
                self._describe(tracks[name], streams[name], now)
        return tuple(track.figures for track in tracks.values())

    def minutes(self, from_s: float) -> list[LastMinute]:
        """What happened in the minute that began then, of streams with anything to say."""
        first = int(from_s // WINDOW_S)
        found = []
        for name, meter in self.reporter.meters.items():
            windows = [
                window
                for window in meter.windows
                if first <= window.number <= first + 1 and not window.is_empty
            ]
            if windows:
                found.append(LastMinute(name, windows, from_s))
        return found

    def forget(self, from_s: float) -> None:
        """Let go of streams that left, but for what was counted since then: it is still to tell."""
        self.reporter.forget(self.board.streams, int(from_s // WINDOW_S))

    def _scan(self, name: StreamId, held: HeldStream, now: _Now) -> None:
        """Note whether anything happened to a stream; what cannot wait is described at once."""
        if self.reporter.forget_earlier(held):
            self._tracks.pop(name, None)
        meter = self.reporter.meters.get(name, _NOTHING)
        urgent = shown(held, meter, now.now_s, now.steady_s, now.long)
        track = self._tracks.get(name)
        if track is None or track.urgent != urgent:
            if track is None:
                track = self._tracks[name] = _Track(_nothing(held))
            self._describe(track, held, now)
        elif (
            track.restless
            or track.mark != (meter.version, *_ends(held.lanes))
            or (meter.writers is not None and meter.writers.forgets(now.now_s))
        ):
            self._due.setdefault(name)
        else:
            track.seen_s = now.steady_s

    def _describe(self, track: _Track, held: HeldStream, now: _Now) -> None:
        name, lanes = held.stream.id, held.lanes
        (lag, lag_is), came = held.told_lag, _came(track.ends, held)
        late_s = _late_s(track, held, now) if lag else {}
        latest_s = max(late_s.values(), default=0.0)
        meter = (
            self.reporter.meter(name) if lag or came else self.reporter.meters.get(name, _NOTHING)
        )
        if lag or came:
            _count(meter.window(now.now_s), came, lag, latest_s)
        if not lag:
            track.looks = {}
        recent = meter.recent(now.now_s)
        incoming = outgoing = 0
        task_s = 0.0
        for window in recent:
            incoming += window.records_in
            outgoing += window.records_out
            task_s += window.task_s
        found = shown(held, meter, now.now_s, now.steady_s, now.long)
        track.urgent, track.mark = found, (meter.version, *_ends(lanes))
        track.restless = bool(lag or incoming or outgoing or task_s)
        track.seen_s = now.steady_s
        track.ends = {name: lane.end for name, lane in lanes.items()}
        track.figures = StreamFigures(
            stream=name,
            topic=held.stream.topic,
            state=found.state,
            lag_records=lag,
            lag_s=latest_s,
            in_per_s=incoming / now.span_s,
            out_per_s=outgoing / now.span_s,
            delay=_delay(track, meter, recent),
            throttled=held.throttled and lag > 0,
            task_share=task_s / now.task_s if now.task_s > 0 else 0.0,
            records_total=meter.records_total,
            dead_letters_total=meter.dead_letters,
            lost_records_total=meter.lost_records,
            passed_over_records_total=meter.passed_over_records,
            wave=shown_wave(held, meter),
            note=found.note,
            lanes=_lanes(held, late_s),
            retry_at_s=None
            if found.next_try_s is None
            else now.now_s + found.next_try_s - now.steady_s,
            lag_is=lag_is,
            topic_trouble=held.topic_trouble,
            writers=() if meter.writers is None else meter.writers.figures(now.now_s),
        )


_NOTHING = Meter()


def _nothing(held: HeldStream) -> StreamFigures:
    topic = held.stream.topic
    told = (0, 0.0, 0.0, 0.0, _NO_DELAYS, False, 0.0, 0, 0, 0, "", "", ())
    return StreamFigures(held.stream.id, topic, "", *told)


def _ends(lanes: Mapping[str, Lane]) -> list[object]:
    return [
        told
        for lane in lanes.values()
        for told in (lane.position, lane.end, lane.failure, lane.wave)
    ]


def _delay(track: _Track, meter: Meter, recent: list[MeterWindow]) -> Spread:
    """Its percentiles; they are the dearest part, so they are read only if there is a new delay."""
    version = (meter.version, sum(window.number for window in recent))
    if version == track.delay_of:
        return track.figures.delay
    track.delay_of = version
    return spread_of(merged_of(recent))


def _came(before: Mapping[str, Place], held: HeldStream) -> int:
    """Records that came since the last look, as far as the ends are known."""
    came = dict[str, int]()
    for name, lane in held.lanes.items():
        end = before.get(name, UNKNOWN)
        if lane.visits is not None:
            continue  # what came is known when it was read
        if UNKNOWN < end < lane.end:
            came[name] = held.measures.between(lane.end, end) or 0
    return share_of(came) if held.is_divided else sum(came.values())


def _late_s(track: _Track, held: HeldStream, now: _Now) -> dict[str, float]:
    """How late each lane that lags is."""
    late_s, looks = {}, {}
    for name, lane in held.lanes.items():
        if lane.end <= lane.position:
            continue
        if lane.visits is not None:
            late_s[name] = (lane.visits.behind and lane.visits.behind.seconds) or 0.0
            continue
        seen, before = track.looks.get(name, _NO_LOOKS), track.ends.get(name, UNKNOWN)
        if not seen and before != UNKNOWN:
            # It had no lag when it was seen last, whenever that end was learned.
            seen = (EndSample(track.seen_s, before),)
        looks[name] = remembered(seen, EndSample(now.steady_s, lane.end), lane.position)
        late_s[name] = lag_s(looks[name], lane.position, held.measures)
    track.looks = looks
    return late_s


def _count(window: MeterWindow, came: int, lag: int, late_s: float) -> None:
    window.records_in += came
    window.lag_records = max(window.lag_records, lag)
    window.lag_s = max(window.lag_s, late_s)


def _lanes(held: HeldStream, late_s: Mapping[str, float]) -> tuple[LaneFigures, ...]:
    return tuple(
        _lane(name, lane, held.measures, late_s.get(name, 0.0)) for name, lane in held.lanes.items()
    )


def _lane(name: str, lane: Lane, places: Places, late_s: float) -> LaneFigures:
    lag, lag_is = lane.told_lag(places)
    end = lane.end if lane.visits is None or lag_is is LagIs.EXACT else UNKNOWN
    return LaneFigures(name, lane.position, end, lane.failure, late_s, lag, lag_is)
