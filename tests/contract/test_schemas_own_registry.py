"""The laws of schemas, between the client and the registry that come with the product."""

import base64
import json
import signal
import time
from contextlib import contextmanager

import httpx
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headrace.connectors.schema_registry import (
    RegistrySchemas,
    RegistrySchemasFactory,
    lookups,
    registry_config,
)
from headrace.model.credentials import Role
from headrace.ports import Connections, SchemaKind, WrittenSchema
from headrace.testing.schemas_contract import SchemasContract
from registry_process import RegistryProcess, made_keys
from silent_registry import in_vain_for


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A registry as a process, and the password of an operator."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db"
    keys = made_keys(url)
    with RegistryProcess(tmp_path_factory.mktemp("registry"), url) as process:
        yield process, keys[Role.OPERATOR]


class TestOwnRegistry(SchemasContract):
    @pytest.fixture(autouse=True)
    def _registry(self, served, monkeypatch):
        # What waits goes on beside its caller, and here each answer is waited for.
        monkeypatch.setattr(lookups, "WAIT_S", lookups.LOOKUP_S + 1)
        self.server, self.password = served
        self.skipped_s = 0.0

    def factory(self):
        return RegistrySchemasFactory()

    def connections(self):
        user = f"operator:{self.password}"
        told = {"schema.registry.url": self.server.url, "basic.auth.user.info": user}
        return Connections({}, "", registry=told)

    def client(self):
        config = registry_config(self.connections().registry)
        return RegistrySchemas(config, clock=lambda: time.monotonic() + self.skipped_s)

    def put(self, subject, schema, names=()):
        body = {
            "schema": schema.text,
            "schemaType": schema.kind.value,
            "references": [{"name": name, "subject": at, "version": 1} for name, at in names],
        }
        answer = httpx.post(
            f"{self.server.url}/subjects/{subject}/versions",
            content=json.dumps(body),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
            auth=("operator", self.password),
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["id"]

    @contextmanager
    def away(self):
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            with in_vain_for(1.0):
                yield
        finally:
            self.server.process.send_signal(signal.SIGCONT)

    def later(self, seconds):
        self.skipped_s += seconds

    def test_a_version_of_protobuf_is_told_as_its_descriptor(self):
        subject = self.subject()
        self.put(subject, WrittenSchema(SchemaKind.PROTOBUF, 'syntax="proto3"; message Visit {}'))
        for number in (None, 1):
            text = self.client().version(subject, number).schema.text
            file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
            assert [message.name for message in file.message_type] == ["Visit"]
