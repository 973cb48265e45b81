"""Whether a column of Arrow, by its type, can be written as an Avro type without a loss.

Who encodes is content with much: it writes 0.1 as a ``float`` of 32 bits, a time as one with
fewer digits, 2^53 + 1 as a ``double``. So a pair of types is named here, or it is refused. Some
pairs lose nothing for some values, such as times in microseconds that are whole milliseconds, or
floats of 64 bits that came as a ``float``: then each value is to be read back and compared, as
``by_value`` says.

Nulls, and numbers that need more bits than an integer has, are told row by row, and not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow.types as at

from headrace.formats.arrow_families import is_bytes, is_list, is_text, stored
from headrace.formats.avro.schema_text import ABSENT, AvroType

#: units of columns, each finer than the one before; whole ones of a finer unit fit as well
_FINER = ("s", "ms", "us", "ns")
#: the unit of a logical type
_UNITS = {"millis": "ms", "micros": "us"}
#: integers, and floats, of so many bits are exact in a real of Avro
_EXACT_BITS = {"float": (16, 32), "double": (32, 64)}


def misfit(kind: AvroType, arrow: Any) -> str:
    """What values of an Arrow type lose as one of Avro's, and what to do; empty: they fit."""
    arrow = stored(arrow)
    if at.is_null(arrow):
        return ""
    if kind.name == "union":
        told = [misfit(branch, arrow) for branch in _branches(kind)]
        several = "no type of the union takes it without a loss"
        return "" if "" in told else told[0] if len(told) == 1 else several
    if at.is_timestamp(arrow):
        return _time_misfit(kind.logical, arrow)
    if kind.name == "record" and at.is_struct(arrow):
        name, told_of = fields_misfit(kind, {field.name: field.type for field in arrow})
        return told_of and f"its field {name}: {told_of}"
    if not _TAKES[kind.logical or kind.name](arrow):
        return _told(kind, arrow)
    return next(filter(None, (misfit(*pair) for pair in _inner(kind, arrow))), "")


def fields_misfit(record: AvroType, columns: Mapping[str, Any]) -> tuple[str, str]:
    """The first column that is no field, or loses something, or is missing; and what is told."""
    fields = {field.name: field for field in record.fields}
    for name, arrow in columns.items():
        told = (
            misfit(fields[name].kind, arrow) if name in fields else "the schema has no such field"
        )
        if told:
            return name, told
    for name, field in fields.items():
        if name not in columns and field.default is ABSENT:
            return name, "the schema has this field, and no default for it"
    return "", ""


def by_value(kind: AvroType, arrow: Any) -> bool:
    """Whether only a value itself tells if it is exact as that type, which its type fits."""
    arrow = stored(arrow)
    if at.is_null(arrow):
        return False
    if kind.name != "union" and (at.is_timestamp(arrow) or at.is_time(arrow)):
        unit = _UNITS[kind.logical.rpartition("-")[2]]
        return _FINER.index(arrow.unit) > _FINER.index(unit)
    if kind.name == "union":
        branches = _branches(kind)
        return len(branches) > 1 or by_value(branches[0], arrow)
    if _is_number(arrow):
        of_integers, of_floats = _EXACT_BITS.get(kind.name, (64, 64))
        return bool(arrow.bit_width > (of_integers if at.is_integer(arrow) else of_floats))
    if kind.logical == "uuid":
        return is_text(arrow)
    return any(by_value(*pair) for pair in _inner(kind, arrow))


def _branches(kind: AvroType) -> list[AvroType]:
    return [branch for branch in kind.inner if branch.name != "null"]


def _inner(kind: AvroType, arrow: Any) -> Iterator[tuple[AvroType, Any]]:
    """What is within both."""
    if kind.name == "array":
        yield kind.inner[0], arrow.value_type
    elif kind.name == "map":
        yield kind.inner[0], arrow.item_type
    elif kind.name == "record":
        types = {field.name: field.type for field in arrow}
        yield from ((field.kind, types[field.name]) for field in kind.fields if field.name in types)


def _time_misfit(logical: str, arrow: Any) -> str:
    kind, _, unit = logical.rpartition("-")
    if unit == "nanos":
        return f"{logical} is written of whole numbers; cast it to timestamp('ns') and to int64"
    if kind not in ("timestamp", "local-timestamp"):
        return "the schema has no time there"
    if (arrow.tz is None) is (kind == "timestamp"):
        has = "a zone" if arrow.tz else "no zone"
        return f"{logical} is not a time with {has}"
    return ""


def _told(kind: AvroType, arrow: Any) -> str:
    if kind.logical.startswith("time-") and at.is_time(arrow):
        return "a time of Python has no nanoseconds; cast it to time64('us')"
    return f"it cannot be {kind.told} without a loss; cast it, or name another type in the schema"


def _is_number(arrow: Any) -> bool:
    return at.is_integer(arrow) or at.is_floating(arrow)


def _is_map(arrow: Any) -> bool:
    return at.is_map(arrow) and is_text(stored(arrow.key_type))


def _is_time(arrow: Any) -> bool:
    """Python's, as which rows are written: one in nanoseconds would be cut."""
    return at.is_time(arrow) and arrow.unit != "ns"


def _is_nothing(arrow: Any) -> bool:
    """Timestamps, structs and nulls have been looked at before."""
    del arrow
    return False


#: Avro's type, or its logical one -> whether it takes an Arrow type
_TAKES: Mapping[str, Callable[[Any], bool]] = {
    "null": _is_nothing,
    "record": _is_nothing,
    "timestamp-millis": _is_nothing,
    "timestamp-micros": _is_nothing,
    "local-timestamp-millis": _is_nothing,
    "local-timestamp-micros": _is_nothing,
    "boolean": at.is_boolean,
    "int": at.is_integer,
    "long": at.is_integer,
    "float": _is_number,
    "double": _is_number,
    "bytes": is_bytes,
    "fixed": is_bytes,
    "string": is_text,
    "enum": is_text,
    "uuid": lambda arrow: is_text(arrow) or is_bytes(arrow),
    "decimal": at.is_decimal,
    "date": at.is_date,
    "timestamp-nanos": at.is_integer,
    "local-timestamp-nanos": at.is_integer,
    "time-millis": _is_time,
    "time-micros": _is_time,
    "array": is_list,
    "map": _is_map,
}
