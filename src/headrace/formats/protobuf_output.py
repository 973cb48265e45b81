"""Protobuf messages out of columns, whose schema has an id in a registry.

A schema of Protobuf is a file, so behind the id stands which of its messages it is. The file is
registered as its descriptor, as Confluent's client for Python does. It may import Google's own
files alone: what else it imports would have to be registered before it.

With the newest schema of a registry a message is written by the fields of the use case, since their
numbers and types are all that is written. So that schema has to have them, each the same, and says
where the message stands in its file.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Unpack

import pyarrow as pa
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from headrace.errors import ConfigError, WrongSchema
from headrace.formats.protobuf.columns import columns_of
from headrace.formats.protobuf.filling import NoPlace, fields_misfit, message_of, must_be_there
from headrace.formats.protobuf.messages import class_of, place_of, told_by, written_place
from headrace.formats.python_rows import python_rows
from headrace.formats.registered import HowRegistered, to_register
from headrace.ports import Encoded, SchemaKind, SchemaToRegister, Unencoded, WrittenSchema

_BUILT_IN = "google/protobuf/"


@dataclass(frozen=True, slots=True, init=False)
class ProtobufOutput:
    """Protobuf with a registered schema.

    Example: ``KafkaTopic("{tenant}.pages", encode=ProtobufOutput(Page))``
    """

    name: str
    descriptors: bytes
    registers: SchemaToRegister

    def __init__(
        self,
        message: Any,
        *,
        descriptors: str | Path | None = None,
        **how: Unpack[HowRegistered],
    ) -> None:
        """Say what is written, and how its schema comes by its id, as Confluent's clients have it.

        Args:
            message: a generated class, or the full name of a message in ``descriptors``.
            descriptors: the path of what ``protoc --include_imports --descriptor_set_out`` writes;
                it is read now.
            how: see ``HowRegistered``, such as ``auto_register_schemas=False``.

        Raises:
            ConfigError: the message cannot be, or its file imports one that is not Google's.
        """
        name, files = told_by(message, descriptors)
        made = class_of(name, files).DESCRIPTOR
        columns_of(made)
        others = [one.name for one in made.file.dependencies if not one.name.startswith(_BUILT_IN)]
        if others:
            raise ConfigError(
                f"{name}: its file imports {others[0]}; put both into one to write it"
            )
        text = base64.b64encode(made.file.serialized_pb).decode()
        registers = to_register(WrittenSchema(SchemaKind.PROTOBUF, text), name, **how)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "descriptors", files)
        object.__setattr__(self, "registers", registers)

    def takes(self, column: Literal["value", "key"]) -> dict[str, bool]:
        """The fields; one that knows whether it was set need not be there."""
        del column
        return {field.name: must_be_there(field) for field in _plan(self).descriptor.fields}

    def check(self, found: pa.Schema, schema: WrittenSchema | None = None) -> None:
        """Refuse columns whose type loses what their values say, or that the schema has not."""
        self._place(schema)
        types = {column.name: column.type for column in found}
        name, told = fields_misfit(_plan(self).descriptor, types)
        if told:
            has = f"is {types[name]}" if name in types else "is not there"
            raise WrongSchema(f"column {name!r} {has}: {told}")

    def encode(self, rows: pa.Table, schema: WrittenSchema | None) -> Encoded:
        """One by one: what the message does not take is told with its column."""
        made, unencoded = list[bytes | None](), list[Unencoded]()
        try:
            self.check(rows.schema, schema)
        except (ConfigError, WrongSchema) as error:
            told = str(error)
            return Encoded(made, tuple(Unencoded(row, told) for row in range(rows.num_rows)))
        make = _plan(self).make
        for row, values in enumerate(python_rows(rows)):
            if isinstance(values, str):
                unencoded.append(Unencoded(row, values))
                continue
            try:
                made.append(make(values).SerializeToString(deterministic=True))
            except NoPlace as error:
                unencoded.append(Unencoded(row, str(error)))
        return Encoded(made, tuple(unencoded), self._place(schema))

    def _place(self, schema: WrittenSchema | None) -> bytes:
        """Which message of a schema it is, as it stands behind the id.

        Raises:
            ConfigError: the schema has no such message, or it has other fields there.
        """
        if schema is None or schema == self.registers.schema:
            return _plan(self).place
        return _place_in(schema, self)


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How to write a message by its own schema."""

    descriptor: Any
    place: bytes
    make: Callable[[Mapping[str, Any]], Any]


@lru_cache(maxsize=256)
def _plan(kind: ProtobufOutput) -> _Plan:
    made = class_of(kind.name, kind.descriptors).DESCRIPTOR
    return _Plan(made, written_place(place_of(made))[0], message_of(made))


@lru_cache(maxsize=256)
def _place_in(schema: WrittenSchema, kind: ProtobufOutput) -> bytes:
    theirs, ours = _types(schema), _types(kind.registers.schema)
    found = theirs.messages.get(kind.name)
    if found is None:
        raise ConfigError(f"it has no message {kind.name}")
    reached = [kind.name]
    for name in reached:
        if name in ours.enums:
            _refuse_other_numbers(name, ours.enums[name], theirs.enums.get(name, {}))
        else:
            other = theirs.messages.get(name, ((), DescriptorProto()))[1]
            _refuse_other_fields(name, ours.messages[name][1], other)
            inner = [one.type_name.removeprefix(".") for one in ours.messages[name][1].field]
            known = [one for one in inner if one in ours.messages or one in ours.enums]
            reached += [one for one in dict.fromkeys(known) if one not in reached]
    return written_place(list(found[0]))[0]


@dataclass(frozen=True, slots=True)
class _Types:
    """The types of a file by their full names."""

    #: where each stands, and what it is
    messages: dict[str, tuple[tuple[int, ...], DescriptorProto]]
    #: name -> number of its values
    enums: dict[str, dict[str, int]]

    def add(self, space: str, holder: Any, messages: Any, outer: tuple[int, ...]) -> None:
        """The enums and messages within a file or message."""
        before = f"{space}." if space else ""
        for enum in holder.enum_type:
            self.enums[f"{before}{enum.name}"] = {one.name: one.number for one in enum.value}
        for number, one in enumerate(messages):
            self.messages[f"{before}{one.name}"] = ((*outer, number), one)
            self.add(f"{before}{one.name}", one, one.nested_type, (*outer, number))


def _types(schema: WrittenSchema) -> _Types:
    if schema.kind is not SchemaKind.PROTOBUF:
        raise ConfigError(f"it is {schema.kind}, and Protobuf is written")
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        raise ConfigError("the registry does not tell its descriptor") from None
    made = _Types({}, {})
    made.add(file.package, file, file.message_type, ())
    return made


def _refuse_other_fields(name: str, ours: DescriptorProto, theirs: DescriptorProto) -> None:
    """See that a field is what it is, by its number, in both."""
    known = {field.number: field for field in theirs.field}
    for field in ours.field:
        other = known.get(field.number)
        if other is None or _written(field) != _written(other):
            raise ConfigError(f"{name} has another field {field.number} than {field.name}, or none")


def _refuse_other_numbers(name: str, ours: dict[str, int], theirs: dict[str, int]) -> None:
    """See that a name of an enum is the same number in both."""
    other = next((one for one, number in ours.items() if theirs.get(one) != number), None)
    if other is not None:
        raise ConfigError(f"{name} has another number than {ours[other]} for {other}, or none")


def _written(field: Any) -> tuple[Any, ...]:
    return field.name, field.type, field.label, field.type_name
