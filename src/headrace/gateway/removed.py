"""Tenants that were removed, so that their events are refused while their keys may still work.

The store is asked every few seconds while events come, never while one waits. When it does not
answer, what it said last holds: a gateway goes on without the store for as long as Kafka is there.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from headrace.doors.outage import Outage
from headrace.errors import HeadraceError
from headrace.model.streams import State
from headrace.ports import Store

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 5.0


class RemovedTenants:
    """Whether a tenant was removed, as the store said at most some seconds ago."""

    def __init__(self, store: Store) -> None:
        """Look once; ``StoreUnavailable`` if the store does not answer."""
        self._store = store
        self._names = self._look()
        self._looked_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._outage = Outage()

    def __call__(self, tenant: str) -> bool:
        """Whether it was; called on an event loop."""
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S and self._task is None:
            self._task = asyncio.ensure_future(self._look_again())
        return tenant in self._names

    async def _look_again(self) -> None:
        try:
            self._names = await asyncio.to_thread(self._look)
        except HeadraceError as error:
            if self._outage.begins():
                log.warning("tenants are not known anew", error=str(error))
        else:
            if self._outage.ends():
                log.info("tenants are known anew")
        finally:
            self._looked_s = time.monotonic()
            self._task = None

    def _look(self) -> frozenset[str]:
        return frozenset(each.name for each in self._store.tenants() if each.state is State.REMOVED)
