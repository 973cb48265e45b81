"""Whether what one Protobuf file wrote can be read by another, as far as the wire goes.

No library does this in Python, so the public rules of Protobuf's own documentation are here, field
by field, and the two of Confluent's registry that go beyond the wire: a message must not disappear,
and neither must a field of a oneof, nor may the package change, since whole names are what ``Any``
and subjects named after records go by. A field is known by its number, a message by its whole name,
whichever of the files it is in.

Not judged: options, services, default values, reserved numbers (protoc holds a file to its own),
extensions. What changes there is compatible. A group counts as a message of another kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_F = FieldDescriptorProto
#: kinds that one wire format has, of which each reads the others
_WIRE: dict[int, str] = {
    **dict.fromkeys(
        (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM),
        "a varint",
    ),
    **dict.fromkeys((_F.TYPE_SINT32, _F.TYPE_SINT64), "a zigzag varint"),
    **dict.fromkeys((_F.TYPE_FIXED32, _F.TYPE_SFIXED32), "32 fixed bits"),
    **dict.fromkeys((_F.TYPE_FIXED64, _F.TYPE_SFIXED64), "64 fixed bits"),
    **dict.fromkeys((_F.TYPE_STRING, _F.TYPE_BYTES), "text or bytes"),
    _F.TYPE_FLOAT: "a float",
    _F.TYPE_DOUBLE: "a double",
    _F.TYPE_MESSAGE: "a message",
    _F.TYPE_GROUP: "a group",
}
_REPEATS_ALIKE = frozenset({"text or bytes", "a message", "a group"})


@dataclass(frozen=True)
class _Messages:
    """The messages of a file and of what it imports, by whole name."""

    by_name: dict[str, DescriptorProto]
    #: of the file itself
    own: tuple[str, ...]
    package: str


@dataclass(frozen=True)
class _Both:
    """Two files; a name of the writer's package is looked for in that of the reader."""

    new: _Messages
    old: _Messages

    def now(self, name: str) -> str:
        """What a message of the writer is called at the reader."""
        before, after = self.old.package, self.new.package
        if before == after or (before and not name.startswith(f"{before}.")):
            return name
        short = name.removeprefix(f"{before}.")
        return f"{after}.{short}" if after else short


def protobuf_faults(
    reader: Sequence[FileDescriptorProto], writer: Sequence[FileDescriptorProto]
) -> list[str]:
    """Why what ``writer`` wrote cannot be read as ``reader``; empty: it can.

    Both are files with their imports; the file itself is the last one.
    """
    both = _Both(_messages(reader), _messages(writer))
    new, old = both.new, both.old
    faults: list[str] = []
    if new.package != old.package:
        faults.append(f"PACKAGE_CHANGED: it was {old.package!r} and is {new.package!r}")
    todo, seen = [*old.own], set[str]()
    while todo:
        name = todo.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if both.now(name) not in new.by_name:
            faults.append(f"MESSAGE_REMOVED: message {name} is not there")
        else:
            faults += _of_message(name, both)
            todo += [_type_of(field) for field in old.by_name[name].field if _is_known(field, old)]
    return faults


def _type_of(field: FieldDescriptorProto) -> str:
    return field.type_name.removeprefix(".")


def _is_known(field: FieldDescriptorProto, messages: _Messages) -> bool:
    return field.type in (_F.TYPE_MESSAGE, _F.TYPE_GROUP) and _type_of(field) in messages.by_name


def _of_message(name: str, both: _Both) -> Iterator[str]:
    reads, wrote = both.new.by_name[both.now(name)], both.old.by_name[name]
    of_reader = {field.number: field for field in reads.field}
    of_writer = {field.number: field for field in wrote.field}
    for number, field in of_writer.items():
        where = f"field {number} ({field.name}) of {name}"
        oneof = _oneof(wrote, field)
        left = oneof in _oneofs(reads)
        if number in of_reader:
            if left and _oneof(reads, of_reader[number]) is None:
                yield f"ONEOF_FIELD_REMOVED: {where} has left its oneof {oneof}"
            yield from _of_field(where, of_reader[number], field, both)
        elif field.label == _F.LABEL_REQUIRED:
            yield f"REQUIRED_FIELD_REMOVED: {where} is required and not there"
        elif left:
            yield f"ONEOF_FIELD_REMOVED: {where} is not there, and its oneof {oneof} is"
    for number, field in of_reader.items():
        if number not in of_writer and field.label == _F.LABEL_REQUIRED:
            yield f"REQUIRED_FIELD_ADDED: field {number} ({field.name}) of {name} is required"
    yield from _of_oneofs(name, reads, wrote)


def _of_field(
    where: str,
    reads: FieldDescriptorProto,
    wrote: FieldDescriptorProto,
    both: _Both,
) -> Iterator[str]:
    wire = _WIRE[wrote.type]
    if _WIRE[reads.type] != wire:
        yield f"FIELD_KIND_CHANGED: {where} was {wire} and is {_WIRE[reads.type]}"
        return
    if wire == "a message":
        now, then = _type_of(reads), _type_of(wrote)
        if now != both.now(then):
            yield f"FIELD_NAMED_TYPE_CHANGED: {where} was a {then} and is a {now}"
    repeats = (reads.label == _F.LABEL_REPEATED) is not (wrote.label == _F.LABEL_REPEATED)
    if repeats and wire not in _REPEATS_ALIKE:
        yield f"FIELD_NUMERIC_LABEL_CHANGED: {where} is repeated in one of both only"
    if reads.label == _F.LABEL_REQUIRED and wrote.label != _F.LABEL_REQUIRED:
        yield f"REQUIRED_FIELD_ADDED: {where} is required now"


def _of_oneofs(name: str, reads: DescriptorProto, wrote: DescriptorProto) -> Iterator[str]:
    before = {field.number: _oneof(wrote, field) for field in wrote.field}
    for oneof in _oneofs(reads):
        numbers = [f.number for f in reads.field if _oneof(reads, f) == oneof]
        moved = [number for number in numbers if number in before and before[number] is None]
        others = {before[number] for number in numbers if before.get(number) is not None}
        if len(moved) + len(others) > 1:
            yield (
                f"MULTIPLE_FIELDS_MOVED_TO_ONEOF: fields {', '.join(map(str, moved))} of {name} "
                f"may be set together, and are in oneof {oneof} now"
            )


def _oneof(message: DescriptorProto, field: FieldDescriptorProto) -> str | None:
    """The oneof of a field, but for one that only stands for ``optional``."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return message.oneof_decl[field.oneof_index].name


def _oneofs(message: DescriptorProto) -> list[str]:
    found = (_oneof(message, field) for field in message.field)
    return list(dict.fromkeys(name for name in found if name is not None))


def _messages(files: Sequence[FileDescriptorProto]) -> _Messages:
    by_name: dict[str, DescriptorProto] = {}
    ours: dict[str, DescriptorProto] = {}
    for file in files:
        prefix = f"{file.package}." if file.package else ""
        ours = dict(_named(prefix, file.message_type))
        by_name |= ours
    names = tuple(name for name, message in ours.items() if not message.options.map_entry)
    return _Messages(by_name, names, files[-1].package)


def _named(
    prefix: str, messages: Sequence[DescriptorProto]
) -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:
        yield f"{prefix}{message.name}", message
        yield from _named(f"{prefix}{message.name}.", message.nested_type)
