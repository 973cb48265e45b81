"""The laws of schemas, on the fake."""

import itertools
from contextlib import contextmanager

import pytest

from headrace.ports import Connections, WrittenSchema
from headrace.testing.schemas_contract import SchemasContract
from headrace.testing.schemas_fake import MemorySchemas


class TestMemorySchemas(SchemasContract):
    @pytest.fixture(autouse=True)
    def _registry(self):
        self.now_s = 0.0
        self.registry = MemorySchemas(clock=lambda: self.now_s)

    def factory(self):
        # Without its clock, which cannot travel.
        return MemorySchemas(self.registry.schemas)

    def connections(self):
        return Connections({}, "")

    def client(self):
        return self.registry

    def put(self, subject, schema, names=()):
        inner = [(name, self.registry.schemas[self.registry.subjects[s][-1]]) for name, s in names]
        found = itertools.chain(*([*below.references, (name, below.text)] for name, below in inner))
        return self.registry.add(WrittenSchema(schema.kind, schema.text, tuple(found)), subject)

    @contextmanager
    def away(self):
        self.registry.away = True
        yield
        self.registry.away = False

    def later(self, seconds):
        self.now_s += seconds
