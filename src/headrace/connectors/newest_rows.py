"""What sinks have in common that keep the newest row of each key: their columns, and their tables.

Whatever the target is, its columns are of the same kinds, and a handler's table becomes rows by the
same steps: it has the columns, each row says how new it is, and its key. How a row is told to the
target, and what else the target cannot take, is the sink's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as at

from headrace.connectors.changes import demand_keys, newness_of
from headrace.connectors.columns import check_columns, demand_kind
from headrace.connectors.exact_texts import exact_texts
from headrace.connectors.newest import VERSION, returned, settled, stamped

_COLUMN: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_BOOLEANS: Final = {True: "true", False: "false"}
#: kinds of columns that a key of text is made of
_OF_KEYS: Final = ("text", "bigint", "date")


def kinds_problem(columns: Mapping[str, str]) -> str | None:
    """Which column is of no kind, and why; None if all are of one."""
    for name, kind in columns.items():
        try:
            demand_kind(kind, VERSION)
        except ValueError as error:
            return f"column {name!r}: {error}"
    return None


def text_key_problem(columns: Mapping[str, str], key: tuple[str, ...]) -> str | None:
    """Why no row can have a text for a key, of these columns; None if each can."""
    for name, kind in columns.items():
        if not _COLUMN.fullmatch(name):
            return f"{name!r} is no name: use lower-case letters, digits and underscores"
        if problem := kinds_problem({name: kind}):
            return problem
    for name in key:
        if columns.get(name) not in _OF_KEYS:
            return f"key names {name!r}, which is no column of {', '.join(_OF_KEYS)}"
    return None if key else "it needs a key"


@dataclass(frozen=True, slots=True)
class NewestRows:
    """Rows as their sink describes them."""

    columns: Mapping[str, str]
    key: tuple[str, ...]
    newest_by: str
    delete_by: str | None
    #: what messages call the target
    where: str

    def kept(self, output: pa.Table, version: int | None) -> pa.Table:
        """A handler's table as its rows are kept, each with its version and its key.

        Raises:
            WrongSchema: a column is wrong; the message names it.
            SinkRefused: a row does not say how new it is, whether it is gone, or its key.
            TargetMissing: a column of versions is to be filled, and there are none.
        """
        must, may = returned(self.columns)
        check_columns(output.schema, must, self.where, may)
        table = stamped(output, self.columns, version, self.where)
        table = settled(table, self.newest_by, self.delete_by, self.key, self.where)
        demand_keys(table, self.key, self.where)
        return table

    def newness(self, table: pa.Table) -> list[int]:
        """How new its rows are, as whole numbers.

        Raises:
            ValueError: a moment or day is none.
        """
        return newness_of(table[self.newest_by], self.columns[self.newest_by])


def texts_of(column: pa.ChunkedArray[Any], kind: str) -> list[Any]:
    """The values of a column as texts that every reader knows; bytes and nulls as they are.

    Raises:
        ValueError: one is no value of its kind.
    """
    if at.is_null(column.type):
        return [None] * len(column)
    texts = exact_texts(column, kind)
    if texts is not None:
        return texts
    found: list[Any] = column.to_pylist()
    if kind in ("text", "bytes"):
        return found
    # A single-precision number comes as the double that it is.
    text_of: Callable[[Any], str] = _BOOLEANS.__getitem__ if kind == "boolean" else str
    return [None if value is None else text_of(value) for value in found]


def by_name(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """The rows of columns, each with its values by name; those that are null are not there."""
    rows = map(zip, repeat(list(columns)), zip(*columns.values(), strict=True))
    if not any(None in column for column in columns.values()):
        return map(dict, rows)
    return ({name: value for name, value in row if value is not None} for row in rows)
