"""Where the logs end, asked as seldom as it may be.

Of ten thousand lanes most are idle, and to ask Kafka for all their ends twenty times a second would
cost a driver more than all its work. So a lane that had a new record lately is *lively*, and asked
in every turn in which it has nothing left to do. All others are asked in a sweep, so many a second.
The first record after a quiet time is seen when the sweep comes by: at once with some hundred
lanes, after 4 s with 10,000. From then on the lane is lively.

A stream of order ``stream`` is asked as a whole: what one lane has must not run before it is known
what the others have. Several use cases that read one partition share its answer.

A turn costs what it asks, and nothing for other lanes. What an end that went back means, and which
topics there are, is not decided here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.cycle.board import Board, HeldStream, LaneHolder
from headrace.cycle.sweep import Sweep
from headrace.model.streams import Order, State, StreamId
from headrace.ports import Log, TopicPartition

#: how long a lane stays lively after its last new record
LIVELY_S = 30.0
#: partitions of the sweep; at 3 to 5 microseconds each this is about 1 % of a core
SWEPT_PER_S = 2500.0
#: no partition is asked more often than this by the sweep
_SWEPT_EVERY_S = 0.02


class Followed(NamedTuple):
    """A stream whose lanes are asked, and what they were when they were taken up."""

    held: HeldStream
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class News:
    """What the answers of a turn told, beyond the ends themselves."""

    #: streams whose log ends earlier than it did, with the partition
    went_back: list[tuple[HeldStream, TopicPartition]] = field(default_factory=list)
    #: streams with a new record after a quiet time
    woken: list[HeldStream] = field(default_factory=list)


@dataclass(slots=True)
class Ends:
    """Keeps the ends on a board true."""

    log: Log
    board: Board
    _readers: dict[TopicPartition, tuple[LaneHolder, ...]] = field(default_factory=dict)
    _followed: dict[StreamId, Followed] = field(default_factory=dict)
    _sweep: Sweep[TopicPartition] = field(
        default_factory=lambda: Sweep(SWEPT_PER_S, SWEPT_PER_S, _SWEPT_EVERY_S)
    )
    #: partition -> second of its last new record, longest ago first
    _lively: OrderedDict[TopicPartition, float] = field(default_factory=OrderedDict)

    @property
    def lively(self) -> int:
        """Partitions that had a new record lately."""
        return len(self._lively)

    def follow(self, held: HeldStream) -> None:
        """Ask for a stream's lanes, as it has them now; for new ones in the next turn."""
        before = self._followed.get(held.stream.id)
        if before is not None and _unchanged(before, held):
            return
        self.leave(held.stream.id)
        partitions = tuple(TopicPartition(held.stream.topic, number) for number in held.lanes)
        for name, lane in zip(partitions, held.lanes.values(), strict=True):
            self._readers[name] = (*self._readers.get(name, ()), LaneHolder(held, lane))
            self._sweep.add(name)
        self._followed[held.stream.id] = Followed(held, partitions)

    def hurry(self, held: HeldStream) -> None:
        """Ask for a followed stream's lanes in the next turn."""
        for name in self._followed[held.stream.id].partitions:
            self._sweep.hurry(name)

    def leave(self, stream: StreamId) -> None:
        """Ask no more for a stream; one that is not followed does no harm."""
        before = self._followed.pop(stream, None)
        if before is None:
            return
        for name in before.partitions:
            others = tuple(each for each in self._readers[name] if each.held is not before.held)
            if others:
                self._readers[name] = others
                continue
            del self._readers[name]
            self._sweep.discard(name)
            self._lively.pop(name, None)

    def ask(self, now_s: float) -> News:
        """Learn the ends that are due.

        Raises:
            BrokerUnavailable: nothing was learned.
        """
        self._calm_down(now_s)
        news = News()
        asked = dict.fromkeys(self._sweep.due(now_s))
        asked |= dict.fromkeys(name for name in self._lively if self._done(name))
        grown = self._learn(asked, now_s, news)
        together = (name for name in self._siblings(grown) if name not in asked)
        self._learn(dict.fromkeys(together), now_s, news)
        return news

    def _calm_down(self, now_s: float) -> None:
        while self._lively:
            name, last_s = next(iter(self._lively.items()))
            if now_s - last_s < LIVELY_S:
                return
            del self._lively[name]

    def _done(self, name: TopicPartition) -> bool:
        """Whether a reader of it has nothing left to do."""
        return any(each.lane.end <= each.lane.position for each in self._readers[name])

    def _learn(
        self, asked: Collection[TopicPartition], now_s: float, news: News
    ) -> list[TopicPartition]:
        """Ask, and return those with new records."""
        grown = []
        for name, end in self.log.end_offsets(list(asked)).items() if asked else ():
            if self._take(name, end, news):
                grown.append(name)
        for name in [*grown, *self._siblings(grown)]:
            self._lively[name] = now_s
            self._lively.move_to_end(name)
        return grown

    def _take(self, name: TopicPartition, end: int, news: News) -> bool:
        """Write an answer down; True if it tells of a new record that may run."""
        grown = False
        for held, lane in self._readers[name]:
            known = lane.end if lane.end >= 0 else lane.position
            ends_at = held.bounded(name.partition, end)
            if ends_at < lane.end:
                news.went_back.append((held, name))
            elif ends_at > known and held.state is State.ACTIVE:
                grown = True
                if name not in self._lively:
                    news.woken.append(held)
            lane.end = ends_at
            if ends_at > lane.position:
                self.board.ready[held.stream.id] = None
        return grown

    def _siblings(self, names: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
        """The other lanes of streams whose order goes over all of them."""
        for name in names:
            for held, _ in self._readers[name]:
                if held.deployment.order is Order.STREAM and len(held.lanes) > 1:
                    yield from self._followed[held.stream.id].partitions


def _unchanged(before: Followed, held: HeldStream) -> bool:
    return (
        before.held is held
        and len(before.partitions) == len(held.lanes)
        and (not before.partitions or before.partitions[0].topic == held.stream.topic)
    )
