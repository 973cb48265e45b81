"""What a driver remembers between two turns: its streams, their lanes, what is in flight.

Everything here can be lost: positions, intents and states are in the store, ends are in Kafka, and
costs are learned again. That is what lets any driver be killed at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.plans import Cost, LaneView, StreamView
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Order, Position, State, Stream, StreamId, Tenant
from headrace.model.waves import Wave
from headrace.policies.data_loss import Short
from headrace.ports import TopicPartition


@dataclass(slots=True)
class Lane:
    """One partition of a stream, as last seen."""

    position: int
    #: where its log ended when it was last asked; -1 is not known
    end: int = -1
    #: where lanes are merged: since it was known to end here, all of its stream's lanes were asked,
    #: so that what is before it can be put in order
    sure: int = -1
    #: its topic was made again and has no such partition, yet
    gone: bool = False
    #: its log ends before its position, as far as was told
    short: Short | None = None
    #: its log ends before its recorded slice does, as far as was told
    behind: Short | None = None
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
    #: offset of a record whose dead letter is not acknowledged yet
    aside: int | None = None
    #: what it was stopped or held back by last, in one line; of interest while it is
    trouble: str = ""
    #: a slice up to here hung or killed its worker; until it is passed the stream runs apart
    suspect_until: int | None = None
    #: the next slices end here, so that what comes before a failed record is a slice by itself
    stop_before: int | None = None

    @property
    def lag_records(self) -> int:
        """Offsets between the position and the end."""
        return max(0, self.end - self.position)

    def view(self, partition: int, *, merged: bool) -> LaneView:
        """What the planner is shown of it; ``merged`` with other lanes, only what is sure."""
        end = max(min(self.end, self.sure) if merged else self.end, self.position)
        if self.stop_before is not None and self.stop_before > self.position:
            end = min(end, self.stop_before)
        goes_on = (self.end < 0 and not self.gone) or self.end > end
        return LaneView(partition, self.position, end, self.wave is not None, goes_on)

    @property
    def is_blind(self) -> bool:
        """Whether it may hold the oldest record that is left, and none of it is sure."""
        return not self.gone and (self.end < 0 or self.sure <= self.position < self.end)

    @property
    def is_unsure(self) -> bool:
        """Whether it will be blind if nobody asks until it has done what it has."""
        return not self.gone and (self.end < 0 or self.end > max(self.position, self.sure))

    def restart(self, offset: int) -> None:
        """Stand elsewhere, with nothing known of what is there."""
        self.position, self.end, self.sure = offset, -1, -1
        self.tries = self.attempts = self.letters = 0
        self.not_before_s = 0.0
        self.failure = self.aside = self.suspect_until = self.stop_before = None
        self.short = self.behind = None

    def held_back(self, now_s: float) -> bool:
        """Whether nothing of it may be planned: it waits after trouble, a letter, or a person."""
        stands = self.failure is not None or self.aside is not None
        return stands or self.not_before_s > now_s


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
    #: it hung, or killed its worker, when it was last alone
    hung: bool = False
    #: most records of its next slices, after trouble; None is no limit
    most_records: int | None = None
    #: its tenant's throttle held something of it back in the last turn
    throttled: bool = False
    #: the epoch since which its topic is this one; what was recorded before is of another
    topic_since: int = 0
    #: why nothing of it is planned although it is active, such as a topic that is not there yet
    waiting: str | None = None
    #: why nothing of it is planned for a moment: until somebody has looked at its topic
    looked_at: str | None = None
    #: how often its topic was doubted: answers from before are not to be believed
    doubts: int = 0
    #: why its lanes cannot be put in order for longer than a moment
    blind: str | None = None
    #: why what was recorded of it can not run here, and holds it back until somebody decides
    owes: str | None = None

    @property
    def merges(self) -> bool:
        """Whether its lanes are put in one order."""
        return self.deployment.order is Order.STREAM and len(self.lanes) > 1

    @property
    def waits(self) -> str | None:
        """Why nothing of it runs or is planned although it is active; None if nothing is wrong."""
        return self.waiting or self.owes or self.looked_at

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
        if self.state is not State.ACTIVE or self.waits:
            return False
        going = [lane for lane in self.lanes.values() if lane.failure is None]
        if self.deployment.order is Order.STREAM and len(going) < len(self.lanes):
            return False
        return any(lane.end > lane.position for lane in going)

    def runnable(self, now_s: float) -> bool:
        """Whether the planner should see it."""
        if self.state is not State.ACTIVE or self.waits:
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
        merged = self.merges
        lanes = tuple(
            lane.view(partition, merged=merged)
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
            hung=self.hung,
            call_limit_s=self.deployment.handler_timeout_s,
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
    #: streams that wait for what was recorded of them
    owing: frozenset[StreamId] = frozenset()

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

    @property
    def hung_bins(self) -> int:
        """Bins in flight of streams that hung, or killed their worker, when last alone."""
        bins = (each for flight in self.flights.values() for each in flight.wave.bins)
        streams = (self.streams.get(each.slices[0].lane.stream) for each in bins)
        return sum(held is not None and held.hung for held in streams)

    def started(self, wave: Wave, now_s: float, long_bins: int) -> None:
        """A wave was handed to the engine."""
        self.flights[wave.id] = Flight(wave, now_s, long_bins)
        for piece in wave.slices:
            lane = self.lane(piece.lane)
            if lane is not None:
                lane.wave = wave.id

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

    def owe(self, reasons: Mapping[StreamId, str]) -> None:
        """These streams, and no others, wait because of what was recorded of them."""
        for name in self.owing | reasons.keys():
            held = self.streams.get(name)
            if held is not None:
                held.owes = reasons.get(name)
                self.ready[name] = None
        self.owing = frozenset(reasons)

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
