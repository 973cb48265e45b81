"""Showing positions to other tools, beside the loop and never in it.

People watch lag with the tools they have. So a copy of the positions is kept where those look
(`ports/mirror.py`); nothing is ever taken from it, and nothing waits for it. Every few seconds it
is noted which positions have changed, some hundred streams a turn, and a thread of its own hands
them over; as long as that thread is busy the next note waits, so a slow broker makes the copy older
and no turn longer. What idles is shown again now and then, since Kafka forgets offsets that nobody
sets.

A driver that slept between its note and its call sets the copy back when it wakes, however long
ago another one took its streams over; so can anybody else. So whoever holds a stream that idles
looks now and then at what others see of it, some lanes a round, and puts right what differs.

Topics of Kafka are shown as consumer groups, and streams of a connection as tables of leases. Each
kind has its own thread, so one that is silent makes no copy of the other older.

Others know nothing of buckets: of a partition that has some they see how far the least came.

Trouble is logged once until it is over. The copy of a use case in trouble is tried again every half
minute, whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import structlog

from headrace.board import Board, HeldStream
from headrace.cycle.beside import ended, one_thread
from headrace.errors import BrokerUnavailable, HeadraceError
from headrace.model.buckets import least_places
from headrace.model.places import Place
from headrace.model.streams import State, StreamId
from headrace.model.topic_names import connection_of
from headrace.ports import PositionsMirror

log = structlog.get_logger(__name__)

#: how old the copy may be when something moves
EVERY_S = 5.0
#: what does not move is shown again after so long
AGAIN_S = 3600.0
#: what does not move is looked at again after so long, as others see it
LOOK_S = 30.0
#: lanes that a round looks at, or those of one stream if it has more: ten thousand take a minute
LANES_A_LOOK = 1000
#: a use case in trouble is tried again after so long
TROUBLE_S = 30.0
#: streams that one turn looks at: about a millisecond
STREAMS_A_TURN = 500

#: where topics of Kafka are shown, and where those of connections are
GROUP, LEASE_TABLE = "consumer group", "lease table"

#: next offsets by lane
Offsets = dict[str, Place]


@dataclass(slots=True)
class _Round:
    """What is to be done for one use case."""

    #: to be shown
    news: Offsets = field(default_factory=dict)
    #: to be held against what others see
    idle: Offsets = field(default_factory=dict)


#: by use case
Batch = dict[str, _Round]


@dataclass(slots=True)
class _Shown:
    """What other tools see of a stream."""

    #: whose offsets these are; Kafka forgets them with the topic
    topic_id: str | None
    #: monotonic second at which all of it was shown
    whole_at_s: float
    #: monotonic second at which any of it was shown or looked at last
    looked_at_s: float
    offsets: Offsets


class _Came(NamedTuple):
    """What came of a round."""

    #: use case -> why it failed; None if it did not
    why: dict[str, str | None]
    #: no broker answered
    is_down: bool


def _one_thread() -> Executor:
    return one_thread("mirror")


@dataclass(slots=True)
class Mirror:
    """Keeps a copy of a board's positions."""

    mirror: PositionsMirror
    board: Board
    #: what other tools look at
    what: str = GROUP
    _pool: Executor = field(default_factory=_one_thread)
    _running: Future[_Came] | None = None
    #: no broker answered in the last round
    _is_down: bool = False
    _due_s: float = float("-inf")
    #: streams of this round that are still to be looked at; None between two rounds
    _left: Iterator[StreamId] | None = None
    #: what this round has found
    _batch: Batch = field(default_factory=dict)
    #: lanes that it may still look at
    _looks_left: int = 0
    #: number of the stream at which the next round begins
    _first: int = 0
    _shown: dict[StreamId, _Shown] = field(default_factory=dict)
    #: use case that is in trouble -> second at which it is tried again
    _troubles: dict[str, float] = field(default_factory=dict)

    def poll(self, now_s: float) -> None:
        """Look at some streams, and hand over what a whole round has found; never waits."""
        if self._left is None:
            if now_s < self._due_s or not self._done(now_s):
                return
            self._due_s = now_s + EVERY_S
            self._begin()
        assert self._left is not None
        some = list(islice(self._left, STREAMS_A_TURN))
        for name in some:
            self._note(name, now_s)
        if len(some) < STREAMS_A_TURN:
            self._left = None
            if self._batch:
                self._running = self._pool.submit(_show, self.mirror, self._batch, self.what)

    def finish(self, now_s: float, until_s: float) -> bool:
        """Show how far everything came, and wait for that; for a driver that ends.

        A cluster that does not answer is waited for once, and nothing for longer than its time: a
        driver is to end, and the next one shows the same.

        Args:
            now_s: of the driver's clock.
            until_s: the monotonic second up to which to wait.

        Returns:
            Whether nothing is on its way any more.
        """
        if self._end_round(now_s, until_s) and not self._is_down:
            # There is no later: what is in trouble is tried once more as well.
            self._troubles = dict.fromkeys(self._troubles, now_s)
            self._due_s = now_s
            self.poll(now_s)
            self._end_round(now_s, until_s)
        return ended(self._pool, [self._running], until_s)

    def _end_round(self, now_s: float, until_s: float) -> bool:
        """Look at what is left of the round under way, and wait for it; whether it is over."""
        while self._came(now_s, until_s):
            if self._left is None:
                return True
            self.poll(now_s)
        return False

    def _came(self, now_s: float, until_s: float) -> bool:
        """Wait for what is on its way; whether it came back in time."""
        if self._running is not None:
            with suppress(TimeoutError):
                self._running.exception(max(0.0, until_s - time.monotonic()))
        return self._done(now_s)

    def _done(self, now_s: float) -> bool:
        """Whether nothing is on its way; what came back is taken in."""
        if self._running is None:
            return True
        if not self._running.done():
            return False
        (came, self._is_down), self._running = self._running.result(), None
        for name, why in came.items():
            if why is None:
                if self._troubles.pop(name, None):
                    log.info("positions are shown again", mirror=self.what, use_case=name)
                continue
            if name not in self._troubles:
                log.warning("positions are not shown", mirror=self.what, use_case=name, error=why)
            self._troubles[name] = now_s + TROUBLE_S
        failed = {name for name, why in came.items() if why is not None}
        for stream in [stream for stream in self._shown if stream.use_case in failed]:
            del self._shown[stream]
        return True

    def _begin(self) -> None:
        for gone in self._shown.keys() - self.board.streams.keys():
            del self._shown[gone]
        names = list(self.board.streams)
        # It begins where the last one stopped to look, or the first would be due again before all
        # had their turn.
        first = self._first % max(1, len(names))
        self._left, self._first = iter(names[first:] + names[:first]), first
        self._batch, self._looks_left = {}, LANES_A_LOOK

    def _note(self, name: StreamId, now_s: float) -> None:
        self._first += self._looks_left > 0
        held = self.board.streams.get(name)
        if held is None or held.state is State.REMOVED or held.deployment.until is not None:
            return
        if (connection_of(held.stream.topic) is None) != (self.what == GROUP):
            return  # these tools know nothing of it
        if now_s < self._troubles.get(name.use_case, now_s):
            return
        news = self._news(held, now_s)
        shown = self._shown[name]
        if news:
            shown.looked_at_s = now_s
            self._batch.setdefault(name.use_case, _Round()).news.update(news)
        elif self._looks_left > 0 and now_s - shown.looked_at_s >= LOOK_S:
            shown.looked_at_s = now_s
            self._looks_left -= len(shown.offsets)
            self._batch.setdefault(name.use_case, _Round()).idle.update(shown.offsets)

    def _news(self, held: HeldStream, now_s: float) -> Offsets:
        """Offsets of a stream that are not shown, or were not for long; they count as shown."""
        offsets = {name: lane.position for name, lane in held.lanes.items()}
        if held.is_divided:
            offsets = least_places(offsets)
        before, topic_id = self._shown.get(held.stream.id), held.stream.topic_id
        is_fresh = before is not None and now_s - before.whole_at_s < AGAIN_S
        if before is None or not is_fresh or before.topic_id != topic_id:
            self._shown[held.stream.id] = _Shown(topic_id, now_s, now_s, offsets)
            return offsets
        if before.offsets == offsets:
            return {}
        news = {lane: at for lane, at in offsets.items() if before.offsets.get(lane) != at}
        before.offsets = offsets
        return news


def _show(mirror: PositionsMirror, batch: Mapping[str, _Round], what: str) -> _Came:
    """Hand a batch over, and put right what idles, in a thread of its own."""
    came: dict[str, str | None] = {}
    down: str | None = None
    for use_case, todo in batch.items():
        came[use_case] = down
        if down is not None:
            continue  # each would wait its whole time for a broker that does not answer
        try:
            if todo.news:
                mirror.show(use_case, todo.news)
            if todo.idle:
                _put_right(mirror, use_case, todo.idle, what)
        except BrokerUnavailable as error:
            came[use_case] = down = str(error)
        except HeadraceError as error:
            came[use_case] = str(error)
    return _Came(came, down is not None)


def _put_right(mirror: PositionsMirror, use_case: str, offsets: Offsets, what: str) -> None:
    seen = mirror.look(use_case, offsets)
    wrong = {name: at for name, at in offsets.items() if seen.get(name) != at}
    if wrong:
        mirror.show(use_case, wrong)
        log.info("other positions were shown", mirror=what, use_case=use_case, lanes=len(wrong))
