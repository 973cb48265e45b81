"""The laws of schemas, on the fake."""

import pytest

from headrace.testing.schemas_fake import MemorySchemas
from memory_schemas_laws import MemorySchemasLaws


class TestMemorySchemas(MemorySchemasLaws):
    @pytest.fixture(autouse=True)
    def _registry(self):
        self.now_s = 0.0
        self.registry = MemorySchemas(clock=lambda: self.now_s)

    def factory(self):
        # Without its clock, which cannot travel.
        return MemorySchemas(self.registry.schemas)
