"""The laws of schemas, on a real registry."""

import json
import subprocess
import time
import urllib.request

import pytest

from headrace.connectors.schema_registry import (
    RegistrySchemas,
    RegistrySchemasFactory,
    registry_config,
)
from headrace.ports import Connections
from headrace.testing.schemas_contract import SchemasContract
from registry_server import RegistryServer, fetched


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    try:
        fetched()
    except (subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"the registry could not be fetched: {error}")
    made = RegistryServer(tmp_path_factory.mktemp("registry"))
    try:
        made.wait()
        yield made
    finally:
        made.close()


class TestRegistrySchemas(SchemasContract):
    @pytest.fixture(autouse=True)
    def _registry(self, server):
        self.server, self.skipped_s = server, 0.0

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
        body = {"schema": schema.text, "schemaType": schema.kind, "references": references}
        asked = urllib.request.Request(
            f"{self.server.url}/subjects/{subject}/versions",
            json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)["id"]

    def away(self):
        return self.server.hanging()

    def later(self, seconds):
        self.skipped_s += seconds
