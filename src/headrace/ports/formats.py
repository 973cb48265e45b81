"""Formats: what the bytes of a record mean, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa

from headrace.errors import Temporary
from headrace.ports.schemas import NoRegistry, Schemas


@dataclass(frozen=True, slots=True)
class Payloads:
    """The values, or the keys, of some records."""

    #: binary, of which some may be null
    bytes: pa.ChunkedArray[Any]
    #: of the same records, as ``RECORD_SCHEMA`` has them: writers may name a schema there
    headers: pa.ChunkedArray[Any]
    column: Literal["value", "key"] = "value"
    #: where the schemas are that these name
    schemas: Schemas = field(default_factory=NoRegistry)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.bytes)


class Undecoded(NamedTuple):
    """Bytes that are not what the format says."""

    #: of the payloads that were given
    row: int
    #: with the place within, as ``$.lead.id``; nothing of the bytes
    reason: str


class Waiting(NamedTuple):
    """What nobody can decode before somebody answers, such as a registry."""

    #: of the payloads that were given, the first one of these
    row: int
    #: what one waits for
    error: Temporary


@dataclass(frozen=True, slots=True)
class Decoded:
    """What many payloads are."""

    #: a row for each payload that could be decoded, in their order
    columns: pa.Table
    #: the others, in their order
    undecoded: tuple[Undecoded, ...] = ()
    #: from there on nothing is told of any payload
    waiting: Waiting | None = None


class Format(Protocol):
    """Turns the values or the keys of records into columns. Travels to the tasks by pickle.

    The same bytes give the same row, whatever is decoded beside or before them: a call that was
    repeated, or cut elsewhere, is not to be seen in its outcome. Records of several tenants may be
    in one call.
    """

    def schema(self, column: str) -> pa.Schema:
        """What stands in the place of ``column``, which is ``value`` or ``key``."""

    def decode(self, payloads: Payloads) -> Decoded:
        """Decode payloads; never raises for what is in them, or for whoever does not answer.

        ``columns`` has the types and the order of ``schema``, and its names but where a format
        gives one column, which has the name of the column that it replaces.
        """


def names_writers(kind: object) -> bool:
    """Whether records of a format name the schemas of their writers, as Confluent's framing does.

    It says so by an attribute ``framing``; one without it does not.
    """
    return getattr(kind, "framing", None) == "confluent"


def needs_registry(part: object) -> bool:
    """Whether a format, or a sink with one, asks a schema registry.

    It says so by an attribute of this name; one without it does not. It is not deployed where no
    registry is configured, and is free to ask one if it says nothing.
    """
    return bool(getattr(part, "needs_registry", False))
