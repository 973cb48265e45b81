"""What has to be done to a writer's bytes to have a reader's values: Avro's rules of resolution.

A schema is met in two versions: a record's bytes are as its writer had it, a use case's columns as
its author has it. What Avro lets be read as something else is (an int as a long, bytes as text, a
field that is missing by its default, others by their aliases); the rest is refused, for the whole
schema, or for a record that takes a branch of a union that the reader has no place for.

In three points this is stricter than the rules: times of another unit, and decimals of another
scale, would be read as wrong values, so they are refused; and a long that no float holds exactly is
a bad record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.errors import ConfigError
from headrace.formats.avro.columns import column_of, kind_of, may_be_null, without_null
from headrace.formats.avro.defaults import default_of
from headrace.formats.avro.schema_text import AvroType, short_name
from headrace.formats.avro.steps import (
    MOST_STEPS,
    Blob,
    Choice,
    Digits,
    Gap,
    Guid,
    Items,
    Nothing,
    Part,
    Real,
    Record,
    Refusal,
    Step,
    Symbol,
    Truth,
    Whole,
    within,
)
from headrace.formats.avro.wholes import is_time, whole_of

#: reader -> writers that it may be read of
_PROMOTED = {
    "int": {"int"},
    "long": {"int", "long"},
    "float": {"int", "long", "float"},
    "double": {"int", "long", "float", "double"},
    "string": {"string", "bytes"},
    "bytes": {"bytes", "string"},
    "boolean": {"boolean"},
}
_REALS = {"float": 4, "double": 8}
#: how to pass over what nobody wants
_PASSED: dict[str, Step] = {
    "null": Nothing(),
    "boolean": Gap(1),
    "float": Gap(4),
    "double": Gap(8),
    "int": Whole(),
    "long": Whole(),
    "enum": Whole(),
    "bytes": Blob(),
    "string": Blob(),
}


def plan_of(writer: AvroType, reader: AvroType) -> Step:
    """How to read what one wrote as the other.

    Raises:
        ConfigError: that cannot be; it says what does not fit.
    """
    return _Resolver().step(writer, reader)


@dataclass(slots=True)
class _Resolver:
    """Remembers what has been resolved: a type that is named often is resolved once.

    What is done for a value is counted, though, as often as it is done: types within types can
    otherwise be more work than any bytes are worth.
    """

    known: dict[tuple[int, int], Step] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def step(self, writer: AvroType, reader: AvroType | None) -> Step:
        """How to read the one as the other; without a reader, how to pass over it."""
        key = (id(writer), id(reader))
        found = self.known.get(key)
        if found is None:
            found = self._skipped(writer) if reader is None else self._read(writer, reader)
            count = 1 + sum(self.counts.get(id(inner), 1) for inner in within(found))
            if count > MOST_STEPS:
                raise ConfigError("a schema has too many types within types")
            self.known[key], self.counts[id(found)] = found, count
        return found

    def _skipped(self, writer: AvroType) -> Step:
        match writer.name:
            case "array" | "map":
                return Items(self.step(writer.inner[0], None), writer.name == "map")
            case "union":
                return Choice(tuple(self.step(branch, None) for branch in writer.inner))
            case "record":
                parts = [Part(f.name, self.step(f.kind, None), None) for f in writer.fields]
                return _record(parts)
            case "fixed":
                return Gap(writer.size)
        return _PASSED[writer.name]

    def _read(self, writer: AvroType, reader: AvroType) -> Step:
        one = without_null(reader)
        assert one is not None, "a reader's schema has been looked at"
        if writer.name == "union":
            branches = tuple(self._branch(branch, reader) for branch in writer.inner)
            if all(isinstance(branch, Refusal) for branch in branches):
                raise ConfigError(f"no type of a union is to be read as {one.told}")
            return Choice(branches, column_of("", reader).type)
        if writer.name == "null":
            if not may_be_null(reader):
                raise ConfigError(f"null, and {one.told} was expected")
            return Nothing(column_of("", reader).type)
        return self.step(writer, one) if reader.name == "union" else self._plain(writer, one)

    def _branch(self, writer: AvroType, reader: AvroType) -> Step:
        try:
            return self.step(writer, reader)
        except ConfigError as error:
            return Refusal(str(error))

    def _plain(self, writer: AvroType, reader: AvroType) -> Step:
        wrong = ConfigError(f"{writer.told} is not to be read as {reader.told}")
        if writer.name not in _PROMOTED.get(reader.name, {reader.name}):
            raise wrong
        if reader.full_name and not _same_name(writer, reader):
            raise wrong
        if _other_meaning(writer, reader):
            raise wrong
        match reader.name:
            case "array" | "map":
                item = self.step(writer.inner[0], reader.inner[0])
                return Items(item, reader.name == "map", kind_of("", reader))
            case "record":
                return self._record(writer, reader)
            case "enum":
                return _symbol(writer, reader)
        if reader.name == "fixed" and writer.size != reader.size:
            raise wrong
        return _scalar(writer, reader, kind_of("", reader))

    def _record(self, writer: AvroType, reader: AvroType) -> Record:
        slots = _slots(writer, reader)
        parts = list[Part]()
        for found in writer.fields:
            slot = slots.get(found.name)
            wanted = None if slot is None else reader.fields[slot].kind
            try:
                parts.append(Part(found.name, self.step(found.kind, wanted), slot))
            except ConfigError as error:
                raise _within(found.name, error) from None
        filled = {part.slot for part in parts}
        defaults = [
            (slot, default_of(found.name, found.kind, found.default))
            for slot, found in enumerate(reader.fields)
            if slot not in filled
        ]
        return _record(parts, kind_of("", reader), defaults)


def _record(
    parts: list[Part], kind: Any = None, defaults: list[tuple[int, Any]] | None = None
) -> Record:
    """Without what takes no bytes and goes nowhere."""
    kept = tuple(part for part in parts if part.slot is not None or part.step.least)
    fields = tuple(kind) if kind is not None else ()
    return Record(kept, fields, tuple(defaults or ()), kind, sum(p.step.least for p in kept))


def _scalar(writer: AvroType, reader: AvroType, kind: pa.DataType) -> Step:
    if reader.logical == "decimal":
        return Digits(kind, reader.size if reader.name == "fixed" else None)
    match writer.name:
        case "int" | "long":
            return whole_of(writer.name, reader, kind)
        case "float" | "double":
            return Real(_REALS[writer.name], kind)
        case "boolean":
            return Truth(kind)
        case "fixed":
            return Guid(kind) if reader.logical == "uuid" else Blob(kind, writer.size)
    return Blob(kind)


def _symbol(writer: AvroType, reader: AvroType) -> Symbol:
    known = set(reader.symbols)
    return Symbol(
        kind_of("", reader),
        tuple(name if name in known else reader.default_symbol for name in writer.symbols),
    )


def _slots(writer: AvroType, reader: AvroType) -> dict[str, int]:
    """Field of the writer -> which one of the reader it is: by an alias, or rather by its name."""
    by_alias = {a: slot for slot, found in enumerate(reader.fields) for a in found.aliases}
    by_name = {found.name: slot for slot, found in enumerate(reader.fields)}
    slots = {found.name: by_name[found.name] for found in writer.fields if found.name in by_name}
    for found in writer.fields:
        slot = by_alias.get(found.name)
        if found.name not in slots and slot is not None and slot not in slots.values():
            slots[found.name] = slot
    return slots


def _same_name(writer: AvroType, reader: AvroType) -> bool:
    """By the rules, the names without their namespaces; or the reader has an alias."""
    own = writer.full_name.rpartition(".")[2]
    return own == reader.full_name.rpartition(".")[2] or writer.full_name in reader.aliases


def _other_meaning(writer: AvroType, reader: AvroType) -> bool:
    """Whether the same number would be another value."""
    if is_time(writer.logical) and is_time(reader.logical):
        return writer.logical != reader.logical
    both = writer.logical == reader.logical == "decimal"
    return both and writer.scale != reader.scale


def _within(name: str, error: ConfigError) -> ConfigError:
    return ConfigError(f"{short_name(name)}: {error}")
