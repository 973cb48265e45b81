"""From Arrow rows to one SQL statement run many times.

A thousand tenants bring a thousand tables of one or two rows, and what costs is neither the
database nor the rows but everything done once for each table. So the statement is compiled once
for a dialect in each process, and all rows go to the driver as plain tuples in one ``executemany``.

SQLAlchemy's core writes the statement; its per-row parameter processing is passed by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at
from sqlalchemy import Column, ColumnElement, Table, literal_column, or_
from sqlalchemy.dialects import postgresql, registry, sqlite

from headrace.connectors.sql import mysql_statement
from headrace.connectors.sql.kinds import table_of
from headrace.errors import ConfigError
from headrace.model.years import FIRST_US, LAST_US
from headrace.payload.exact import dates, decimals, digits_of, named


def upsert_sql(
    table: Table,
    key: Sequence[str],
    update: Mapping[str, str] | None,
    dialect: str,
    newest_by: str | None = None,
) -> str:
    """Compile the statement that writes one row, its values given by position.

    Args:
        table: the table.
        key: columns that decide whether a row is there already; none means always a new row.
        update: column to SQL expression for a row that is there; None overwrites all but the key.
        dialect: ``sqlite``, ``postgresql`` or ``mysql``.
        newest_by: a row that is there and newer by this column stays as it is; None: none does.

    Raises:
        ConfigError: the database is none of them.
    """
    if dialect == "sqlite":
        statement = _upsert(sqlite.insert(table), key, update, newest_by)
        return str(statement.compile(dialect=sqlite.dialect()))
    if dialect == "postgresql":
        positional = registry.load("postgresql.psycopg")(paramstyle="format")
        statement = _upsert(postgresql.insert(table), key, update, newest_by)
        return str(statement.compile(dialect=positional))
    if dialect == "mysql":
        return mysql_statement.upsert_sql(table, key, update, newest_by)
    raise ConfigError(
        f"table {table.name}: database {dialect!r} is none of sqlite, postgresql, mysql"
    )


def kept_upsert_sql(
    name: str,
    columns: Mapping[str, str],
    key: Sequence[str],
    update: Mapping[str, str] | None,
    dialect: str,
    newest_by: str | None = None,
) -> str:
    """``upsert_sql`` for a table so described, compiled at the first call.

    A writer is opened for each task, and what a task has to write is often a few rows.
    """
    changes = None if update is None else tuple(update.items())
    return _compiled(name, tuple(columns.items()), tuple(key), changes, dialect, newest_by)


@lru_cache(maxsize=64)
def _compiled(
    name: str,
    columns: tuple[tuple[str, str], ...],
    key: tuple[str, ...],
    update: tuple[tuple[str, str], ...] | None,
    dialect: str,
    newest_by: str | None,
) -> str:
    table = table_of(name, dict(columns), key)
    return upsert_sql(table, key, None if update is None else dict(update), dialect, newest_by)


def _upsert(
    insert: Any, key: Sequence[str], update: Mapping[str, str] | None, newest_by: str | None
) -> Any:
    statement = insert.values({column.name: None for column in insert.table.columns})
    if not key:
        return statement
    if update is None:
        columns = [column for column in insert.table.columns if column.name not in key]
        changes = {column.name: insert.excluded[column.name] for column in columns}
    else:
        changes = {name: literal_column(expression) for name, expression in update.items()}
    if not changes:
        return statement.on_conflict_do_nothing(index_elements=key)
    gives_way = None
    if newest_by is not None:
        gives_way = _is_not_newer(insert.table.columns[newest_by], insert.excluded[newest_by])
    return statement.on_conflict_do_update(index_elements=key, set_=changes, where=gives_way)


def rows_of(
    tables: Iterable[pa.Table], columns: Mapping[str, str], dialect: str
) -> list[tuple[Any, ...]]:
    """Turn tables into the rows to bind, in the order of the tables and of their rows."""
    rows: list[tuple[Any, ...]] = []
    # Tables of one schema are joined first: a conversion costs much more than a row.
    for _, alike in groupby(tables, key=lambda table: table.schema):
        joined = pa.concat_tables(alike)
        values = [
            named(name, _values, joined.column(name), kind, dialect)
            for name, kind in columns.items()
        ]
        rows.extend(zip(*values, strict=True))
    return rows


def _values(column: pa.ChunkedArray[Any], kind: str, dialect: str) -> list[Any]:
    digits = digits_of(kind)
    if digits is not None:
        amounts = decimals(column, digits).to_pylist()
        return list(map(_written, amounts)) if dialect == "sqlite" else amounts
    if kind == "date" and not at.is_null(column.type):
        days = dates(column)
        return days.cast(pa.string()).to_pylist() if dialect == "sqlite" else days.to_pylist()
    if kind == "timestamp" and not at.is_null(column.type):
        # No database keeps nanoseconds.
        column = column.cast(pa.timestamp("us", "UTC"), safe=column.type.unit != "ns")
        _check_years(column)
        if dialect == "postgresql":
            return column.to_pylist()
        # SQLite has no type for it; this text sorts by time, and SQLAlchemy reads it. MariaDB and
        # MySQL have one without a zone, and read it there.
        return column.cast(pa.timestamp("us")).cast(pa.string()).to_pylist()
    if kind == "double" and dialect != "postgresql" and not at.is_null(column.type):
        _check_numbers(column, dialect)
    if column.null_count and kind not in ("text", "bytes"):
        # NumPy has no null for these; its floats would turn one into NaN.
        return column.to_pylist()
    values: list[Any] = column.to_numpy().tolist()
    return values


def _written(amount: Decimal | None) -> str | None:
    """All digits, never as ``1E-9``."""
    return None if amount is None else f"{amount:f}"


def _check_numbers(column: pa.ChunkedArray[Any], dialect: str) -> None:
    """See that each float is one there: SQLite would keep a null for NaN."""
    wrong = pc.is_nan(column) if dialect == "sqlite" else pc.invert(pc.is_finite(column))
    row = pc.index(wrong, pa.scalar(value=True)).as_py()
    if row >= 0:
        number, name = column[row].as_py(), "SQLite" if dialect == "sqlite" else "MySQL"
        said = "NaN" if math.isnan(number) else number
        raise ValueError(f"row {row}: it is {said}, which {name} has none of; PostgreSQL keeps it")


def _check_years(column: pa.ChunkedArray[Any]) -> None:
    """See that each moment has a date: Arrow writes one beyond as a text about it."""
    found: Any = pc.min_max(column.cast(pa.int64())).as_py()
    first_us, last_us = found["min"], found["max"]
    if first_us is None or last_us is None:
        return
    if first_us < FIRST_US or last_us > LAST_US:
        far_us = first_us if first_us < FIRST_US else last_us
        raise ValueError(f"{far_us} microseconds since 1970 are not in the years 1 to 9999")


def _is_not_newer(there: Column[Any], coming: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a row that is there gives way; one that somebody made without a mark does."""
    return or_(there.is_(None), coming >= there)
