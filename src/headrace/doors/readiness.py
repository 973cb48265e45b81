"""Whether what stands behind a door answers, told to anybody at the cost of one question.

Probes have no credential, so a stranger may ask as often as he likes. Therefore what is behind the
door is asked once a second at most, and by one asker at a time. Whoever comes meanwhile waits for
the same answer, in no thread, and not for long: what has not answered by then is not ready. Each
who waits keeps a place of the door, so only some do; the others are told the last answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from headrace.errors import HeadraceError

#: how long an answer is good for
FRESH_S = 1.0
#: what takes longer than this is not ready; a probe has a time limit of its own
PATIENCE_S = 2.0
#: who may wait for an answer at once; far more than there are probes
MOST_WAITING = 20


class Readiness:
    """The answer to all probes. Used on the event loop alone."""

    def __init__(
        self, ask: Callable[[], Awaitable[bool]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take what to ask with; an error of Headrace is a no."""
        self._ask = ask
        self._clock = clock
        self._ready = False
        self._until_s = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._began_s = float("-inf")
        self._waiting = 0

    async def now(self) -> bool:
        """Whether it answers, as of a second ago."""
        if self._clock() < self._until_s:
            return self._ready
        if self._asking is None or self._asking.done():
            self._began_s = self._clock()
            self._asking = asyncio.create_task(self._learn())
        left_s = self._began_s + PATIENCE_S - self._clock()
        if left_s > 0 and self._waiting >= MOST_WAITING:
            return self._ready
        return await self._answer_of(self._asking, max(0.0, left_s))

    async def _answer_of(self, asking: asyncio.Task[None], left_s: float) -> bool:
        self._waiting += 1
        try:
            await asyncio.wait([asking], timeout=left_s)
        finally:
            self._waiting -= 1
        if not asking.done():
            return False
        asking.result()
        return self._ready

    async def _learn(self) -> None:
        try:
            self._ready = await self._ask()
        except HeadraceError:
            self._ready = False
        self._until_s = self._clock() + FRESH_S
