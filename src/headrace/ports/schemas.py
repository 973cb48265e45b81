"""Schemas that writers of records registered: looked up by the id that a record carries.

Who writes such records needs the id of a schema: it is given one by registering it.
"""

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


@dataclass(frozen=True, slots=True)
class Registering:
    """How a writer's schema comes by its id, by the names that Confluent's clients have for it."""

    #: register it where it is not; else it has to be there
    auto_register_schemas: bool = True
    #: write by the newest schema of the subject, whichever that is
    use_latest_version: bool = False
    #: the registry is to see that two texts mean the same
    normalize_schemas: bool = False


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema to write by, its id, and its GUID where the registry tells one."""

    id: int
    schema: WrittenSchema
    guid: UUID | None = None


class SchemaIds(Protocol):
    """The ids of the schemas that one writes by. Used inside tasks, by one thread at a time."""

    def registered(self, subject: str, schema: WrittenSchema, how: Registering) -> RegisteredSchema:
        """A schema as it is known under a subject, such as ``acme.visits-value``.

        Raises:
            RegistryUnavailable: nobody answers.
            TargetMissing: it is not there, and is not to be registered or was refused.
        """


class NumberedSchemas(Protocol):
    """The schemas of subjects by their numbers, as they are now. Used by one thread at a time."""

    def version(self, subject: str, number: int | None) -> RegisteredSchema:
        """The schema of that number, or the newest; asked for each time, within some seconds.

        Raises:
            RegistryUnavailable: nobody answers.
            TargetMissing: there is none, or what it refers to is not there.
        """

    def numbers(self, subject: str) -> list[int]:
        """The numbers of its versions that are not deleted, the oldest first; empty: no subject.

        Raises:
            RegistryUnavailable: nobody answers.
        """


class RegistryClient(Schemas, SchemaIds, NumberedSchemas, Protocol):
    """A registry as its clients ask it, for those who read and those who write."""


class SchemasFactory(Protocol):
    """Makes the schemas of a worker. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> RegistryClient:
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

    def registered(self, subject: str, schema: WrittenSchema, how: Registering) -> RegisteredSchema:
        """Raises, in any case."""
        raise _no_subject(subject)

    def version(self, subject: str, number: int | None) -> RegisteredSchema:
        """Raises, in any case."""
        raise _no_subject(subject)

    def numbers(self, subject: str) -> list[int]:
        """Raises, in any case."""
        raise _no_subject(subject)


def _no_subject(subject: str) -> RegistryUnavailable:
    return RegistryUnavailable(
        f"subject {subject} is in a registry, and none is configured: schema.registry.url "
        "says where"
    )
