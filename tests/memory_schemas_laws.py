"""The laws of schemas on the fake, by a clock of the test's: for the fake, and for its faults."""

from contextlib import contextmanager

from headrace.ports import Connections, WrittenSchema
from headrace.testing.schemas_contract import SchemasContract


class MemorySchemasLaws(SchemasContract):
    """Whoever has them sets ``registry``, a ``MemorySchemas``, whose clock is ``now_s``."""

    def connections(self):
        return Connections({}, "")

    def client(self):
        return self.registry

    def put(self, subject, schema, names=()):
        below = [
            (name, self.registry.schemas[self.registry.subjects[at][-1]]) for name, at in names
        ]
        found = [pair for name, one in below for pair in (*one.references, (name, one.text))]
        return self.registry.add(WrittenSchema(schema.kind, schema.text, tuple(found)), subject)

    @contextmanager
    def away(self):
        self.registry.away = True
        yield
        self.registry.away = False

    def later(self, seconds):
        self.now_s += seconds
