"""A registry in memory with two tenants, and a key for every role."""

import base64
import json

from starlette.testclient import TestClient

from headrace.doors.guard import Guard
from headrace.doors.keys import bound_to, new_key
from headrace.doors.problems import install_problems
from headrace.model.credentials import OF_TENANT, Role
from headrace.model.records import Deployment
from headrace.model.streams import Tenant
from headrace.ports.sink import facts_of
from headrace.schema_registry.app import RegistryParts, registry_app
from headrace.schema_registry.client_form import ClientForm
from headrace.schema_registry.judges import JudgesHere
from headrace.schema_registry.owners import Owners
from headrace.schema_registry.rooms import RoomLimits
from headrace.sinks import KafkaTopic
from headrace.testing.memory_store import MemoryStore

SECRET = b"s" * 32
MEDIA = "application/vnd.schemaregistry.v1+json"
AVRO = '{"type":"record","name":"Visit","fields":[{"name":"lead","type":"string"}]}'
MORE = (
    '{"type":"record","name":"Visit","fields":[{"name":"lead","type":"string"},'
    '{"name":"at","type":"long","default":0}]}'
)
BROKEN = (
    '{"type":"record","name":"Visit","fields":[{"name":"lead","type":"string"},'
    '{"name":"at","type":"long"}]}'
)


#: who registers schemas of acme alone
OF_ACME = "schemas of acme"
#: who registers what begins so, whosever it is, and of acme what is both
OF_A_TEAM, OF_ACME_VISITS = "schemas named acme.*", "schemas of acme named acme.visits-*"
#: what each tenant's visits come to
WRITES = KafkaTopic("{tenant}.scores", partitions=3)


def where(sink):
    """What a deployment says of its sink."""
    return facts_of(sink).where


class World:
    """The registry, and who asks it."""

    def __init__(self, limits=None):
        self.store = MemoryStore()
        self.store.registry.deploy(
            Deployment("score", "m.py", "00", "{tenant}.visits", sink=where(WRITES))
        )
        for tenant in ("acme", "bolt"):
            self.store.registry.add_tenant(Tenant(tenant))
        self.keys = {}
        for role in Role:
            self.keys[role] = self.key(role, "acme" if role in OF_TENANT else None)
        self.keys[OF_ACME] = self.key(Role.SCHEMAS, "acme")
        self.keys[OF_A_TEAM] = self.key(Role.SCHEMAS, None, "acme.*")
        self.keys[OF_ACME_VISITS] = self.key(Role.SCHEMAS, "acme", "acme.visits-*")
        owners = Owners(self.store, ["orders"])
        guard = Guard(self.store.keys, SECRET)
        limits = limits or RoomLimits()
        self.app = registry_app(RegistryParts(self.store, guard, JudgesHere(), owners, limits))
        install_problems(self.app)
        self.app.add_middleware(ClientForm)
        self.client = TestClient(self.app, raise_server_exceptions=False)

    def key(self, role, tenant, subjects=None):
        """A new key of a role, of a tenant or of none, for some subjects or all."""
        text, key = new_key(role, tenant, "test", SECRET, 0.0)
        key = bound_to(key, subjects)
        self.store.keys.add(key)
        return text

    def ask(self, method, path, body=None, role=Role.OPERATOR, **more):
        """The answer to somebody who shows the key of a role as Confluent's clients do."""
        headers = {"Content-Type": MEDIA} | more.pop("headers", {})
        if role is not None:
            shown = base64.b64encode(f"any:{self.keys[role]}".encode()).decode()
            headers["Authorization"] = f"Basic {shown}"
        content = json.dumps(body) if isinstance(body, dict) else body
        return self.client.request(method, path, content=content, headers=headers)

    def put(self, subject, text=AVRO, **more):
        """Register a schema, as an operator."""
        answer = self.ask("POST", f"/subjects/{subject}/versions", {"schema": text} | more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, *asked, **more):
        """Status and code of a refusal."""
        answer = self.ask(*asked, **more)
        return answer.status_code, answer.json()["error_code"]
