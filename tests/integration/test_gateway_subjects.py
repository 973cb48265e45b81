"""JSON posted to the gateway, read from Kafka by Confluent's deserializer by the id in front."""

import json
import uuid
from decimal import Decimal

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from door_process import until
from gateway_process import GatewayProcess
from headrace.connectors.kafka import create_topics
from headrace.model.credentials import Role
from headrace.testing.kafka_topics import KafkaTopics
from registry_process import RegistryProcess, made_keys

pytestmark = pytest.mark.kafka
VALUE = SerializationContext("acme.visits", MessageField.VALUE)
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
V1 = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "lead", "type": "string"},
        {"name": "ms", "type": "long"},
        {"name": "price", "type": ["null", PRICE], "default": None},
    ],
}
V2 = V1 | {"fields": [*V1["fields"], {"name": "tags", "type": {"type": "array", "items": "string"},
                                      "default": []}]}  # fmt: skip
SENT = {"lead": "ada", "ms": 2**53 + 1, "price": "9.90"}


@pytest.fixture
def registry(tmp_path):
    url = f"sqlite:///{tmp_path}/registry.db"
    process = RegistryProcess(tmp_path / "registry", url)
    process.keys = made_keys(url)
    yield process
    process.kill()


@pytest.fixture
def gateway(kafka, tmp_path, registry):
    mark = uuid.uuid4().hex[:8]
    types = {
        "visit": {"topic": f"visits-{mark}", "subject": "acme.visits-value"},
        "plain": {"topic": f"visits-{mark}"},
    }
    made = GatewayProcess(
        tmp_path / "gateway",
        kafka.bootstrap_servers,
        mark,
        settings={"types": types, "subject_looks": "200ms"},
    )
    path = made.folder / "headrace.yaml"
    (made.folder / "user").write_text(f"ops:{registry.keys[Role.OPERATOR]}")
    told = {"schema.registry.url": registry.url, "basic.auth.user.info.file": "user"}
    path.write_text(json.dumps({**json.loads(path.read_text()), "registry": told}))
    create_topics({"bootstrap.servers": kafka.bootstrap_servers}, {made.topic(): 1})
    with made:
        yield made
        assert made.stop() == 0, made.log()


def registered(client, schema):
    return client.register_schema("acme.visits-value", Schema(json.dumps(schema), "AVRO"))


def test_what_is_posted_as_json_is_read_by_confluents_deserializer(kafka, gateway, registry):
    with gateway.client() as sender:

        def post(body):
            return sender.post("/v1/events/visit", json=body)

        refused = post(SENT)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert sender.post("/v1/events/plain", json=1).status_code == 202
        assert "visit" in httpx.get(f"{gateway.url}/readyz", timeout=60).json()["schemas"]

        registry.start()
        info = {
            "url": registry.url,
            "basic.auth.user.info": f"ops:{registry.keys[Role.OPERATOR]}",
        }
        with SchemaRegistryClient(info) as client:
            registered(client, V1)
            until(
                lambda: "schemas" not in httpx.get(f"{gateway.url}/readyz", timeout=60).json(),
                gateway.log,
            )
            assert post(SENT).status_code == 202
            some = post([SENT, {**SENT, "ms": "soon"}, {**SENT, "tags": ["a"]}])
            assert [item.get("pointer") for item in some.json()["items"]] == [None, "/ms", "/tags"]

            registered(client, V2)
            until(lambda: post({**SENT, "tags": ["a"]}).status_code == 202, gateway.log)
            registry.kill()
            until(
                lambda: "schemas" in httpx.get(f"{gateway.url}/readyz", timeout=60).json(),
                gateway.log,
            )
            assert post(SENT).status_code == 202

            registry.start()
            read = AvroDeserializer(client)
            values = [
                message.value()
                for message in KafkaTopics(kafka.bootstrap_servers).messages(gateway.topic())
            ]
            found = [read(value, VALUE) for value in values[1:]]
    meant = {"lead": "ada", "ms": 2**53 + 1, "price": Decimal("9.90")}
    assert values[0] == b"1"
    assert found == [
        meant,
        meant,
        {**meant, "tags": ["a"]},
        {**meant, "tags": []},
    ]
    secret = registry.keys[Role.OPERATOR]
    assert secret not in gateway.log()


FILES = (
    "message Visit { string lead = 1; }",
    "message Visit { string lead = 1; string page = 2; }",
    "message Other {} message Visit { string lead = 1; string page = 2; }",
)


def test_a_gateway_that_starts_anew_writes_what_it_wrote_and_nothing_of_a_subject_that_was_deleted(
    kafka, gateway, registry
):
    def post():
        with gateway.client() as sender:
            return sender.post("/v1/events/visit", json={"lead": "ada"}).status_code

    def troubles():
        return (
            httpx.get(f"{gateway.url}/readyz", timeout=60)
            .json()
            .get("schemas", {})
            .get("visit", "")
        )

    def start_again():
        assert gateway.stop() == 0, gateway.log()
        gateway.start()

    registry.start()
    info = {"url": registry.url, "basic.auth.user.info": f"ops:{registry.keys[Role.OPERATOR]}"}
    with SchemaRegistryClient(info) as client:
        for text in FILES:
            made = Schema(f'syntax="proto3"; {text}', "PROTOBUF")
            client.register_schema("acme.visits-value", made)
        until(lambda: "the one before" in troubles(), gateway.log)
        assert post() == 202
        start_again()
        until(lambda: "the one before" in troubles(), gateway.log)
        assert post() == 202
        client.delete_subject("acme.visits-value")
        until(lambda: "no schema" in troubles(), gateway.log)
        assert post() == 503
        start_again()
        until(lambda: "no schema" in troubles(), gateway.log)
        assert post() == 503
    found = KafkaTopics(kafka.bootstrap_servers).messages(gateway.topic())
    assert [message.value()[:6] for message in found] == [b"\0\0\0\0\2\0"] * 2
