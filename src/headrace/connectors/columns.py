"""Whether a handler's table is what its sink takes.

A wrong column should be said by its name before a database or a broker says it by a number. So a
sink names its columns with a few kinds, and a table is compared with them by its schema alone:
nothing is cast, and a column too many is refused like one too few, since data must not be dropped
in silence. Values (a null in a key, a text too long) are for the sink to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as at

from headrace.errors import WrongSchema
from headrace.payload.exact import digits_of, may_be_date, may_be_decimal, what_instead

_Type = pa.DataType


def _is_text(found: _Type) -> bool:
    return at.is_string(found) or at.is_large_string(found)


def _is_bytes(found: _Type) -> bool:
    return at.is_binary(found) or at.is_large_binary(found) or at.is_fixed_size_binary(found)


def _is_bigint(found: _Type) -> bool:
    # Half of the unsigned 64-bit numbers do not fit a signed column.
    return at.is_integer(found) and not at.is_uint64(found)


def _is_timestamp(found: Any) -> bool:
    # Without a zone nobody can say which moment is meant.
    return at.is_timestamp(found) and found.tz is not None


def _is_headers(found: Any) -> bool:
    if not at.is_list(found) or not at.is_struct(found.value_type):
        return False
    inner = {field.name: field.type for field in found.value_type}
    return set(inner) == {"key", "value"} and _is_text(inner["key"]) and _is_bytes(inner["value"])


#: kind of a column -> whether an Arrow type is of that kind
KINDS: Mapping[str, Callable[[_Type], bool]] = {
    "text": _is_text,
    "bigint": _is_bigint,
    "double": at.is_floating,
    "boolean": at.is_boolean,
    "bytes": _is_bytes,
    "timestamp": _is_timestamp,
    "date": may_be_date,
    "bytes or text": lambda found: _is_bytes(found) or _is_text(found),
    "headers": _is_headers,
}

#: kinds of the columns of tables
_OF_TABLES: Final = ("text", "bigint", "double", "boolean", "bytes", "timestamp", "date")


def demand_kind(kind: str, *more: str) -> None:
    """See that a kind is one of tables, or one of ``more``.

    Raises:
        ValueError: there is no such kind.
    """
    if digits_of(kind) is None and kind not in (*_OF_TABLES, *more):
        known = ", ".join((*_OF_TABLES, *more))
        raise ValueError(f"kind {kind!r} is none of {known}, decimal(p, s)")


def check_columns(
    found: pa.Schema,
    expected: Mapping[str, str],
    where: str,
    optional: Mapping[str, str] | None = None,
) -> None:
    """Compare the schema of a handler's table with the columns a sink takes.

    Args:
        found: the schema of the table.
        expected: name and kind (of ``KINDS``) of each column that must be there, in any order.
        where: names the sink, for the message.
        optional: columns that may be there.

    Raises:
        WrongSchema: the message names the column, what was expected and what was found.
    """
    names = found.names
    for name, kind in expected.items():
        if name not in names:
            has = ", ".join(names) or "no columns"
            raise WrongSchema(
                f"{where}: the table returned has {has}, but no column {name!r} ({kind})"
            )
    known = {**expected, **(optional or {})}
    for field in found:
        _check_field(field, known, where)
        if names.count(field.name) > 1:
            raise WrongSchema(f"{where}: the table returned has column {field.name!r} twice")


def _check_field(field: pa.Field[Any], known: Mapping[str, str], where: str) -> None:
    kind = known.get(field.name)
    if kind is None:
        raise WrongSchema(
            f"{where}: the table returned has a column {field.name!r} ({field.type}) that is not "
            f"expected; expected are {', '.join(known)}"
        )
    # A column of nulls only has no type of its own; it can be any.
    if not at.is_null(field.type) and not is_of(kind, field.type):
        raise WrongSchema(
            f"{where}: column {field.name!r} must be {kind}, the table returned has {field.type}"
            f"{what_instead(field.type, amount=digits_of(kind) is not None, day=kind == 'date')}"
        )


def is_of(kind: str, found: pa.DataType) -> bool:
    """Whether an Arrow type is of a kind, of ``KINDS`` or ``decimal(p, s)``."""
    return may_be_decimal(found) if digits_of(kind) else KINDS[kind](found)
