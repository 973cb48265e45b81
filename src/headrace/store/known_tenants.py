"""Which tenants there are, asked by tasks for every few thousand records.

A task has names out of records, which may be anything, and wants to know which are tenants. All
names of customers are read together and kept for some seconds; the reserved tenant is none. A name
that is not among them is no reason to refuse a record: its tenant may have been added since. So
they are read once more then, however many such names there are.

Weights, states and throttles are not told here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from sqlalchemy import select

from headrace.model.streams import State
from headrace.ports import Connections
from headrace.store.database import Database
from headrace.store.positions import database_of
from headrace.store.schema import tenants

#: a removed tenant is known for so long at most
KEPT_S = 5.0


@dataclass(slots=True)
class SqlTenants:
    """``headrace.ports.Tenants`` of one store."""

    database: Database
    clock: Callable[[], float] = time.monotonic
    _names: frozenset[str] = field(default_factory=frozenset)
    _read_s: float = float("-inf")

    def there(self, names: Collection[str]) -> frozenset[str]:
        """Those of these names that are tenants now, or were 5 s ago.

        Raises:
            StoreUnavailable: nobody can say now.
        """
        wanted = frozenset(names)
        if not wanted <= self._names or self.clock() - self._read_s > KEPT_S:
            began_s = self.clock()
            self._names, self._read_s = self._read(), began_s
        return wanted & self._names

    def _read(self) -> frozenset[str]:
        is_there = tenants.c.state != State.REMOVED.value
        asked = select(tenants.c.name).where(is_there, tenants.c.reserved.is_(False))
        with self.database.read() as connection:
            return frozenset(connection.scalars(asked))


@dataclass(frozen=True)
class SqlTenantsFactory:
    """``headrace.ports.TenantsFactory``: carries nothing, so it travels anywhere."""

    def open(self, connections: Connections) -> SqlTenants:
        """The tenants of the store at ``connections.database_url``; contacts nobody yet."""
        return SqlTenants(database_of(os.getpid(), connections.database_url))
