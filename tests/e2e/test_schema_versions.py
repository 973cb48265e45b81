"""A schema that changes under a service: producers with Confluent's client, our registry."""

import json
import time
from contextlib import closing

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from service import Service, ended

from gateway_process import SECRET
from headrace.doors.keys import new_key
from headrace.model.credentials import Role
from headrace.store import open_store
from registry_process import RegistryProcess

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

USE_CASES = """
import pyarrow as pa
from headrace import use_case
from headrace.formats import Avro
from headrace.sinks import SqlTable

READER = {{
    "type": "record",
    "name": "Visit",
    "fields": [
        {{"name": "value", "type": "string"}},
        {{"name": "version", "type": "long", "default": 1}},
    ],
}}

@use_case(
    topic="{{tenant}}.{topic}",
    decode=Avro(READER),
    sink=SqlTable("seen", columns={{"tenant": "text", "value": "text", "version": "bigint"}}),
    guarantee="exactly-once",
)
def keep(table, context):
    tenant = pa.array([context.tenant] * table.num_rows, pa.string())
    return table.select(["value", "version"]).append_column("tenant", tenant)
"""
V1 = {"type": "record", "name": "Visit", "fields": [{"name": "value", "type": "string"}]}
V2 = V1 | {"fields": [*V1["fields"], {"name": "version", "type": "long", "default": 0}]}
V3 = V1 | {"fields": [{"name": "value", "type": "int"}]}


class RegisteredService(Service):
    """Keeps what producers write by schemas of our own registry, which has the store with it."""

    def __init__(self, folder, kafka, topic):
        super().__init__(folder, kafka.bootstrap_servers, topic)
        self.store_url = f"sqlite:///{folder}/store.db"
        self.registry = RegistryProcess(folder / "registry", self.store_url)
        text, key = new_key(Role.OPERATOR, None, "test", SECRET.encode(), time.time())
        with closing(open_store(self.store_url)) as store:
            store.keys.add(key)
        with (folder / "headrace.yaml").open("a") as settings:
            settings.write(
                f"registry:\n  schema.registry.url: {self.registry.url}\n"
                f"  basic.auth.credentials.source: USER_INFO\n  basic.auth.user.info: t:{text}\n"
            )
        self.client = {"url": self.registry.url, "basic.auth.user.info": f"t:{text}"}

    def write(self, version):
        (self.folder / "use_cases.py").write_text(USE_CASES.format(topic=self.topic))

    def subject(self, tenant):
        return f"{tenant}.{self.topic}-value"

    def visits(self, client, tenant, schema, *visits):
        """Send visits as a program with Confluent's serializer does."""
        serialize = AvroSerializer(client, json.dumps(schema))
        context = SerializationContext(f"{tenant}.{self.topic}", MessageField.VALUE)
        self.send(tenant, *(serialize(visit, context) for visit in visits))

    def streams(self):
        listed = json.loads(self.headrace("streams", "list", "--json").stdout)
        return {row["tenant"]: row for row in listed}

    def until_listed(self, tenant, wanted):
        give_up_s = time.monotonic() + 60
        while not wanted(row := self.streams()[tenant]):
            assert time.monotonic() < give_up_s, f"{row}\n{self.log.read_text()[-5000:]}"
            time.sleep(0.2)
        return row


def test_a_compatible_version_goes_on_without_a_restart_and_an_incompatible_one_stops_its_stream(
    tmp_path, kafka
):
    service = RegisteredService(tmp_path, kafka, f"t{time.time_ns()}")
    with service.registry, SchemaRegistryClient(service.client) as client:
        assert service.headrace("use-cases", "deploy").returncode == 0
        for tenant in ("acme", "bolt"):
            service.visits(client, tenant, V1, {"value": "a"}, {"value": "b"})
            assert service.headrace("tenants", "add", tenant).returncode == 0
        process = service.run()
        service.until(4)

        service.visits(client, "acme", V2, {"value": "c", "version": 2})
        assert ("acme", "c", 2) in service.until(5)
        acme = service.until_listed("acme", lambda row: len(row["schemas"]) == 2)
        told = [(s["subject"], s["version"], s["records"]) for s in acme["schemas"]]
        assert told == [(service.subject("acme"), 2, 1), (service.subject("acme"), 1, 2)]

        with pytest.raises(SchemaRegistryError, match="incompatible"):
            service.visits(client, "acme", V3, {"value": 3})
        none = ServerConfig(ConfigCompatibilityLevel.NONE)
        client.set_config(service.subject("acme"), config=none)
        service.visits(client, "acme", V3, {"value": 3})
        service.visits(client, "acme", V1, {"value": "behind"})
        service.visits(client, "bolt", V2, {"value": "c", "version": 2})
        assert ("bolt", "c", 2) in service.until(6)
        acme = service.until_listed("acme", lambda row: row["state"] == "suspended")
        assert "int" in acme["reason"], acme["reason"]
        service.visits(client, "bolt", V1, {"value": "d"})
        service.until(7)
        bolt = service.streams()["bolt"]
        assert (bolt["state"], bolt["reason"]) == ("active", "")
        ended(process, service)
    assert sorted(service.rows()) == [
        ("acme", "a", 1),
        ("acme", "b", 1),
        ("acme", "c", 2),
        ("bolt", "a", 1),
        ("bolt", "b", 1),
        ("bolt", "c", 2),
        ("bolt", "d", 1),
    ]
