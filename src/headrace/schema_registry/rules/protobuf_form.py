"""What a Protobuf schema is: one file, as text or as a descriptor, and its canonical form.

Some clients send the text of a file, Confluent's Python client sends its descriptor in base64. Both
are one schema if they say the same, so both are brought to a descriptor: text by ``protoc`` itself,
which whoever calls hands in (``Compile``), and a descriptor by the library's own pool, which
refuses what does not fit together. Comments, the file's name and names for JSON that follow from
those of fields do not count. The order of messages counts even when it is normalized: records name
a message by its place.

Editions are refused: what is required and how a message is written is said there by features, which
nothing here resolves.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Protocol

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry.rules.texts import MOST_LEVELS, BadSchema, Form

#: what the schema itself is called while it is compiled
SELF = "headrace-schema.proto"
_BUILT_IN = [
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
]
_BUILT_IN_PREFIX = "google/protobuf/"


class Compile(Protocol):
    """Compiles the text of a file."""

    def __call__(
        self, text: str, others: Sequence[tuple[str, str]], described: Sequence[FileDescriptorProto]
    ) -> list[FileDescriptorProto]:
        """The files that it comes to, imports before what imports them, itself last.

        Args:
            text: of the file, which is to be called ``SELF``.
            others: name and text of what it may import.
            described: the same, of what there is no text of.

        Raises:
            BadSchema: protoc refuses it, and says why.
        """


def protobuf_form(schema: WrittenSchema, compile_: Compile) -> Form:
    """The canonical form of a file.

    Raises:
        BadSchema: it is none, or imports what is not there.
    """
    *_, file = protobuf_files(schema, compile_)
    return Form(_text(canonical(file)), _text(_normalized(file)), file.SerializeToString())


def protobuf_files(schema: WrittenSchema, compile_: Compile) -> list[FileDescriptorProto]:
    """The files that a schema comes to, imports before what imports them, itself last.

    Raises:
        BadSchema: it is none, imports what is not there, or has an edition.
    """
    files = _files(schema, compile_)
    for file in files:
        if file.syntax not in ("", "proto2", "proto3"):
            raise BadSchema("editions are not supported: write it as proto2 or proto3")
    return files


def _files(schema: WrittenSchema, compile_: Compile) -> list[FileDescriptorProto]:
    others = [(name, text, described(text, name)) for name, text in schema.references]
    own = described(schema.text, SELF)
    if own is None:
        texts = [(name, text) for name, text, known in others if known is None]
        known = [known for _, _, known in others if known is not None]
        return compile_(schema.text, texts, known)
    files = [
        known if known is not None else _compiled(name, text, others, compile_)
        for name, text, known in others
    ]
    return _fitting([*files, own])


def described(text: str, name: str) -> FileDescriptorProto | None:
    """The file of a descriptor in base64; None: it is the text of a file.

    Raises:
        BadSchema: it is base64 of something else.
    """
    try:
        raw = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        return None
    try:
        file = FileDescriptorProto.FromString(raw)
    except (DecodeError, RecursionError) as exc:
        raise BadSchema("it is base64, and no descriptor of a file") from exc
    if not raw:
        raise BadSchema("it is empty")
    file.name = name
    return file


def _compiled(
    name: str,
    text: str,
    others: Sequence[tuple[str, str, FileDescriptorProto | None]],
    compile_: Compile,
) -> FileDescriptorProto:
    texts = [(other, text) for other, text, known in others if known is None and other != name]
    known = [known for _, _, known in others if known is not None]
    file = compile_(text, texts, known)[-1]
    file.name = name
    return file


def _fitting(files: Sequence[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """The files with those that come with the library, if they fit together."""
    pool, needed = DescriptorPool(), [*_needed_built_in(files), *files]
    try:
        for file in needed:
            pool.AddSerializedFile(file.SerializeToString())
    except (TypeError, ValueError, KeyError) as exc:
        raise BadSchema(f"the descriptor does not fit together: {str(exc)[:500]}") from exc
    return needed


def _needed_built_in(files: Iterable[FileDescriptorProto]) -> list[FileDescriptorProto]:
    found: dict[str, FileDescriptorProto] = {}

    def add(name: str) -> None:
        short = name.removeprefix(_BUILT_IN_PREFIX).removesuffix(".proto")
        if name in found or not name.startswith(_BUILT_IN_PREFIX) or short not in _BUILT_IN:
            return
        file = FileDescriptorProto()
        import_module(f"google.protobuf.{short}_pb2").DESCRIPTOR.CopyToProto(file)
        for dependency in file.dependency:
            add(dependency)
        found[name] = file

    given = {file.name for file in files}
    for file in files:
        for dependency in file.dependency:
            if dependency not in given:
                add(dependency)
    return [*found.values()]


def canonical(file: FileDescriptorProto) -> FileDescriptorProto:
    """A file without what does not count."""
    made = FileDescriptorProto()
    made.CopyFrom(file)
    made.ClearField("name")
    made.ClearField("source_code_info")
    if made.syntax == "proto2":
        made.ClearField("syntax")
    for field in _fields_of(made):
        if field.json_name == json_name(field.name):
            field.ClearField("json_name")
    return made


def _normalized(file: FileDescriptorProto) -> FileDescriptorProto:
    made = canonical(file)
    made.dependency.sort()
    made.ClearField("public_dependency")
    made.public_dependency.extend(
        sorted(made.dependency.index(file.dependency[old]) for old in file.public_dependency)
    )
    for message in messages_of(made.message_type):
        fields = sorted(message.field, key=lambda field: field.number)
        del message.field[:]
        message.field.extend(fields)
    return made


def messages_of(messages: Iterable[DescriptorProto], depth: int = 0) -> Iterable[DescriptorProto]:
    """Messages and those inside of them.

    Raises:
        BadSchema: too many levels.
    """
    if depth > MOST_LEVELS:
        raise BadSchema(f"more than {MOST_LEVELS} levels are inside one another")
    for message in messages:
        yield message
        yield from messages_of(message.nested_type, depth + 1)


def json_name(name: str) -> str:
    """What a field is called in JSON unless somebody says otherwise."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _fields_of(file: FileDescriptorProto) -> Iterable[FieldDescriptorProto]:
    for message in messages_of(file.message_type):
        yield from message.field
        yield from message.extension
    yield from file.extension


def _text(message: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()
