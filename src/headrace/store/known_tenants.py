"""Which tenants there are, asked by tasks for every few thousand records.

A task has names out of records, which may be anything, and wants to know which are tenants. All
names of customers are read together and kept for some seconds; the reserved tenant is none. A name
that is not among them is no reason to refuse a record: its tenant may have been added since. So
such names are asked for, by themselves where they are few: reading all for one stranger in each
slice would take longer than dividing the slice.

A stranger often comes again, so it is remembered for a second that a name was nobody's. Whoever
adds a tenant whose records are there already waits so long before they count.

Weights, states and throttles are not told here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final

from sqlalchemy import select

from headrace.model.streams import TENANT_NAME, State
from headrace.ports import Connections
from headrace.store.database import Database
from headrace.store.positions import database_of
from headrace.store.schema import tenants

#: a removed tenant is known for so long at most
KEPT_S: Final = 5.0
#: a name that was nobody's is not asked for again for so long
STRANGE_S: Final = 1.0
#: names that are asked for by themselves; for more of them all are read
_MOST_ASKED: Final = 200
#: names that were nobody's and are remembered
_MOST_STRANGE: Final = 10_000


@dataclass(slots=True)
class SqlTenants:
    """``headrace.ports.Tenants`` of one store."""

    database: Database
    clock: Callable[[], float] = time.monotonic
    _names: frozenset[str] = frozenset()
    _read_s: float = float("-inf")
    #: names that were nobody's, and when that was asked; the oldest are first
    _strange: dict[str, float] = field(default_factory=dict)

    def there(self, names: Collection[str]) -> frozenset[str]:
        """Those of these names that are tenants now, or were 5 s ago.

        One that was asked for when it was nobody's is believed to be so for a second.

        Raises:
            StoreUnavailable: nobody can say now.
        """
        now_s = self.clock()
        if now_s - self._read_s > KEPT_S:
            self._names, self._read_s = self._read(None), now_s
        wanted = frozenset(names)
        self._forget(now_s)
        new = [name for name in wanted - self._names if self._may_be_added(name)]
        if new:
            if len(new) > _MOST_ASKED:
                self._names, self._read_s = self._read(None), now_s
            else:
                self._names |= self._read(new)
            self._remember((name for name in new if name not in self._names), now_s)
        return wanted & self._names

    def _may_be_added(self, name: str) -> bool:
        return name not in self._strange and TENANT_NAME.fullmatch(name) is not None

    def _remember(self, strange: Iterable[str], now_s: float) -> None:
        self._strange.update((name, now_s) for name in strange)
        for name in list(islice(self._strange, max(0, len(self._strange) - _MOST_STRANGE))):
            del self._strange[name]

    def _forget(self, now_s: float) -> None:
        old = takewhile(lambda name: now_s - self._strange[name] >= STRANGE_S, self._strange)
        for name in list(old):
            del self._strange[name]

    def _read(self, names: Collection[str] | None) -> frozenset[str]:
        """Those of these that are tenants; of None all."""
        is_there = tenants.c.state != State.REMOVED.value
        asked = select(tenants.c.name).where(is_there, tenants.c.reserved.is_(False))
        if names is not None:
            asked = asked.where(tenants.c.name.in_(names))
        with self.database.read() as connection:
            return frozenset(connection.scalars(asked))


@dataclass(frozen=True)
class SqlTenantsFactory:
    """``headrace.ports.TenantsFactory``: carries nothing, so it travels anywhere."""

    def open(self, connections: Connections) -> SqlTenants:
        """The tenants of the store at ``connections.database_url``; contacts nobody yet."""
        return SqlTenants(database_of(os.getpid(), connections.database_url))
