"""A few requests of each tenant at a time, so that whoever asks for many holds up nobody else.

One process answers all tenants, and a client that is refused at once asks again at once: fifty that
list in a loop would keep it busy with refusals alone. So of a tenant a few requests are answered at
a time, and one list among them, since a list is megabytes; the next ones wait for their turn,
without a thread, in the order in which they came. What is refused for being too much is told after
a pause. What waits keeps its place at the door, of which a tenant has a part (``doors.places``).

A key for some subjects alone is held like a tenant. Operators and viewers are few, and go at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_MOST_AT_ONCE = 4
#: until somebody who asks too much is told so
PAUSE_S = 1.0


@dataclass(slots=True)
class _Turns:
    """The turns of one tenant."""

    requests: asyncio.Semaphore
    lists: asyncio.Lock = field(default_factory=asyncio.Lock)
    asking: int = 0


class AtOnce:
    """Gives turns to those who ask; for one event loop."""

    def __init__(self, most: int = _MOST_AT_ONCE) -> None:
        """Nobody asks yet; take how many requests of one tenant are answered at a time."""
        self._most = most
        self._turns: dict[str, _Turns] = {}

    @asynccontextmanager
    async def of(self, tenant: str | None, *, lists: bool) -> AsyncIterator[None]:
        """The turn of a request of a tenant, which may be for a list; waits for it."""
        if tenant is None:
            yield
            return
        turns = self._turns.setdefault(tenant, _Turns(asyncio.Semaphore(self._most)))
        turns.asking += 1
        try:
            if lists:
                # First, so that lists which wait keep no other request waiting.
                async with turns.lists, turns.requests:
                    yield
            else:
                async with turns.requests:
                    yield
        finally:
            turns.asking -= 1
            if not turns.asking:
                del self._turns[tenant]
