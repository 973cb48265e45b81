"""Messages of Protobuf out of rows, each the same as its columns say, or refused.

The library is content with much: it rounds a ``float``, and of two fields of one ``oneof`` it keeps
the last. So types of columns are judged first, as far as they tell, and each value is looked at
where they do not. A column that may be null is one whose field knows whether it was set.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow.types as at
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from headrace.errors import Permanent
from headrace.formats.arrow_families import is_bytes, is_list, is_text, stored
from headrace.formats.protobuf.columns import SECONDS, TIMES, WRAPPERS, is_map, is_repeated

#: a value of Python as the library takes it
Put = Callable[[Any], Any]
#: least and most of each kind
INTEGERS: dict[int, tuple[int, int]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_REALS = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class NoPlace(Permanent):
    """A value that its field cannot hold."""


def fields_misfit(descriptor: Any, columns: Mapping[str, Any]) -> tuple[str, str]:
    """The first column that is no field, or loses something, or is missing; and what is told."""
    fields = {field.name: field for field in descriptor.fields}
    for name, arrow in columns.items():
        told = _misfit(fields[name], arrow) if name in fields else "the message has no such field"
        if told:
            return name, told
    missing = next((name for name, field in fields.items() if _must(field, columns)), "")
    return missing, missing and "the message has this field, and it is never null"


def must_be_there(field: Any) -> bool:
    """Whether a field has a value in every message."""
    return bool(field.is_required or not field.has_presence)


def message_of(descriptor: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Makes messages of rows by the names of fields; ``NoPlace`` names the field.

    Rows have columns that ``fields_misfit`` has nothing against.
    """
    puts = {field.name: _put(field) for field in descriptor.fields}
    strict = {field.name for field in descriptor.fields if must_be_there(field)}
    either = [
        [field.name for field in one.fields] for one in descriptor.oneofs if len(one.fields) > 1
    ]
    made = GetMessageClass(descriptor)

    def make(row: Mapping[str, Any]) -> Any:
        values = {}
        for name, value in row.items():
            if value is not None:
                values[name] = _named(name, puts[name], value)
            elif name in strict:
                raise NoPlace(f"column {name}: it must not be null")
        for names in either:
            given = [name for name in names if name in values]
            if len(given) > 1:
                raise NoPlace(f"column {given[1]}: {given[0]} is set, and only one of them may be")
        return made(**values)

    return make


def _must(field: Any, columns: Mapping[str, Any]) -> bool:
    return field.name not in columns and must_be_there(field)


def _named(name: str, put: Put, value: Any) -> Any:
    try:
        return put(value)
    except NoPlace as error:
        raise NoPlace(f"column {name}: {str(error).removeprefix('column ')}") from None


def _put(field: Any) -> Put:
    if is_map(field):
        entry = field.message_type.fields_by_name
        key, value = _one(entry["key"]), _one(entry["value"])
        return lambda given: {key(k): value(_there(v)) for k, v in given.items()}
    one = _one(field)
    if is_repeated(field):
        return lambda given: [one(_there(value)) for value in given]
    return one


def _there(value: Any) -> Any:
    if value is None:
        raise NoPlace("within it is a null where none may be")
    return value


def _one(field: Any) -> Put:
    """For a single value."""
    if field.message_type is not None:
        return _message(field.message_type)
    if field.cpp_type in INTEGERS:
        least, most = INTEGERS[field.cpp_type]
        return lambda value: value if least <= value <= most else _refuse("it has more bits")
    if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return _as_float
    if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return _as_double
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return _enum(field.enum_type)
    return lambda value: value


def _message(descriptor: Any) -> Put:
    name = descriptor.full_name
    if name in TIMES:
        return _moment(descriptor) if name.endswith("Timestamp") else _length(descriptor)
    if name in WRAPPERS:
        value, made = _one(descriptor.fields_by_name["value"]), GetMessageClass(descriptor)
        return lambda given: made(value=value(given))
    return message_of(descriptor)


