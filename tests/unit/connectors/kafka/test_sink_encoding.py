"""Columns become messages before anything is sent; a row that does not fit is named."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from headrace.connectors.kafka.sink_encoding import Encodings
from headrace.connectors.kafka.sink_messages import sendable
from headrace.errors import ConfigError, SinkRefused, SinkUnavailable, TargetMissing, WrongSchema
from headrace.formats import AvroOutput, Json, JsonSchemaOutput, Text
from headrace.model.streams import LaneId, Slice
from headrace.ports import Effect, NoRegistry, SchemaKind, WrittenSchema
from headrace.sinks import KafkaTopic
from headrace.testing.schemas_fake import MemorySchemas, guid_of

VISIT = {
    "type": "record",
    "name": "acme.Visit",
    "fields": [{"name": "lead", "type": "string"}, {"name": "ms", "type": "int"}],
}
JSON = Json(pa.schema([("lead", pa.string())]))


def effect(table):
    return Effect((Slice(LaneId("score", "acme", "t[0]"), "t", 0, 9, epoch=1),), (9,), table)


def messages(encodings, table, ids=None, own="acme.visits"):
    return encodings.made(effect(table), own, ids or MemorySchemas()).output


def test_a_value_begins_with_a_zero_byte_and_the_id_of_its_schema():
    ids = MemorySchemas()
    ids.add(AvroOutput('"int"').registers.schema)
    made = messages(Encodings(AvroOutput(VISIT)), pa.table({"lead": ["a"], "ms": [1]}), ids)
    assert made.to_pylist() == [{"value": b"\0\0\0\0\x02\x02a\x02"}]
    assert ids.subjects["acme.visits-value"] == [2]


def test_what_is_beside_stays_and_a_column_may_be_in_key_and_value():
    headers = [[{"key": "h", "value": b"1"}]]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table({"lead": ["a"], "ms": [1], "headers": pa.array(headers, kind)})
    made = messages(Encodings(AvroOutput(VISIT), JSON), table)
    assert made["key"].to_pylist() == [b'{"lead":"a"}']
    assert made["headers"].to_pylist() == headers
    assert set(made.column_names) == {"key", "value", "headers"}


def test_a_key_that_is_not_encoded_stays_and_so_does_a_value():
    table = pa.table({"lead": ["a"], "key": [b"k"]})
    assert messages(Encodings(JSON), table).to_pylist() == [{"key": b"k", "value": b'{"lead":"a"}'}]
    table = pa.table({"key": ["k"], "value": ["v"]})
    assert messages(Encodings(None, Text()), table).to_pylist() == [{"key": b"k", "value": "v"}]


def test_rows_of_other_topics_have_other_subjects_and_rows_keep_their_order():
    ids = MemorySchemas()
    table = pa.table({"lead": ["a", "b", "c"], "ms": [1, 2, 3], "topic": [None, "other", None]})
    made = messages(Encodings(AvroOutput(VISIT)), table, ids)
    assert [value[6:7] for value in made["value"].to_pylist()] == [b"a", b"b", b"c"]
    assert set(ids.subjects) == {"acme.visits-value", "other-value"}


def test_a_row_that_does_not_fit_is_named_by_its_number_in_the_table():
    table = pa.table({"lead": ["a", "b", "c"], "ms": [1, 2, 2**40], "topic": ["x", "y", "x"]})
    with pytest.raises(SinkRefused, match=r"topic x: the value of row 2: column ms: int is not"):
        messages(Encodings(AvroOutput(VISIT)), table)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"lead": ["a"]}, r"the table returned has lead, but no column 'ms', which is encoded"),
        ({"lead": ["a"], "ms": [1], "page": [1]}, r"column 'page' \(int64\) that is not expected"),
        ({"lead": ["a"], "ms": [1], "value": [b"a"]}, r"column 'value' .* that is not expected"),
        ({"lead": ["a"], "ms": [1], "key": [1]}, r"column 'key' must be bytes or text"),
    ],
)
def test_columns_are_those_of_the_schema_and_those_beside_it(table, told):
    with pytest.raises(WrongSchema, match=rf"^topic acme\.visits: .*{told}"):
        messages(Encodings(AvroOutput(VISIT)), pa.table(table))


def test_a_column_of_a_wrong_type_is_told_with_the_topic():
    with pytest.raises(WrongSchema, match=r"^topic acme\.visits: column 'lead' must be string"):
        messages(Encodings(JSON), pa.table({"lead": [1]}))


def test_a_registry_that_is_away_is_a_sink_that_is_away():
    table = pa.table({"lead": ["a"], "ms": [1]})
    with pytest.raises(SinkUnavailable, match="the registry is away") as told:
        messages(Encodings(AvroOutput(VISIT)), table, MemorySchemas(away=True))
    assert told.value.retry_after_s == pytest.approx(0.1)
    with pytest.raises(SinkUnavailable, match=r"schema\.registry\.url"):
        messages(Encodings(AvroOutput(VISIT)), table, NoRegistry())


def test_a_schema_that_is_not_registered_and_may_not_be_stops_its_tenant():
    kind = AvroOutput(VISIT, auto_register_schemas=False)
    with pytest.raises(TargetMissing, match=r"subject acme\.visits-value"):
        messages(Encodings(kind), pa.table({"lead": ["a"], "ms": [1]}))


@pytest.mark.parametrize(
    ("newest", "told"),
    [
        ({**VISIT, "fields": [{"name": "lead", "type": "int"}]}, "column 'lead' is string"),
        ("int", "one is a record"),
        (["null", "int"], "a union is not"),
    ],
)
def test_a_newest_schema_that_columns_would_lose_by_stops_its_tenant_and_blames_no_record(
    newest, told
):
    ids = MemorySchemas()
    ids.add(WrittenSchema(SchemaKind.AVRO, json.dumps(newest)), "acme.visits-value")
    kind = AvroOutput(VISIT, use_latest_version=True)
    with pytest.raises(TargetMissing, match=rf"subject acme\.visits-value: its newest .*{told}"):
        messages(Encodings(kind), pa.table({"lead": ["a"], "ms": [1]}), ids)


def test_an_effect_without_columns_is_none():
    assert messages(Encodings(AvroOutput(VISIT)), pa.table({}), NoRegistry()).num_columns == 0


def test_an_effect_that_cannot_be_encoded_leaves_the_others():
    good, bad = effect(pa.table({"lead": ["a"]})), effect(pa.table({"lead": [1]}))
    ready, errors = sendable(
        {0: good, 1: bad}, "t", 1_000, lambda one: Encodings(JSON).made(one, "t", NoRegistry())
    )
    assert ready[0].output.to_pylist() == [{"value": b'{"lead":"a"}'}]
    assert isinstance(errors[1], WrongSchema)


def test_a_message_is_measured_as_it_is_sent():
    big = effect(pa.table({"lead": ["a" * 2_000]}))
    _, errors = sendable(
        {0: big}, "t", 1_000, lambda one: Encodings(JSON).made(one, "t", NoRegistry())
    )
    assert "message.max.bytes" in str(errors[0])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"encode": Json}, r"encode is such as AvroOutput"),
        ({"encode": "avro"}, r"encode is such as AvroOutput"),
        ({"encode": Json(JSON.columns, framing="confluent")}, r"leave framing out to write JSON"),
        ({"encode_key": Json(JSON.columns, framing="confluent")}, r"leave framing out"),
        ({"encode": Json(pa.schema([("topic", pa.string())]))}, r"has a column topic"),
        ({"encode": Json(pa.schema([("key", pa.string())]))}, r"has a column key"),
        ({"encode_key": Json(pa.schema([("value", pa.string())]))}, r"has a column value"),
    ],
)
def test_two_columns_of_one_name_are_refused_when_the_sink_is_named(given, told):
    with pytest.raises(ConfigError, match=told):
        KafkaTopic("t", **given)


def test_a_table_can_be_checked_without_a_registry():
    sink = KafkaTopic("{tenant}.visits", encode=AvroOutput(VISIT), encode_key=Text())
    sink.check(pa.table({"lead": ["a"], "ms": [1], "key": ["k"]}))
    with pytest.raises(SinkRefused, match="the value of row 0: column ms"):
        sink.check(pa.table({"lead": ["a"], "ms": [None], "key": ["k"]}))
    assert sink.needs_registry
    assert not KafkaTopic("t", encode=JSON).needs_registry


def test_how_effects_look_says_nothing_about_where_they_go():
    assert repr(KafkaTopic("t", encode=JSON)) == repr(KafkaTopic("t"))


COLUMNS = pa.schema([pa.field("lead", pa.string(), nullable=False)])
TREE = {"title": "Visit", "type": "object", "properties": {"lead": {"maxLength": 2}}}
IN_HEADER = {"schema_id_serializer": "HeaderSchemaIdSerializer"}


def header(name, value):
    return {"key": name, "value": value}


def test_json_with_a_registered_schema_has_its_id_in_front():
    ids = MemorySchemas()
    made = messages(Encodings(JsonSchemaOutput(COLUMNS, TREE)), pa.table({"lead": ["a"]}), ids)
    assert made.to_pylist() == [{"value": b'\0\0\0\0\x01{"lead":"a"}'}]
    assert ids.schemas[1] == WrittenSchema(SchemaKind.JSON, json.dumps(TREE))


def test_a_row_that_a_json_schema_refuses_is_told_with_its_column_and_not_its_value():
    table = pa.table({"lead": ["a", "secret"]})
    with pytest.raises(SinkRefused, match=r"row 1: column lead: .*schema's maxLength") as told:
        messages(Encodings(JsonSchemaOutput(COLUMNS, TREE)), table)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("newest", "told"),
    [
        ({"required": ["other"]}, "column 'other' is not there: the schema requires it"),
        ({"additionalProperties": False}, "column 'lead': the schema has no such property"),
        ([], "an object"),
    ],
)
def test_a_newest_json_schema_that_no_row_can_suit_blames_no_record(newest, told):
    ids = MemorySchemas()
    ids.add(WrittenSchema(SchemaKind.JSON, json.dumps(newest)), "acme.visits-value")
    kind = JsonSchemaOutput(COLUMNS, TREE, use_latest_version=True)
    with pytest.raises(TargetMissing, match=told):
        messages(Encodings(kind), pa.table({"lead": ["a"]}), ids)


def test_subjects_of_json_are_named_after_its_title():
    ids, how = MemorySchemas(), {"subject_name_strategy": "RecordNameStrategy"}
    messages(Encodings(JsonSchemaOutput(COLUMNS, TREE, **how)), pa.table({"lead": ["a"]}), ids)
    assert list(ids.subjects) == ["Visit"]
    with pytest.raises(ConfigError, match="a JSON Schema is its title"):
        JsonSchemaOutput(COLUMNS, {}, **how)


def test_an_id_may_stand_in_a_header_for_value_and_key():
    key = AvroOutput({**VISIT, "name": "Key", "fields": VISIT["fields"][:1]}, **IN_HEADER)
    value, ids = AvroOutput(VISIT, **IN_HEADER), MemorySchemas()
    (row,) = messages(Encodings(value, key), pa.table({"lead": ["a"], "ms": [1]}), ids).to_pylist()
    assert (row["value"], row["key"]) == (b"\x02a\x02", b"\x02a")
    assert row["headers"] == [
        header("__value_schema_id", b"\1" + guid_of(value.registers.schema).bytes),
        header("__key_schema_id", b"\1" + guid_of(key.registers.schema).bytes),
    ]


@pytest.mark.parametrize("how", [{}, IN_HEADER])
def test_a_header_that_names_the_schema_of_another_record_is_not_passed_on(how):
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [[header("__value_schema_id", b"\1" + bytes(16)), header("h", b"1")], None]
    table = pa.table({"lead": ["a", "b"], "ms": [1, 2], "headers": pa.array(headers, kind)})
    made = messages(Encodings(AvroOutput(VISIT, **how)), table)["headers"].to_pylist()
    names = [[one["key"] for one in row] for row in made]
    own = ["__value_schema_id"] * bool(how)
    assert names == [["h", *own], own]


def test_a_registry_that_tells_no_guid_stops_who_writes_it_into_headers(monkeypatch):
    ids = MemorySchemas()
    registered = ids.registered
    monkeypatch.setattr(
        MemorySchemas, "registered", lambda _, *given: replace(registered(*given), guid=None)
    )
    with pytest.raises(TargetMissing, match="tells no GUID"):
        messages(
            Encodings(AvroOutput(VISIT, **IN_HEADER)), pa.table({"lead": ["a"], "ms": [1]}), ids
        )
    with pytest.raises(ConfigError, match="schema_id_serializer 'header' is none of Prefix"):
        AvroOutput(VISIT, schema_id_serializer="header")


@pytest.mark.parametrize("how", [{"auto_register_schemas": False}, {"use_latest_version": True}])
def test_what_stops_at_a_schema_is_told_with_the_command_that_lets_its_stream_go_on(how):
    with pytest.raises(
        TargetMissing, match=r"; then 'headrace streams resume acme/score' goes on$"
    ):
        messages(Encodings(AvroOutput(VISIT, **how)), pa.table({"lead": ["a"], "ms": [1]}))
