"""What was decided about lanes as a whole, held against what is true, and the generations of it.

A driver gives new lanes their first positions, sends a stream on behind what Kafka lost, or
suspends it for a person to decide; a person seeks. Each is looked at in the moment in which it is
in the store. Exact is then: a lane begins no later than its log; a skip is from where the lane is
to where its log goes on, with a note of the very offsets; whoever is suspended or sent on has lost
something, and as the use case's policy has it.

Two things are taken as they are told, as nobody can know better: the end of a topic that is gone,
and offsets that were looked at while the topic was another. A reason shown to people may be of a
moment ago: its offsets have to be some that the lane had.

With order ``stream`` the lanes of a stream are merged into one call, so what sends one of them away
takes what was under way from the others too: they begin a generation together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.model.records import Failure, LaneStart, Move
from headrace.model.streams import DataLossPolicy, LaneId, Order, Slice, State, StreamId
from headrace.ports import Store
from headrace.testing.simulation.deployed import TOPIC, Deployed
from headrace.testing.simulation.generations import Generation, Generations
from headrace.testing.simulation.topics import Topics

_RETENTION = re.compile(r"\[(\d+)\] lost offsets (\d+) to \d+ to retention")
_MADE_AGAIN = re.compile(r"in partition (\d+) from offset (\d+) on is lost")


def topic_of(stream: StreamId) -> str:
    """What it reads."""
    return TOPIC.format(tenant=stream.tenant)


@dataclass(eq=False, slots=True)
class Decisions:
    """Keeps generations true to what was decided, and notes what may not be decided."""

    store: Store
    topics: Topics
    deployed: Deployed
    generations: Generations
    #: slices that run or may still be committed, with the generation each is of
    open_slices: Callable[[], Iterable[tuple[Slice, int]]]
    counts: Counter[str]
    #: streams of which Kafka lost something at some time
    lossy: set[StreamId] = field(default_factory=set)
    #: suspended for that at a monotonic second, and nobody has decided yet
    stopped: dict[StreamId, float] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    def decided(self, name: str, args: Sequence[Any]) -> None:
        """A driver made a decision; the store has it."""
        if name == "start_lanes":
            for each in args[0]:
                self._started(each)
        elif name == "skip_lost":
            self._skipped(*args)
        else:
            self._suspended(*args)

    def sought(self, stream: StreamId, offsets: Mapping[int, int]) -> None:
        """A person sent a stream's lanes elsewhere."""
        self.counts["seeks"] += 1
        self.stopped.pop(stream, None)
        topic = topic_of(stream)
        log, there = self.topics.made[topic], self.topics.partitions[topic]
        to = {each: (offset, log) for each, offset in offsets.items()}
        for lane in self._lanes(stream):
            now = self.generations.now(lane)
            if now is None or lane.partition in to or now.log == log:
                continue
            if lane.partition < there:
                self.found.append(f"{lane} is left at {now.at} of topic {now.log}, now {log}")
            else:
                to[lane.partition] = (0, log)
        self._begin_all(stream, to)

    def lost(self, topic: str) -> None:
        """Kafka took something of a topic: whoever has not read it has lost it."""
        edges = self.topics.log.edges
        for lane in self.lanes_of(topic):
            now = self.generations.now(lane)
            gone = topic not in self.topics.partitions or (
                now is not None and self._has(lane) and now.at < edges(topic, lane.partition).start
            )
            if gone:
                self.lossy.add(lane.stream)

    def lanes_of(self, topic: str) -> list[LaneId]:
        """All lanes that read a topic."""
        return list(self.generations.lanes(lambda lane: topic_of(lane.stream) == topic))

    def _started(self, first: LaneStart) -> None:
        """First positions; lanes that have one keep it, in the log that they are in."""
        topic, log = topic_of(first.stream), self.topics.log_of_id(first.topic_id)
        known = {each.id: each.topic_id for each in self.store.streams()}
        if known[first.stream] != first.topic_id:
            return  # who asked was asleep, and the stream is in another topic by now
        for lane in self._lanes(first.stream):
            now = self.generations.now(lane)
            if now is not None and now.log != log:
                self.found.append(
                    f"{lane} goes on at {now.at} in topic {log} as if it were {now.log}"
                )
        for partition, offset in first.offsets.items():
            lane = LaneId(*first.stream, partition)
            if self.generations.now(lane) is not None:
                continue
            if self.topics.is_there(topic, log):
                start = self.topics.log.edges(topic, partition).start
                if offset > start:
                    self.found.append(f"{lane} begins at {offset}, its log at {start}")
            self._begin(lane, offset, log, ())

    def _skipped(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        failures: Sequence[Failure],
        topic_id: str,
    ) -> None:
        self.counts["losses passed over"] += 1
        self._allowed(stream, DataLossPolicy.SKIP)
        log = self.topics.log_of_id(topic_id)
        for move, note in zip(moves, failures, strict=True):
            now = self.generations.now(move.lane)
            assert now is not None, "its position was compared"
            self._check_skip(move, note, now, log)
        self._begin_all(stream, {each.lane.partition: (each.to_offset, log) for each in moves})

    def _check_skip(self, move: Move, note: Failure, now: Generation, log: int) -> None:
        """Told by exact offsets, and no record of the log that is there is passed over."""
        lane, made_again = move.lane, log != now.log
        until = now.at if made_again else move.to_offset
        told = (note.slice.lane, note.slice.from_offset, note.slice.until_offset)
        topic = topic_of(lane.stream)
        if not self.topics.is_there(topic, log):
            return
        if told != (lane, now.at, until):
            self.found.append(f"{lane} lost {now.at} to {until}, and the note is of {note.slice}")
        start = self.topics.log.edges(topic, lane.partition).start if self._has(lane) else 0
        if move.to_offset > start or not (made_again or move.to_offset > now.at):
            self.found.append(
                f"{lane} is sent from {now.at} to {move.to_offset}, its log has {start}"
            )

    def _suspended(self, stream: StreamId, state: State, reason: str = "") -> None:
        assert state is State.SUSPENDED, "drivers do nothing else"
        self.counts["streams suspended for losses"] += 1
        self._allowed(stream, DataLossPolicy.FAIL)
        self.stopped[stream] = self.topics.clock.monotonic_s()
        for partition, offset in _RETENTION.findall(reason) + _MADE_AGAIN.findall(reason):
            ways = self.generations.of(LaneId(*stream, int(partition)))
            if not any(int(offset) in each.stands for each in ways):
                self.found.append(f"{stream} was never at {offset}: {reason}")

    def _allowed(self, stream: StreamId, policy: DataLossPolicy) -> None:
        if stream not in self.lossy:
            self.found.append(f"{stream} is treated as if it had lost records")
        if self.deployed.loss[stream.use_case] is not policy:
            self.found.append(f"{stream} has lost records, and it is not for {policy}")

    # generations

    def _begin_all(self, stream: StreamId, to: Mapping[int, tuple[int, int]]) -> None:
        """Lanes begin anew, each at an offset of the how-manieth topic of their name."""
        (epoch,) = [each.epoch for each in self.store.streams() if each.id == stream]
        pending = [each for each in self.open_slices() if each[0].epoch == epoch]
        for partition, (offset, log) in sorted(to.items()):
            self._begin(LaneId(*stream, partition), offset, log, pending)
        if self.deployed.use_cases[stream.use_case].order is Order.STREAM:
            for lane in self._lanes(stream):
                now = self.generations.now(lane)
                if lane.partition not in to and now is not None:
                    self._begin(lane, now.at, now.log, pending)

    def _begin(
        self, lane: LaneId, offset: int, log: int, pending: Iterable[tuple[Slice, int]]
    ) -> None:
        follows = {of for piece, of in pending if piece.begin == (lane, offset)}
        self.generations.begins(lane, offset, log, follows)
        topic = topic_of(lane.stream)
        if not self.topics.is_there(topic, log):
            self.generations.deleted([lane])
            self.lossy.add(lane.stream)
        elif self._has(lane) and self.topics.log.edges(topic, lane.partition).start > offset:
            self.lossy.add(lane.stream)

    def _has(self, lane: LaneId) -> bool:
        """Whether its partition is there."""
        return lane.partition < self.topics.partitions.get(topic_of(lane.stream), 0)

    def _lanes(self, stream: StreamId) -> list[LaneId]:
        return list(self.generations.lanes(lambda lane: lane.stream == stream))
