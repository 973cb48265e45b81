"""All streams that a driver holds, and all waves in flight: who is ready, who runs, who is free."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.board.doubts import ClaimsInDoubt
from headrace.board.flights import Flight
from headrace.board.lanes import Lane
from headrace.board.streams import HeldStream
from headrace.model.streams import LaneId, Position, StreamId
from headrace.model.waves import Wave


class LaneHolder(NamedTuple):
    """A lane with its stream."""

    held: HeldStream
    lane: Lane


@dataclass(slots=True)
class Board:
    """All streams held, and all waves in flight."""

    streams: dict[StreamId, HeldStream] = field(default_factory=dict)
    flights: dict[str, Flight] = field(default_factory=dict)
    #: streams that may have something to run; the others cost a turn nothing
    ready: dict[StreamId, None] = field(default_factory=dict)
    #: streams that wait for what was recorded of them
    owing: frozenset[StreamId] = frozenset()
    #: those of which some waits for a topic that is not there
    owing_topics: frozenset[StreamId] = frozenset()
    #: streams of recorded waves that are still to run again: held until then, removed or not
    owed: Collection[StreamId] = frozenset()
    #: what at-most-once may yet have claimed
    doubts: ClaimsInDoubt = field(default_factory=ClaimsInDoubt)
    #: what recorded waves hold that are to run again or do so, by id; some of one may run alone
    claims: dict[str, Wave] = field(default_factory=dict)

    def runnable(self, now_s: float) -> list[HeldStream]:
        """The streams the planner should see."""
        return list(self.each_runnable(now_s))

    def each_runnable(self, now_s: float) -> Iterator[HeldStream]:
        """The same, one by one, for who need not see all."""
        for name in list(self.ready):
            held = self.streams.get(name)
            if held is None or not held.has_work:
                del self.ready[name]
            elif held.runnable(now_s):
                yield held

    def fill(self, positions: Iterable[Position]) -> None:
        """Take positions over; a stream that is not held is passed over."""
        found: dict[StreamId, list[Position]] = {}
        for position in positions:
            found.setdefault(position.lane.stream, []).append(position)
        for stream, lanes in found.items():
            held = self.streams.get(stream)
            if held is not None:
                self._hold_against_doubts(held, lanes)
                held.take(lanes)
                self.ready[stream] = None

    def _hold_against_doubts(self, held: HeldStream, positions: Iterable[Position]) -> None:
        for position in positions if self.doubts.open else ():
            lane = held.lanes.get(position.lane.name)
            if lane is not None:
                self.doubts.see(position, lane)

    def runs(self, held: HeldStream) -> bool:
        """Whether a wave with some of the stream is in flight; one that is to run again is not."""
        return any(lane.wave in self.flights for lane in held.lanes.values())

    @property
    def busy_streams(self) -> set[StreamId]:
        """Streams of which something is in flight or not committed yet, be it a dead letter."""
        waves = (flight.wave for flight in self.flights.values())
        running = {piece.lane.stream for wave in waves for piece in wave.slices}
        return running | {name for name, held in self.streams.items() if held.sets_aside}

    def lane(self, lane: LaneId) -> Lane | None:
        """The lane, if its stream is held."""
        held = self.streams.get(lane.stream)
        return held.lanes.get(lane.name) if held else None

    @property
    def busy_slots(self) -> int:
        """Bins in flight."""
        return sum(len(flight.wave.bins) for flight in self.flights.values())

    @property
    def hung_bins(self) -> int:
        """Bins in flight of streams that hung, or killed their worker, when last alone."""
        bins = (
            bin_
            for flight in self.flights.values()
            for bin_ in flight.wave.bins
            if not bin_.hurried
        )
        streams = (self.streams.get(bin_.slices[0].lane.stream) for bin_ in bins)
        return sum(held is not None and held.hung for held in streams)

    def held_s(self, now_s: float) -> float:
        """How long all slots that hold long bins have done so; 0 if there is none."""
        long = (flight for flight in self.flights.values() if flight.long_bins)
        return min((now_s - flight.since_s for flight in long), default=0.0)

    def with_their_past(self, wave: Wave) -> Wave:
        """A new wave, whose slices are told what their lanes passed over, and the last notes."""
        if not any(self.streams[piece.lane.stream].has_past for piece in wave.slices):
            return wave
        bins = (
            replace(
                bin_,
                slices=tuple(
                    self.streams[piece.lane.stream].with_its_past(piece) for piece in bin_.slices
                ),
            )
            for bin_ in wave.bins
        )
        return replace(wave, bins=tuple(bins))

    def planned(self, wave: Wave) -> None:
        """A wave is about to be written down, or started, whatever is heard of it."""
        for piece in wave.slices:
            lane = self.lane(piece.lane)
            if lane is not None:
                lane.planned_to = max(lane.planned_to, piece.until_offset)

    def started(self, wave: Wave, now_s: float, long_bins: int, *, cold: bool = False) -> None:
        """A wave was handed to the engine."""
        self.flights[wave.id] = Flight(wave, now_s, long_bins, cold)
        for piece in wave.slices:
            lane = self.lane(piece.lane)
            if lane is not None:
                lane.wave = wave.id

    def claimed(self, recorded: Wave, due: Wave) -> None:
        """A recorded wave is to run again: the lanes of what is due are its own as if it ran."""
        self._free(recorded)
        self.claims[recorded.id] = due
        for piece in due.slices:
            lane = self.lane(piece.lane)
            if lane is not None and lane.wave is None:
                lane.wave = recorded.id

    def ended(self, wave: Wave) -> None:
        """A wave came back, whatever became of it; its lanes are free, with those that waited."""
        self.flights.pop(wave.id, None)
        self._free(wave)
        if (claimed := self.claims.pop(wave.id, None)) is not None:
            self._free(claimed)

    def owe(self, reasons: Mapping[StreamId, str]) -> None:
        """These streams, and no others, wait because of what was recorded of them."""
        for name in self.owing | reasons.keys():
            held = self.streams.get(name)
            if held is not None:
                held.owes = reasons.get(name)
                self.ready[name] = None
        self.owing = frozenset(reasons)

    def owe_of_topics(self, away: Mapping[StreamId, Collection[str]]) -> None:
        """Of these streams, and no others, something is recorded of topics that are not there."""
        for name in self.owing_topics | away.keys():
            held = self.streams.get(name)
            if held is not None:
                held.recorded_of = tuple(sorted(away.get(name, ())))
        self.owing_topics = frozenset(away)

    def _free(self, wave: Wave) -> None:
        for piece in wave.slices:
            lane = self.lane(piece.lane)
            if lane is not None and lane.wave == wave.id:
                lane.wave = None

    def lanes_of(self, wanted: Iterator[HeldStream]) -> dict[str, list[LaneHolder]]:
        """The lanes to ask their log about, with who reads them; several use cases can."""
        found: dict[str, list[LaneHolder]] = {}
        for held in wanted:
            for name, lane in held.lanes.items():
                found.setdefault(name, []).append(LaneHolder(held, lane))
        return found
