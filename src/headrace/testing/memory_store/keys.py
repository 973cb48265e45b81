"""API keys and the audit log in memory."""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import (
    ConfigError,
    UnknownName,
    ended_key,
    last_key,
    no_customer,
    no_tenant,
    tenant_removed,
)
from headrace.model.credentials import Change, Key, Role, is_last
from headrace.model.everyone import may_be_customer
from headrace.model.streams import State
from headrace.testing.memory_store.data import Data


class MemoryKeys:
    """``headrace.ports.Keys`` in memory."""

    def __init__(self, data: Data) -> None:
        self._data = data

    def add(self, key: Key) -> None:
        """Keep a new key of nobody, or of a tenant that is there."""
        with self._data.lock:
            self._add(key)

    def find(self, prefix: str) -> Key | None:
        """The key of this prefix, working or not."""
        return self._data.keys.get(prefix)

    def every(self, tenant: str | None = None) -> list[Key]:
        """All keys, or those of one tenant, by time of creation."""
        with self._data.lock:
            found = [key for key in self._data.keys.values() if tenant in (None, key.tenant)]
        return sorted(found, key=lambda key: (key.created_at_s, key.prefix))

    def succeed(self, prefix: str, successor: Key, at_s: float, *, overlap_s: float) -> None:
        """Keep a key that takes the place of another one, both or neither."""
        with self._data.lock:
            old = self._known(prefix)
            if not old.works(at_s):
                raise ended_key(prefix)
            self._add(successor)
            self._data.keys[prefix] = old.ended(at_s, overlap_s)

    def revoke(self, prefix: str, at_s: float, *, spare: Role | None = None) -> None:
        """End a key at once, but not the last one of a role that is to be spared."""
        with self._data.lock:
            key = self._known(prefix)
            if spare is not None and is_last(key, self._data.keys.values(), spare, at_s):
                raise last_key(spare)
            if key.revoked_at_s is None:
                self._data.keys[prefix] = replace(key, revoked_at_s=at_s)

    def added_again_s(self, tenant: str) -> float | None:
        """Since when a name is that of the tenant who has it now; None: since ever."""
        known = self._data.tenants.get(tenant)
        return None if known is None else known.added_again_s

    def may_be_customer(self, name: str) -> bool:
        """Whether a credential can be of this name."""
        return may_be_customer(name, self._data.tenants.get(name))

    def drop_of(self, tenant: str) -> None:
        """Forget the keys of a tenant."""
        for key in self.every(tenant):
            del self._data.keys[key.prefix]

    def _add(self, key: Key) -> None:
        if key.tenant is not None:
            tenant = self._data.tenants.get(key.tenant)
            if not may_be_customer(key.tenant, tenant):
                raise no_customer(key.tenant)
            if tenant is None:
                raise no_tenant(key.tenant)
            if tenant.state is State.REMOVED:
                raise tenant_removed(key.tenant)
        if key.prefix in self._data.keys:
            raise ConfigError(f"there is a key {key.prefix} already; make another one")
        self._data.keys[key.prefix] = key

    def _known(self, prefix: str) -> Key:
        if prefix not in self._data.keys:
            raise UnknownName(f"there is no key {prefix}; 'headrace keys list' shows them")
        return self._data.keys[prefix]


class MemoryAudit:
    """``headrace.ports.Audit`` in memory."""

    def __init__(self, data: Data) -> None:
        self._data = data

    def note(self, *changes: Change) -> None:
        """Add lines, and drop the oldest beyond what is kept."""
        with self._data.lock:
            for change in changes:
                self._data.changes_total += 1
                known = self._data.tenants.get(change.tenant or "")
                generation = None if known is None else known.generation
                number = self._data.changes_total
                line = replace(change.shortened(), id=number, generation=generation)
                self._data.changes.append(line)

    def changes(
        self, *, tenant: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[Change]:
        """Newest first: of one tenant or of all, with ids below ``before``."""
        with self._data.lock:
            newest_first = list(reversed(self._data.changes))
        found = [
            change
            for change in newest_first
            if tenant in (None, change.tenant)
            and (before is None or (change.id is not None and change.id < before))
        ]
        return found[:limit]
