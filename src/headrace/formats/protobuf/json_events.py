"""Events in plain JSON as messages of Protobuf, by a file that a registry keeps.

Fields are named as in the file or as Protobuf's own JSON names them, and values are as that has
them: an integer is a number or a text of digits, an enum its name, bytes are base64, times are RFC
3339, a wrapper is its value. Protobuf's library rounds a ``float``, drops a second field of one
``oneof`` and takes a null for nothing; so here each value is looked at. What would not come back as
it was written is refused, with the place and what was expected.

A subject says nothing of messages, so the first one of the file is written. A file that imports
others than Google's own is refused, and so is a message that holds itself.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from headrace.errors import ConfigError
from headrace.formats.avro.json_leaves import real_of
from headrace.formats.avro.json_values import Misfit, integer_of, unlike
from headrace.formats.protobuf.columns import SECONDS, TIMES, WRAPPERS, is_map, is_repeated
from headrace.formats.protobuf.filling import INTEGERS
from headrace.formats.protobuf.messages import class_of

#: what a value of JSON is for the library, or ``Misfit``
Put = Callable[[Any], Any]
_BUILT_IN = re.compile(r"google/protobuf/([a-z_]+)\.proto")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,19})")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
_LENGTH = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?s")


@dataclass(frozen=True, slots=True, eq=False)
class MessageWriter:
    """Writes events as one message."""

    #: the message, with its package
    name: str
    _put: Put

    def written(self, value: Any) -> bytes:
        """A parsed event, numbers as ``JsonWriter`` takes them; raises ``Misfit``."""
        made: bytes = self._put(value).SerializeToString(deterministic=True)
        return made


def message_writer(descriptor: str) -> MessageWriter:
    """What writes by a file; it is told as its descriptor, in base64.

    Raises:
        ConfigError: it is none, or none that one writes by.
    """
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(descriptor, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        raise ConfigError("the registry does not tell its descriptor") from None
    if not file.message_type:
        raise ConfigError("the file has no message")
    files = FileDescriptorSet(file=[*_imported(file.dependency), file])
    first = file.message_type[0].name
    name = f"{file.package}.{first}" if file.package else first
    made = class_of(name, files.SerializeToString(deterministic=True))
    return MessageWriter(name, _Builder().message(made.DESCRIPTOR))


def _imported(names: Iterable[str]) -> Iterator[FileDescriptorProto]:
    """Google's own files, each after those that it imports; one may come twice."""
    for name in names:
        module = _module_of(name)
        if module is None:
            raise ConfigError(f"its file imports {name[:200]}; put both into one")
        file = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        yield from _imported(file.dependency)
        yield file


def _module_of(name: str) -> Any:
    """What the library has of a file; None: it is none of Google's own."""
    found = _BUILT_IN.fullmatch(name)
    try:
        return found and importlib.import_module(f"google.protobuf.{found[1]}_pb2")
    except ImportError:
        return None


@dataclass(slots=True)
class _Builder:
    """Looks at each message once, however often it is named."""

    known: dict[str, Put | None] = field(default_factory=dict)

    def message(self, kind: Any) -> Put:
        """What makes messages of a type."""
        name = kind.full_name
        if name not in self.known:
            self.known[name] = None
            self.known[name] = self._made(kind)
        put = self.known[name]
        if put is None:
            raise ConfigError(f"{name} holds itself, and no event is written as that")
        return put

    def _made(self, kind: Any) -> Put:
        if kind.full_name in TIMES:
            return _time(kind)
        if kind.full_name in WRAPPERS:
            value, made = self._one(kind.fields_by_name["value"]), GetMessageClass(kind)
            return lambda given: made(value=value(given))
        return _message(kind, {one.name: self._field(one) for one in kind.fields})

    def _field(self, one: Any) -> Put:
        if is_map(one):
            entry = one.message_type.fields_by_name
            return _map(_key(entry["key"]), self._one(entry["value"]))
        return _list(self._one(one)) if is_repeated(one) else self._one(one)

    def _one(self, one: Any) -> Put:
        return self.message(one.message_type) if one.message_type is not None else _leaf(one)


