"""Where the logs end, asked as seldom as it may be.

Of ten thousand lanes most are idle, and to ask Kafka for all their ends twenty times a second would
cost a driver more than all its work. So a lane that had a new record lately is *lively*, and asked
in every turn in which it has nothing left to do. All others are asked in a sweep, so many a second.
The first record after a quiet time is seen when the sweep comes by: at once with some hundred
lanes, after 4 s with 10,000. From then on the lane is lively.

A stream of order ``stream`` is asked as a whole: what one lane has must not run before it is known
what the others have. Brokers answer one after the other, and while they do records come. So an end
is *sure* only when all lanes answered a look that began after it was known: whatever was in a log
before the record that ends there is then known as well (decision 0019). A lane that nobody tells
the end of holds the others, and after a moment people are told so.

Of some logs only reading tells where they end. Their answer says so, costs them nothing, and means
that a lane may be visited (`policies/visits.py`); it is asked for by the same rules.

Several use cases that read one lane share its answer.

A turn costs what it asks, and nothing for other lanes. Answers may come turns later (`talks.py`):
those about lanes that were given up or doubted meanwhile tell nothing. What an end that went back
means, and which topics there are, is not decided here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import structlog

from headrace.board import Board, HeldStream, Lane, LaneHolder
from headrace.cycle.sweep import Sweep
from headrace.cycle.talks import Talk
from headrace.errors import BrokerUnavailable
from headrace.model.places import OPEN, UNKNOWN, Place
from headrace.model.streams import State, StreamId
from headrace.policies.visits import DONE
from headrace.ports import Log
from headrace.telemetry.log_fields import of_stream

log = structlog.get_logger(__name__)

#: how long a lane stays lively after its last new record
LIVELY_S = 30.0
#: lanes of the sweep; at 3 to 5 microseconds each this is about 1 % of a core
SWEPT_PER_S = 2500.0
#: no lane is asked more often than this by the sweep
_SWEPT_EVERY_S = 0.02
#: why a stream whose lanes are to be merged is not read
NO_ORDER = (
    "order stream: its log does not say where its lanes end, so nobody knows which of them has the "
    "oldest record; deploy the use case with order lane"
)
#: people are told of a stream that waits for an answer when it has for so long
BLIND_S = 2.0


class Followed(NamedTuple):
    """A stream whose lanes are asked, and what they were when they were taken up."""

    held: HeldStream
    lanes: tuple[str, ...]


@dataclass(slots=True)
class News:
    """What the answers of a turn told, beyond the ends themselves."""

    #: streams with a lane whose log ends earlier than it did
    went_back: list[HeldStream] = field(default_factory=list)
    #: streams with a new record after a quiet time
    woken: list[HeldStream] = field(default_factory=list)


class AskedEnds(NamedTuple):
    """What became of a question."""

    #: lanes with new records
    grown: list[str]
    #: those without an answer
    silent: set[str]


@dataclass(slots=True)
class Ends:
    """Keeps the ends on a board true."""

    board: Board
    _readers: dict[str, tuple[LaneHolder, ...]] = field(default_factory=dict)
    _followed: dict[StreamId, Followed] = field(default_factory=dict)
    _sweep: Sweep[str] = field(
        default_factory=lambda: Sweep(SWEPT_PER_S, SWEPT_PER_S, _SWEPT_EVERY_S)
    )
    #: lane -> second of its last new record, longest ago first
    _lively: OrderedDict[str, float] = field(default_factory=OrderedDict)
    #: streams whose lanes are merged, some of them with records that are not sure
    _unsure: dict[StreamId, HeldStream] = field(default_factory=dict)
    #: those that wait for it -> since which second
    _blind_since_s: dict[StreamId, float] = field(default_factory=dict)
    #: of whose leaders nothing is to be believed; the next question begins with that
    _doubted: set[str] = field(default_factory=set)
    #: what was asked of these before is not to be believed
    _outdated: set[str] = field(default_factory=set)

    @property
    def lively(self) -> int:
        """Lanes that had a new record lately."""
        return len(self._lively)

    def follow(self, held: HeldStream) -> None:
        """Ask for a stream's lanes, as it has them now; for new ones in the next turn."""
        before = self._followed.get(held.stream.id)
        if before is None or not _unchanged(before, held):
            self._take_up(held)
        if held.merges:
            self._unsure[held.stream.id] = held

    def _take_up(self, held: HeldStream) -> None:
        self.leave(held.stream.id)
        lanes = _asked(held)
        for name in lanes:
            self._readers[name] = (*self._readers.get(name, ()), LaneHolder(held, held.lanes[name]))
            self._sweep.add(name)
        self._followed[held.stream.id] = Followed(held, lanes)

    def renew(self, held: HeldStream) -> None:
        """Ask for a stream's lanes as it has them now, if they are asked for at all."""
        before = self._followed.get(held.stream.id)
        if before is not None and not _unchanged(before, held):
            self._take_up(held)

    def hurry(self, held: HeldStream) -> None:
        """Ask for a followed stream's lanes in the next turn."""
        for name in self._followed[held.stream.id].lanes:
            self._sweep.hurry(name)

    def forget(self, held: HeldStream) -> None:
        """Believe no answer about a stream's lanes to a question that was asked before."""
        self._outdated |= held.lanes.keys()

    def ask_again(self, held: HeldStream, name: str) -> None:
        """Believe nothing of where a log ends, and ask in the next turn who leads it by then."""
        if held.stream.id in self._followed:
            held.lanes[name].end = UNKNOWN
            self._doubted.add(name)
            self._outdated.add(name)
            self._sweep.hurry(name)

    def leave(self, stream: StreamId) -> None:
        """Ask no more for a stream; one that is not followed does no harm."""
        before = self._followed.pop(stream, None)
        self._unsure.pop(stream, None)
        self._blind_since_s.pop(stream, None)
        if before is None:
            return
        before.held.blind = None
        self._outdated |= set(before.lanes)
        for name in before.lanes:
            others = tuple(
                holder for holder in self._readers[name] if holder.held is not before.held
            )
            if others:
                self._readers[name] = others
                continue
            del self._readers[name]
            self._sweep.discard(name)
            self._lively.pop(name, None)

    def ask(self, now_s: float) -> Talk[tuple[News, AskedEnds]]:
        """Learn the ends that are due.

        Raises:
            BrokerUnavailable: nothing was learned.
        """
        self._calm_down(now_s)
        news = News()
        asked = dict.fromkeys(self._sweep.due(now_s))
        asked |= dict.fromkeys(name for name in self._lively if self._done(name))
        asked |= dict.fromkeys(self._lanes_of(self._blind()))
        told = yield from self._learn(asked, now_s, news)
        self._unsure |= {held.stream.id: held for held in self._merged(told.grown)}
        return news, told

    def ask_blind(self, told: AskedEnds, now_s: float) -> Talk[News]:
        """Ask in the same turn for streams that wait for it; tell people who has waited for long.

        What the first answers ``told`` is not lost if nobody answers now.
        """
        news = News()
        # Who waits for a broker that does not answer is not asked for twice in a turn.
        blind = [held for held in self._blind() if told.silent.isdisjoint(self._lanes_of([held]))]
        asked = dict.fromkeys(self._lanes_of(blind))
        try:
            silent = (yield from self._learn(asked, now_s, news)).silent
        except BrokerUnavailable:
            silent = set(asked)
        self._tell(told.silent | silent, now_s)
        return news

    def _calm_down(self, now_s: float) -> None:
        while self._lively:
            name, last_s = next(iter(self._lively.items()))
            if now_s - last_s < LIVELY_S:
                return
            del self._lively[name]

    def _done(self, name: str) -> bool:
        """Whether a reader of it has nothing left to do."""
        return any(holder.lane.end <= holder.lane.position for holder in self._readers[name])

    def _learn(self, asked: Collection[str], now_s: float, news: News) -> Talk[AskedEnds]:
        """Ask; what was known before is sure now, in streams all of whose lanes answered."""
        if not asked:
            return AskedEnds([], set())
        whole = [held for held in self._unsure.values() if self._are_in(held, asked)]
        before = [[(lane, lane.end) for lane in held.lanes.values()] for held in whole]
        doubted, self._doubted, self._outdated = self._doubted, set(), set()
        told: dict[str, Place] = yield partial(_ends, doubted, list(asked))
        answers = {
            name: end
            for name, end in told.items()
            if name in self._readers and name not in self._outdated
        }
        grown = [name for name, end in answers.items() if self._take(name, end, now_s, news)]
        for held, lanes in zip(whole, before, strict=True):
            if self._unsure.get(held.stream.id) is held and self._are_in(held, answers):
                for lane, end in lanes:
                    lane.sure = min(end, lane.end)
        for name in dict.fromkeys([*grown, *self._lanes_of(self._merged(grown))]):
            self._lively[name] = now_s
            self._lively.move_to_end(name)
        return AskedEnds(grown, set(asked) - told.keys())

    def _take(self, name: str, end: Place, asked_s: float, news: News) -> bool:
        """Write an answer down; True if it tells of a new record that may run."""
        grown = False
        for held, lane in self._readers[name]:
            if lane.gone:
                continue  # what it follows, if it is there by now, is learned with its topic
            if end == OPEN:
                grown = self._visit(name, held, lane, asked_s) or grown
                continue
            known = lane.position if lane.end == UNKNOWN else lane.end
            ends_at = held.bounded(name, end)
            if ends_at < lane.end:
                news.went_back.append(held)
            elif ends_at > known and held.state is State.ACTIVE:
                grown = True
                if name not in self._lively:
                    news.woken.append(held)
            lane.end, lane.asked_s = ends_at, asked_s
            if ends_at > lane.position:
                self.board.ready[held.stream.id] = None
        return grown

    def _visit(self, name: str, held: HeldStream, lane: Lane, asked_s: float) -> bool:
        """Only reading tells what is in a lane; whether it had something lately."""
        lane.asked_s = asked_s
        if held.deployment.order.merges_lanes:
            held.blind = NO_ORDER
        if lane.visits is None and held.is_done(name):
            lane.visits = DONE
        lively = lane.may_be_visited(asked_s)
        if lane.end > lane.position:
            self.board.ready[held.stream.id] = None
        return lively and held.state is State.ACTIVE

    def _merged(self, names: Iterable[str]) -> list[HeldStream]:
        """The streams whose order goes over all of their lanes, these among them."""
        readers = (held for name in names for held, _ in self._readers[name])
        return [held for held in readers if held.merges]

    def _lanes_of(self, streams: Iterable[HeldStream]) -> Iterator[str]:
        """Their lanes, but for those that their topics do not have any more."""
        for held in streams:
            for name in self._followed[held.stream.id].lanes:
                if not held.lanes[name].gone:
                    yield name

    def _are_in(self, held: HeldStream, names: Container[str]) -> bool:
        """Whether these are all lanes of a stream, and maybe more."""
        return all(name in names for name in self._lanes_of([held]))

    def _blind(self) -> list[HeldStream]:
        """Streams that wait until all their lanes were asked; what will not be is forgotten."""
        found = []
        for name, held in list(self._unsure.items()):
            lanes = held.lanes.values()
            active = held.state is State.ACTIVE
            if not (active and held.merges and any(lane.is_unsure for lane in lanes)):
                # One that is not active now is written down anew when it is followed again.
                del self._unsure[name]
                continue
            # It could not go on in any case while something of it runs, or waits for a person.
            stands = any(lane.wave is not None or lane.failure is not None for lane in lanes)
            if not stands and any(lane.is_blind for lane in lanes):
                found.append(held)
        return found

    def _tell(self, silent: Collection[str], now_s: float) -> None:
        """Let people know of streams that have waited for an answer for longer than a moment."""
        waiting = {
            held.stream.id: (held, lanes)
            for held in self._blind()
            if (lanes := [name for name in self._lanes_of([held]) if name in silent])
        }
        for stream in self._blind_since_s.keys() - waiting.keys():
            del self._blind_since_s[stream]
            self._followed[stream].held.blind = None
        for stream, (held, lanes) in waiting.items():
            since_s = self._blind_since_s.setdefault(stream, now_s)
            if now_s - since_s >= BLIND_S and held.blind is None:
                held.blind = (
                    f"order stream: no broker says where {', '.join(lanes)} ends; "
                    "it may have the oldest record"
                )
                log.warning("stream waits for a lane", **of_stream(stream), why=held.blind)


def _asked(held: HeldStream) -> tuple[str, ...]:
    """Lanes of topics that are there: who asks for others waits for an answer that none gives."""
    return tuple(name for name, lane in held.lanes.items() if not lane.away)


def _ends(doubted: Collection[str], asked: Collection[str], log: Log) -> dict[str, Place]:
    """Asked in a thread."""
    if doubted:
        log.doubt(doubted)
    return log.end_offsets(asked)


def _unchanged(before: Followed, held: HeldStream) -> bool:
    return before.held is held and before.lanes == _asked(held)
