"""The audit log in the store's database: a ring of the last lines.

Refused attempts are noted too, so somebody who only wants to do harm can make lines; the log must
not fill the store's disk for that. So it keeps the newest 100,000 lines, each of them cut to a few
kilobytes, and drops the oldest with each new one. Who needs more sends the same lines, which are
logged as well, to a place of their own.
"""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select

from headrace.model.credentials import CHANGES_KEPT, Change
from headrace.store.database import Database
from headrace.store.schema import audit, tenants
from headrace.store.tenants import NAME


class SqlAudit:
    """``headrace.ports.Audit`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database, most_lines: int = CHANGES_KEPT) -> None:
        self._database = database
        self._most_lines = most_lines

    def note(self, change: Change) -> None:
        """Add a line, and drop those that are too old."""
        row = asdict(change.shortened())
        del row["id"]
        with self._database.write() as connection:
            row["generation"] = _generation(connection, change.tenant)
            added = connection.execute(insert(audit).values(row))
            assert added.inserted_primary_key is not None
            number = int(added.inserted_primary_key[0])
            connection.execute(delete(audit).where(audit.c.id <= number - self._most_lines))

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


def _generation(connection: Connection, tenant: str | None) -> int | None:
    # Callers choose the word, and not every text can be looked for in a database.
    if tenant is None or not NAME.fullmatch(tenant):
        return None
    return connection.scalar(select(tenants.c.generation).where(tenants.c.name == tenant))
