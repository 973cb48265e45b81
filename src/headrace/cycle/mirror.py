"""Showing positions to other tools, beside the loop and never in it.

People watch lag with the tools they have. So a copy of the positions is kept where those look
(`ports/mirror.py`); it is never read back, and nothing waits for it. Every few seconds a turn notes
which positions have changed, and a thread of its own hands them over; as long as that thread is
busy the next note waits, so a slow broker makes the copy older and no turn longer. What idles is
shown again now and then, since Kafka forgets offsets that nobody sets.

Trouble is logged once until it is over. The copy of a use case in trouble is tried again every half
minute, whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog

from headrace.cycle.board import Board, HeldStream
from headrace.errors import BrokerUnavailable, HeadraceError
from headrace.model.streams import State, StreamId
from headrace.ports import PositionsMirror, TopicPartition

log = structlog.get_logger(__name__)

#: how old the copy may be when something moves
EVERY_S = 5.0
#: what does not move is shown again after so long
AGAIN_S = 3600.0
#: a use case in trouble is tried again after so long
TROUBLE_S = 30.0

#: use case -> next offsets
Batch = dict[str, dict[TopicPartition, int]]


@dataclass(slots=True)
class _Shown:
    """What other tools see of a stream."""

    #: monotonic second at which all of it was shown
    whole_at_s: float
    #: by partition
    offsets: dict[int, int]


def _one_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="headrace-mirror")


@dataclass(slots=True)
class Mirror:
    """Keeps a copy of a board's positions."""

    mirror: PositionsMirror
    board: Board
    _pool: ThreadPoolExecutor = field(default_factory=_one_thread)
    _running: Future[dict[str, str | None]] | None = None
    _due_s: float = float("-inf")
    _shown: dict[StreamId, _Shown] = field(default_factory=dict)
    #: use case that is in trouble -> second at which it is tried again
    _troubles: dict[str, float] = field(default_factory=dict)

    def look(self, now_s: float) -> None:
        """Hand over what has changed, if it is time to and nothing is on its way; never waits."""
        if now_s < self._due_s or not self._done(now_s):
            return
        self._due_s = now_s + EVERY_S
        batch = self._changed(now_s)
        if batch:
            self._running = self._pool.submit(_show, self.mirror, batch)

    def finish(self, now_s: float) -> None:
        """Show how far everything came, and wait for that; for a driver that ends."""
        if self._running is not None:
            self._running.exception()
        self._due_s = now_s
        self.look(now_s)
        self._pool.shutdown(wait=True)
        self._done(now_s)

    def _done(self, now_s: float) -> bool:
        """Whether nothing is on its way; what came back is taken in."""
        if self._running is None:
            return True
        if not self._running.done():
            return False
        came, self._running = self._running.result(), None
        for name, why in came.items():
            if why is None:
                if self._troubles.pop(name, None):
                    log.info("consumer group shows positions again", use_case=name)
                continue
            if name not in self._troubles:
                log.warning("consumer group does not show positions", use_case=name, error=why)
            self._troubles[name] = now_s + TROUBLE_S
        failed = {name for name, why in came.items() if why is not None}
        for stream in [each for each in self._shown if each.use_case in failed]:
            del self._shown[stream]
        return True

    def _changed(self, now_s: float) -> Batch:
        for gone in self._shown.keys() - self.board.streams.keys():
            del self._shown[gone]
        batch: Batch = {}
        for name, held in self.board.streams.items():
            if held.state is State.REMOVED or now_s < self._troubles.get(name.use_case, now_s):
                continue
            offsets = self._news(held, now_s)
            if offsets:
                of_use_case = batch.setdefault(name.use_case, {})
                topic = held.stream.topic
                of_use_case |= {TopicPartition(topic, at): offsets[at] for at in offsets}
        return batch

    def _news(self, held: HeldStream, now_s: float) -> dict[int, int]:
        """Offsets of a stream that are not shown, or were not for long; they count as shown."""
        offsets = {number: lane.position for number, lane in held.lanes.items()}
        before = self._shown.get(held.stream.id)
        if before is None or now_s - before.whole_at_s >= AGAIN_S:
            self._shown[held.stream.id] = _Shown(now_s, offsets)
            return offsets
        if before.offsets == offsets:
            return {}
        news = {at: each for at, each in offsets.items() if before.offsets.get(at) != each}
        before.offsets = offsets
        return news


def _show(
    mirror: PositionsMirror, batch: Mapping[str, Mapping[TopicPartition, int]]
) -> dict[str, str | None]:
    """Hand a batch over, in a thread of its own; by use case why it failed, None if it did not."""
    came: dict[str, str | None] = {}
    down: str | None = None
    for use_case, offsets in batch.items():
        came[use_case] = down
        if down is not None:
            continue  # each would wait its whole time for a broker that does not answer
        try:
            mirror.show(use_case, offsets)
        except BrokerUnavailable as error:
            came[use_case] = down = str(error)
        except HeadraceError as error:
            came[use_case] = str(error)
    return came
