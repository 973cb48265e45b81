"""Columns as JSON objects: what ``Json`` reads of them is what they were.

JSON has no place for some of what a column can hold, and encoders then write something else: a
null for a number that is none, or the last of two values of a map. Such a row is refused, and so is
one with a null where the columns have none, at any depth. Decimals are numbers with all of their
digits, bytes are base64, times are RFC 3339 (of a zone that was some seconds off, in UTC), null is
``null``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from headrace.errors import WrongSchema
from headrace.formats.python_rows import python_rows
from headrace.ports import Encoded, Unencoded

#: why a row cannot be; empty: it can
_Refusal = Callable[[Mapping[str, Any]], str]
_MINUTE = timedelta(minutes=1)
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
    refusals = _refusals(rows.schema, names)
    has_zones = any(_within(field.type, _has_zone) for field in rows.schema)
    named = rows.rename_columns([names.get(name, name) for name in rows.column_names])
    payloads: list[bytes | None] = []
    for number, values in enumerate(python_rows(named)):
        if number in unencoded:
            continue
        if isinstance(values, str):
            unencoded[number] = values
        elif why := next((why for refusal in refusals if (why := refusal(values))), ""):
            unencoded[number] = why
        else:
            payloads.append(_ENCODE(_in_minutes(values) if has_zones else values))
    return Encoded(payloads, tuple(Unencoded(*one) for one in sorted(unencoded.items())))


def _refusals(schema: pa.Schema, names: Mapping[str, str]) -> list[_Refusal]:
    """What looks at each row; where no column has numbers with a point, nobody looks for any."""
    found: list[_Refusal] = []
    if any(_within(field.type, pa.types.is_floating) for field in schema):
        found.append(_not_a_number)
    strict = {
        names.get(field.name, field.name): field for field in schema if _has_strict(field.type)
    }
    if strict:
        found.append(partial(_null_within, strict))
    return found


def _forbidden_nulls(rows: pa.Table, declared: pa.Schema) -> dict[int, str]:
    found: dict[int, str] = {}
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if column.null_count and not declared.field(field.name).nullable:
            for row in np.flatnonzero(column.is_null()).tolist():
                found.setdefault(row, f"column {field.name}: it must not be null")
    return found


def _within(kind: Any, is_it: Callable[[Any], bool]) -> bool:
    """Whether a type is such a one, or is made of one."""
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return is_it(kind) or any(_within(found, is_it) for found in inner)


def _has_zone(kind: Any) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC")


def _has_strict(kind: Any) -> bool:
    """Whether something within a type may not be null."""
    return any(not field.nullable or _has_strict(field.type) for field in _parts(kind))


def _parts(kind: Any) -> list[pa.Field[Any]]:
    """Of what a type is made; a key of a map is never null."""
    if pa.types.is_map(kind):
        return [kind.item_field]
    return [kind.field(number) for number in range(kind.num_fields)]


def _null_within(strict: Mapping[str, pa.Field[Any]], values: Mapping[str, Any]) -> str:
    wrong = (f.name for name, f in strict.items() if not _is_whole(values[name], f.type))
    name = next(wrong, None)
    return "" if name is None else f"column {name}: within it is a null where none may be"


def _is_whole(value: Any, kind: Any) -> bool:
    """Whether nothing within a value is null that may not be."""
    if value is None or not (parts := _parts(kind)):
        return True
    if pa.types.is_struct(kind):
        pairs = [(value[part.name], part) for part in parts]
    else:
        pairs = [
            (item, parts[0]) for item in (value.values() if isinstance(value, dict) else value)
        ]
    return all(
        part.nullable if item is None else _is_whole(item, part.type) for item, part in pairs
    )


def _in_minutes(value: Any) -> Any:
    """A time in UTC where its zone was some seconds off, for which RFC 3339 has no place."""
    if isinstance(value, datetime):
        offset = value.utcoffset()
        return value.astimezone(UTC) if offset and offset % _MINUTE else value
    if isinstance(value, dict):
        return {name: _in_minutes(inner) for name, inner in value.items()}
    return [_in_minutes(item) for item in value] if isinstance(value, list) else value


def _not_a_number(values: Mapping[str, Any]) -> str:
    column = next((name for name, value in values.items() if not _is_finite(value)), None)
    return "" if column is None else f"column {column}: JSON has no NaN and no infinity"


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, list) or all(map(_is_finite, value))
