"""Whether what stands behind a door answers, told to anybody at the cost of one question.

Probes have no credential, so a stranger may ask as often as he likes. Therefore what is behind the
door is asked once a second at most, and by one asker at a time. Whoever comes meanwhile waits for
the same answer, in no thread, and not for long: what has not answered by then is not ready.
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

    async def now(self) -> bool:
        """Whether it answers, as of a second ago."""
        if self._clock() < self._until_s:
            return self._ready
        if self._asking is None or self._asking.done():
            self._began_s = self._clock()
            self._asking = asyncio.create_task(self._learn())
        left_s = self._began_s + PATIENCE_S - self._clock()
        await asyncio.wait([self._asking], timeout=max(0.0, left_s))
        if not self._asking.done():
            return False
        self._asking.result()
        return self._ready

    async def _learn(self) -> None:
        try:
            self._ready = await self._ask()
        except HeadraceError:
            self._ready = False
        self._until_s = self._clock() + FRESH_S
