"""Which tenants there are, for code inside tasks that must not believe what a record says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from headrace.ports.connections import Connections


class Tenants(Protocol):
    """The tenants that an operator added. Used inside tasks, by one thread at a time."""

    def there(self, names: Collection[str]) -> frozenset[str]:
        """Those of these names that are tenants, active or suspended.

        One that was added before the call is known, or is within a second if its name was asked
        for before it was added. One that was removed may be known for some seconds.

        Raises:
            StoreUnavailable: nobody can say now.
        """


class TenantsFactory(Protocol):
    """Makes the tenants of a worker. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> Tenants:
        """Called at most once per worker for equal connections; must not contact anybody yet."""


@dataclass(frozen=True, slots=True)
class NoTenants:
    """Where nobody can be asked: no name is a tenant's."""

    def open(self, connections: Connections) -> NoTenants:
        """Itself."""
        del connections
        return self

    def there(self, names: Collection[str]) -> frozenset[str]:
        """None of them."""
        del names
        return frozenset()
