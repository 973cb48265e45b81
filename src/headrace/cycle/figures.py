"""What a driver tells of its streams, made anew only where something happened.

Of a thousand streams most do nothing at a given moment, and to describe each of them every other
second would cost a driver more than to run them. So what was told of a stream is kept with a mark
of what it was made of, and told again as long as the mark is the same. Percentiles are the dearest
part: they are read again where new delays came, but of so many streams at a time at most, those
that wait longest first; they tell of the last half-minute or more, so some seconds do not matter.

Also here: rates of what came in, which nobody but the observer of ends knows, and how late a stream
is (`policies/lateness.py`). Publishing is `telling.py`'s matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.cycle.board import Board, HeldStream, Lane
from headrace.cycle.meters import WINDOW_S, Meter, Window, merged_of
from headrace.cycle.report import Reporter, shown_note, shown_state, shown_wave
from headrace.model.statistics import LaneFigures, Point, Spread, StreamFigures
from headrace.model.streams import StreamId
from headrace.policies.history import FRESH_SPAN_S
from headrace.policies.lateness import Look, lag_s, remembered
from headrace.policies.sketches import packed, spread_of

#: streams whose percentiles are read again in one go
SPREADS_AT_ONCE = 250
_NO_DELAYS = Spread()
_NO_LOOKS: tuple[Look, ...] = ()


class _Now(NamedTuple):
    """When a look is taken."""

    now_s: float
    steady_s: float
    #: when the last one was
    before_s: float
    #: of all streams, lately
    task_s: float
    #: how long "lately" is
    span_s: float


@dataclass(slots=True)
class _Track:
    """What the last look saw of a stream."""

    figures: StreamFigures
    #: what they were made of
    mark: tuple[object, ...] = ()
    #: they change without anything happening: a lag grows older, a rate fades
    restless: bool = True
    #: ends by partition
    ends: dict[int, int] = field(default_factory=dict)
    #: of partitions that lag
    looks: dict[int, tuple[Look, ...]] = field(default_factory=dict)
    delay: Spread = _NO_DELAYS
    #: what the delay was read from: the meter's version, and its window
    delay_of: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Figures:
    """Describes the streams of a board."""

    board: Board
    reporter: Reporter
    _tracks: dict[StreamId, _Track] = field(default_factory=dict)
    #: streams with new delays, those that wait longest first
    _stale: dict[StreamId, None] = field(default_factory=dict)
    _looked_at_s: float | None = None

    def look(self, now_s: float, steady_s: float) -> tuple[StreamFigures, ...]:
        """Every stream held, in no order, as of now; called every second or two."""
        before_s = now_s if self._looked_at_s is None else self._looked_at_s
        everyone = self.reporter.all
        everyone.window(now_s)  # from the first look on there is something to count
        task_s = sum(each.task_s for each in everyone.recent(now_s))
        now = _Now(now_s, steady_s, before_s, task_s, everyone.span_s(now_s))
        self._looked_at_s = now_s
        self._read_spreads(now_s)
        tracks = self._tracks
        for name in [name for name in tracks if name not in self.board.streams]:
            del tracks[name]
        return tuple(self._one(name, held, now) for name, held in self.board.streams.items())

    def points(self, from_s: float) -> Iterator[Point]:
        """What happened in the minute that began then, of streams with anything to say."""
        first = int(from_s // WINDOW_S)
        for name, meter in self.reporter.meters.items():
            windows = [each for each in meter.windows if each.number in (first, first + 1)]
            if not all(each.is_empty for each in windows):
                yield _point(name, windows, from_s)

    def _one(self, name: StreamId, held: HeldStream, now: _Now) -> StreamFigures:
        track = self._tracks.get(name)
        lanes = held.lanes
        state = shown_state(held, now.steady_s)
        meter = self.reporter.meters.get(name)
        version = meter.version if meter is not None else 0
        mark = (state, version, shown_note(held, meter or _NOTHING), *_ends(lanes))
        if track is not None and track.mark == mark and not track.restless:
            return track.figures
        if track is None:
            track = self._tracks[name] = _Track(_nothing(held))
        track.mark = mark
        self._make(track, held, state, now)
        return track.figures

    def _make(self, track: _Track, held: HeldStream, state: str, now: _Now) -> None:
        lag, came = held.lag_records, _came(track, held.lanes)
        late_s = {}
        if lag:
            late_s = {
                number: _late_s(track, number, lane, now) for number, lane in held.lanes.items()
            }
        elif track.looks:
            track.looks = {}
        latest_s = max(late_s.values(), default=0.0)
        track.ends = {partition: lane.end for partition, lane in held.lanes.items()}
        name = held.stream.id
        meter = self.reporter.meter(name) if lag or came else self.reporter.meters.get(name)
        if meter is None:
            meter = _NOTHING
        else:
            _count(meter, now.now_s, came, lag, latest_s)
        recent = meter.recent(now.now_s)
        if (meter.version, _newest(recent)) != track.delay_of:
            self._stale.setdefault(name)
        task_s = sum(each.task_s for each in recent)
        track.restless = bool(lag) or bool(recent and not all(each.is_empty for each in recent))
        track.figures = StreamFigures(
            stream=name,
            topic=held.stream.topic,
            state=state,
            lag_records=lag,
            lag_s=latest_s,
            in_per_s=sum(each.records_in for each in recent) / now.span_s,
            out_per_s=sum(each.records_out for each in recent) / now.span_s,
            delay=track.delay,
            throttled=held.throttled and lag > 0,
            task_share=task_s / now.task_s if now.task_s > 0 else 0.0,
            records_total=meter.records_total,
            dead_letters_total=meter.dead_letters,
            lost_records_total=meter.lost_records,
            wave=shown_wave(held, meter),
            note=shown_note(held, meter),
            lanes=_lanes(track.figures.lanes, held.lanes, late_s),
        )

    def _read_spreads(self, now_s: float) -> None:
        """Read percentiles of some streams again, before anything is made of them."""
        for name in list(self._stale)[:SPREADS_AT_ONCE]:
            del self._stale[name]
            track, meter = self._tracks.get(name), self.reporter.meters.get(name)
            if track is not None and meter is not None:
                recent = meter.recent(now_s)
                track.delay = spread_of(merged_of(recent))
                track.delay_of = (meter.version, _newest(recent))
                track.mark = ()


_NOTHING = Meter()


def _nothing(held: HeldStream) -> StreamFigures:
    topic = held.stream.topic
    told = (0, 0.0, 0.0, 0.0, _NO_DELAYS, False, 0.0, 0, 0, 0, "", "", ())
    return StreamFigures(held.stream.id, topic, "", *told)


def _ends(lanes: dict[int, Lane]) -> Iterator[object]:
    for lane in lanes.values():
        yield lane.position
        yield lane.end
        yield lane.failure
        yield lane.wave


def _newest(recent: list[Window]) -> int:
    return sum(each.number for each in recent)


def _came(track: _Track, lanes: dict[int, Lane]) -> int:
    """Records that came since the last look, as far as the ends are known."""
    came = 0
    for partition, lane in lanes.items():
        before = track.ends.get(partition, -1)
        if 0 <= before < lane.end:
            came += lane.end - before
    return came


def _late_s(track: _Track, partition: int, lane: Lane, now: _Now) -> float:
    if not lane.lag_records:
        track.looks.pop(partition, None)
        return 0.0
    looks = track.looks.get(partition, _NO_LOOKS)
    before = track.ends.get(partition, -1)
    if not looks and before >= 0:
        # It had no lag at the last look, whenever its end was learned.
        looks = (Look(now.before_s, before),)
    looks = remembered(looks, Look(now.now_s, lane.end), lane.position)
    track.looks[partition] = looks
    return lag_s(looks, lane.position)


def _count(meter: Meter, now_s: float, came: int, lag: int, late_s: float) -> None:
    if came or lag:
        window = meter.window(now_s)
        window.records_in += came
        window.lag_records = max(window.lag_records, lag)
        window.lag_s = max(window.lag_s, late_s)


def _lanes(
    before: tuple[LaneFigures, ...], lanes: dict[int, Lane], late_s: dict[int, float]
) -> tuple[LaneFigures, ...]:
    """The lanes' figures; if none of them moved the same as before."""
    if (
        not late_s
        and len(before) == len(lanes)
        and all(
            (each.partition, each.position, each.end, each.failure, each.lag_s)
            == (partition, lane.position, lane.end, lane.failure, 0.0)
            for each, (partition, lane) in zip(before, lanes.items(), strict=True)
        )
    ):
        return before
    return tuple(
        LaneFigures(partition, lane.position, lane.end, lane.failure, late_s.get(partition, 0.0))
        for partition, lane in lanes.items()
    )


def _point(stream: StreamId, windows: list[Window], from_s: float) -> Point:
    sketch = merged_of(windows)
    return Point(
        stream=stream,
        from_s=from_s,
        span_s=FRESH_SPAN_S,
        lag_records=max(each.lag_records for each in windows),
        lag_s=max(each.lag_s for each in windows),
        records_in=sum(each.records_in for each in windows),
        records_out=sum(each.records_out for each in windows),
        task_s=sum(each.task_s for each in windows),
        delay=spread_of(sketch),
        sketch=packed(sketch),
    )
