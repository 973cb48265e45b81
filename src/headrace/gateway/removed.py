"""Tenants that were removed, so that their events are refused while their keys may still work.

A name may be given to another customer, who must not be answered what the one before was. So it is
also known which of the tenants of a name there is now.

The store is asked every few seconds while events come. One with an Idempotency-Key waits for it,
and so does the first after a pause, since what is known is as old as that; a second at most. Before
a remembered answer is given again the store is asked anew. When it does not answer, what it said
last holds: a gateway goes on without the store for as long as Kafka is there.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import structlog

from headrace.doors.outage import Outage
from headrace.errors import HeadraceError
from headrace.model.everyone import EVERYONE, may_be_customer
from headrace.model.streams import State
from headrace.ports import Store

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 5.0
#: there was a pause: while events come, a look is never this long ago
_OLD_S = 10.0
#: least time between the beginnings of two looks, however many ask for one
_LEAST_S = 0.1
#: a look that takes longer is waited for by nobody
_PATIENCE_S = 1.0


class _Told(NamedTuple):
    """What the store said."""

    #: and the name that no customer has, where that is so
    removed: frozenset[str]
    #: of each name that was given again
    generations: dict[str, int]


class RemovedTenants:
    """Whether a tenant was removed, as the store said at most some seconds ago."""

    def __init__(self, store: Store) -> None:
        """Look once; ``StoreUnavailable`` if the store does not answer."""
        self._store = store
        self._revision = -1
        self._told = _Told(frozenset(), {})
        self._told = self._look()
        #: when the last look ended and began, and when the one that told began
        self._looked_s = self._began_s = self._told_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._outage = Outage()

    async def __call__(self, tenant: str) -> bool:
        """Whether it was."""
        is_old = time.monotonic() - self._looked_s >= _OLD_S
        self._look_if_old()
        if is_old:
            await self._end_of_look()
        return tenant in self._told.removed

    async def generation(self, tenant: str, *, anew: bool = False) -> int:
        """Which of the tenants of this name it is; another one after it was added again.

        Args:
            tenant: the name.
            anew: as the store says it now, and not some seconds ago.
        """
        if anew:
            await self._looked_after(time.monotonic())
        else:
            self._look_if_old()
            await self._end_of_look()
        return self._told.generations.get(tenant, 0)

    async def _looked_after(self, since_s: float) -> None:
        # One may be under way that began too early.
        for _ in range(2):
            if self._task is None:
                await asyncio.sleep(max(0.0, self._began_s + _LEAST_S - time.monotonic()))
            if self._told_s >= since_s:
                return
            self._begin()
            await self._end_of_look()

    async def _end_of_look(self) -> None:
        left_s = self._began_s + _PATIENCE_S - time.monotonic()
        if self._task is not None and left_s > 0:
            await asyncio.wait({self._task}, timeout=left_s)

    def _look_if_old(self) -> None:
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            self._begin()

    def _begin(self) -> None:
        if self._task is None:
            self._began_s = time.monotonic()
            self._task = asyncio.ensure_future(self._look_again())

    async def _look_again(self) -> None:
        try:
            self._told = await asyncio.to_thread(self._look)
            self._told_s = self._began_s
        except HeadraceError as error:
            if self._outage.begins():
                log.warning("tenants are not known anew", error=str(error))
        else:
            if self._outage.ends():
                log.info("tenants are known anew")
        finally:
            self._looked_s = time.monotonic()
            self._task = None

    def _look(self) -> _Told:
        # Of ten thousand tenants a look takes long, and mostly nothing has changed.
        revision = self._store.revision()
        if revision == self._revision:
            return self._told
        tenants = self._store.registry.tenants()
        gone = {tenant.name for tenant in tenants if tenant.state is State.REMOVED}
        known = next((tenant for tenant in tenants if tenant.name == EVERYONE), None)
        if not may_be_customer(EVERYONE, known):
            gone.add(EVERYONE)
        self._revision = revision
        return _Told(
            frozenset(gone),
            {tenant.name: tenant.generation for tenant in tenants if tenant.generation},
        )
