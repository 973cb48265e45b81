"""What makes a table of MariaDB or MySQL unfit, whatever its columns.

An engine without transactions keeps what was rolled back. A key whose texts compare without case,
or without the blanks at their end, takes two keys for one, and the row of one customer for that of
another; so does one that is made of the beginnings of texts. And what is written by its key is
taken for the row of any other unique key that it has a value of.

Tables that are made here are fit: InnoDB, and texts that compare by each of their characters. How
that is called depends on the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from headrace.errors import ConfigError

_ENGINE = """
SELECT t.engine, e.transactions FROM information_schema.tables t
LEFT JOIN information_schema.engines e ON e.engine = t.engine
WHERE t.table_schema = DATABASE() AND t.table_name = %s
"""
_UNIQUE = """
SELECT index_name, column_name, sub_part FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name = %s AND non_unique = 0
ORDER BY index_name, seq_in_index
"""
_COLLATIONS = """
SELECT column_name, collation_name, column_type FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = %s AND collation_name IS NOT NULL
"""
#: of those that compare by each character; utf8mb4_bin itself leaves out blanks at the end
_EXACT = re.compile(r".*_nopad_bin|.*_0900_bin|binary")


def options(connection: Connection) -> str:
    """What makes a table fit, said at the end of the statement that makes it."""
    return f"ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={_exact(connection)}"


def check(connection: Connection, name: str, key: Sequence[str], where: str) -> None:
    """See that a table rolls back, and that only its own key tells which row is which.

    Raises:
        ConfigError: it does not; the message says how to alter it.
    """
    engine, transactions = connection.exec_driver_sql(_ENGINE, (name,)).one()
    if engine is not None and transactions != "YES":
        raise ConfigError(
            f"{where} is of engine {engine}, which keeps what is rolled back: "
            f"run 'ALTER TABLE {name} ENGINE=InnoDB', or name another table"
        )
    if key:
        _check_unique(connection, name, key, where)
        _check_collations(connection, name, key, where)


def _check_unique(connection: Connection, name: str, key: Sequence[str], where: str) -> None:
    found: dict[str, list[tuple[str | None, int | None]]] = {}
    for index, column, length in connection.exec_driver_sql(_UNIQUE, (name,)):
        found.setdefault(index, []).append((column, length))
    for index, parts in found.items():
        columns = {column for column, _ in parts}
        if any(length is not None for _, length in parts):
            raise ConfigError(
                f"{where}: unique key {index} compares the beginnings of texts alone, and would "
                "take two keys for one: make it of whole columns, or name another table"
            )
        # A row that is there by more than the key is there by the key.
        if not columns >= set(key):
            raise ConfigError(
                f"{where} has another unique key, {index}, and MariaDB and MySQL would change the "
                f"row that it names in place of that of ({', '.join(key)}): drop it, make it a "
                "key that is not unique, or name another table"
            )


def _check_collations(connection: Connection, name: str, key: Sequence[str], where: str) -> None:
    found: Mapping[str, tuple[str, str]] = {
        column: (collation, kind)
        for column, collation, kind in connection.exec_driver_sql(_COLLATIONS, (name,))
    }
    for column in key:
        collation, kind = found.get(column, ("binary", ""))
        if not _EXACT.fullmatch(collation):
            raise ConfigError(
                f"{where}: column {column!r} compares by {collation}, which takes keys for the "
                "same that differ in case, accents or blanks at their end: run 'ALTER TABLE "
                f"{name} MODIFY {column} {kind} CHARACTER SET utf8mb4 COLLATE "
                f"{_exact(connection)} NOT NULL', or name another table"
            )


def _exact(connection: Connection) -> str:
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    return "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