def _message(kind: Any, puts: dict[str, Put]) -> Put:
    # A field is known by its name even where that is how JSON calls another one.
    fields = {one.json_name: one for one in kind.fields} | {one.name: one for one in kind.fields}
    needed = [one.name for one in kind.fields if one.is_required]
    made = GetMessageClass(kind)

    def put(value: Any) -> Any:
        if type(value) is not dict:
            raise unlike("an object", value)
        given: dict[str, Any] = {}
        chosen: dict[str, str] = {}
        for name, inner in value.items():
            one = fields.get(name)
            if one is None:
                raise Misfit("the message has no such field", name)
            if inner is None and one.has_presence and not one.is_required:
                continue
            _choose(one, name, given, chosen)
            try:
                given[one.name] = puts[one.name](inner)
            except Misfit as misfit:
                misfit.path.append(name)
                raise
        for name in needed:
            if name not in given:
                raise Misfit("it is missing, and the message requires it", name)
        return made(**given)

    return put


def _choose(one: Any, name: str, given: dict[str, Any], chosen: dict[str, str]) -> None:
    """See that a field is set once, and one alone of those of which one may be."""
    if one.name in given:
        raise Misfit("the event has this field already, by its other name", name)
    either = one.containing_oneof
    if either is not None:
        if either.name in chosen:
            raise Misfit(f"{chosen[either.name]} is set, and only one of them may be", name)
        chosen[either.name] = one.name


def _map(key_of: Put, put: Put) -> Put:
    def all_of(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise unlike("an object", value)
        found: dict[Any, Any] = {}
        for name, inner in value.items():
            try:
                key, made = key_of(name), put(inner)
            except Misfit as misfit:
                misfit.path.append(name)
                raise
            if key in found:
                raise Misfit("the map has this key already", name)
            found[key] = made
        return found

    return all_of


def _list(put: Put) -> Put:
    def made(value: Any) -> list[Any]:
        if type(value) is not list:
            raise unlike("a list", value)
        found: list[Any] = []
        try:
            for item in value:
                found.append(put(item))  # noqa: PERF401 - how many there are is the place
        except Misfit as misfit:
            misfit.path.append(len(found))
            raise
        return found

    return made


def _key(one: Any) -> Put:
    """A key of a map, which is a text in JSON."""
    if one.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _text
    if one.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return _true_or_false
    return _leaf(one)


def _true_or_false(name: str) -> bool:
    if name not in ("true", "false"):
        raise Misfit("a key that is true or false is expected")
    return name == "true"


def _leaf(one: Any) -> Put:
    if one.type == FieldDescriptor.TYPE_BYTES:
        return _bytes
    if one.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _text
    if one.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return _boolean
    if one.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return _enum(one.enum_type)
    if one.cpp_type in INTEGERS:
        return _whole(*INTEGERS[one.cpp_type])
    is_float = one.cpp_type == FieldDescriptor.CPPTYPE_FLOAT
    return real_of("float" if is_float else "double")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise unlike("a text", value)
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise unlike("true or false", value)
    return value


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise unlike("bytes in base64", value)
    try:
        return binascii.a2b_base64(value.encode(), strict_mode=True)
    except binascii.Error:
        raise Misfit("bytes in base64 are expected, with padding") from None


def _whole(least: int, most: int) -> Put:
    expected = f"a whole number from {least} to {most}"

    def put(value: Any) -> int:
        if type(value) is str:
            whole = int(value) if _INTEGER.fullmatch(value) else None
        else:
            whole = None if type(value) is bool else integer_of(value)
        if whole is None or not least <= whole <= most:
            raise Misfit(f"{expected} is expected")
        return whole

    return put


def _enum(kind: Any) -> Put:
    numbers = {value.name: value.number for value in kind.values}
    (least, most), known = INTEGERS[FieldDescriptor.CPPTYPE_INT32], {*numbers.values()}

    def put(value: Any) -> int:
        if type(value) is int and least <= value <= most and (value in known or not kind.is_closed):
            return value
        if type(value) is not str or value not in numbers:
            raise Misfit(f"a name of {kind.name} is expected")
        return int(numbers[value])

    return put


def _time(kind: Any) -> Put:
    is_moment = kind.full_name.endswith("Timestamp")
    form = _MOMENT if is_moment else _LENGTH
    expected = "a time as 2026-11-30T08:15:00.5Z" if is_moment else "a duration as 1.5s"
    made, (lowest, highest) = GetMessageClass(kind), SECONDS[kind.full_name]

    def put(value: Any) -> Any:
        found: Any = made()
        is_one = type(value) is str and form.fullmatch(value) is not None
        try:
            found.FromJsonString(value if is_one else "")
        except (ValueError, OverflowError):
            raise Misfit(f"{expected} is expected") from None
        if not lowest <= found.seconds <= highest:
            raise Misfit(f"{expected} is expected, of a calendar")
        return found

    return put
