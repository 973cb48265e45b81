"""The column that a reader's type becomes: exact, or refused when the use case is written.

Times are in microseconds, as everywhere in Headrace; a float becomes one of 64 bits, in which each
of 32 bits is exactly itself. A union is a type that may be null, or nothing that a column can be.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.errors import ConfigError
from headrace.formats.avro.schema_text import AvroType

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}
_MOST_DIGITS = 38


def column_of(name: str, kind: AvroType) -> pa.Field[Any]:
    """A column of a reader's type.

    Raises:
        ConfigError: no column is that; the name says where.
    """
    nullable, one = may_be_null(kind), without_null(kind)
    if one is None:
        raise ConfigError(
            f"{name}: {_told(kind)} is no column: a union may have null and one other type"
        )
    return pa.field(name, kind_of(name, one), nullable=nullable)


def columns_of(name: str, kind: AvroType) -> list[pa.Field[Any]]:
    """The columns of a record.

    Raises:
        ConfigError: a field has none, or there is no field.
    """
    if not kind.fields:
        raise ConfigError(f"{name}: a record without a field has no column")
    return [column_of(inner.name, inner.kind) for inner in kind.fields]


def may_be_null(kind: AvroType) -> bool:
    """Whether it is a union with null."""
    return kind.name == "union" and any(branch.name == "null" for branch in kind.inner)


def without_null(kind: AvroType) -> AvroType | None:
    """The one type that values have; None: there is none, or there are several."""
    branches = kind.inner if kind.name == "union" else (kind,)
    others = [branch for branch in branches if branch.name != "null"]
    return others[0] if len(others) == 1 else None


def kind_of(name: str, kind: AvroType) -> pa.DataType:
    """The Arrow type of a reader's type that is no union.

    Raises:
        ConfigError: there is none; ``name`` says where.
    """
    if kind.name == "record":
        return pa.struct(columns_of(name, kind))
    if kind.name == "array":
        return pa.list_(column_of("item", kind.inner[0]))
    if kind.name == "map":
        value: Any = column_of("value", kind.inner[0])
        made: pa.DataType = pa.map_(pa.string(), value)
        return made
    if kind.logical == "decimal":
        if kind.precision > _MOST_DIGITS:
            raise ConfigError(f"{name}: a decimal has at most {_MOST_DIGITS} digits")
        return pa.decimal128(kind.precision, kind.scale)
    return _LOGICAL.get(kind.logical) or _PLAIN[kind.name]


def _told(kind: AvroType) -> str:
    if kind.name != "union":
        return kind.told
    return f"a union of {', '.join(branch.told for branch in kind.inner)}"