def _moment(descriptor: Any) -> Put:
    made = GetMessageClass(descriptor)

    def put(value: datetime.datetime) -> Any:
        seconds, micros = divmod((value - _EPOCH) // _MICROSECOND, 1_000_000)
        return made(seconds=seconds, nanos=micros * 1000)

    return put


def _length(descriptor: Any) -> Put:
    made, (lowest, highest) = GetMessageClass(descriptor), SECONDS[descriptor.full_name]

    def put(value: datetime.timedelta) -> Any:
        micros = value // _MICROSECOND
        seconds, rest = divmod(abs(micros), 1_000_000)
        sign = -1 if micros < 0 else 1
        if not lowest <= sign * seconds <= highest:
            raise NoPlace("it is longer than a Duration may be")
        return made(seconds=sign * seconds, nanos=sign * rest * 1000)

    return put


def _enum(enum: Any) -> Put:
    numbers = {value.name: value.number for value in enum.values}

    def put(value: str) -> int:
        if value in numbers:
            return int(numbers[value])
        # As such a number is read that has no name; where none may be, nobody would read it.
        number = int(value) if value.removeprefix("-").isdecimal() and len(value) < 12 else None
        least, most = INTEGERS[FieldDescriptor.CPPTYPE_INT32]
        is_exact = number is not None and str(number) == value and least <= number <= most
        if number is None or not is_exact or enum.is_closed or number in numbers.values():
            raise NoPlace(f"it is no name of {enum.name}")
        return number

    return put


def _as_float(value: float) -> float:
    try:
        again = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        again = None
    is_same = again == value or math.isnan(value)
    return value if is_same else _refuse("a float has not its digits")


def _as_double(value: float) -> float:
    is_same = math.isnan(value) or float(value) == value
    return value if is_same else _refuse("a double has not its digits")


def _refuse(told: str) -> Any:
    raise NoPlace(told)


def _misfit(field: Any, arrow: Any) -> str:
    """What values of an Arrow type lose in a field, and what to do; empty: they fit."""
    arrow = stored(arrow)
    if at.is_null(arrow):
        return ""
    if is_map(field):
        entry = field.message_type.fields_by_name
        if not at.is_map(arrow):
            return f"it cannot be a map of {entry['value'].name}s"
        return _misfit_of_one(entry["key"], arrow.key_type) or _misfit_of_one(
            entry["value"], arrow.item_type
        )
    if not is_repeated(field):
        return _misfit_of_one(field, arrow)
    return _misfit_of_one(field, arrow.value_type) if is_list(arrow) else "it has to be a list"


def _misfit_of_one(field: Any, arrow: Any) -> str:
    arrow, kind = stored(arrow), field.message_type
    if at.is_null(arrow):
        return ""
    if kind is None:
        return "" if _takes(field)(arrow) else "it cannot be that field without a loss; cast it"
    if kind.full_name in WRAPPERS:
        return _misfit_of_one(kind.fields_by_name["value"], arrow)
    if kind.full_name in TIMES:
        return _time_misfit(kind, arrow)
    if not at.is_struct(arrow):
        return f"it has to be a struct with the fields of {kind.name}"
    name, told = fields_misfit(kind, {inner.name: inner.type for inner in arrow})
    return told and f"its field {name}: {told}"


def _time_misfit(kind: Any, arrow: Any) -> str:
    is_moment = kind.full_name.endswith("Timestamp")
    is_one = at.is_timestamp(arrow) and arrow.tz is not None if is_moment else at.is_duration(arrow)
    if is_one and arrow.unit != "ns":
        return ""
    wanted = "timestamp('us', 'UTC')" if is_moment else "duration('us')"
    return f"{kind.name} is written of {wanted}; cast it"


def _takes(field: Any) -> Callable[[Any], bool]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return is_bytes
    if field.cpp_type in (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_ENUM):
        return is_text
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return at.is_boolean
    if field.cpp_type in _REALS:
        return lambda arrow: at.is_integer(arrow) or at.is_floating(arrow)
    return at.is_integer
