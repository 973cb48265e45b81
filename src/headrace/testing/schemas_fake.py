"""A schema registry in this process: ids, subjects, and a switch that takes it away.

An id that it told once it tells while it is away as well, as the real thing does. It has no pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_OID, UUID, uuid5

from headrace.errors import RegistryUnavailable, SchemaUnanswered, SchemaUnknown, TargetMissing
from headrace.ports import (
    Connections,
    RegisteredSchema,
    Registering,
    SchemaId,
    WrittenSchema,
)

#: as the client has it
PATIENCE_S = 60.0


@dataclass(slots=True)
class MemorySchemas:
    """Implements ``headrace.ports.RegistryClient``, and is its own factory."""

    schemas: dict[SchemaId, WrittenSchema] = field(default_factory=dict)
    #: subject -> ids, the newest last
    subjects: dict[str, list[int]] = field(default_factory=dict)
    #: nobody answers
    away: bool = False
    #: ids that nobody answers for, while others are answered
    silent: Collection[SchemaId] = ()
    #: for so long an id may yet become known
    patience_s: float = PATIENCE_S
    clock: Callable[[], float] = time.monotonic
    #: every id that was asked for while it answered, as often as it was
    asked: list[SchemaId] = field(default_factory=list)
    #: by GUID those that were registered here
    _guids: dict[SchemaId, WrittenSchema] = field(default_factory=dict)
    _known: set[SchemaId] = field(default_factory=set)
    _missed: dict[SchemaId, float] = field(default_factory=dict)

    def open(self, connections: Connections) -> MemorySchemas:
        """Itself."""
        del connections
        return self

    def add(self, schema: WrittenSchema, subject: str = "") -> int:
        """Register a schema, as somebody else would; its id."""
        made = next((id_ for id_, known in self.schemas.items() if known == schema), None)
        id_ = made if isinstance(made, int) else len(self.schemas) + 1
        self.schemas[id_] = schema
        self._guids[guid_of(schema)] = schema
        ids = self.subjects.setdefault(subject, [])
        if id_ not in ids:
            ids.append(id_)
        return id_

    def schema(self, id_: SchemaId) -> WrittenSchema:
        """The schema, if it was asked for before or the registry is there."""
        if id_ in self._known:
            return self._all[id_]
        self._look(f"schema {id_}")
        self.asked.append(id_)
        if id_ in self.silent:
            raise RegistryUnavailable(f"schema {id_}: nobody answers", retry_after_s=0.1)
        if id_ in self._all:
            self._known.add(id_)
            return self._all[id_]
        first_s = self._missed.setdefault(id_, self.clock())
        if self.clock() - first_s < self.patience_s:
            given = f"a test gives it as schemas=MemorySchemas({{{id_!r}: WrittenSchema(...)}})"
            raise RegistryUnavailable(f"schema {id_} is not known yet: {given}", retry_after_s=1.0)
        raise SchemaUnknown(f"schema {id_} is not known")

    def registered(self, subject: str, schema: WrittenSchema, how: Registering) -> RegisteredSchema:
        """The id of a schema, which may be registered now."""
        self._look(f"subject {subject}")
        ids = self.subjects.get(subject, [])
        if how.use_latest_version:
            if not ids:
                raise TargetMissing(f"subject {subject} is not there")
            return _told(ids[-1], self.schemas[ids[-1]])
        known = next((id_ for id_ in ids if self.schemas[id_] == schema), None)
        if known is None and not how.auto_register_schemas:
            raise TargetMissing(f"subject {subject}: the schema is not registered")
        return _told(self.add(schema, subject) if known is None else known, schema)

    @property
    def _all(self) -> Mapping[SchemaId, WrittenSchema]:
        return self.schemas | self._guids

    def version(self, subject: str, number: int | None) -> RegisteredSchema:
        """The schema of that number, which is its place; or the newest."""
        self._look(f"subject {subject}")
        ids = self.subjects.get(subject, [])
        if not ids or (number or 1) > len(ids):
            raise TargetMissing(f"subject {subject} has no version {number or 'at all'}")
        id_ = ids[-1 if number is None else number - 1]
        if id_ in self.silent:
            raise SchemaUnanswered(f"schema {id_}: it has no answer to this")
        return RegisteredSchema(id_, self.schemas[id_])

    def numbers(self, subject: str) -> list[int]:
        """The places of its schemas."""
        self._look(f"subject {subject}")
        return [place + 1 for place, _ in enumerate(self.subjects.get(subject, []))]

    def _look(self, what: str) -> None:
        if self.away:
            raise RegistryUnavailable(f"{what}: the registry is away", retry_after_s=0.1)


def guid_of(schema: WrittenSchema) -> UUID:
    """The GUID that a schema has here."""
    return uuid5(NAMESPACE_OID, f"{schema}")


def _told(id_: int, schema: WrittenSchema) -> RegisteredSchema:
    return RegisteredSchema(id_, schema, guid_of(schema))
