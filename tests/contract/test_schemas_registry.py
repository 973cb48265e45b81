"""The laws of schemas, on a real registry."""

import time
from contextlib import contextmanager

import pytest

from headrace.connectors.schema_registry import (
    RegistrySchemas,
    RegistrySchemasFactory,
    lookups,
    registry_config,
)
from headrace.ports import Connections
from headrace.testing.schemas_contract import SchemasContract
from silent_registry import in_vain_for


class TestRegistrySchemas(SchemasContract):
    knows_guids = False

    @pytest.fixture(autouse=True)
    def _registry(self, registry, monkeypatch):
        # The first answers of a registry that has just started take long.
        monkeypatch.setattr(lookups, "WAIT_S", lookups.LOOKUP_S + 1)
        self.server, self.skipped_s = registry, 0.0

    def factory(self):
        return RegistrySchemasFactory()

    def connections(self):
        # The registry asks for no password, and does not mind one.
        told = {"schema.registry.url": self.server.url, "basic.auth.user.info": "me:hunter2"}
        return Connections({}, "", registry=told)

    def client(self):
        config = registry_config(self.connections().registry)
        return RegistrySchemas(config, clock=lambda: time.monotonic() + self.skipped_s)

    def put(self, subject, schema, names=()):
        references = [{"name": name, "subject": at, "version": 1} for name, at in names]
        return self.server.put(subject, schema.text, schema.kind, references)

    @contextmanager
    def away(self):
        with self.server.hanging(), in_vain_for(1.0):
            yield

    def later(self, seconds):
        self.skipped_s += seconds
