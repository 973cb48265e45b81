"""The rows of a sink's table: what a handler's table must be like, and how it is written.

Where they go, and what else is in the transaction, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from headrace.connectors.columns import check_columns
from headrace.connectors.newest import returned, settled, stamped
from headrace.connectors.outcomes import failed, told
from headrace.connectors.sql.errors import translated
from headrace.connectors.sql.statement import kept_upsert_sql, rows_of
from headrace.errors import SinkRefused
from headrace.ports import Effect, Written


@dataclass(frozen=True, slots=True)
class Rows:
    """A table as its sink describes it."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    update: Mapping[str, str] | None
    #: what messages call it
    where: str
    #: the columns that tell which row of a key is newer, and that it is gone
    newest_by: str | None = None
    delete_by: str | None = None

    def wrong(self, effects: Sequence[Effect]) -> Iterator[tuple[int, Written]]:
        """Effects, by their place, whose tables do not have the columns."""
        right = None
        for index, effect in enumerate(effects):
            schema = effect.output.schema
            nothing = effect.output.num_columns == effect.output.num_rows == 0
            if nothing or (right is not None and schema.equals(right)):
                continue
            try:
                self.check_columns(schema)
                right = schema
            except Exception as error:
                yield index, failed(error, self.where)

    def check_columns(self, schema: pa.Schema) -> None:
        """See that a handler's table has the columns.

        Raises:
            WrongSchema: the message names the column.
        """
        must, may = returned(self.columns)
        check_columns(schema, must, self.where, may)

    def insert(self, connection: Connection, effects: Sequence[Effect]) -> None:
        """Write the rows of effects, in order.

        Raises:
            SinkRefused: a value cannot be written; nothing may be kept of any of them.
            SinkUnavailable: not now.
            TargetMissing: a column of versions is to be filled, and there are none.
        """
        dialect = connection.dialect.name
        statement = kept_upsert_sql(
            self.name, self.columns, self.key, self.update, dialect, self.newest_by
        )
        tables = [self._stamped(e.output, e.version) for e in effects if e.output.num_rows]
        rows = self.bound(tables, dialect)
        if not rows:
            return
        try:
            connection.exec_driver_sql(statement, rows)
        except DBAPIError as error:
            raise translated(error, self.where) from error
        except Exception as error:  # a driver raises its own of a value that it cannot bind
            raise told(error, self.where) from error

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit, such as an amount with a digit too many.
        """
        self.check_columns(output.schema)
        self.bound([self._stamped(output, 0)], "postgresql")

    def _stamped(self, table: pa.Table, version: int | None) -> pa.Table:
        if self.newest_by is None:
            return table
        table = stamped(table, self.columns, version, self.where)
        return settled(table, self.newest_by, self.delete_by, self.key, self.where)

    def bound(self, tables: Sequence[pa.Table], dialect: str) -> list[tuple[Any, ...]]:
        """The values of tables as a database takes them.

        Raises:
            SinkRefused: one does not fit its column, or a row has no key.
        """
        for table in tables:
            for column in self.key:
                if table.column(column).null_count:
                    # Some databases number it themselves, and the next record has that number.
                    raise SinkRefused(
                        f"{self.where}: a row has null in column {column!r}, which is of its key"
                    )
        try:
            return rows_of(tables, self.columns, dialect)
        except (ValueError, OverflowError, pa.ArrowException) as error:
            # Such as a date after the year 9999; it must not stop the other tenants.
            raise SinkRefused(f"{self.where}: a value cannot be written: {error}") from error
        except Exception as error:
            raise told(error, self.where) from error
