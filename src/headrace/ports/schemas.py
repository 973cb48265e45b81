"""Schemas that writers of records registered: looked up by the id that a record carries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from headrace.errors import RegistryUnavailable
from headrace.ports.connections import Connections

#: what a record names its schema by: the number that a registry gave it, or its GUID
SchemaId = int | UUID


class SchemaKind(StrEnum):
    """The languages that schemas are written in, by the names that registries have for them."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class WrittenSchema:
    """A schema as somebody registered it."""

    kind: SchemaKind
    text: str
    #: name -> text of all that it refers to, also over several steps; what refers comes later
    references: tuple[tuple[str, str], ...] = ()


class Schemas(Protocol):
    """The schemas of one registry. Used inside tasks, by one thread at a time.

    What an id means never changes, so each is asked for once.
    """

    def schema(self, id_: SchemaId) -> WrittenSchema:
        """The schema of that id.

        Raises:
            RegistryUnavailable: nobody answers, or the id is new here and may yet become known.
            SchemaUnknown: there is none, and was none for as long as one waits for it.
        """


class SchemasFactory(Protocol):
    """Makes the schemas of a worker. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> Schemas:
        """Called at most once per worker for equal connections; must not contact anybody yet."""


@dataclass(frozen=True, slots=True)
class NoRegistry:
    """Where no registry is configured: whoever writes ids means one, so they wait for it."""

    def open(self, connections: Connections) -> NoRegistry:
        """Itself."""
        del connections
        return self

    def schema(self, id_: SchemaId) -> WrittenSchema:
        """Raises, in any case."""
        raise RegistryUnavailable(
            f"schema {id_} is in a registry, and none is configured: schema.registry.url says where"
        )
