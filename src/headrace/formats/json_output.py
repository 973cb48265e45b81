"""Columns as JSON objects: what ``Json`` reads of them is what they were.

JSON has no place for some of what a column can hold, and encoders then write something else: a
null for a number that is none, or the last of two values of a map. Such a row is refused. Decimals
are numbers with all of their digits, bytes are base64, times are RFC 3339, null is ``null``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from headrace.errors import WrongSchema
from headrace.formats.python_rows import python_rows
from headrace.ports import Encoded, Unencoded

_TEXT = (pa.string(), pa.large_string())
_ENCODE: Callable[[Any], bytes] = msgspec.json.Encoder(decimal_format="number").encode


def check_types(found: pa.Schema, declared: pa.Schema) -> None:
    """See that columns have the types that were said; one of nulls alone has any.

    Raises:
        WrongSchema: the message names the column.
    """
    for column in found:
        wanted = declared.field(column.name).type
        same = column.type == wanted or (column.type in _TEXT and wanted in _TEXT)
        if not same and not pa.types.is_null(column.type):
            raise WrongSchema(f"column {column.name!r} must be {wanted}, and it is {column.type}")


def encoded(rows: pa.Table, declared: pa.Schema, names: Mapping[str, str]) -> Encoded:
    """Each row as an object.

    Args:
        rows: columns that ``check_types`` was content with.
        declared: what may be null, among others.
        names: column -> name in the record, where that is another.
    """
    unencoded = _forbidden_nulls(rows, declared)
    # Where no column has numbers with a point, there is nothing to look for.
    has_points = any(_has_floats(field.type) for field in rows.schema)
    named = rows.rename_columns([names.get(name, name) for name in rows.column_names])
    payloads: list[bytes | None] = []
    for number, values in enumerate(python_rows(named)):
        if number in unencoded:
            continue
        if isinstance(values, str):
            unencoded[number] = values
        elif has_points and (column := _not_a_number(values)):
            unencoded[number] = f"column {column}: JSON has no NaN and no infinity"
        else:
            payloads.append(_ENCODE(values))
    return Encoded(payloads, tuple(Unencoded(*one) for one in sorted(unencoded.items())))


def _forbidden_nulls(rows: pa.Table, declared: pa.Schema) -> dict[int, str]:
    found: dict[int, str] = {}
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if column.null_count and not declared.field(field.name).nullable:
            for row in np.flatnonzero(column.is_null()).tolist():
                found.setdefault(row, f"column {field.name}: it must not be null")
    return found


def _has_floats(kind: Any) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_has_floats(kind.field(number).type) for number in range(kind.num_fields))


def _not_a_number(values: Mapping[str, Any]) -> str:
    return next((name for name, value in values.items() if not _is_finite(value)), "")


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, list) or all(map(_is_finite, value))
