"""Avro as columns: by the schema of whoever wrote a record, to the columns of the use case.

A record says by the id of a schema how it was written, and a registry has the schema. The columns
are another schema's, the reader's: it stands in the use case, so that what a handler is given
changes when another version of it is deployed, and not when somebody registers a schema. What lies
between the two is Avro's own: its rules of resolution.

Many records are read column by column, some that this does not like, or few, record by record; the
outcome is the same, and so is what is told of what does not fit. What waits for a registry is told
from the first such record on; what stands before it is decoded.

A record of the schema becomes columns; anything else, such as a key that is a string, is one. Each
type has one column, as the guide lists. A union is a type that may be null, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.errors import ConfigError, RegistryUnavailable, SchemaUnknown
from headrace.formats.avro.by_column import read_columns
from headrace.formats.avro.by_record import Unreadable, reader_of
from headrace.formats.avro.columns import column_of, columns_of
from headrace.formats.avro.defaults import check_defaults
from headrace.formats.avro.resolving import plan_of
from headrace.formats.avro.schema_text import AvroType, parsed
from headrace.formats.avro.steps import Step, steps_in
from headrace.formats.framing import Framed, Framing, check_framing, framed
from headrace.formats.kept import Kept
from headrace.formats.pieces import ends_of_pieces
from headrace.formats.rows import Found
from headrace.formats.schema_file import schema_text
from headrace.ports import (
    Decoded,
    Payloads,
    SchemaId,
    SchemaKind,
    Schemas,
    Waiting,
    WrittenSchema,
)

#: from so many records of one schema on it is quicker to read them by column
_MANY = 64
#: of records that are read one by one, before columns are made of them: a byte may be a value
_PIECE_BYTES = 1024 * 1024
#: of all plans that a worker keeps; so much takes, at most, what is made of a step and of a text
MOST_PLAN_BYTES = 64 * 1024**2
_BYTES_OF_STEP, _BYTES_OF_CHARACTER = 700, 10


@dataclass(frozen=True, slots=True, init=False)
class Avro:
    """Avro records as columns of this schema.

    Example: ``Avro("visit.avsc", fields=["page", "ms"])``
    """

    text: str
    fields: tuple[str, ...] | None
    framing: Framing
    tombstones: Literal["refuse", "null"]

    def __init__(
        self,
        schema: str | Path | Mapping[str, Any],
        *,
        fields: Collection[str] | None = None,
        framing: Framing = "confluent",
        tombstones: Literal["refuse", "null"] = "refuse",
    ) -> None:
        """Say what is wanted of a record.

        Args:
            schema: the reader's, as a dict, its JSON, or the path of a file, which is read now.
            fields: of a record the fields that are wanted, in that order; none: all.
            framing: ``confluent``: a record names its writer's schema, in front or in a header;
                ``none``: all are written by this one.
            tombstones: a record without a value is refused, or all of its columns are null.

        Raises:
            ConfigError: no columns are that; it says why.
        """
        check_framing(framing)
        object.__setattr__(self, "text", schema_text(schema, "a schema of Avro"))
        object.__setattr__(self, "fields", None if fields is None else tuple(fields))
        object.__setattr__(self, "framing", framing)
        object.__setattr__(self, "tombstones", tombstones)
        strict = [column.name for column in self.schema("value") if not column.nullable]
        check_defaults(_reader(self))
        if tombstones == "null" and strict:
            raise ConfigError(f"tombstones='null' needs columns that may be null: {strict[0]}")

    @property
    def needs_registry(self) -> bool:
        """Whether records name the schemas of their writers."""
        return self.framing == "confluent"

    def schema(self, column: str) -> pa.Schema:
        """The fields of a record; of anything else one column in the place of ``column``."""
        return _columns(self, column)

    def decode(self, payloads: Payloads) -> Decoded:
        """By the schema of each, as far as these are known."""
        given = framed(payloads, self.framing)
        found = Found(self.schema(payloads.column), flat=_reader(self).name == "record")
        found.refused.update(given.refused)
        found.tombstones(given.gone, self.tombstones, "Avro")
        waiting = None
        for id_, rows in given.rows.items():
            try:
                plan = self._plan(id_, payloads.schemas)
            except RegistryUnavailable as error:
                waiting = Waiting(int(rows[0]), error)
                break
            except (SchemaUnknown, ConfigError) as error:
                why = str(error) if id_ is None else f"schema {id_}: {error}"
                found.refused.update(dict.fromkeys(rows.tolist(), why))
            else:
                _read(plan, given, rows, found)
        return found.decoded(len(payloads), waiting)

    def _plan(self, id_: SchemaId | None, schemas: Schemas) -> Plan:
        return _plan(self, None if id_ is None else schemas.schema(id_))


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read what one writer wrote."""

    step: Step
    read: Callable[[bytes, int], Any]


