"""Arrow's types as Spark has them.

Spark has no integers without a sign and times in microseconds only. So a column becomes the nearest
one that holds all of its values: nothing is rounded and nothing overflows.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

_UNSIGNED: dict[Any, Any] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def as_spark(schema: pa.Schema) -> pa.Schema:
    """The same columns with types that Spark knows, each of which may be null."""
    return pa.schema([pa.field(column.name, _type(column.type)) for column in schema])


def _type(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([_field(field) for field in cast("Any", kind)])
    if pa.types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_type(kind.key_type), _field(kind.item_field))
    return _UNSIGNED.get(kind, kind)


def _field(field: pa.Field[Any]) -> pa.Field[Any]:
    return field.with_type(_type(field.type)).with_nullable(True)
