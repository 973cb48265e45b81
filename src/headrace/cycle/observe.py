"""The first step: bring the board up to date with the store and with Kafka.

Three questions, each asked as seldom as it may be. *What do the operators want?* Every turn, but
one small query unless something changed: `control` here. *Which topics and partitions are there?*
`topics.py`. *Where do the logs end?* `ends.py`. With nothing new a turn costs the same for ten
lanes and for ten thousand.

What cannot be learned at this moment leaves the board as it is; nothing here stops the loop.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from headrace.cycle.board import Board, HeldStream
from headrace.cycle.ends import Ends
from headrace.cycle.topics import Topics
from headrace.model.records import Deployment
from headrace.model.streams import State, Stream, StreamId, Tenant
from headrace.ports import Log, Store

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Observer:
    """Keeps a board true."""

    store: Store
    log: Log
    board: Board
    #: removed streams that recorded waves still owe an end; they are held until then
    owed: set[StreamId] = field(default_factory=set)
    _revision: int = -1
    #: streams that somebody took up anew while a slice of them still runs
    _unsettled: set[StreamId] = field(default_factory=set)
    _ends: Ends = field(init=False)
    _topics: Topics = field(init=False)

    def __post_init__(self) -> None:
        """Wire the steps to the board."""
        self._ends = Ends(self.log, self.board)
        self._topics = Topics(self.store, self.log, self.board, self._ends)

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
        self._unsettled.clear()
        new = [each for each in streams if self._is_new(each)]
        streams = [each for each in streams if each.id not in self._unsettled]
        epochs = self.store.hold([each.id for each in new]) if new else {}
        for each in streams:
            self._take(each, tenants[each.id.tenant], loaded[each.id.use_case], epochs)
        self._positions(streams)
        self._follow(streams)
        self._revision = -1 if self._unsettled else revision
        return True

    def forget_revision(self) -> None:
        """Look at everything again in the next turn."""
        self._revision = -1

    def reload_positions(self, streams: Collection[StreamId]) -> None:
        """Believe the store again, after any failure or refused commit."""
        self.board.fill(self.store.load_positions(streams))
        self._find_lost(streams)

    def topics(self, now_s: float) -> None:
        """Learn ids and partitions; give new lanes their first position."""
        self._topics.look(now_s)

    def ends(self, now_s: float) -> None:
        """Learn the ends of lanes that may have something new."""
        news = self._ends.ask(now_s)
        for held, name in news.went_back:
            # A log only grows: it was cut, or the topic was made again. Look first.
            why = f"{name.topic}: the log's end went back; checking why"
            self._topics.doubt(held, why)
        self._topics.woken(news.woken, now_s)

    @property
    def quiet(self) -> bool:
        """Whether no lane had a new record lately."""
        return not self._ends.lively

    # control

    def _is_new(self, stream: Stream) -> bool:
        gone = stream.state is State.REMOVED and stream.id not in self.owed
        if gone or stream.id in self.board.lost:
            return False
        held = self.board.streams.get(stream.id)
        if held is None or held.epoch == stream.epoch:
            return held is None
        if any(lane.wave is not None for lane in held.lanes.values()):
            # What runs of it comes to its end first, or a lane would be in two waves at once.
            held.waiting = "it was taken up anew; what still runs of it ends first"
            self._unsettled.add(stream.id)
            self._leave(stream.id)
            return False
        # Somebody raised the epoch. Without positions it was removed and added again, and is ours
        # to begin; with positions another driver has taken it over.
        if not self.store.load_positions([stream.id]):
            self.board.streams.pop(stream.id)
            self._leave(stream.id)
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
        held.stream, held.tenant, held.deployment = stream, tenant, deployment

    def _positions(self, streams: list[Stream]) -> None:
        held = [each.id for each in streams if each.id in self.board.streams]
        self.board.fill(self.store.load_positions(held))

    def _follow(self, streams: list[Stream]) -> None:
        """Look at the topics of active streams, and ask for the ends of all but removed ones.

        A stream that is resumed is new to both: its topic is looked at afresh.
        """
        for each in streams:
            held = self.board.streams.get(each.id)
            if held is None or held.state is State.REMOVED:
                self._leave(each.id)
                continue
            if held.state is State.ACTIVE:
                self._topics.follow(held)
            else:
                self._topics.leave(each.id)
            if held.waiting is None:
                self._ends.follow(held)

    def _leave(self, stream: StreamId) -> None:
        self._topics.leave(stream)
        self._ends.leave(stream)

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
        self._leave(stream)
