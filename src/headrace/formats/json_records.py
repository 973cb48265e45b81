"""JSON as columns: checked, exact, and several times as fast as ``json.loads`` for each record.

A record is one JSON object. Columns are named with their types, and only these are made of it; the
rest is skipped. What does not fit is told with its place and harms no other record: text for a
number, a number that a column cannot hold, a missing field that may not be null, bytes after the
end. Nothing is converted on the way: ``1.0`` and ``"1"`` are no integers, and no digit of a decimal
is lost. A float is the nearest that there is, also to a whole number of more than 15 digits: many
writers of JSON write large floats so, and nobody can tell these from integers.

Where a name is there twice each has to fit, and the last one counts. Times are RFC 3339 with as
many digits as microseconds have; more are rounded. Bytes are base64. A column that may be null is
null where its field is null or missing.

The parser is ``msgspec``, in one way for all records. A columnar parser was tried: ``pyarrow.json``
takes a quarter longer, takes a batch with one bad record for bad as a whole, and rounds numbers.

The same columns are written as such objects (`json_output.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from headrace.errors import ConfigError
from headrace.formats.arrow_types import exactly, number_of, struct_of, table_of
from headrace.formats.framing import Framing, check_framing, framed
from headrace.formats.json_output import check_types, encoded
from headrace.formats.pieces import ends_of_pieces
from headrace.ports import Decoded, Encoded, Payloads, Undecoded, WrittenSchema

#: of records, that are parsed before columns are made of them
_PIECE_BYTES = 4 * 1024 * 1024
#: which of the payloads, and what was parsed
_Row = tuple[int, Any]
#: what the parser raises for what is in a record; a null is none at all
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True, init=False)
class Json:
    """JSON objects with these columns.

    Example: ``Json(pa.schema([("page", pa.string()), ("ms", pa.int64())]))``
    """

    columns: pa.Schema
    names: tuple[tuple[str, str], ...]
    tombstones: Literal["refuse", "null"]
    framing: Framing

    def __init__(
        self,
        columns: pa.Schema,
        *,
        fields: Collection[str] | None = None,
        names: Mapping[str, str] | None = None,
        tombstones: Literal["refuse", "null"] = "refuse",
        framing: Framing = "none",
    ) -> None:
        """Say what is wanted of a record.

        Args:
            columns: names and types; what is ``nullable=False`` has to be there.
            fields: of a longer schema the columns that are wanted; none: all.
            names: column -> name in the record, where that is another, such as
                ``{"sent_at": "timestamp"}``.
            tombstones: a record without a value is refused, or all of its columns are null.
            framing: ``confluent``: the id of a schema stands in front, or in a header. It is
                passed over: what is wanted of a record, the columns say.

        Raises:
            ConfigError: a type or name cannot be; it is named.
        """
        if not isinstance(columns, pa.Schema):
            raise ConfigError('Json takes a pyarrow.schema, such as [("page", pyarrow.string())]')
        check_framing(framing)
        chosen = columns if fields is None else _chosen(columns, fields)
        unknown = [name for name in names or {} if name not in chosen.names]
        if unknown:
            raise ConfigError(f"names: there is no column {unknown[0]}")
        _refuse_doubled("column", chosen.names)
        _refuse_doubled("field", [(names or {}).get(name, name) for name in chosen.names])
        strict = [field.name for field in chosen if not field.nullable]
        if tombstones == "null" and strict:
            raise ConfigError(f"tombstones='null' needs columns that may be null: {strict[0]}")
        object.__setattr__(self, "columns", chosen)
        object.__setattr__(self, "names", tuple((names or {}).items()))
        object.__setattr__(self, "tombstones", tombstones)
        object.__setattr__(self, "framing", framing)
        _parser(self)

    def schema(self, column: str) -> pa.Schema:
        """The columns; the payload itself is not among them."""
        del column
        return self.columns

    def decode(self, payloads: Payloads) -> Decoded:
        """All in one loop; again, each by itself, if one of them does not fit."""
        if self.framing == "none":
            return self._bare(payloads.bytes.to_pylist())
        given = framed(payloads, self.framing)
        kept = np.ones(len(payloads), bool)
        kept[list(given.refused)] = False
        rows = np.flatnonzero(kept)
        found = self._bare(given.values(rows))
        undecoded = [Undecoded(int(rows[row]), reason) for row, reason in found.undecoded]
        undecoded += [Undecoded(row, reason) for row, reason in given.refused.items()]
        return Decoded(found.columns, tuple(sorted(undecoded)))

    def _bare(self, values: list[Any]) -> Decoded:
        """Piece by piece."""
        tables, undecoded, begin = list[pa.Table](), list[Undecoded](), 0
        for end in ends_of_pieces(values, _PIECE_BYTES):
            found = self._piece(values[begin:end])
            tables.append(found.columns)
            undecoded += [Undecoded(begin + row, reason) for row, reason in found.undecoded]
            begin = end
        return Decoded(pa.concat_tables(tables), tuple(undecoded))

    def _piece(self, values: list[Any]) -> Decoded:
        try:
            return Decoded(table_of(list(map(_parser(self).decode, values)), self.columns))
        except (*_REFUSALS, TypeError, pa.ArrowInvalid):
            rows, undecoded = self._one_by_one(values)
        table = _columns(rows, self.columns, undecoded)
        return Decoded(table, tuple(sorted(undecoded)))

    @property
    def registers(self) -> None:
        """Its schema is registered nowhere."""

    def takes(self, column: Literal["value", "key"]) -> dict[str, bool]:
        """The columns; one that may be null may be left out.

        Raises:
            ConfigError: an id of a schema was to stand in front, and none is registered.
        """
        del column
        if self.framing != "none":
            raise ConfigError(
                f"Json(framing={self.framing!r}) is for what is read, as no id is given to its "
                "schema: leave framing out to write JSON, or write JsonSchemaOutput(...)"
            )
        return {field.name: not field.nullable for field in self.columns}

    def check(self, found: pa.Schema, schema: WrittenSchema | None = None) -> None:
        """They have the types that were said."""
        del schema
        check_types(found, self.columns)

    def encode(self, rows: pa.Table, schema: WrittenSchema | None) -> Encoded:
        """An object for each row, which decodes to it."""
        del schema
        return encoded(rows, self.columns, dict(self.names))

    def _one_by_one(self, values: Sequence[bytes | None]) -> tuple[list[_Row], list[Undecoded]]:
        parse, rows, undecoded = _parser(self).decode, list[_Row](), list[Undecoded]()
        for row, value in enumerate(values):
            if value is None and self.tombstones == "refuse":
                undecoded.append(Undecoded(row, "no value, and JSON was expected"))
                continue
            try:
                rows.append((row, parse(b"{}" if value is None else value)))
            except _REFUSALS as error:
                undecoded.append(Undecoded(row, _told(error)))
        return rows, undecoded


def _columns(rows: list[_Row], schema: pa.Schema, undecoded: list[Undecoded]) -> pa.Table:
    """Columns of what fits; of what does not, found by halves, it is told why."""
    try:
        return table_of([record for _, record in rows], schema)
    except pa.ArrowInvalid as error:
        if len(rows) == 1:
            undecoded.append(Undecoded(rows[0][0], str(error)))
            return schema.empty_table()
    half = len(rows) // 2
    parts = [_columns(part, schema, undecoded) for part in (rows[:half], rows[half:])]
    return pa.concat_tables(parts)


def _chosen(columns: pa.Schema, fields: Collection[str]) -> pa.Schema:
    unknown = [name for name in fields if name not in columns.names]
    if unknown:
        raise ConfigError(f"fields: there is no column {unknown[0]}")
    return pa.schema([columns.field(name) for name in fields])


def _refuse_doubled(what: str, names: Sequence[str]) -> None:
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise ConfigError(f"{what} {min(doubled)} is there twice")


@lru_cache(maxsize=256)
def _parser(kind: Json) -> msgspec.json.Decoder[Any]:
    """A parser for its columns; a format travels by pickle, and its parser cannot."""
    record = struct_of(kind.columns, dict(kind.names))
    return msgspec.json.Decoder(record, dec_hook=exactly, float_hook=number_of)


def _told(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8: {error.reason}"
    if isinstance(error, RecursionError):
        return "nested too deep"
    return str(error)
