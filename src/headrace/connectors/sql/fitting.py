"""Whether a table is what its sink describes: made if it is not there, else looked at.

A table that is there may be somebody else's, so nothing of it is altered. What would change values
in silence, or write rows twice, is refused before anything is written. One that is there needs no
right to make tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, inspect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import Integer, TypeEngine

from headrace.connectors.newest import VERSION
from headrace.connectors.sql import alike, mysql_statement, mysql_tables
from headrace.connectors.sql.errors import translated
from headrace.connectors.sql.kinds import narrower_than, table_of
from headrace.connectors.sql.marks import MARKS
from headrace.connectors.sql.rows import Rows
from headrace.connectors.sql.statement import upsert_sql
from headrace.errors import ConfigError, SinkUnavailable, TargetMissing
from headrace.payload.exact import digits_of


def make(connection: Connection, table: Table, where: str) -> None:
    """Make a table if it is not there; MariaDB and MySQL commit what was begun then.

    Raises:
        ConfigError: it may not be made; the message has what makes it.
    """
    if inspect(connection).has_table(table.name):
        return
    is_mysql = connection.dialect.name == "mysql"
    made = str(CreateTable(table, if_not_exists=True).compile(dialect=connection.dialect))
    if is_mysql:
        made += f" {mysql_tables.options(connection)}"
    try:
        connection.exec_driver_sql(made)
    except DBAPIError as error:
        told = translated(error, where)
        if not isinstance(told, TargetMissing):
            raise
        # Only our own sessions take double quotes there.
        quote = "`" if is_mysql else '"'
        by_hand = " ".join(made.replace('"', quote).split())
        raise ConfigError(
            f"{told}; let its user make tables, or make it by hand: '{by_hand}'"
        ) from error


def fit_marks(connection: Connection, where: str) -> None:
    """Make the table of notes, or see that the one there tells lanes apart.

    Raises:
        ConfigError: it does not.
    """
    make(connection, MARKS, f"{where}: {MARKS.name}")
    if connection.dialect.name == "mysql":
        key = [column.name for column in MARKS.primary_key]
        mysql_tables.check(connection, MARKS.name, key, f"{where}: {MARKS.name}")


def fit(connection: Connection, rows: Rows) -> None:
    """Make the table, or see that the one there has the columns and the key.

    Raises:
        ConfigError: it has not, or an expression of ``update`` would reckon with amounts in floats
            or is none that the database takes.
    """
    dialect = connection.dialect.name
    _check_amounts(rows, dialect)
    if dialect == "mysql":
        mysql_statement.check_order(rows.update or {}, rows.where)
    make(connection, table_of(rows.name, rows.columns, rows.key, rows.newest_by), rows.where)
    found = inspect(connection)
    there = found.get_columns(rows.name)
    types = {column["name"]: column["type"] for column in there}
    for column, kind in rows.columns.items():
        if column not in types:
            raise ConfigError(
                f"{rows.where} is there without column {column!r}: add it, or name another table"
            )
        narrower = narrower_than(kind, types[column], dialect)
        if narrower:
            raise ConfigError(
                f"{rows.where} is there with column {column!r} as {narrower}, which does "
                f"not keep every {kind}: widen it, or name another table"
            )
    _check_newest(rows, types, {column["name"] for column in there if not column["nullable"]})
    unique = [found.get_pk_constraint(rows.name)["constrained_columns"]]
    unique += [one["column_names"] for one in found.get_unique_constraints(rows.name)]
    if rows.key and set(rows.key) not in [set(columns) for columns in unique]:
        raise ConfigError(
            f"{rows.where} is there without a unique key ({', '.join(rows.key)}): add it, "
            "or name another table"
        )
    if dialect == "mysql":
        mysql_tables.check(connection, rows.name, rows.key, rows.where)
    else:
        alike.check(connection, rows.name, rows.key, rows.where)
    _check_update(connection, rows)


def _check_update(connection: Connection, rows: Rows) -> None:
    """Have the database read each expression of ``update``; it runs none of them."""
    table = table_of(rows.name, rows.columns, rows.key, rows.newest_by)
    for column, expression in (rows.update or {}).items():
        write = upsert_sql(table, rows.key, {column: expression}, connection.dialect.name)
        try:
            connection.exec_driver_sql(f"EXPLAIN {write}", (None,) * len(rows.columns)).close()
        except DBAPIError as error:
            told = translated(error, f"{rows.where}: update of {column!r}, {expression!r}")
            if isinstance(told, SinkUnavailable):
                raise told from error
            raise ConfigError(f"{told}; mend it in the use case") from error


def _check_newest(rows: Rows, types: Mapping[str, TypeEngine[Any]], never_null: set[str]) -> None:
    """See that versions compare as numbers, and that a row can be there without its data."""
    newest_by = rows.newest_by
    if newest_by is None:
        return
    whole = rows.columns[newest_by] in ("bigint", VERSION)
    if whole and not isinstance(types[newest_by], Integer):
        raise ConfigError(
            f"{rows.where} is there with column {newest_by!r} as {types[newest_by]}, which does "
            "not compare as whole numbers do: make it a BIGINT, or name another table"
        )
    full = never_null.intersection(rows.columns) - {newest_by, rows.delete_by, *rows.key}
    if rows.delete_by is not None and full:
        raise ConfigError(
            f"{rows.where} is there with column {min(full)!r} as NOT NULL, and a row that is "
            "gone has nothing there: allow nulls, or name another table"
        )


def _check_amounts(rows: Rows, dialect: str) -> None:
    """See that no expression reckons with amounts where the database would do it in floats."""
    if dialect != "sqlite":
        return
    amounts = [name for name, kind in rows.columns.items() if digits_of(kind)]
    for expression in (rows.update or {}).values():
        for name in amounts:
            taken = re.fullmatch(rf"\s*excluded\.{name}\s*", expression)
            if not taken and re.search(rf"\b{name}\b", expression):
                raise ConfigError(
                    f"{rows.where}: SQLite would reckon {expression!r} in floats, which "
                    f"are not exact: use PostgreSQL (on one machine 'headrace up --store "
                    f"postgres'), or a bigint of the smallest unit for {name!r}"
                )
