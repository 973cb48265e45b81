"""A credential that was right a moment ago is looked up again, and holds nobody up.

The store behind a door may refuse, and it may also hang: for the ten seconds of a connection, for
the minute of a statement. Whoever was let in before is not to wait that long at each request, nor
in a line with strangers, of whom anybody can make as many as there are threads. So what is looked
up again has threads of its own, is looked up by one request at a time, and that one waits a second
for it; everybody else, and it from then on, goes on with what was known. What the look finds in the
end counts for the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from headrace.model.credentials import Caller

#: how long a look is waited for by whoever is believed without it
PATIENCE_S = 1.0
_THREADS = 40


class Renewals:
    """Looks that are under way, by credential. Used on the event loop alone."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        """Take how long a look is waited for."""
        self._patience_s = patience_s
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._under_way: dict[str, asyncio.Future[Caller]] = {}

    async def renewed(self, name: str, believed: Caller, look: Callable[[], Caller]) -> Caller:
        """The caller as a look says now, or as he was believed where that takes too long.

        Args:
            name: the credential, or what stands for it.
            believed: who showed it a while ago.
            look: looks it up; may take long.

        Raises:
            Exception: what the look raises, if that is in time.
        """
        if name in self._under_way:
            return believed
        task = asyncio.ensure_future(anyio.to_thread.run_sync(look, limiter=self._threads))
        self._under_way[name] = task
        task.add_done_callback(lambda over: self._over(name, over))
        done, _ = await asyncio.wait([task], timeout=self._patience_s)
        return task.result() if done else believed

    def _over(self, name: str, task: asyncio.Future[Caller]) -> None:
        del self._under_way[name]
        if not task.cancelled():
            task.exception()  # the look has done what follows from it, and nobody may be waiting
