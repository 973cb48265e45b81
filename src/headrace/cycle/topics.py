"""Which topics and partitions there are, asked as seldom as it may be.

A new stream needs its topic's id and its first positions at once. Later, partitions are added now
and then, and a topic can be deleted and made again under its name. Nothing but a description tells,
and descriptions are not for nothing: the Kafka client keeps some 150 bytes of every topic it
describes, for ever. So each topic is described every 30 s as long as 40 a second are enough for
that (1,000 topics); with more of them the round takes longer. Described at once are new topics,
those whose log's end went back, and, as far as the 40 allow, those with the first record after a
quiet time, before it is read. A topic that is not there is looked for every 2 s.

Where logs end is not asked here, and what became of records that are gone is `losses.py`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

import structlog

from headrace.cycle.board import Board, HeldStream
from headrace.cycle.ends import Ends
from headrace.cycle.losses import Losses
from headrace.cycle.sweep import Sweep
from headrace.errors import BrokerUnavailable, StoreUnavailable
from headrace.log_fields import of_stream
from headrace.model.records import LaneStart
from headrace.model.streams import StreamId
from headrace.ports import Log, Store, TopicInfo, TopicPartition

log = structlog.get_logger(__name__)

TOPICS_EVERY_S = 30.0
TOPICS_PER_S = 40.0
#: one request for many costs less than many for one
TOPICS_STEP_S = 1.0
#: for topics that are not there yet
WAITING_EVERY_S = 2.0


@dataclass(slots=True)
class Topics:
    """Keeps ids, partitions and first positions on a board true."""

    store: Store
    log: Log
    board: Board
    #: told which streams' lanes are to be asked, and which not
    ends: Ends
    #: told which streams' topics were looked at; says which of them can not go on
    losses: Losses
    #: topic -> streams that read it
    _streams: dict[str, dict[StreamId, HeldStream]] = field(default_factory=dict)
    _topic_of: dict[StreamId, str] = field(default_factory=dict)
    _sweep: Sweep[str] = field(
        default_factory=lambda: Sweep(TOPICS_PER_S, TOPICS_PER_S, TOPICS_EVERY_S, TOPICS_STEP_S)
    )
    _waiting: dict[StreamId, HeldStream] = field(default_factory=dict)
    _waiting_at_s: float = float("-inf")

    def follow(self, held: HeldStream) -> None:
        """Look at a stream's topic from now on; at once if it is new."""
        stream = held.stream
        if self._streams.get(stream.topic, {}).get(stream.id) is held:
            return
        self.leave(stream.id)
        self._streams.setdefault(stream.topic, {})[stream.id] = held
        self._topic_of[stream.id] = stream.topic
        self._sweep.add(stream.topic)
        self._sweep.hurry(stream.topic)

    def leave(self, stream: StreamId) -> None:
        """Look at it no more."""
        topic = self._topic_of.pop(stream, None)
        self._waiting.pop(stream, None)
        if topic is None:
            return
        del self._streams[topic][stream]
        if not self._streams[topic]:
            del self._streams[topic]
            self._sweep.discard(topic)

    def doubt(self, held: HeldStream, why: str) -> None:
        """Plan nothing of a stream until its topic was looked at, which is next."""
        self._wait(held, why)
        self._sweep.hurry(held.stream.topic)

    def look(self, now_s: float) -> None:
        """Look at what is due.

        Raises:
            BrokerUnavailable: nothing was learned; all of it is due in the next turn.
            StoreUnavailable: the same.
        """
        names = dict.fromkeys(self._sweep.due(now_s))
        if now_s - self._waiting_at_s >= WAITING_EVERY_S:
            self._waiting_at_s = now_s
            names |= dict.fromkeys(held.stream.topic for held in self._waiting.values())
        self._look_at(names)

    def woken(self, streams: Iterable[HeldStream], now_s: float) -> None:
        """Look at streams with news after a quiet time, before anything of them is read."""
        topics = dict.fromkeys(held.stream.topic for held in streams)
        self._look_at([name for name in topics if self._sweep.claim(name, now_s)])

    def _look_at(self, names: Collection[str]) -> None:
        if not names:
            return
        try:
            known = self.log.topics(list(names))
            wanted = [held for name in names for held in self._streams.get(name, {}).values()]
            for held in wanted:
                self._topic(held, known.get(held.stream.topic))
            seen = [(held, known[held.stream.topic]) for held in wanted if held.waiting is None]
            stuck = self.losses.look(seen)
            for held, _ in seen:
                if held.stream.id in stuck:
                    self._wait(held, stuck[held.stream.id])
            seen = [each for each in seen if each[0].waiting is None]
            self._start_lanes(seen)
        except (BrokerUnavailable, StoreUnavailable):
            for name in names:
                self._sweep.hurry(name)
            raise
        for held, _ in seen:
            if held.waiting is None:
                self.ends.follow(held)
                self.ends.hurry(held)
                self.board.ready[held.stream.id] = None

    def _topic(self, held: HeldStream, info: TopicInfo | None) -> None:
        stream = held.stream
        if info is None:
            if held.waiting is None:
                log.warning(
                    "topic is not there; waiting for it", **of_stream(stream.id), topic=stream.topic
                )
            self._wait(held, f"topic {stream.topic} is not there yet")
            return
        held.waiting = None
        self._waiting.pop(stream.id, None)

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
            if _begins_at_end(held) and len(first) < len(numbers):
                # One that got its place later would count as added, and begin at its beginning.
                self._wait(held, f"not all partitions of {held.stream.topic} have a leader")
                continue
            known_id = held.stream.topic_id
            starts.append(LaneStart(held.stream.id, info.topic_id, first, known_id))
            if len(first) < len(numbers):
                self._sweep.hurry(held.stream.topic)  # a lane without a leader is asked again
        self.store.start_lanes(starts)
        self.board.fill(self.store.load_positions([each.stream for each in starts]))
        for held, info, _ in fresh:
            if held.waiting is None:
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

    def _wait(self, held: HeldStream, reason: str) -> None:
        held.waiting = reason
        if held.stream.id in self._topic_of:
            self._waiting[held.stream.id] = held
        self.ends.leave(held.stream.id)


def _begins_at_end(held: HeldStream) -> bool:
    """Whether a new lane starts at its end: only those that are there when the stream begins."""
    return held.deployment.starting_offsets == "latest" and not held.lanes
