"""Encodings: columns as the bytes of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

from headrace.ports.schemas import Registering, WrittenSchema

SubjectNames = Literal["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"]
#: where the id of a schema stands
IdPlaces = Literal["PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer"]


class Unencoded(NamedTuple):
    """A row that cannot be what the encoding says."""

    #: of the rows that were given
    row: int
    #: with the column's name; nothing of its value
    reason: str


@dataclass(frozen=True, slots=True)
class Encoded:
    """What many rows are."""

    #: one for each row that could be encoded, in their order
    payloads: Sequence[bytes | None]
    #: the others, in their order
    unencoded: tuple[Unencoded, ...] = ()
    #: stands behind the id of the schema, wherever that stands
    place: bytes = b""


@dataclass(frozen=True, slots=True)
class SchemaToRegister:
    """A schema whose id is to stand before each payload, or whose GUID in a header beside it."""

    schema: WrittenSchema
    #: the full name of the record, as some names of subjects have it
    record: str
    subject: SubjectNames
    how: Registering
    id_place: IdPlaces = "PrefixSchemaIdSerializer"

    def subject_of(self, topic: str, column: Literal["value", "key"]) -> str:
        """Under which subject it is registered, for messages of a topic."""
        if self.subject == "TopicNameStrategy":
            return f"{topic}-{column}"
        return self.record if self.subject == "RecordNameStrategy" else f"{topic}-{self.record}"


class Encoding(Protocol):
    """Makes values or keys of messages out of columns. Travels to the tasks by pickle.

    The same row gives the same bytes, whatever is encoded beside it.
    """

    @property
    def registers(self) -> SchemaToRegister | None:
        """What has an id in a registry; None: the payload is all that is sent."""

    def takes(self, column: Literal["value", "key"]) -> dict[str, bool]:
        """The columns that it takes, and whether each has to be there.

        Raises:
            ConfigError: it is one that only reads; asked when a sink is named.
        """

    def check(self, found: pa.Schema, schema: WrittenSchema | None = None) -> None:
        """See that columns of these types can be encoded, as far as types tell.

        Args:
            found: the columns.
            schema: as it is registered, which may be a newer one; None: its own.

        Raises:
            WrongSchema: the message names the column.
            ConfigError: nothing can be written by the schema.
        """

    def encode(self, rows: pa.Table, schema: WrittenSchema | None) -> Encoded:
        """Encode rows; never raises for what is in them.

        Args:
            rows: with the columns that it ``takes`` alone, and ``check`` was content with them.
            schema: as it is registered, where one ``registers``; it may be a newer one.
        """
