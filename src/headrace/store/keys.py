"""API keys in the store's database.

A key that was copied out of the database must open no door, so only its digest is here; and a key
must not outlive its tenant, or whoever had it would open the door of the next tenant of that name,
so removing a tenant drops its keys in the same transaction (``drop_of``).

What a key looks like and how it is checked is in ``doors/``. Keys are nothing that drivers look
at, so they do not raise the revision.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from headrace.errors import (
    ConfigError,
    UnknownName,
    ended_key,
    last_key,
    no_customer,
    no_tenant,
    tenant_removed,
)
from headrace.model.credentials import Key, Role, is_last
from headrace.model.everyone import EVERYONE, may_be_customer
from headrace.model.streams import TENANT_NAME, State
from headrace.store.database import Database
from headrace.store.schema import keys, tenants
from headrace.store.tenant_rows import of_row

_COLUMNS = [field.name for field in fields(Key)]


class SqlKeys:
    """``headrace.ports.Keys`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: Key) -> None:
        """Keep a new key of nobody, or of a tenant that is there."""
        with self._database.write() as connection:
            _add(connection, key)

    def find(self, prefix: str) -> Key | None:
        """The key of this prefix, working or not."""
        with self._database.read() as connection:
            row = connection.execute(select(keys).where(keys.c.prefix == prefix)).first()
        return None if row is None else _key(row)

    def every(self, tenant: str | None = None) -> list[Key]:
        """All keys, or those of one tenant, by time of creation."""
        asked = select(keys).order_by(keys.c.created_at_s, keys.c.prefix)
        if tenant is not None:
            # Callers choose it, and not every text can be looked for in a database.
            if not TENANT_NAME.fullmatch(tenant):
                return []
            asked = asked.where(keys.c.tenant == tenant)
        with self._database.read() as connection:
            return [_key(row) for row in connection.execute(asked)]

    def succeed(self, prefix: str, successor: Key, at_s: float, *, overlap_s: float) -> None:
        """Keep a key that takes the place of another one, both or neither."""
        asked = select(keys).where(keys.c.prefix == prefix).with_for_update()
        with self._database.write() as connection:
            _add(connection, successor)
            row = connection.execute(asked).first()
            if row is None:
                raise _unknown(prefix)
            if not _key(row).works(at_s):
                raise ended_key(prefix)
            old = _key(row).ended(at_s, overlap_s)
            ends = {"expires_at_s": old.expires_at_s, "revoked_at_s": old.revoked_at_s}
            connection.execute(update(keys).where(keys.c.prefix == prefix).values(ends))

    def revoke(self, prefix: str, at_s: float, *, spare: Role | None = None) -> None:
        """End a key at once, but not the last one of a role that is to be spared."""
        works = keys.c.revoked_at_s.is_(None)
        with self._database.write() as connection:
            _check_known(connection, prefix)
            if spare is not None:
                _check_spared(connection, prefix, at_s, spare)
            ends = update(keys).where(keys.c.prefix == prefix, works).values(revoked_at_s=at_s)
            connection.execute(ends)

    def added_again_s(self, tenant: str) -> float | None:
        """Since when a name is that of the tenant who has it now; None: since ever."""
        asked = select(tenants.c.added_again_s).where(tenants.c.name == tenant)
        with self._database.read() as connection:
            return connection.scalar(asked)

    def may_be_customer(self, name: str) -> bool:
        """Whether a credential can be of this name."""
        if name != EVERYONE:
            return True  # and no text of a caller gets to the database
        with self._database.read() as connection:
            row = connection.execute(select(tenants).where(tenants.c.name == name)).first()
        return may_be_customer(name, None if row is None else of_row(row))


def drop_of(connection: Connection, tenant: str) -> None:
    """Forget the keys of a tenant, whose row the caller has locked."""
    connection.execute(delete(keys).where(keys.c.tenant == tenant))


def _add(connection: Connection, key: Key) -> None:
    if key.tenant is not None:
        _check_tenant(connection, key.tenant)
    if connection.scalar(select(keys.c.prefix).where(keys.c.prefix == key.prefix)):
        raise ConfigError(f"there is a key {key.prefix} already; make another one")
    row = {name: getattr(key, name) for name in _COLUMNS}
    connection.execute(insert(keys).values(row | {"role": key.role.value}))


def _check_tenant(connection: Connection, tenant: str) -> None:
    # Under the lock of the tenant's row, or a removal at this moment would miss the new key.
    asked = select(tenants).where(tenants.c.name == tenant).with_for_update()
    row = connection.execute(asked).first()
    known = None if row is None else of_row(row)
    if not may_be_customer(tenant, known):
        raise no_customer(tenant)
    if known is None:
        raise no_tenant(tenant)
    if known.state is State.REMOVED:
        raise tenant_removed(tenant)


def _check_known(connection: Connection, prefix: str) -> None:
    if connection.scalar(select(keys.c.prefix).where(keys.c.prefix == prefix)) is None:
        raise _unknown(prefix)


def _unknown(prefix: str) -> UnknownName:
    return UnknownName(f"there is no key {prefix}; 'headrace keys list' shows them")


def _check_spared(connection: Connection, prefix: str, at_s: float, role: Role) -> None:
    # Under the lock of all of them: who revokes another one at this moment waits, and sees.
    asked = select(keys).where(keys.c.role == role.value, keys.c.revoked_at_s.is_(None))
    rows = connection.execute(asked.order_by(keys.c.prefix).with_for_update())
    found = {row.prefix: _key(row) for row in rows}
    if prefix in found and is_last(found[prefix], found.values(), role, at_s):
        raise last_key(role)


def _key(row: Row[Any]) -> Key:
    values = {name: getattr(row, name) for name in _COLUMNS}
    return Key(**values | {"role": Role(row.role)})
