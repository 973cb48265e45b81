"""What a driver remembers between two turns: its streams, their lanes, what is in flight.

Everything here can be lost: positions, intents and states are in the store, ends are in Kafka, and
costs are learned again. That is what lets any driver be killed at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.plans import Cost, LaneView, StreamView
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Order, State, Stream, StreamId, Tenant
from headrace.model.waves import Wave
from headrace.policies.throttle import Bucket
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

    @property
    def lag_records(self) -> int:
        """Offsets between the position and the end."""
        return max(0, self.end - self.position)


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
    records_bucket: Bucket | None = None
    bytes_bucket: Bucket | None = None
    #: why nothing of it is planned although it is active, such as a topic that is not there yet
    waiting: str | None = None

    @property
    def state(self) -> State:
        """Active only if both tenant and stream are."""
        return self.tenant.state if self.tenant.state is not State.ACTIVE else self.stream.state

    @property
    def lag_records(self) -> int:
        """Over all lanes."""
        return sum(lane.lag_records for lane in self.lanes.values())

    @property
    def in_flight(self) -> bool:
        """Whether any lane runs."""
        return any(lane.wave for lane in self.lanes.values())

    def runnable(self, now_s: float) -> bool:
        """Whether the planner should see it."""
        if self.state is not State.ACTIVE or self.waiting:
            return False
        blocked = [lane.not_before_s > now_s for lane in self.lanes.values()]
        if self.deployment.order is Order.STREAM and any(blocked):
            return False
        return any(
            not stopped and lane.wave is None and lane.end > lane.position
            for lane, stopped in zip(self.lanes.values(), blocked, strict=True)
        )

    def view(self, now_s: float, allowance: tuple[int | None, int | None]) -> StreamView:
        """What the planner is shown of it."""
        lanes = tuple(
            LaneView(partition, lane.position, max(lane.end, lane.position), lane.wave is not None)
            for partition, lane in sorted(self.lanes.items())
            if lane.not_before_s <= now_s
        )
        return StreamView(
            id=self.stream.id,
            topic=self.stream.topic,
            lanes=lanes,
            order=self.deployment.order,
            epoch=self.epoch,
            weight=self.tenant.weight,
            cost=self.cost,
            credit_s=self.credit_s,
            allowance_records=allowance[0],
            allowance_bytes=allowance[1],
        )


class Reading(NamedTuple):
    """A lane with its stream."""

    held: HeldStream
    lane: Lane


@dataclass(slots=True)
class Board:
    """All streams held, and all waves in flight."""

    streams: dict[StreamId, HeldStream] = field(default_factory=dict)
    waves: dict[str, Wave] = field(default_factory=dict)
    #: streams another driver took from us
    lost: set[StreamId] = field(default_factory=set)

    def lane(self, lane: LaneId) -> Lane | None:
        """The lane, if its stream is held."""
        held = self.streams.get(lane.stream)
        return held.lanes.get(lane.partition) if held else None

    @property
    def busy_slots(self) -> int:
        """Bins in flight."""
        return sum(len(wave.bins) for wave in self.waves.values())

    def started(self, wave: Wave) -> None:
        """A wave was handed to the engine."""
        self.waves[wave.id] = wave
        for piece in wave.slices:
            lane = self.lane(piece.lane)
            if lane is not None:
                lane.wave = wave.id

    def ended(self, wave: Wave) -> None:
        """A wave came back, whatever became of it."""
        self.waves.pop(wave.id, None)
        for piece in wave.slices:
            lane = self.lane(piece.lane)
            if lane is not None and lane.wave == wave.id:
                lane.wave = None

    def partitions(self, wanted: Iterator[HeldStream]) -> dict[TopicPartition, list[Reading]]:
        """The partitions to ask Kafka about, with who reads them; several use cases can."""
        found: dict[TopicPartition, list[Reading]] = {}
        for held in wanted:
            for number, lane in held.lanes.items():
                name = TopicPartition(held.stream.topic, number)
                found.setdefault(name, []).append(Reading(held, lane))
        return found
