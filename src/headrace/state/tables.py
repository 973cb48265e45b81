"""What a use case remembers, as it says so: tables with a key and typed columns.

A table says its *scope*, since a key that comes in two lanes has no order between them, and state
that both of them changed would be a race. With ``key`` it is the record's key that has state, which
order ``key`` keeps in one lane at a time. With ``lane`` any column may be the key, and each lane
has a state of its own for it.

Rows are kept as JSON objects of all columns, exact as ``Json`` is. A row that was kept by an
earlier version is read by the columns of today: a new one has to be one that may be null. It tells
its own key, so that one which was kept by a key of another type is found out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from headrace.errors import ConfigError, StateRefused, WrongSchema
from headrace.formats.json_records import Json
from headrace.model.state import MOST_KEY_BYTES, MOST_ROW_BYTES, number_key
from headrace.payload.exact import conforming
from headrace.ports import RECORD_SCHEMA, Payloads

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_TEXT_OR_BYTES = (pa.string(), pa.binary())
#: a worker has all rows of a call in its memory
_LARGEST_ROW_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class StateTable:
    """A table of keyed state.

    Args:
        name: what the handler calls it: ``context.state[name]``.
        columns: names and types of all columns.
        key: which of them is the key: ``string`` or ``binary``; with scope ``lane`` also ``int64``.
        scope: ``key``: a row is of the record's key, for order ``key``; or ``lane``: of any key
            within one lane, for order ``lane``.
        max_row_bytes: what a row may take, as JSON.

    Raises:
        ConfigError: a name, type or scope cannot be; the message says which and why.
    """

    name: str
    columns: pa.Schema
    key: str
    scope: Literal["key", "lane"] = "key"
    max_row_bytes: int = MOST_ROW_BYTES

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise ConfigError(f"state table {self.name!r}: {problem}")
        _ = self._format

    def keys_of(self, values: Any) -> list[bytes]:
        """Keys as they are kept, in their order.

        Args:
            values: an array, a chunked array or a list.

        Raises:
            StateRefused: one of them cannot be a key.
            ConfigError: it is one key, whose letters would each be taken for one.
            WrongSchema: one is of another type.
        """
        if isinstance(values, str | bytes | bytearray):
            raise ConfigError(
                f"state table {self.name!r} is asked for many keys, and was given one, of type "
                f"{type(values).__name__}: write [key], or get(key)"
            )
        found = _listed(values)
        return [self._key_of(value, row) for row, value in enumerate(found)]

    def rows_of(self, rows: pa.Table) -> list[bytes]:
        """Rows as they are kept, in their order.

        Raises:
            StateRefused: a value cannot be kept.
            WrongSchema: they are other columns, or of other types.
        """
        encoded = self._format.encode(self._conforming(rows), None)
        if encoded.unencoded:
            row, reason = encoded.unencoded[0]
            raise self.refused(f"row {row}: {reason}")
        payloads = [payload or b"" for payload in encoded.payloads]
        most = self.max_row_bytes
        large = next((row for row, kept in enumerate(payloads) if len(kept) > most), None)
        if large is not None:
            raise self.refused(
                f"row {large} takes {len(payloads[large])} bytes, and one may take {most}: keep "
                "less, or say max_row_bytes"
            )
        return payloads

    def kept(self, rows: Mapping[bytes, bytes]) -> pa.Table:
        """What was kept, as columns, by its keys.

        Raises:
            ConfigError: it was kept by other columns, or its key is of another type by now.
        """
        found = self.table_of(list(rows.values()))
        try:
            told = self.keys_of(found.column(self.key))
        except (StateRefused, WrongSchema):
            told = []
        if told != list(rows):
            kind = self.columns.field(self.key).type
            raise self._unfit(f"it was not kept by a key {self.key!r} of type {kind}")
        return found

    def table_of(self, rows: Sequence[bytes]) -> pa.Table:
        """What was kept, as columns.

        Raises:
            ConfigError: it was kept by other columns.
        """
        nothing = pa.chunked_array([pa.nulls(len(rows), RECORD_SCHEMA.field("headers").type)])
        found = self._format.decode(
            Payloads(pa.chunked_array([list(rows)], type=pa.binary()), nothing)
        )
        if found.undecoded:
            raise self._unfit(found.undecoded[0].reason)
        return found.columns

    def _unfit(self, why: str) -> ConfigError:
        return ConfigError(
            f"state table {self.name!r}: a row that is kept does not fit its columns: {why}; "
            "declare the columns as they were, or give the table another name, or seek its "
            "streams with --forget-state while they are suspended"
        )

    def refused(self, why: str) -> StateRefused:
        """An error for what this table cannot keep: it is the trouble of a record."""
        return StateRefused(f"state table {self.name!r}: {why}")

    def wrong(self, why: str) -> WrongSchema:
        """An error for what is not as the table is declared: it is likely that of all records."""
        return WrongSchema(f"state table {self.name!r}: {why}")

    def check_names(self, names: Sequence[str]) -> None:
        """See that a row has all columns and no others, so that no misspelt one is lost.

        Raises:
            WrongSchema: one is missing, there is another, or one comes twice.
        """
        missing = [name for name in self.columns.names if name not in names]
        if missing:
            raise self.wrong(f"a row that is saved has all columns, and {missing[0]!r} is missing")
        if len(names) > len(self.columns.names):
            other = [name for name in names if name not in self.columns.names]
            raise self.wrong(
                f"a row that is saved has no column {other[0]!r}: declare it, or leave it out"
                if other
                else "a row that is saved has each column once"
            )

    @property
    def _format(self) -> Json:
        return Json(self.columns)

    def _key_of(self, value: Any, row: int) -> bytes:
        kind: Any = self.columns.field(self.key).type
        if isinstance(value, str) and kind == pa.string():
            key = value.encode("utf-8", "surrogatepass")
        elif isinstance(value, bytes) and kind == pa.binary():
            key = value
        elif type(value) is int and kind == pa.int64() and -(2**63) <= value < 2**63:
            key = number_key(value)
        else:
            what = "null" if value is None else f"of type {type(value).__name__}"
            is_number = type(value) is int and kind == pa.int64()  # and too large
            told = self.refused if value is None or is_number else self.wrong
            raise told(f"key {self.key!r} of row {row} is {what}, and has to be {kind}")
        if len(key) > MOST_KEY_BYTES:
            raise self.refused(
                f"key {self.key!r} of row {row} has {len(key)} bytes, and may have {MOST_KEY_BYTES}"
            )
        return key

    def _conforming(self, rows: pa.Table) -> pa.Table:
        self.check_names(rows.column_names)
        try:
            found = conforming(rows.select(self.columns.names), self.columns)
            columns = [self._column(found.column(field.name), field) for field in self.columns]
        except (ValueError, pa.ArrowException) as error:
            raise self.refused(str(error)) from error
        return pa.Table.from_arrays(columns, names=self.columns.names)

    def _column(self, column: pa.ChunkedArray[Any], field: pa.Field[Any]) -> pa.ChunkedArray[Any]:
        if not _fits(column.type, field.type):
            raise self.wrong(
                f"column {field.name!r} is {column.type}, and declared as {field.type}"
            )
        return column.cast(field.type)


def _fits(found: Any, wanted: Any) -> bool:
    """Whether each value of a type is one of another; of empty lists Arrow tells no more."""
    if found == wanted or pa.types.is_null(found):
        return True
    if pa.types.is_integer(found) and pa.types.is_integer(wanted):
        return True
    if (found, wanted) in ((pa.float32(), pa.float64()), (pa.large_string(), pa.string())):
        return True
    parts = [[kind.field(number) for number in range(kind.num_fields)] for kind in (found, wanted)]
    if found.id != wanted.id or not parts[0] or len(parts[0]) != len(parts[1]):
        return False
    named = pa.types.is_struct(found)
    return all(
        _fits(one.type, other.type) and (one.name == other.name or not named)
        for one, other in zip(*parts, strict=True)
    )


def _listed(values: Any) -> list[Any]:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.to_pylist()
    return list(values)


def _problem(table: StateTable) -> str | None:
    if not isinstance(table.name, str) or not _NAME.fullmatch(table.name):
        return "a name is lower-case letters, digits and underscores, 63 at most"
    columns: object = table.columns
    if not isinstance(columns, pa.Schema):
        return 'columns are a pyarrow.schema, such as [("visitor", pyarrow.string())]'
    most = table.max_row_bytes
    if type(most) is not int or not 1 <= most <= _LARGEST_ROW_BYTES:
        return f"max_row_bytes is 1 to {_LARGEST_ROW_BYTES}, not {most!r}"
    return _key_problem(table)


def _key_problem(table: StateTable) -> str | None:
    names = table.columns.names
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        return f"column {doubled[0]!r} is there twice"
    if table.key not in names:
        return f"its key {table.key!r} is none of its columns"
    if table.scope not in ("key", "lane"):
        return f"scope {table.scope!r} is none of key, lane"
    kind: Any = table.columns.field(table.key).type
    if kind in _TEXT_OR_BYTES or (table.scope == "lane" and kind == pa.int64()):
        return None
    of = "string or binary" if table.scope == "key" else "string, binary or int64"
    return f"its key is {kind}, and with scope {table.scope} it has to be {of}"
