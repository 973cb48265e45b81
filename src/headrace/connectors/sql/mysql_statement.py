"""The statement that writes a row to MariaDB or MySQL.

``ON DUPLICATE KEY UPDATE`` differs from ``ON CONFLICT`` in three ways. It names no key, so a row
that is there by any other unique key is changed as well; such tables are refused (`mysql_tables`).
It has no condition, so each column keeps what it has if the row that is there is newer. And it sets
columns one after the other, each seeing those before it as they are now; so the column that tells
what is newer comes last, and an ``update`` for which that matters is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlalchemy import Table
from sqlalchemy.dialects import mysql

from headrace.errors import ConfigError

#: a text in quotes, or the new value of a column
_COMING = re.compile(r"('(?:[^'\\]|''|\\.)*')|\bexcluded\.([\"`]?)(\w+)\2", re.IGNORECASE)


def upsert_sql(
    table: Table, key: Sequence[str], update: Mapping[str, str] | None, newest_by: str | None
) -> str:
    """The statement that writes one row, its values given by position."""
    values = {column.name: None for column in table.columns}
    into = str(mysql.insert(table).values(values).compile(dialect=mysql.dialect()))
    if not key:
        return into
    changes = [
        f"{_quoted(name)} = {value}" for name, value in _changes(table, key, update, newest_by)
    ]
    return f"{into} ON DUPLICATE KEY UPDATE {', '.join(changes)}"


def _changes(
    table: Table, key: Sequence[str], update: Mapping[str, str] | None, newest_by: str | None
) -> list[tuple[str, str]]:
    if update is not None:
        # The driver fills in what stands after a percent sign.
        return [(name, _of_mysql(said).replace("%", "%%")) for name, said in update.items()]
    names = [column.name for column in table.columns if column.name not in key]
    if not names:
        return [(key[0], _there(table, key[0]))]
    if newest_by is None:
        return [(name, _coming(name)) for name in names]
    there = _there(table, newest_by)
    gives_way = f"{there} IS NULL OR {_coming(newest_by)} >= {there}"
    names.sort(key=newest_by.__eq__)
    return [(name, f"IF({gives_way}, {_coming(name)}, {_there(table, name)})") for name in names]


def check_order(update: Mapping[str, str], where: str) -> None:
    """See that no expression reads a column that was set before it.

    Raises:
        ConfigError: one does.
    """
    done: list[str] = []
    for name, expression in update.items():
        read = _COMING.sub("", expression)
        for before in done:
            if re.search(rf"\b{before}\b", read, re.IGNORECASE):
                raise ConfigError(
                    f"{where}: MariaDB and MySQL set {before!r} before {name!r}, which is made of "
                    f"what {before!r} was: put {name!r} before it in update"
                )
        done.append(name)


def _of_mysql(expression: str) -> str:
    return _COMING.sub(lambda found: found[1] or _coming(found[3]), expression)


def _coming(name: str) -> str:
    return f"VALUES({_quoted(name)})"


def _there(table: Table, name: str) -> str:
    return f"`{table.name}`.{_quoted(name)}"


def _quoted(name: str) -> str:
    return f"`{name}`"
