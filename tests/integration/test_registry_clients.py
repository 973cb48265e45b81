"""Confluent's own client and serializers, unchanged, against `headrace registry`."""

import json
import time
from contextlib import suppress

import pyarrow as pa
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

from headrace.connectors.kafka.sink_encoding import Encodings
from headrace.connectors.schema_registry import RegistrySchemas, lookups, registry_config
from headrace.errors import SinkUnavailable
from headrace.formats import (
    Avro,
    AvroOutput,
    Json,
    JsonSchemaOutput,
    Protobuf,
    ProtobufOutput,
)
from headrace.model.credentials import Role
from headrace.ports import RECORD_SCHEMA, Payloads
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


def class_of(files, name):
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_protobuf_with_an_import(client):
    files = compiled(
        'syntax="proto3"; package acme; import "google/protobuf/timestamp.proto"; '
        "message Visit { string lead = 1; google.protobuf.Timestamp at = 2; }",
        [],
        [],
    )
    visit = class_of(files, "acme.Visit")
    plain = {"use.deprecated.format": False}
    record = ProtobufSerializer(visit, client, plain)(visit(lead="ada"), VALUE)
    read = ProtobufDeserializer(visit, plain, schema_registry_client=client)
    assert read(record, VALUE).lead == "ada"


class Ours:
    """Our sink's encoding, as it asks this registry; and Confluent's deserializers of it."""

    def __init__(self, registry, keys, client):
        info = f"acme:{keys[Role.SENDER]}"
        told = {"schema.registry.url": registry.url, "basic.auth.user.info": info}
        self.ids, self.client = RegistrySchemas(registry_config(told)), client

    def sent(self, kind, rows):
        """Values and headers of what is sent of rows."""
        give_up_s = time.monotonic() + 60
        while True:
            try:
                made = Encodings(kind).messages(pa.table(rows), "acme.visits", self.ids)
                break
            except SinkUnavailable:  # whoever asks first does not wait for the answer
                assert time.monotonic() < give_up_s
                time.sleep(0.05)
        headers = made["headers"].to_pylist() if "headers" in made.column_names else [[]]
        pairs = [(one["key"], one["value"]) for one in headers[0]]
        return made["value"].to_pylist()[0], pairs

    def decoded(self, reader, value, pairs):
        headers = [[{"key": key, "value": told} for key, told in pairs]]
        column = pa.chunked_array([pa.array([value], pa.binary())])
        kind = RECORD_SCHEMA.field("headers").type
        given = Payloads(column, pa.chunked_array([pa.array(headers, kind)]), "value", self.ids)
        return reader.decode(given)


@pytest.fixture
def ours(registry, keys, client, monkeypatch):
    monkeypatch.setattr(lookups, "WAIT_S", lookups.LOOKUP_S + 1)
    return Ours(registry, keys, client)


VISIT = """
    syntax="proto3"; package acme; import "google/protobuf/timestamp.proto";
    message Other { int32 x = 1; }
    message Visit { string lead = 1; google.protobuf.Timestamp at = 2; }
"""
#: their client takes nothing for a record that has less than six bytes, id or not
ADA = "ada lovelace"
TREE = {
    "title": "Visit",
    "type": "object",
    "properties": {"lead": {"type": "string"}},
    "required": ["lead"],
}
LEAD = pa.schema([pa.field("lead", pa.string(), nullable=False)])
#: what stands under the subject where one writes by the newest
AVRO, JSON = (
    Schema(json.dumps(V2), "AVRO"),
    Schema(json.dumps({**TREE, "maxProperties": 1}), "JSON"),
)
PROTOBUF = Schema(VISIT.replace("x = 1", "y = 2"), "PROTOBUF")


@pytest.mark.parametrize("place", ["PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer"])
@pytest.mark.parametrize("use_latest", [False, True])
def test_what_our_sink_writes_is_read_by_confluents_deserializers_and_by_us(
    ours, client, operator, place, use_latest
):
    visit = class_of(compiled(VISIT, [], []), "acme.Visit")
    how = {"schema_id_serializer": place, "use_latest_version": use_latest}
    kinds = [
        (AvroOutput(V1, **how), Avro(V1), AvroDeserializer(client), AVRO),
        (
            JsonSchemaOutput(LEAD, TREE, **how),
            Json(LEAD, framing="confluent"),
            JSONDeserializer(None, schema_registry_client=client),
            JSON,
        ),
        (
            ProtobufOutput(visit, **how),
            Protobuf(visit, fields=["lead"]),
            ProtobufDeserializer(visit, {}, schema_registry_client=client),
            PROTOBUF,
        ),
    ]
    for kind, reader, deserialize, schema in kinds:
        if use_latest:
            operator.register_schema("acme.visits-value", schema)
        value, headers = ours.sent(kind, {"lead": [ADA]})
        in_header = place == "HeaderSchemaIdSerializer"
        assert [name for name, _ in headers] == ["__value_schema_id"] * in_header
        context = SerializationContext("acme.visits", MessageField.VALUE, headers)
        read = deserialize(value, context)
        assert (read["lead"] if isinstance(read, dict) else read.lead) == ADA
        found = ours.decoded(reader, value, headers)
        assert (found.columns.to_pylist(), found.undecoded) == ([{"lead": ADA}], ())
        for permanent in (False, True):
            operator.delete_subject("acme.visits-value", permanent)


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