def _read(plan: Plan, given: Framed, rows: npt.NDArray[np.int64], found: Found) -> None:
    """By column where there are many; what is set aside of these, or few, by record."""
    if len(rows) >= _MANY:
        values, aside = read_columns(plan.step, given.payloads, given.begin[rows], given.end[rows])
        good = ~aside
        found.add(rows[good], values.filter(pa.array(good)) if aside.any() else values)
        rows = rows[aside]
    payloads, begin = given.values(rows), 0
    for end in ends_of_pieces(payloads, _PIECE_BYTES):
        _read_each(plan, rows[begin:end].tolist(), payloads[begin:end], found)
        begin = end


def _read_each(plan: Plan, rows: list[int], payloads: list[bytes], found: Found) -> None:
    taken, values = list[int](), list[Any]()
    for row, payload in zip(rows, payloads, strict=True):
        try:
            values.append(plan.read(payload, 0))
            taken.append(row)
        except Unreadable as error:
            found.refused[row] = error.told
    found.add_values(taken, values)


@lru_cache(maxsize=256)
def _reader(kind: Avro) -> AvroType:
    """The reader's schema, with the fields that are wanted alone."""
    whole = parsed(kind.text)
    if kind.fields is None:
        return whole
    if whole.name != "record":
        raise ConfigError(f"fields: {whole.told} has none")
    by_name = {found.name: found for found in whole.fields}
    unknown = [name for name in kind.fields if name not in by_name]
    if unknown:
        raise ConfigError(f"fields: there is no field {unknown[0]}")
    if not kind.fields or len(set(kind.fields)) < len(kind.fields):
        raise ConfigError("fields: there is none, or one is there twice")
    chosen = tuple(by_name[name] for name in kind.fields)
    return AvroType("record", full_name=whole.full_name, aliases=whole.aliases, fields=chosen)


@lru_cache(maxsize=512)
def _columns(kind: Avro, column: str) -> pa.Schema:
    reader = _reader(kind)
    if reader.name == "record":
        return pa.schema(columns_of(column, reader))
    return pa.schema([column_of(column, reader)])


class _Way(NamedTuple):
    """What a plan is made of."""

    kind: Avro
    written: WrittenSchema | None


@dataclass(frozen=True, slots=True)
class _MadePlan:
    plan: Plan
    bytes: int


_PLANS: Kept[_Way, _MadePlan] = Kept(MOST_PLAN_BYTES, lambda made: made.bytes)


def _plan(kind: Avro, written: WrittenSchema | None) -> Plan:
    """How to read a writer's records; none: the reader's own schema, all of it, wrote them.

    Raises:
        ConfigError: its schema is no Avro, or is not to be read as the reader's.
    """
    return _PLANS.had(_Way(kind, written), lambda: _made(kind, written)).plan


def _made(kind: Avro, written: WrittenSchema | None) -> _MadePlan:
    if written is None:
        writer = parsed(kind.text)
    elif written.kind is not SchemaKind.AVRO:
        raise ConfigError(f"it is {written.kind}, and Avro was expected")
    else:
        writer = parsed(written.text, written.references)
    step = plan_of(writer, _reader(kind))
    texts = [kind.text] if written is None else [written.text, *map("".join, written.references)]
    size = _BYTES_OF_CHARACTER * sum(map(len, texts)) + _BYTES_OF_STEP * steps_in(step)
    return _MadePlan(Plan(step, reader_of(step)), size)
