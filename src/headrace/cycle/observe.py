"""The first step: bring the board up to date with the store and with Kafka.

Three questions, each asked as seldom as it may be. *What do the operators want?* Every turn, but
one small query unless something changed. *Which topics and partitions are there?* Twice a minute,
and at once for a new stream or a log whose end went back. *Where do the logs end?* Every turn, in
one call, and only for lanes that have nothing left to do; the others are refreshed now and then for
the lag that people see.

What cannot be learned at this moment leaves the board as it is; nothing here stops the loop.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import structlog

from headrace.cycle.board import Board, HeldStream, Lane
from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import Position, State, Stream, StreamId, Tenant
from headrace.ports import Log, Store, TopicInfo, TopicPartition

log = structlog.get_logger(__name__)

#: Seldom, because the Kafka client keeps some memory of every topic it describes (about 140 bytes);
#: what looks wrong or is new is looked at at once.
TOPICS_EVERY_S = 30.0
#: for topics that are not there yet
WAITING_EVERY_S = 2.0
ALL_ENDS_EVERY_S = 1.0


@dataclass(slots=True)
class Observer:
    """Keeps a board true."""

    store: Store
    log: Log
    board: Board
    #: removed streams that recorded waves still owe an end; they are held until then
    owed: set[StreamId] = field(default_factory=set)
    _revision: int = -1
    _topics_at_s: float = float("-inf")
    _waiting_at_s: float = float("-inf")
    _all_ends_at_s: float = float("-inf")
    _unseen: set[StreamId] = field(default_factory=set)

    def control(self, deployments: Collection[Deployment]) -> bool:
        """Take over what operators changed; True if anything did.

        ``deployments`` are the use cases this driver has loaded; others are left to others.
        """
        revision = self.store.revision()
        if revision == self._revision:
            return False
        loaded = {each.use_case: each for each in deployments}
        tenants = {each.name: each for each in self.store.tenants()}
        streams = [each for each in self.store.streams() if each.id.use_case in loaded]
        new = [each for each in streams if self._is_new(each)]
        epochs = self.store.hold([each.id for each in new]) if new else {}
        for each in streams:
            self._take(each, tenants[each.id.tenant], loaded[each.id.use_case], epochs)
        self._positions(streams)
        self._unseen |= set(epochs)
        self._revision = revision
        return True

    def forget_revision(self) -> None:
        """Look at everything again in the next turn."""
        self._revision = -1

    def reload_positions(self, streams: Collection[StreamId]) -> None:
        """Believe the store again, after any failure or refused commit."""
        self._fill(self.store.load_positions(streams))
        self._find_lost(streams)

    def topics(self, now_s: float) -> None:
        """Learn ids and partitions; give new lanes their first position."""
        due = now_s - self._topics_at_s >= TOPICS_EVERY_S
        late = now_s - self._waiting_at_s >= WAITING_EVERY_S
        wanted = [
            held
            for held in self.board.streams.values()
            if held.state is State.ACTIVE
            and (due or held.stream.id in self._unseen or (late and held.waiting))
        ]
        if due:
            self._topics_at_s = now_s
        if late:
            self._waiting_at_s = now_s
        if not wanted:
            return
        known = self.log.topics({held.stream.topic for held in wanted})
        self._unseen -= {held.stream.id for held in wanted}
        for held in wanted:
            self._topic(held, known.get(held.stream.topic))
        present = [held for held in wanted if held.waiting is None]
        self._start_lanes([(held, known[held.stream.topic]) for held in present])
        self._check_ranges(present)

    def ends(self, now_s: float) -> None:
        """Learn the ends of lanes that have nothing to do, and now and then of all."""
        everything = now_s - self._all_ends_at_s >= ALL_ENDS_EVERY_S
        lanes = self.board.partitions(
            held
            for held in self.board.streams.values()
            if held.state is not State.REMOVED and held.waiting is None
        )
        wanted = [
            partition
            for partition, readers in lanes.items()
            if everything or any(each.lane.end <= each.lane.position for each in readers)
        ]
        if not wanted:
            return
        if everything:
            self._all_ends_at_s = now_s
        for partition, end in self.log.end_offsets(wanted).items():
            for held, lane in lanes[partition]:
                if end < lane.end:
                    # A log only grows: it was cut, or the topic was made again. Look first.
                    held.waiting = f"{partition.topic}: the log's end went back; checking why"
                    self._unseen.add(held.stream.id)
                lane.end = end

    # control

    def _is_new(self, stream: Stream) -> bool:
        gone = stream.state is State.REMOVED and stream.id not in self.owed
        if gone or stream.id in self.board.lost:
            return False
        held = self.board.streams.get(stream.id)
        if held is None or held.epoch == stream.epoch:
            return held is None
        # Somebody raised the epoch. Without positions it was removed and added again, and is ours
        # to begin; with positions another driver has taken it over.
        if not self.store.load_positions([stream.id]):
            self.board.streams.pop(stream.id)
            return True
        self._lose(stream.id)
        return False

    def _take(
        self, stream: Stream, tenant: Tenant, deployment: Deployment, epochs: dict[StreamId, int]
    ) -> None:
        held = self.board.streams.get(stream.id)
        if held is None:
            if stream.id not in epochs:
                return
            held = HeldStream(stream, tenant, deployment, epochs[stream.id])
            self.board.streams[stream.id] = held
        if held.state is not State.ACTIVE:
            self._unseen.add(stream.id)  # look at its topic afresh, should it be resumed
        held.stream, held.tenant, held.deployment = stream, tenant, deployment

    def _positions(self, streams: list[Stream]) -> None:
        held = [each.id for each in streams if each.id in self.board.streams]
        self._fill(self.store.load_positions(held))

    def _fill(self, positions: Collection[Position]) -> None:
        for each in positions:
            held = self.board.streams.get(each.lane.stream)
            if held is None:
                continue
            number, offset = each.lane.partition, each.next_offset
            held.lanes.setdefault(number, Lane(offset)).position = offset

    def _find_lost(self, streams: Collection[StreamId]) -> None:
        asked = set(streams)
        for each in self.store.streams():
            held = self.board.streams.get(each.id)
            if each.id in asked and held is not None and held.epoch != each.epoch:
                self.forget_revision()  # the next turn decides: added again, or taken over
                return

    def _lose(self, stream: StreamId) -> None:
        log.warning("stream taken over by another driver", stream=str(stream))
        self.board.lost.add(stream)
        self.board.streams.pop(stream, None)

    # topics

    def _topic(self, held: HeldStream, info: TopicInfo | None) -> None:
        stream = held.stream
        if info is None:
            if held.waiting is None:
                log.warning("topic is not there; waiting for it", topic=stream.topic)
            held.waiting = f"topic {stream.topic} is not there yet"
            return
        if stream.topic_id not in (None, info.topic_id):
            self._suspend(
                held,
                f"TopicRecreated: topic {stream.topic} was deleted and made again "
                f"(id {stream.topic_id}, now {info.topic_id}); seek the stream, then resume it",
            )
            return
        held.waiting = None

    def _start_lanes(self, seen: list[tuple[HeldStream, TopicInfo]]) -> None:
        """First positions, for all streams at once.

        Partitions added later always start at their beginning, as in Spark.
        """
        fresh = [
            (held, info, [number for number in info.partitions if number not in held.lanes])
            for held, info in seen
        ]
        fresh = [each for each in fresh if each[2] or each[0].stream.topic_id is None]
        if not fresh:
            return
        starts = []
        earliest, latest = self._edges(fresh)
        for held, info, numbers in fresh:
            edge = latest if _begins_at_end(held) else earliest
            names = {number: TopicPartition(held.stream.topic, number) for number in numbers}
            first = {number: edge[name] for number, name in names.items() if name in edge}
            starts.append(LaneStart(held.stream.id, info.topic_id, first))
            if len(first) < len(numbers):
                self._unseen.add(held.stream.id)  # a lane without a leader is asked again
        self.store.start_lanes(starts)
        self._fill(self.store.load_positions([each.stream for each in starts]))
        for held, info, _ in fresh:
            held.stream = replace(held.stream, topic_id=info.topic_id)

    def _edges(
        self, fresh: list[tuple[HeldStream, TopicInfo, list[int]]]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """First and last offsets of new lanes, each asked only where it is needed."""
        first: list[TopicPartition] = []
        last: list[TopicPartition] = []
        for held, _, numbers in fresh:
            wanted = last if _begins_at_end(held) else first
            wanted += [TopicPartition(held.stream.topic, number) for number in numbers]
        return (
            self.log.start_offsets(first) if first else {},
            self.log.end_offsets(last) if last else {},
        )

    def _check_ranges(self, wanted: list[HeldStream]) -> None:
        """A position that the log does not have is reported by its offsets, never passed over."""
        lanes = self.board.partitions(iter(wanted))
        starts = self.log.start_offsets(list(lanes)) if lanes else {}
        for held in wanted:
            for number, lane in held.lanes.items():
                start = starts.get(TopicPartition(held.stream.topic, number))
                if lane.wave is None and start is not None:
                    self._check_range(held, number, start)

    def _check_range(self, held: HeldStream, number: int, start: int) -> None:
        lane = held.lanes[number]
        where = f"OffsetOutOfRange: {held.stream.topic}[{number}]"
        if lane.position < start:
            self._suspend(
                held,
                f"{where} lost offsets {lane.position} to {start - 1} to retention before they "
                f"were read; seek the stream to {start} or later, then resume it",
            )
        elif -1 < lane.end < lane.position:
            self._suspend(
                held,
                f"{where} ends at {lane.end}, but offsets up to {lane.position - 1} were read: "
                f"the log was cut; seek the stream to {lane.end} or earlier, then resume it",
            )

    def _suspend(self, held: HeldStream, reason: str) -> None:
        self.store.set_stream_state(held.stream.id, State.SUSPENDED, reason)
        log.error("stream suspended", stream=str(held.stream.id), reason=reason)
        held.waiting = reason


def _begins_at_end(held: HeldStream) -> bool:
    """Whether a new lane starts at its end: only those that are there when the stream begins."""
    return held.deployment.starting_offsets == "latest" and not held.lanes
