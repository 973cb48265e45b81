"""The columns of a message, and how they are filled from many messages.

A field that knows whether it was set (``optional``, a message, one of ``oneof``) may be null. The
others have their default. Numbers keep all their bits, those without a sign too; a float is one of
64 bits; an enum is the name of its value, or for a number without a name that number as text. Times
are cut to microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from headrace.errors import ConfigError, Permanent
from headrace.model.years import FIRST_S, LAST_S

#: of many messages, of which some may be missing
Fill = Callable[[Sequence[Any]], Any]
_PLAIN: dict[int, pa.DataType] = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.uint32(),
    FieldDescriptor.CPPTYPE_UINT64: pa.uint64(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float64(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}
#: messages that hold one value
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in (
        "Double",
        "Float",
        "Int64",
        "UInt64",
        "Int32",
        "UInt32",
        "Bool",
        "String",
        "Bytes",
    )
}
#: messages that are a moment, or a length of time
TIMES: dict[str, pa.DataType] = {
    "google.protobuf.Timestamp": pa.timestamp("us", "UTC"),
    "google.protobuf.Duration": pa.duration("us"),
}
#: seconds that a time may have, lowest and highest
SECONDS = {
    "google.protobuf.Timestamp": (FIRST_S, LAST_S),
    "google.protobuf.Duration": (-315_576_000_000, 315_576_000_000),
}


class NoValue(Permanent):
    """What the library reads and no column can hold, such as a time that no calendar has."""


def columns_of(descriptor: Any) -> list[pa.Field[Any]]:
    """The columns of all fields of a message.

    Raises:
        ConfigError: it holds itself, or has no field.
    """
    return _fields(descriptor, ())


def fill_of(field: Any) -> Fill:
    """Makes the column of a field."""
    get = attrgetter(field.name)
    if is_map(field):
        return _map_filler(field, get)
    if is_repeated(field):
        return _list_filler(field, get)
    values = _values_filler(field)
    if not field.has_presence:
        return lambda messages: values([m if m is None else get(m) for m in messages])
    name = field.name

    def fill(messages: Sequence[Any]) -> Any:
        there = [m is not None and m.HasField(name) for m in messages]
        return values([get(m) if is_ else None for m, is_ in zip(messages, there, strict=True)])

    return fill


def must_be_set(descriptor: Any, outer: tuple[str, ...] = ()) -> bool:
    """Whether a field within is ``required``, which the library does not look at by itself."""
    if descriptor.full_name in outer:
        return False
    return any(
        field.is_required
        or (field.message_type and must_be_set(field.message_type, (*outer, descriptor.full_name)))
        for field in descriptor.fields
    )


def _fields(descriptor: Any, outer: tuple[str, ...]) -> list[pa.Field[Any]]:
    if descriptor.full_name in outer:
        raise ConfigError(f"{descriptor.full_name} holds itself, and no column can")
    if not descriptor.fields:
        raise ConfigError(f"{descriptor.full_name} has no field, and so no column")
    return [_field(field, (*outer, descriptor.full_name)) for field in descriptor.fields]


def _field(field: Any, outer: tuple[str, ...]) -> pa.Field[Any]:
    if is_map(field):
        entry = field.message_type.fields_by_name
        key: Any = _kind(entry["key"], outer)
        value: Any = pa.field("value", _kind(entry["value"], outer), nullable=False)
        kind: pa.DataType = pa.map_(key, value)
        return pa.field(field.name, kind, nullable=False)
    if is_repeated(field):
        item = pa.field("item", _kind(field, outer), nullable=False)
        return pa.field(field.name, pa.list_(item), nullable=False)
    nullable = field.has_presence and not field.is_required
    return pa.field(field.name, _kind(field, outer), nullable=nullable)


def _kind(field: Any, outer: tuple[str, ...]) -> pa.DataType:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return pa.binary()
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.string()
    if field.message_type is None:
        return _PLAIN[field.cpp_type]
    name = field.message_type.full_name
    if name in WRAPPERS:
        return _kind(field.message_type.fields_by_name["value"], outer)
    return TIMES.get(name) or pa.struct(_fields(field.message_type, outer))


def is_repeated(field: Any) -> bool:
    """Whether it is a list, or a map."""
    return bool(field.is_repeated)


def is_map(field: Any) -> bool:
    """Whether it is a map."""
    kind = field.message_type
    return kind is not None and is_repeated(field) and kind.GetOptions().map_entry


def _values_filler(field: Any) -> Fill:
    """Makes a column of values of a field, of which some may be missing."""
    if field.message_type is not None:
        return _messages_filler(field.message_type)
    kind = _kind(field, ())
    if field.cpp_type != FieldDescriptor.CPPTYPE_ENUM:
        return lambda values: pa.array(values, kind)
    names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
    names[None] = None
    return lambda values: pa.array([names[v] if v in names else str(v) for v in values], kind)


def _messages_filler(descriptor: Any) -> Fill:
    if descriptor.full_name in TIMES:
        return _times_filler(descriptor.full_name)
    if descriptor.full_name in WRAPPERS:
        inner = _values_filler(descriptor.fields_by_name["value"])
        return lambda messages: inner([m if m is None else m.value for m in messages])
    fills = [fill_of(field) for field in descriptor.fields]
    fields = _fields(descriptor, ())
    empty = GetMessageClass(descriptor)()

    def fill(messages: Sequence[Any]) -> Any:
        gone = pa.array([message is None for message in messages], pa.bool_())
        # Below a message that is not there stands an empty one: most of its fields are never null.
        present = [empty if message is None else message for message in messages]
        children = [fill(present) for fill in fills]
        return pa.StructArray.from_arrays(children, fields=fields, mask=gone)

    return fill


def _times_filler(name: str) -> Fill:
    kind, (lowest, highest) = TIMES[name], SECONDS[name]
    is_time = name.endswith("Timestamp")

    def micros(message: Any) -> int | None:
        if message is None:
            return None
        seconds, nanos = message.seconds, message.nanos
        signed = nanos >= 0 if is_time else seconds * nanos >= 0
        if not (lowest <= seconds <= highest and abs(nanos) < 1_000_000_000 and signed):
            raise NoValue("a time that no calendar has" if is_time else "a duration that is none")
        return int(seconds * 1_000_000 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000)))

    return lambda messages: pa.array([micros(message) for message in messages], kind)


def _list_filler(field: Any, get: Callable[[Any], Any]) -> Fill:
    values, kind = _values_filler(field), _field(field, ()).type

    def fill(messages: Sequence[Any]) -> Any:
        lists = [() if message is None else get(message) for message in messages]
        items = values(list(chain.from_iterable(lists)))
        return pa.ListArray.from_arrays(_edges(lists), items, type=kind)

    return fill


def _map_filler(field: Any, get: Callable[[Any], Any]) -> Fill:
    entry, kind = field.message_type.fields_by_name, _field(field, ()).type
    keys, values = _values_filler(entry["key"]), _values_filler(entry["value"])

    def fill(messages: Sequence[Any]) -> Any:
        maps = [() if m is None else sorted(get(m).items(), key=_key) for m in messages]
        pairs = list(chain.from_iterable(maps))
        return pa.MapArray.from_arrays(
            _edges(maps), keys([k for k, _ in pairs]), values([v for _, v in pairs]), type=kind
        )

    return fill


def _key(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _edges(lists: Sequence[Any]) -> Any:
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
