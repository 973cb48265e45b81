"""What makes a table of SQLite or PostgreSQL take two keys for one, or drop a row, in silence.

A key whose texts compare without case, or without the blanks at their end, takes the row of one
customer for that of another; and SQLite can be told to replace or leave out a row that some
constraint is against, where others refuse it. Tables that are made here are fit. MariaDB and MySQL
have more of the kind (`mysql_tables.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from headrace.errors import ConfigError

_SILENT = re.compile(r"\bON\s+CONFLICT\s+(REPLACE|IGNORE)\b", re.IGNORECASE)
_SQLITE_KEYS = """
SELECT index_list.name, columns.name, columns.coll
FROM pragma_index_list(?) AS index_list, pragma_index_xinfo(index_list.name) AS columns
WHERE index_list."unique" AND columns.key ORDER BY index_list.name, columns.seqno
"""
#: text of a fixed length leaves out the blanks at its end, a name all that is too long
_POSTGRESQL_KEYS = """
SELECT a.attname,
    CASE WHEN t.typname IN ('citext', 'bpchar', 'name') THEN t.typname ELSE c.collname END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0
AND (t.typname IN ('citext', 'bpchar', 'name') OR NOT c.collisdeterministic)
"""
#: what may be written over by: not with a constraint that is checked at the commit
_POSTGRESQL_IMMEDIATE = """
SELECT array_agg(a.attname::text) FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid
    AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indimmediate AND i.indpred IS NULL
GROUP BY i.indexrelid
"""


def check(connection: Connection, name: str, key: Sequence[str], where: str) -> None:
    """See that only equal keys are the same to a table, and that it refuses what it does not keep.

    Raises:
        ConfigError: it does not; the message says what to alter.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        _check_conflicts(connection, name, where)
    elif key:
        _check_immediate(connection, name, key, where)
    found = _sqlite_keys(connection, name, key) if is_sqlite else _postgresql(connection, name, key)
    for column, compares in found:
        exact = "COLLATE BINARY" if is_sqlite else 'text COLLATE "C"'
        raise ConfigError(
            f"{where}: column {column!r} compares by {compares}, which takes keys for the same "
            f"that differ, as in case or blanks at their end: make it {exact}, or name another "
            "table"
        )


def _check_conflicts(connection: Connection, name: str, where: str) -> None:
    query = "SELECT sql FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(?)"
    made = connection.exec_driver_sql(query, (name,)).scalar()
    if silent := _SILENT.search(made or ""):
        raise ConfigError(
            f"{where} has a constraint with '{silent.group()}', by which rows that it is against "
            "are gone in silence: make it without that, or name another table"
        )


def _sqlite_keys(
    connection: Connection, name: str, key: Sequence[str]
) -> Iterator[tuple[str, str]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for index, column, collation in connection.exec_driver_sql(_SQLITE_KEYS, (name,)):
        found.setdefault(index, []).append((column, collation))
    for parts in found.values():
        if {column for column, _ in parts} == set(key):
            yield from ((column, coll) for column, coll in parts if coll != "BINARY")


def _postgresql(connection: Connection, name: str, key: Sequence[str]) -> Iterator[tuple[str, str]]:
    for column, compares in connection.exec_driver_sql(_POSTGRESQL_KEYS, (_quoted(name),)):
        if column in key:
            yield column, compares


def _check_immediate(connection: Connection, name: str, key: Sequence[str], where: str) -> None:
    found = connection.exec_driver_sql(_POSTGRESQL_IMMEDIATE, (_quoted(name),))
    if set(key) not in [set(columns) for columns in found.scalars()]:
        raise ConfigError(
            f"{where}: its unique key ({', '.join(key)}) is DEFERRABLE, and PostgreSQL writes over "
            "no row by such: make it NOT DEFERRABLE, or name another table"
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
