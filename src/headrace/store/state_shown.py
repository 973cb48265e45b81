"""State of keys as people look at it: how much there is, and rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, func, or_, select

from headrace.model.state import StateRow, StateSize
from headrace.model.streams import StreamId
from headrace.store.database import Database
from headrace.store.pairs import of, portions
from headrace.store.schema import state_rows, state_sizes
from headrace.store.state import parts


class SqlKeptState:
    """``headrace.ports.KeptState`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sizes(self, tenant: str | None = None) -> dict[StreamId, StateSize]:
        """How much each stream has, by tenant and use case."""
        column = state_sizes.c
        rows, bytes_ = func.sum(column.row_count), func.sum(column.byte_count)
        asked = select(column.use_case, column.tenant, rows, bytes_)
        if tenant is not None:
            asked = asked.where(column.tenant == tenant)
        asked = asked.group_by(column.use_case, column.tenant).having(rows > 0)
        with self._database.read() as connection:
            found = connection.execute(asked.order_by(column.tenant, column.use_case)).all()
        return {
            StreamId(use_case, of_tenant): StateSize(int(rows), int(bytes_))
            for use_case, of_tenant, rows, bytes_ in found
        }

    def tables(self, stream: StreamId) -> dict[str, StateSize]:
        """How much a stream has in each of its tables, by name."""
        column = state_rows.c
        bytes_ = func.sum(func.length(column.key) + func.length(column.value))
        asked = select(column.name, func.count(), bytes_).where(of(state_rows, stream))
        with self._database.read() as connection:
            found = connection.execute(asked.group_by(column.name).order_by(column.name)).all()
        return {name: StateSize(rows, int(bytes_)) for name, rows, bytes_ in found}

    def parts(self, stream: StreamId) -> set[str]:
        """The lanes of its log that ever had state."""
        with self._database.read() as connection:
            return parts(connection, stream)

    def rows(
        self,
        stream: StreamId,
        table: str,
        keys: Sequence[bytes] | None = None,
        *,
        after: tuple[str, bytes] | None = None,
        most: int = 100,
    ) -> list[StateRow]:
        """Rows of a table by part and key."""
        column = state_rows.c
        asked = select(column.part, column.key, column.value)
        asked = asked.where(of(state_rows, stream), column.name == table)
        if after is not None:
            part, key = after
            later = and_(column.part == part, column.key > key)
            asked = asked.where(or_(column.part > part, later))
        asked = asked.order_by(column.part, column.key).limit(most)
        some = [asked]
        if keys is not None:
            some = [asked.where(column.key.in_(list(few))) for few in portions(keys)]
        with self._database.read() as connection:
            found = [row for one in some for row in connection.execute(one)]
        made = [StateRow(part, bytes(key), bytes(value)) for part, key, value in found]
        return sorted(made)[:most]
