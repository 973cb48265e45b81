"""Protobuf as columns: the fields of one message, read by Protobuf's own library.

The message stands in the use case, as a generated class or by name in a file of descriptors. What a
writer's newer message has besides is skipped, as Protobuf wants it. A record in Confluent's wire
format says by a list of numbers which message of its schema it is; that has to be the place that
the message has in the file of the use case. No schema is looked up: its numbers alone say what a
field is, in every version of it, so records are read while no registry answers. That also means
that nobody sees it if a topic has records of quite another schema whose bytes happen to fit.

Times finer than microseconds are cut. A map has its keys in order, whatever order they are written
in, as Protobuf promises none. ``protobuf`` has to be installed: ``headrace[protobuf]`` brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from google.protobuf.message import DecodeError

from headrace.errors import ConfigError
from headrace.formats.framing import Framed, Framing, check_framing, framed
from headrace.formats.protobuf.columns import Fill, NoValue, columns_of, fill_of, must_be_set
from headrace.formats.protobuf.messages import class_of, place_of, told_by, written_place
from headrace.formats.rows import Found
from headrace.ports import Decoded, Payloads


@dataclass(frozen=True, slots=True, init=False)
class Protobuf:
    """Protobuf messages as columns of their fields.

    Example: ``Protobuf(Visit, fields=["page", "ms"])``, with ``from visit_pb2 import Visit``
    """

    name: str
    descriptors: bytes
    fields: tuple[str, ...] | None
    framing: Framing
    tombstones: Literal["refuse", "null"]

    def __init__(
        self,
        message: Any,
        *,
        descriptors: str | Path | None = None,
        fields: Collection[str] | None = None,
        framing: Framing = "confluent",
        tombstones: Literal["refuse", "null"] = "refuse",
    ) -> None:
        """Say what is wanted of a record.

        Args:
            message: a generated class, or the full name of a message in ``descriptors``.
            descriptors: the path of what ``protoc --include_imports --descriptor_set_out`` writes;
                it is read now.
            fields: the fields that are wanted, in that order; none: all.
            framing: ``confluent``: the id of a schema and the place of the message stand in front,
                or in a header; ``none``: records are bare.
            tombstones: a record without a value is refused, or all of its columns are null.

        Raises:
            ConfigError: no columns are that; it says why.
        """
        check_framing(framing)
        name, files = told_by(message, descriptors)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "descriptors", files)
        object.__setattr__(self, "fields", None if fields is None else tuple(fields))
        object.__setattr__(self, "framing", framing)
        object.__setattr__(self, "tombstones", tombstones)
        strict = [column.name for column in _plan(self).schema if not column.nullable]
        if tombstones == "null" and strict:
            raise ConfigError(f"tombstones='null' needs columns that may be null: {strict[0]}")

    def schema(self, column: str) -> pa.Schema:
        """A column for each field that is wanted."""
        del column
        return _plan(self).schema

    def decode(self, payloads: Payloads) -> Decoded:
        """Parse each, then make columns of all."""
        plan, given = _plan(self), framed(payloads, self.framing, tails=True)
        found = Found(plan.schema)
        found.refused.update(given.refused)
        found.tombstones(given.gone, self.tombstones, "Protobuf")
        for rows in given.rows.values():
            numbers, values = rows.tolist(), given.values(rows)
            if self.framing == "confluent":
                numbers, values = _without_places(plan, numbers, values, given, found)
            _add(*_parsed(plan, numbers, values, found), plan, found)
        return found.decoded(len(payloads))


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to read a message."""

    name: str
    schema: pa.Schema
    parse: Callable[[bytes], Any]
    fills: tuple[Fill, ...]
    #: which message of its schema it is, as written, and in the other way of writing the first one
    place: bytes
    long_place: bytes
    #: some field is ``required``
    strict: bool


@lru_cache(maxsize=256)
def _plan(kind: Protobuf) -> _Plan:
    made = class_of(kind.name, kind.descriptors)
    columns = {column.name: column for column in columns_of(made.DESCRIPTOR)}
    names = tuple(columns) if kind.fields is None else kind.fields
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise ConfigError(f"fields: {kind.name} has no field {unknown[0]}")
    if not names or len(set(names)) < len(names):
        raise ConfigError("fields: there is none, or one is there twice")
    place, long_place = written_place(place_of(made.DESCRIPTOR))
    return _Plan(
        kind.name,
        pa.schema([columns[name] for name in names]),
        made.FromString,
        tuple(fill_of(made.DESCRIPTOR.fields_by_name[name]) for name in names),
        place,
        long_place,
        must_be_set(made.DESCRIPTOR),
    )


def _without_places(
    plan: _Plan, rows: Sequence[int], values: Sequence[bytes], given: Framed, found: Found
) -> tuple[list[int], list[bytes]]:
    """Payloads without the place of their message, which has to be the expected one."""
    kept, bare = list[int](), list[bytes]()
    for row, value in zip(rows, values, strict=True):
        tail = given.tails.get(row)
        if tail is not None:
            is_ours, rest = tail in (plan.place, plan.long_place), value
        elif value.startswith(plan.place):
            is_ours, rest = True, value[len(plan.place) :]
        else:
            is_ours, rest = value.startswith(plan.long_place), value[len(plan.long_place) :]
        if is_ours:
            kept.append(row)
            bare.append(rest)
        else:
            found.refused[row] = (
                f"it says that it is another message of its schema, not {plan.name}"
            )
    return kept, bare


def _parsed(
    plan: _Plan, rows: Sequence[int], values: Sequence[bytes], found: Found
) -> tuple[list[int], list[Any]]:
    """All messages that can be read, and their rows."""
    kept, messages, parse, strict = list[int](), list[Any](), plan.parse, plan.strict
    for row, value in zip(rows, values, strict=True):
        try:
            message = parse(value)
        except DecodeError as error:
            found.refused[row] = _told(plan, error)
            continue
        if strict and not message.IsInitialized():
            found.refused[row] = f"no {plan.name}: a required field is not there"
            continue
        kept.append(row)
        messages.append(message)
    return kept, messages


def _told(plan: _Plan, error: DecodeError) -> str:
    """What the library says behind the name of the message, if it says more."""
    _, more, why = str(error).partition("': ")
    return f"no {plan.name}: {why}" if more else f"no {plan.name}"


def _add(rows: list[int], messages: list[Any], plan: _Plan, found: Found) -> None:
    """Columns of messages; which of them has no such values is found by halves."""
    if not rows:
        return
    try:
        found.add_columns(
            rows,
            [
                _filled(fill, messages, name)
                for fill, name in zip(plan.fills, plan.schema.names, strict=True)
            ],
        )
    except NoValue as error:
        if len(rows) == 1:
            found.refused[rows[0]] = str(error)
            return
        half = len(rows) // 2
        _add(rows[:half], messages[:half], plan, found)
        _add(rows[half:], messages[half:], plan, found)


def _filled(fill: Fill, messages: Sequence[Any], name: str) -> Any:
    try:
        return fill(messages)
    except NoValue as error:
        raise NoValue(f"{error} - at `$.{name}`") from None
    except (pa.ArrowInvalid, UnicodeDecodeError):
        # Of the older Protobuf the library takes any bytes for a text.
        raise NoValue(f"a text that is no UTF-8 - at `$.{name}`") from None
