"""The audit log in the store's database: a ring of the last lines.

Refused attempts are noted too, so somebody who only wants to do harm can make lines; the log must
not fill the store's disk for that. So it keeps the newest 100,000 lines, each of them cut to a few
kilobytes, and drops the oldest with each new one. Who needs more sends the same lines, which are
logged as well, to a place of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

from sqlalchemy import Connection, delete, func, insert, select

from headrace.model.credentials import CHANGES_KEPT, Change
from headrace.model.streams import TENANT_NAME
from headrace.store.database import Database
from headrace.store.pairs import portions
from headrace.store.schema import audit, tenants


class SqlAudit:
    """``headrace.ports.Audit`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database, most_lines: int = CHANGES_KEPT) -> None:
        self._database = database
        self._most_lines = most_lines

    def note(self, *changes: Change) -> None:
        """Add lines, and drop those that are too old."""
        with self._database.write() as connection:
            generations = _generations(connection, {change.tenant for change in changes})
            rows = [
                {**asdict(change.shortened()), "generation": generations.get(change.tenant)}
                for change in changes
            ]
            for row in rows:
                del row["id"]
            connection.execute(insert(audit), rows)
            newest = connection.scalars(select(func.max(audit.c.id))).one()
            connection.execute(delete(audit).where(audit.c.id <= newest - self._most_lines))

    def changes(
        self, *, tenant: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[Change]:
        """Newest first: of one tenant or of all, with ids below ``before``."""
        asked = select(audit).order_by(audit.c.id.desc()).limit(limit)
        if tenant is not None:
            asked = asked.where(audit.c.tenant == tenant)
        if before is not None:
            asked = asked.where(audit.c.id < before)
        with self._database.read() as connection:
            return [Change(**row) for row in connection.execute(asked).mappings()]


def _generations(
    connection: Connection, names: Collection[str | None]
) -> dict[str | None, int | None]:
    # Callers choose the word, and not every text can be looked for in a database.
    known = sorted(name for name in names if name is not None and TENANT_NAME.fullmatch(name))
    found: dict[str | None, int | None] = {}
    for some in portions(known):
        asked = select(tenants.c.name, tenants.c.generation).where(tenants.c.name.in_(some))
        rows = connection.execute(asked)
        found |= {row.name: row.generation for row in rows}
    return found
