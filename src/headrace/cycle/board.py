"""What a driver remembers between two turns: its streams, their lanes, what is in flight.

Everything here can be lost: positions, intents and states are in the store, ends are in Kafka, and
costs are learned again. That is what lets any driver be killed at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.plans import Cost, LaneView, StreamView
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Order, Position, State, Stream, StreamId, Tenant
from headrace.model.waves import Wave
from headrace.ports import TopicPartition


@dataclass(slots=True)
class Lane:
    """One partition of a stream, as last seen."""

    position: int
    end: int = -1
    #: the wave that runs a slice of it
    wave: str | None = None
    #: after temporary trouble: not before this monotonic second
    not_before_s: float = 0.0
    #: temporary troubles in a row
    tries: int = 0
    #: failures at this position that count against the use case's retries
    attempts: int = 0
    #: dead letters in a row that its handler gave up
    letters: int = 0
    #: number of the open failure it is stopped at
    failure: int | None = None
    #: a slice up to here hung or killed its worker; until it is passed the stream runs apart
    suspect_until: int | None = None
    #: the next slices end here, so that what comes before a failed record is a slice by itself
    stop_before: int | None = None
    #: what the slice that runs was predicted to take
    predicted_s: float = 0.0

    @property
    def lag_records(self) -> int:
        """Offsets between the position and the end."""
        return max(0, self.end - self.position)

    @property
    def plannable_end(self) -> int:
        """Where its next slice has to end at the latest."""
        end = max(self.end, self.position)
        if self.stop_before is None or self.stop_before <= self.position:
            return end
        return min(end, self.stop_before)

    def restart(self, offset: int) -> None:
        """Stand elsewhere, with nothing known of what is there."""
        self.position, self.end = offset, -1
        self.tries = self.attempts = self.letters = 0
        self.not_before_s = 0.0
        self.failure = self.suspect_until = self.stop_before = None

    def held_back(self, now_s: float) -> bool:
        """Whether nothing of it may be planned: it waits after trouble, or for a person."""
        return self.failure is not None or self.not_before_s > now_s


class Allowance(NamedTuple):
    """What a stream may take now; None is no limit."""

    records: int | None
    bytes: int | None


NO_LIMIT = Allowance(None, None)


@dataclass(slots=True)
class HeldStream:
    """A stream this driver holds."""

    stream: Stream
    tenant: Tenant
    deployment: Deployment
    epoch: int
    lanes: dict[int, Lane] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    credit_s: float = 0.0
    #: shares bins only with streams of the same label; empty is no suspicion
    apart: str = ""
    #: most records of its next slices, after trouble; None is no limit
    most_records: int | None = None
    #: its tenant's throttle held something of it back in the last turn
    throttled: bool = False
    #: why nothing of it is planned although it is active, such as a topic that is not there yet
    waiting: str | None = None

    @property
    def state(self) -> State:
        """Active only if both tenant and stream are."""
        return self.tenant.state if self.tenant.state is not State.ACTIVE else self.stream.state

    @property
    def finished(self) -> bool:
        """Whether it is a rerun that has come to its end."""
        until = self.deployment.until
        return bool(until) and all(
            partition in self.lanes and self.lanes[partition].position >= end
            for partition, end in (until or {}).items()
        )

    def bounded(self, partition: int, end: int) -> int:
        """Where a lane ends for it, if its log ends at ``end``."""
        until = self.deployment.until
        return end if until is None else min(end, until.get(partition, 0))

    @property
    def lag_records(self) -> int:
        """Over all lanes."""
        return sum(lane.lag_records for lane in self.lanes.values())

    @property
    def has_work(self) -> bool:
        """Whether it has something to run, now or by itself later, without anybody's decision."""
        if self.state is not State.ACTIVE or self.waiting:
            return False
        going = [lane for lane in self.lanes.values() if lane.failure is None]
        if self.deployment.order is Order.STREAM and len(going) < len(self.lanes):
            return False
        return any(lane.end > lane.position for lane in going)

    def runnable(self, now_s: float) -> bool:
        """Whether the planner should see it."""
        if self.state is not State.ACTIVE or self.waiting:
            return False
        held_back = [lane.held_back(now_s) for lane in self.lanes.values()]
        if self.deployment.order is Order.STREAM and any(held_back):
            return False
        return any(
            not stopped and lane.wave is None and lane.end > lane.position
            for lane, stopped in zip(self.lanes.values(), held_back, strict=True)
        )

    def view(self, now_s: float, allowance: Allowance = NO_LIMIT) -> StreamView:
        """What the planner is shown of it."""
        lanes = tuple(
            LaneView(partition, lane.position, lane.plannable_end, lane.wave is not None)
            for partition, lane in sorted(self.lanes.items())
            if not lane.held_back(now_s)
        )
        records = allowance.records
        if self.most_records is not None:
            records = self.most_records if records is None else min(records, self.most_records)
        return StreamView(
            id=self.stream.id,
            topic=self.stream.topic,
            lanes=lanes,
            order=self.deployment.order,
            epoch=self.epoch,
            weight=self.tenant.weight * self.deployment.priority * self.deployment.share,
            cost=self.cost,
            credit_s=self.credit_s,
            allowance_records=records,
            allowance_bytes=allowance.bytes,
            apart=self.apart,
        )


