"""The first step: bring the board up to date with the store and with Kafka.

Four questions, each asked as seldom as it may be. *What do the operators want?* Every turn, but
one small query unless something changed: `control` here. *Which topics and lanes are there?*
`topics.py`. *Where do the logs end?* `ends.py`. *What is too old, of streams that were left alone?*
`restarts.py`. With nothing new a turn costs the same for ten lanes and for ten thousand.

What cannot be learned at this moment leaves the board as it is; nothing here stops the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field

import structlog

from headrace.board import Board, HeldStream, Lane
from headrace.cycle.beside import ended
from headrace.cycle.bucket_log import BucketLog
from headrace.cycle.described import KeptList
from headrace.cycle.ends import Ends, News
from headrace.cycle.leases import Leases
from headrace.cycle.losses import Losses
from headrace.cycle.newcomers import Newcomers
from headrace.cycle.reruns import Reruns
from headrace.cycle.restarts import Restarts
from headrace.cycle.talks import Asker, Talk
from headrace.cycle.topics import TopicKeeper
from headrace.model.places import UNKNOWN
from headrace.model.plans import Cost
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Position, State, Stream, StreamId, Tenant
from headrace.model.topic_lists import topics_of
from headrace.policies.leases import Assignment
from headrace.ports import Log, Store
from headrace.telemetry.log_fields import of_stream

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Observer:
    """Keeps a board true."""

    store: Store
    board: Board
    leases: Leases
    losses: Losses
    log: Log
    #: asks the log, and is shut with this
    thread: Executor
    _revision: int = -1
    #: streams that change hands, or were taken up anew, while a slice of them still runs
    _unsettled: set[StreamId] = field(default_factory=set)
    #: what streams cost that this driver takes anew, as after a seek: where their topics are the
    #: same, their records are
    _costs: dict[StreamId, Cost] = field(default_factory=dict)
    #: talks with the log in one thread: about topics, about where logs end, about what is too old
    #: of streams that were left alone, and about topics of tenants that nobody added
    _about_topics: Asker = field(init=False)
    _about_ends: Asker = field(init=False)
    _about_old: Asker = field(init=False)
    _about_new: Asker = field(init=False)
    _ends: Ends = field(init=False)
    _topics: TopicKeeper = field(init=False)
    _restarts: Restarts = field(init=False)
    _newcomers: Newcomers = field(init=False)
    _reruns: Reruns = field(init=False)

    def __post_init__(self) -> None:
        """Wire the steps to the board."""
        log = BucketLog(self.log)
        self._about_topics = Asker(log, self.thread)
        self._about_ends = Asker(log, self.thread)
        self._about_old = Asker(log, self.thread)
        self._about_new = Asker(log, self.thread)
        self._ends = Ends(self.board)
        self._reruns = Reruns(self.store, self.board)
        listed, progress, losses = KeptList(), self.store.progress, self.losses
        self._newcomers = Newcomers(self.store.registry, listed)
        self._topics = TopicKeeper(progress, self.board, self._ends, losses, listed)
        self._restarts = Restarts(progress, self.board, losses.reporter, losses.clock, self._ends)

    def control(self, deployments: Collection[Deployment], now_s: float) -> bool:
        """Take over what operators changed; True if anything did.

        ``deployments`` are the use cases this driver has loaded; others are left to others.

        Raises:
            Fenced: another driver of this name was started.
        """
        revision = self.store.revision()
        if revision == self._revision:
            return False
        loaded = {deployment.use_case: deployment for deployment in deployments}
        self._newcomers.follow(deployments)
        every = self.store.registry.streams()
        streams = [stream for stream in every if stream.id.use_case in loaded]
        of_loaded = streams
        # After the streams: somebody may just now be added, and a tenant never goes away.
        tenants = {tenant.name: tenant for tenant in self.store.registry.tenants()}
        self._unsettled.clear()
        share = self.leases.share(streams)
        given = self._give(share.give)
        streams = [stream for stream in streams if stream.id not in given]
        new = [stream for stream in streams if self._is_new(stream, share)]
        streams = [stream for stream in streams if stream.id not in self._unsettled]
        epochs = self._hold([stream.id for stream in new], now_s)
        for stream in streams:
            self._take(stream, tenants[stream.id.tenant], loaded[stream.id.use_case], epochs)
        self._count_readers(every)
        self._costs.clear()
        self._positions(streams)
        self._follow(streams)
        self._reruns.follow(loaded, of_loaded)
        self._revision = -1 if self._unsettled else revision
        return True

    def forget_revision(self) -> None:
        """Look at everything again in the next turn."""
        self._revision = -1

    def reload_positions(self, streams: Collection[StreamId]) -> None:
        """Believe the store again, after any failure or refused commit."""
        self.load_positions(streams)
        self._find_lost(streams)

    def load_positions(self, streams: Collection[StreamId]) -> set[LaneId]:
        """Take over where the store has these streams now; the lanes that it has of them."""
        positions = self._loaded(streams)
        there = {position.lane for position in positions}
        self._find_gone(streams, there)
        return there

    def topics(self, now_s: float) -> bool:
        """Learn ids and lanes; give new lanes their first position.

        Whether some were sent on, so that what was recorded may be forgotten since.
        """
        self._look(now_s)
        return self.losses.take_sent_on()

    def _look(self, now_s: float) -> None:
        if not self._about_topics.is_busy:
            self._about_topics.begin(self._topics.ask(now_s))
        self._about_topics.go_on()
        self._pass_over(now_s)
        if not self._about_new.is_busy:
            self._about_new.begin(self._newcomers.ask(now_s))
        self._about_new.go_on()

    def _pass_over(self, now_s: float) -> None:
        """Let streams that were left alone pass over what is too old."""
        if not self._about_old.is_busy:
            self._about_old.begin(self._restarts.ask(now_s))
        self._about_old.go_on()

    def ends(self, now_s: float) -> bool:
        """Learn the ends of lanes that may have something new; whether nothing is left to learn."""
        if not self._about_ends.is_busy:
            self._about_ends.begin(self._ask_ends(now_s))
        over = self._about_ends.go_on()
        self._reruns.poll()
        return over

    def _ask_ends(self, now_s: float) -> Talk[None]:
        news, told = yield from self._ends.ask(now_s)
        self._heed(news, now_s)
        news = yield from self._ends.ask_blind(told, now_s)
        self._heed(news, now_s)

    def _heed(self, news: News, now_s: float) -> None:
        for held in news.went_back:
            # A log only grows: it was cut, or the topic was made again. Look first.
            why = f"{held.stream.topic}: the log's end went back; checking why"
            if held.state is not State.REMOVED:
                self._topics.doubt(held, why)
        if self._topics.woken(news.woken, now_s):
            self._look(now_s)

    @property
    def asks(self) -> bool:
        """Whether brokers have not answered yet."""
        askers = self._about_topics, self._about_ends, self._about_old, self._about_new
        return any(asker.is_busy for asker in askers)

    def close(self, until_s: float) -> bool:
        """Ask nothing any more, and wait for what is being asked; whether that is over."""
        askers = self._about_topics, self._about_ends, self._about_old, self._about_new
        asked = [asker.asked for asker in askers]
        return ended(self.thread, asked, until_s)

    def doubt(self, held: HeldStream, lane: Lane, why: str) -> None:
        """Believe nothing of a lane's log, and plan nothing of its stream before a look."""
        lane.end = UNKNOWN
        self._topics.doubt(held, why)

    def ask_again(self, held: HeldStream, name: str) -> None:
        """Ask in the next turn where a log ends, of whom the cluster says leads it then."""
        self._ends.ask_again(held, name)

    @property
    def quiet(self) -> bool:
        """Whether no lane had a new record lately."""
        return not self._ends.lively

    # control

    def _is_new(self, stream: Stream, share: Assignment) -> bool:
        """Whether it is to be held from now on; one that is not ours any more is let go."""
        held = self.board.streams.get(stream.id)
        if stream.state is State.REMOVED and stream.id not in self.board.owed:
            if held is not None and not self.board.runs(held):
                self._drop(stream.id)
            return False
        ours = stream.holder == self.leases.name
        if held is not None:
            if ours and held.epoch == stream.epoch and not held.is_outdated:
                return False
            if not self._let_go(held, "it changed hands, or was taken up anew"):
                return False
            if ours and held.stream.topic_id == stream.topic_id:
                self._costs[stream.id] = held.cost
            log.info("stream is held by another driver or anew", **of_stream(stream.id))
        return ours or stream.id in share.take

    def _hold(self, new: list[StreamId], now_s: float) -> dict[StreamId, int]:
        if not new:
            return {}
        # Somebody of our name may hold them by now.
        self.leases.confirm(now_s)
        return self.store.membership.hold(new, self.leases.name, self.leases.number)

    def _give(self, surplus: Collection[StreamId]) -> set[StreamId]:
        """Make streams free for other drivers, each as soon as nothing of it runs."""
        given = set()
        for name in surplus:
            held = self.board.streams.get(name)
            if name not in self.board.owed and (
                held is None or self._let_go(held, "another driver is to have it")
            ):
                given.add(name)
        if given:
            self.store.membership.release(self.leases.name, self.leases.number, given)
            log.info("streams given back to be shared", streams=len(given))
        return given

    def _let_go(self, held: HeldStream, why: str) -> bool:
        """Take a stream from the board, if nothing of it runs; else plan nothing more of it."""
        name = held.stream.id
        if not self.board.runs(held):
            self._drop(name)
            return True
        # What runs of it comes to its end first, or a lane would be in two waves at once. A
        # recorded wave that is to run again waits for this, and is not waited for.
        self._leave(name)
        held.waiting = f"{why}; what still runs of it ends first"
        self._unsettled.add(name)
        return False

    def _drop(self, stream: StreamId) -> None:
        doubts, names = self.board.doubts.open, self.board.streams[stream].lanes
        if any(LaneId(*stream, name) in doubts for name in names):
            self._loaded([stream])  # nobody looks at it later
        self._leave(stream)
        del self.board.streams[stream]

    def _take(
        self, stream: Stream, tenant: Tenant, deployment: Deployment, epochs: dict[StreamId, int]
    ) -> None:
        held = self.board.streams.get(stream.id)
        if held is None:
            if stream.id not in epochs:
                return
            cost = self._costs.pop(stream.id, Cost())
            places = self.log.of(stream.topic).places
            held = HeldStream(stream, tenant, deployment, epochs[stream.id], places, cost=cost)
            self.board.streams[stream.id] = held
        held.stream, held.tenant, held.deployment = stream, tenant, deployment
        held.unfit = None

    def _count_readers(self, every: Iterable[Stream]) -> None:
        """Tell streams who else reads their topics, be it for another driver."""
        readers = Counter(
            topic
            for stream in every
            if stream.state is State.ACTIVE
            for topic in topics_of(stream.topic)
        )
        for held in self.board.streams.values():
            held.readers = max([1, *(readers[topic] for topic in topics_of(held.stream.topic))])

    def _positions(self, streams: list[Stream]) -> None:
        """Believe the store about all of them, but those that somebody took over meanwhile."""
        board = self.board.streams
        held = [stream.id for stream in streams if stream.id in board]
        positions = self.store.progress.load_positions(held)
        newer = {
            position.lane.stream
            for position in positions
            if position.epoch > board[position.lane.stream].epoch
        }
        positions = [position for position in positions if position.lane.stream not in newer]
        self.board.fill(positions)
        found = Counter(position.lane.stream for position in positions)
        fewer = [
            name for name in held if name not in newer and found[name] < len(board[name].lanes)
        ]
        if fewer:
            self._find_gone(fewer, {position.lane for position in positions})

    def _loaded(self, streams: Collection[StreamId]) -> list[Position]:
        positions = self.store.progress.load_positions(streams)
        self.board.fill(positions)
        return positions

    def _follow(self, streams: list[Stream]) -> None:
        """Look at the topics of active streams, and ask for the ends of all but removed ones.

        A stream that is resumed is new to both: its topic is looked at afresh.
        """
        for stream in streams:
            held = self.board.streams.get(stream.id)
            if held is None or held.state is State.REMOVED:
                self._leave(stream.id)
                if held is not None:
                    self._follow_removed(held)
                continue
            if held.state is State.ACTIVE:
                self._topics.follow(held)
            else:
                self._topics.leave(stream.id)
            if held.waiting is None:
                self._ends.follow(held)
            self._restarts.follow(held)

    def _follow_removed(self, held: HeldStream) -> None:
        """Nothing new of it is planned; what was recorded of it comes to its end, if it can."""
        held.looked_at = None
        if held.another is None:
            held.waiting = None
        runs = any(lane.wave is not None for lane in held.lanes.values())
        if runs or held.stream.id in self.board.owed:
            self._topics.follow(held)
            self._ends.follow(held)

    def _leave(self, stream: StreamId) -> None:
        self._topics.leave(stream)
        self._ends.leave(stream)
        self._restarts.leave(stream)

    def _find_gone(self, streams: Collection[StreamId], there: Collection[LaneId]) -> None:
        """Take up anew what the store has not all lanes of any more, as after a change by hand.

        Each slice of a lane without a position is refused, and would be tried for ever. Whoever
        lets lanes go by right tells the board, or raises the epoch.
        """
        for stream in streams:
            held = self.board.streams.get(stream)
            lanes = held.lanes if held is not None else ()
            gone = [name for name in lanes if LaneId(*stream, name) not in there]
            if held is None or held.is_outdated or not gone:
                continue
            held.is_outdated = True
            self._unsettled.add(stream)
            self.forget_revision()
            shown = ", ".join(gone)
            log.warning("lanes are not in the store any more", **of_stream(stream), lanes=shown)

    def _find_lost(self, streams: Collection[StreamId]) -> None:
        asked = set(streams)
        for stream in self.store.registry.streams():
            held = self.board.streams.get(stream.id)
            if stream.id in asked and held is not None and held.epoch != stream.epoch:
                self.forget_revision()  # the next turn decides: added again, or taken over
                return
