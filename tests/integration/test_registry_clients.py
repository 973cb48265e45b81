"""Confluent's own client and serializers, unchanged, against `headrace registry`."""

import json
from contextlib import suppress

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory

from headrace.model.credentials import Role
from headrace.schema_registry.protoc import compiled
from registry_process import RegistryProcess, made_keys

VALUE = SerializationContext("acme.visits", MessageField.VALUE)
V1 = {"type": "record", "name": "Visit", "fields": [{"name": "lead", "type": "string"}]}
V2 = V1 | {"fields": [*V1["fields"], {"name": "at", "type": "long", "default": 0}]}
BROKEN = V1 | {"fields": [{"name": "lead", "type": "int"}]}


@pytest.fixture(scope="module")
def store_url(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('registry')}/store.db"


@pytest.fixture(scope="module")
def keys(store_url):
    return made_keys(store_url)


@pytest.fixture(scope="module")
def registry(store_url, keys, tmp_path_factory):
    with RegistryProcess(tmp_path_factory.mktemp("process"), store_url) as process:
        yield process


@pytest.fixture
def operator(registry, keys):
    """A client that may do everything; what there is is deleted after."""
    info = {"url": registry.url, "basic.auth.user.info": f"ops:{keys[Role.OPERATOR]}"}
    with SchemaRegistryClient(info) as client:
        yield client
        for _ in range(3):
            for subject in client.get_subjects(deleted=True):
                for permanent in (False, True):
                    with suppress(SchemaRegistryError):
                        client.delete_subject(subject, permanent)


@pytest.fixture
def client(registry, keys, operator):
    """A client of the tenant."""
    info = {"url": registry.url, "basic.auth.user.info": f"acme:{keys[Role.SENDER]}"}
    with SchemaRegistryClient(info) as client:
        yield client


def test_avro_with_a_schema_that_changes(client):
    first = AvroSerializer(client, json.dumps(V1))({"lead": "ada"}, VALUE)
    second = AvroSerializer(client, json.dumps(V2))({"lead": "ada", "at": 7}, VALUE)
    read = AvroDeserializer(client, json.dumps(V2))
    assert [read(record, VALUE) for record in (first, second)] == [
        {"lead": "ada", "at": 0},
        {"lead": "ada", "at": 7},
    ]
    with pytest.raises(SchemaRegistryError) as refused:
        AvroSerializer(client, json.dumps(BROKEN))({"lead": 7}, VALUE)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert client.get_versions("acme.visits-value") == [1, 2]


def test_a_build_pipeline_registers_and_looks_up_with_a_key_that_does_nothing_else(
    registry, keys, operator
):
    info = {"url": registry.url, "basic.auth.user.info": f"build:{keys[Role.SCHEMAS]}"}
    with SchemaRegistryClient(info) as builds:
        record = AvroSerializer(builds, json.dumps(V1))({"lead": "ada"}, VALUE)
    with SchemaRegistryClient(info) as builds:
        for how in ({"auto.register.schemas": False}, {"normalize.schemas": True}):
            assert (
                AvroSerializer(builds, json.dumps(V1), conf=how)({"lead": "ada"}, VALUE) == record
            )
        newest = {"auto.register.schemas": False, "use.latest.version": True}
        assert AvroSerializer(builds, json.dumps(V1), conf=newest)({"lead": "ada"}, VALUE) == record
        assert builds.test_compatibility("acme.visits-value", Schema(json.dumps(V2)))
        for subject in ("bolt.visits-value", "com.acme.Visit"):
            with pytest.raises(SchemaRegistryError) as refused:
                builds.register_schema(subject, Schema(json.dumps(V1)))
            assert refused.value.error_code == 40301
        with pytest.raises(SchemaRegistryError) as refused:
            builds.delete_subject("acme.visits-value")
        assert refused.value.error_code == 40301
    assert operator.get_subjects() == ["acme.visits-value"]


def test_json_schema(client):
    schema = {"title": "Visit", "type": "object", "properties": {"lead": {"type": "string"}}}
    record = JSONSerializer(json.dumps(schema), client)({"lead": "ada"}, VALUE)
    read = JSONDeserializer(None, schema_registry_client=client)
    assert read(record, VALUE) == {"lead": "ada"}


def test_protobuf_with_an_import(client):
    files = compiled(
        'syntax="proto3"; package acme; import "google/protobuf/timestamp.proto"; '
        "message Visit { string lead = 1; google.protobuf.Timestamp at = 2; }",
        [],
        [],
    )
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    visit = message_factory.GetMessageClass(pool.FindMessageTypeByName("acme.Visit"))
    plain = {"use.deprecated.format": False}
    record = ProtobufSerializer(visit, client, plain)(visit(lead="ada"), VALUE)
    read = ProtobufDeserializer(visit, plain, schema_registry_client=client)
    assert read(record, VALUE).lead == "ada"


def test_protobuf_text_is_read_as_a_descriptor(client):
    text = 'syntax="proto3"; message Visit { string lead = 1; }'
    id_ = client.register_schema("acme.visits-value", Schema(text, "PROTOBUF"))
    shown = client.get_schema(id_, fmt="serialized")
    assert client.lookup_schema("acme.visits-value", shown).schema_id == id_


def test_all_that_the_client_asks_besides(client, operator):
    id_ = client.register_schema("acme.visits-value", Schema(json.dumps(V1)))
    found = client.get_latest_version("acme.visits-value")
    assert (found.version, found.schema_id) == (1, id_)
    assert client.get_schema_by_guid(found.guid).schema_str == json.dumps(V1)
    assert client.lookup_schema("acme.visits-value", Schema(json.dumps(V1, indent=1))).version == 1
    assert client.get_subjects_by_schema_id(id_) == ["acme.visits-value"]
    assert client.test_compatibility("acme.visits-value", Schema(json.dumps(V2)))
    assert not client.test_compatibility("acme.visits-value", Schema(json.dumps(BROKEN)))
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    order = json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "visit", "type": "Visit"}]}
    )
    refers = [SchemaReference("Visit", "acme.visits-value", 1)]
    other = operator.register_schema("acme.visits-key", Schema(order, "AVRO", refers))
    assert operator.get_referenced_by("acme.visits-value", 1) == [other]
    operator.set_compatibility("acme.visits-value", "FULL")
    assert operator.get_compatibility("acme.visits-value") == "FULL"
    assert operator.get_contexts() == ["."]
    assert operator.get_global_mode() == "READWRITE"


def test_a_tenant_registers_under_no_topic_of_another(client):
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("bolt.visits-value", Schema(json.dumps(V1)))
    assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)


def test_a_wrong_key_is_told_as_such(registry):
    info = {"url": registry.url, "basic.auth.user.info": "acme:wrong"}
    with SchemaRegistryClient(info) as client, pytest.raises(SchemaRegistryError) as refused:
        client.get_subjects()
    assert (refused.value.http_status_code, refused.value.error_code) == (401, 401)


def test_a_schema_of_ten_megabytes_is_refused_as_too_large(client):
    schema = Schema(json.dumps(V1 | {"doc": "x" * 10_000_000}))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("acme.visits-value", schema)
    assert (refused.value.http_status_code, refused.value.error_code) == (413, 42209)
    assert client.get_subjects() == []