class LaneHolder(NamedTuple):
    """A lane with its stream."""

    held: HeldStream
    lane: Lane


@dataclass(slots=True)
class Flight:
    """A wave that runs."""

    wave: Wave
    #: monotonic second of its start, or up to which it is known to have queued
    since_s: float
    #: bins of it that may hold their slots for long
    long_bins: int = 0
    #: it ran for too long, and the engine was told to end it
    cancelled: bool = False

    @property
    def predicted_s(self) -> float:
        """What its longest bin was predicted to take."""
        return max((each.predicted_s for each in self.wave.bins), default=0.0)

    @property
    def shared(self) -> bool:
        """Whether several streams share one of its bins."""
        return any(len({piece.lane.stream for piece in each.slices}) > 1 for each in self.wave.bins)


@dataclass(slots=True)
class Board:
    """All streams held, and all waves in flight."""

    streams: dict[StreamId, HeldStream] = field(default_factory=dict)
    flights: dict[str, Flight] = field(default_factory=dict)
    #: streams that may have something to run; the others cost a turn nothing
    ready: dict[StreamId, None] = field(default_factory=dict)

    def runnable(self, now_s: float) -> list[HeldStream]:
        """The streams the planner should see."""
        found = []
        for name in list(self.ready):
            held = self.streams.get(name)
            if held is None or not held.has_work:
                del self.ready[name]
            elif held.runnable(now_s):
                found.append(held)
        return found

    def fill(self, positions: Iterable[Position]) -> None:
        """Take positions over; a stream that is not held is passed over."""
        for each in positions:
            held = self.streams.get(each.lane.stream)
            if held is not None:
                lane = held.lanes.setdefault(each.lane.partition, Lane(each.next_offset))
                lane.position = each.next_offset
                self.ready[each.lane.stream] = None

    def runs(self, held: HeldStream) -> bool:
        """Whether a wave with some of the stream is in flight; one that is to run again is not."""
        return any(lane.wave in self.flights for lane in held.lanes.values())

    def lane(self, lane: LaneId) -> Lane | None:
        """The lane, if its stream is held."""
        held = self.streams.get(lane.stream)
        return held.lanes.get(lane.partition) if held else None

    @property
    def busy_slots(self) -> int:
        """Bins in flight."""
        return sum(len(flight.wave.bins) for flight in self.flights.values())

    def started(self, wave: Wave, now_s: float, long_bins: int) -> None:
        """A wave was handed to the engine."""
        self.flights[wave.id] = Flight(wave, now_s, long_bins)
        for piece in wave.slices:
            held = self.streams.get(piece.lane.stream)
            lane = self.lane(piece.lane)
            if held is not None and lane is not None:
                lane.wave = wave.id
                cost = held.cost
                lane.predicted_s = cost.seconds_per_slice + piece.size * cost.seconds_per_record

    def claimed(self, recorded: Wave, due: Wave) -> None:
        """A recorded wave is to run again: the lanes of what is due are its own as if it ran."""
        self._free(recorded)
        for piece in due.slices:
            lane = self.lane(piece.lane)
            if lane is not None and lane.wave is None:
                lane.wave = recorded.id

    def ended(self, wave: Wave) -> None:
        """A wave came back, whatever became of it; its lanes are free."""
        self.flights.pop(wave.id, None)
        self._free(wave)

    def _free(self, wave: Wave) -> None:
        for piece in wave.slices:
            lane = self.lane(piece.lane)
            if lane is not None and lane.wave == wave.id:
                lane.wave = None

    def partitions(self, wanted: Iterator[HeldStream]) -> dict[TopicPartition, list[LaneHolder]]:
        """The partitions to ask Kafka about, with who reads them; several use cases can."""
        found: dict[TopicPartition, list[LaneHolder]] = {}
        for held in wanted:
            for number, lane in held.lanes.items():
                name = TopicPartition(held.stream.topic, number)
                found.setdefault(name, []).append(LaneHolder(held, lane))
        return found
