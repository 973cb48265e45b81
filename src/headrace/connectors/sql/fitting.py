"""Whether a table is what its sink describes: made if it is not there, else looked at.

A table that is there may be somebody else's, so nothing of it is altered. What would change values
in silence, or write rows twice, is refused before anything is written. One that is there needs no
right to make tables.
"""

from __future__ import annotations

import re

from sqlalchemy import Connection, Table, inspect
from sqlalchemy.schema import CreateTable

from headrace.connectors.sql.rows import Rows
from headrace.connectors.sql.statement import narrower_than, table_of
from headrace.errors import ConfigError
from headrace.payload.exact import digits_of


def make(connection: Connection, table: Table) -> None:
    """Make a table if it is not there."""
    if not inspect(connection).has_table(table.name):
        connection.execute(CreateTable(table, if_not_exists=True))


def fit(connection: Connection, rows: Rows) -> None:
    """Make the table, or see that the one there has the columns and the key.

    Raises:
        ConfigError: it has not, or an expression would reckon with amounts in floats.
    """
    dialect = connection.dialect.name
    _check_amounts(rows, dialect)
    make(connection, table_of(rows.name, rows.columns, rows.key))
    found = inspect(connection)
    types = {column["name"]: column["type"] for column in found.get_columns(rows.name)}
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
    unique = [found.get_pk_constraint(rows.name)["constrained_columns"]]
    unique += [one["column_names"] for one in found.get_unique_constraints(rows.name)]
    if rows.key and set(rows.key) not in [set(columns) for columns in unique]:
        raise ConfigError(
            f"{rows.where} is there without a unique key ({', '.join(rows.key)}): add it, "
            "or name another table"
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
