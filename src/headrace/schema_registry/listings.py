"""One list at a time for each tenant, so that whoever asks for many holds up nobody else.

A list of schemas is megabytes, and one process puts together what all tenants ask for. So the lists
of a tenant are made one after the other, and the next ones wait without a thread. Who asks for more
than a few at once is told to come again. Operators and viewers are few, and go at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.doors.problems import too_many

_MOST_AT_ONCE = 4
_COME_AGAIN_S = 1.0


class Listings:
    """Gives turns to those who ask for lists; for one event loop."""

    def __init__(self, most_at_once: int = _MOST_AT_ONCE) -> None:
        """Nobody asks yet; take how many lists of one tenant are made or wait."""
        self._most_at_once = most_at_once
        self._asking: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def of(self, tenant: str | None) -> AsyncIterator[None]:
        """The turn of a tenant.

        Raises:
            Problem: it asks for too many at once.
        """
        if tenant is None:
            yield
            return
        if self._asking[tenant] >= self._most_at_once:
            raise too_many("too many lists of this tenant at once", _COME_AGAIN_S)
        self._asking[tenant] += 1
        try:
            async with self._turns.setdefault(tenant, asyncio.Lock()):
                yield
        finally:
            self._asking[tenant] -= 1
            if not self._asking[tenant]:
                del self._asking[tenant], self._turns[tenant]
