"""What a handler returned, as its use case declared it with ``output=``.

Arrow takes types from the values that there are, so a handler that builds a table from lists rarely
has the very types of its sink. What is declared settles that, if nothing is lost: a number may
become wider, an amount or a day get the digits or the type it has in the record. A float is no
amount, a moment is no day, text is no number, and a null is nothing where there has to be
something: these are refused by column and type, as a sink would.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pyarrow.types as at

from headrace.errors import WrongSchema
from headrace.payload.exact import conforming, what_instead


def as_declared(output: pa.Table, declared: pa.Schema, use_case: str) -> pa.Table:
    """The declared columns of a table, in their order and with their types; others are left out.

    Raises:
        WrongSchema: a column is not there, or cannot be what is declared without losing something.
    """
    if output.num_columns == output.num_rows == 0:
        return declared.empty_table()
    missing = [name for name in declared.names if name not in output.column_names]
    if missing:
        raise WrongSchema(
            f"use case {use_case} returned no column {', '.join(missing)}; "
            f"it has {', '.join(output.column_names) or 'none'}"
        )
    try:
        found = conforming(output.select(declared.names), declared)
        columns = [_column(found.column(field.name), field) for field in declared]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as exc:
        raise WrongSchema(f"use case {use_case} returned another table than declared: {exc}") from (
            exc
        )
    return pa.Table.from_arrays(columns, schema=declared)


def _column(column: pa.ChunkedArray[Any], wanted: pa.Field[Any]) -> pa.ChunkedArray[Any]:
    found: Any = column.type
    if not _keeps_all(found, wanted.type):
        instead = what_instead(
            found, amount=at.is_decimal(wanted.type), day=at.is_date(wanted.type)
        )
        raise ValueError(
            f"column {wanted.name!r} of another type: declared {wanted.type}, returned "
            f"{found}{instead}"
        )
    if column.null_count and not wanted.nullable:
        raise ValueError(f"column {wanted.name!r} has a null, and is declared without")
    return column.cast(wanted.type)


def _keeps_all(found: Any, wanted: Any) -> bool:
    """Whether a cast of these types keeps each value, or says which it cannot keep."""
    if at.is_dictionary(found):
        return _keeps_all(found.value_type, wanted)
    if at.is_nested(found):
        return _keeps_all_within(found, wanted)
    pairs = (
        found == wanted or at.is_null(found),
        at.is_integer(found) and (at.is_integer(wanted) or at.is_floating(wanted)),
        at.is_float32(found) and at.is_float64(wanted),
        _is_text(found) and _is_text(wanted),
        _is_bytes(found) and _is_bytes(wanted),
        # Without a zone it is not known which moment it is.
        _is_moment(found) and _is_moment(wanted) and (found.tz is None) == (wanted.tz is None),
    )
    return any(pairs)


def _keeps_all_within(found: Any, wanted: Any) -> bool:
    if at.is_struct(found) and at.is_struct(wanted):
        mine, theirs = _fields(found), _fields(wanted)
        same = [field.name for field in mine] == [field.name for field in theirs]
        return same and all(
            _keeps_all(field.type, other.type) for field, other in zip(mine, theirs, strict=True)
        )
    if at.is_map(found) and at.is_map(wanted):
        keys = _keeps_all(found.key_type, wanted.key_type)
        return keys and _keeps_all(found.item_type, wanted.item_type)
    lists = _is_list(found) and _is_list(wanted)
    return lists and _keeps_all(found.value_type, wanted.value_type)


def _fields(kind: Any) -> list[pa.Field[Any]]:
    return cast("list[pa.Field[Any]]", [kind.field(number) for number in range(kind.num_fields)])


def _is_moment(kind: Any) -> bool:
    return bool(at.is_timestamp(kind))


def _is_list(kind: Any) -> bool:
    return bool(at.is_list(kind) or at.is_large_list(kind))


def _is_text(kind: Any) -> bool:
    return bool(at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    return bool(at.is_binary(kind) or at.is_large_binary(kind) or at.is_fixed_size_binary(kind))
