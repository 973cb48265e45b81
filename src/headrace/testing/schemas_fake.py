"""A registry that is a dict: schemas that are known, some that are away for now, and no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.errors import RegistryUnavailable, SchemaUnknown
from headrace.ports import Connections, SchemaId, WrittenSchema


@dataclass
class FakeSchemas:
    """Schemas for tests; also the factory of itself."""

    known: Mapping[SchemaId, WrittenSchema] = field(default_factory=dict)
    #: ids that nobody answers for; a test may change that
    away: Collection[SchemaId] = ()
    #: what has been asked for, in order
    asked: list[SchemaId] = field(default_factory=list)

    def open(self, connections: Connections) -> FakeSchemas:
        """Itself."""
        del connections
        return self

    def schema(self, id_: SchemaId) -> WrittenSchema:
        """The schema, or what a registry raises."""
        self.asked.append(id_)
        if id_ in self.away:
            raise RegistryUnavailable(f"schema {id_}: nobody answers")
        if id_ not in self.known:
            raise SchemaUnknown(f"there is no schema {id_}")
        return self.known[id_]
