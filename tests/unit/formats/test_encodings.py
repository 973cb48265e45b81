"""Columns become bytes that mean the same, or are refused by row and column."""

import io
import json
import math
import pickle
import string
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_reader
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka.sink_encoding import Encodings
from headrace.errors import ConfigError, WrongSchema
from headrace.formats import AvroOutput, Json, Text
from headrace.ports import RECORD_SCHEMA, Payloads, SchemaKind, WrittenSchema


def record(**fields):
    told = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "acme.Visit", "fields": told}


def logical(name, of="long", **more):
    return {"type": of, "logicalType": name, **more}


TIMES = {"x": pa.array([1, 2], pa.timestamp("us", "UTC"))}
DIGITS = logical("decimal", "bytes", precision=4, scale=2)
OPTIONAL = {**record(x="int"), "fields": [{"name": "x", "type": ["null", "int"], "default": None}]}


def encoded(kind, **columns):
    table = pa.table(columns)
    kind.check(table.schema)
    return kind.encode(table, None)


def read(kind, payload):
    text = kind.registers.schema.text
    return schemaless_reader(io.BytesIO(payload), parse_schema(json.loads(text)))


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (record(x="int", y="string"), {"x": [1, -1], "y": ["a", "ü"]}),
        (record(x=["null", "double"]), {"x": [1.5, None]}),
        (record(x={"type": "array", "items": "string"}), {"x": [["a"], []]}),
        (record(x={"type": "map", "values": "long"}), {"x": [{"a": 1}, {}]}),
        (record(x=["null", record(y="int")]), {"x": [{"y": 5}, None]}),
        (record(x={"type": "enum", "name": "E", "symbols": ["A", "B"]}), {"x": ["A", "B"]}),
        (record(x=logical("date", "int")), {"x": [datetime(2026, 1, 1, tzinfo=UTC).date()] * 2}),
        (record(x=logical("timestamp-micros")), TIMES),
        (record(x=DIGITS), {"x": [Decimal("12.34"), Decimal("-0.10")]}),
        (record(x="bytes", y="boolean"), {"x": [b"\0", b""], "y": [True, False]}),
    ],
)
def test_a_reader_of_avro_finds_what_was_in_the_columns(schema, columns):
    if "acme.Visit" in json.dumps(schema["fields"]):
        schema["name"] = "acme.Outer"
    maps = {"x": pa.map_(pa.string(), pa.int64())} if "map" in json.dumps(schema) else {}
    arrays = {name: pa.array(values, maps.get(name)) for name, values in columns.items()}
    kind = AvroOutput(schema)
    made = encoded(kind, **arrays)
    assert made.unencoded == ()
    rows = pa.table(arrays).to_pylist(maps_as_pydicts="strict")
    assert [read(kind, payload) for payload in made.payloads] == rows


@pytest.mark.parametrize(
    ("schema", "values", "told"),
    [
        (record(x="int"), pa.array([1, 2**40]), r"column x: int is not int \(it has more bits\)"),
        (record(x="int"), pa.array([1, None]), r"column x: NoneType is not int"),
        (OPTIONAL, pa.array([None, 2**33]), r"column x: int is not null or int$"),
        (record(x="string"), pa.array(["a", None]), r"column x: NoneType is not string"),
        (
            record(x={"type": "enum", "name": "E", "symbols": ["A"]}),
            pa.array(["A", "secret"]),
            r"column x: str is not acme\.E",
        ),
        (record(x=DIGITS), pa.array([Decimal("1.00"), Decimal("999.99")]), r"precision"),
        (
            record(x={"type": "map", "values": "long"}),
            pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
            r"column x: its value is none of Python's",
        ),
        (
            {**record(x=record(y="int")), "name": "Outer"},
            pa.array([{"y": 1}, {"y": 2**40}]),
            r"column .*y: int is not int",
        ),
    ],
)
def test_a_row_that_the_schema_does_not_take_is_told_with_its_column_alone(schema, values, told):
    made = encoded(AvroOutput(schema), x=values)
    assert [row for row, _ in made.unencoded] == [1]
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(made.unencoded[0].reason)
    assert "secret" not in made.unencoded[0].reason
    assert len(made.payloads) == 1


@pytest.mark.parametrize(
    ("kind", "values"),
    [("int", [1.5]), ("int", [True]), ("string", [b"a"]), ("bytes", ["a"]), ("long", ["1"])],
)
def test_no_value_is_made_another_one(kind, values):
    written, table = AvroOutput(record(x=kind)), pa.table({"x": values})
    with pytest.raises(WrongSchema, match="column 'x' is"):
        written.check(table.schema)
    assert len(written.encode(table, None).unencoded) == 1


@pytest.mark.parametrize(
    ("kind", "arrow", "told"),
    [
        ("float", pa.string(), "cannot be float"),
        (["null", "float"], pa.string(), "cannot be float"),
        ({"type": "array", "items": "float"}, pa.list_(pa.string()), "cannot be float"),
        (record(y="float"), pa.struct({"y": pa.string()}), "cannot be float"),
        (logical("timestamp-micros"), pa.timestamp("us"), "is not a time with no zone"),
        (logical("local-timestamp-micros"), pa.timestamp("us", "UTC"), "with a zone"),
        (logical("time-micros"), pa.time64("ns"), r"cast it to time64\('us'\)"),
        (logical("date", "int"), pa.timestamp("us", "UTC"), "the schema has no time there"),
    ],
)
def test_a_column_that_would_lose_what_it_says_is_refused_by_its_type(kind, arrow, told):
    schema = {**record(x=kind), "name": "Outer"}
    with pytest.raises(WrongSchema, match=rf"column 'x' is .*{told}"):
        AvroOutput(schema).check(pa.schema([("x", arrow)]))


def test_a_field_with_a_default_may_be_left_out():
    schema = record(x="int", y="int")
    schema["fields"][1]["default"] = 7
    kind = AvroOutput(schema)
    assert kind.takes("value") == {"x": True, "y": False}
    assert read(kind, encoded(kind, x=[1]).payloads[0]) == {"x": 1, "y": 7}


def test_what_is_no_record_is_written_from_the_column_itself():
    kind = AvroOutput('"string"')
    assert kind.takes("key") == {"key": True}
    assert encoded(kind, key=["ab"]).payloads == [b"\x04ab"]
    assert kind.registers.subject_of("t", "key") == "t-key"


def test_a_newer_schema_is_written_by_if_it_is_given_one():
    newer = record(x="int", inner=["null", "acme.Inner"])
    newer["fields"][1]["default"] = None
    references = (("acme.Inner", json.dumps({**record(z="int"), "name": "acme.Inner"})),)
    schema = WrittenSchema(SchemaKind.AVRO, json.dumps(newer), references)
    made = AvroOutput(record(x="int")).encode(pa.table({"x": [1]}), schema)
    assert made.payloads == [b"\x02\x00"]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "t-value"),
        ("RecordNameStrategy", "acme.Visit"),
        ("TopicRecordNameStrategy", "t-acme.Visit"),
    ],
)
def test_subjects_are_named_as_confluent_does(strategy, subject):
    kind = AvroOutput(record(x="int"), subject_name_strategy=strategy)
    assert kind.registers.subject_of("t", "value") == subject


@pytest.mark.parametrize("bad", ["{", '"x.Y"', '{"type":"record"}', "[]", "{}", "3", "null_"])
def test_what_is_no_schema_is_refused_when_it_is_named(bad):
    with pytest.raises(ConfigError):
        AvroOutput(bad)


def test_a_strategy_that_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match="is none of TopicNameStrategy"):
        AvroOutput('"int"', subject_name_strategy="topic")


def test_without_fastavro_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[avro\]'"):
        AvroOutput(record(never_seen_before="int"))


def test_encodings_travel():
    for kind in (AvroOutput(record(x="int")), Json(pa.schema([("x", pa.int64())]))):
        table = pa.table({"x": [1]})
        assert pickle.loads(pickle.dumps(kind)).encode(table, None) == kind.encode(table, None)


def test_only_what_has_ids_needs_a_registry():
    assert Encodings(AvroOutput('"int"')).needs_registry
    assert Encodings(None, AvroOutput('"int"')).needs_registry
    assert not Encodings(Json(pa.schema([("x", pa.int64())])), Text()).needs_registry


def test_a_schema_is_given_as_it_is_to_a_reader(tmp_path, monkeypatch):
    schema = record(x="int")
    (tmp_path / "visit.avsc").write_text(json.dumps(schema))
    monkeypatch.chdir(tmp_path)
    paths = ("visit.avsc", tmp_path / "visit.avsc")
    for schema_given in (schema, json.dumps(schema), *paths):
        assert AvroOutput(schema_given).registers == AvroOutput(schema).registers
    with pytest.raises(ConfigError, match=r"the schema in no\.avsc cannot be read"):
        AvroOutput("no.avsc")


def test_a_name_of_a_type_is_registered_as_json():
    assert AvroOutput("string").registers == AvroOutput('"string"').registers


@pytest.mark.parametrize("bad", [3, None, {"type": {1, 2}}])
def test_what_is_no_json_is_refused_when_it_is_named(bad):
    with pytest.raises(ConfigError):
        AvroOutput(bad)


EVERY = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("ratio", pa.float64()),
        ("ok", pa.bool_()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(20, 4)),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float64()))])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.fixed_dictionaries(
    {
        "id": INTS,
        "text": st.none() | st.text(),
        "ratio": st.none() | FLOATS,
        "ok": st.none() | st.booleans(),
        "raw": st.none() | st.binary(),
        "day": st.none() | st.dates(),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "price": st.none() | st.decimals(-(10**12), 10**12, places=4),
        "tags": st.none() | st.lists(st.text()),
        "inner": st.none()
        | st.fixed_dictionaries(
            {"a": st.none() | st.integers(-9, 9), "b": st.none() | st.lists(FLOATS)}
        ),
        "counts": st.none()
        | st.dictionaries(st.text(string.printable), INTS, max_size=3).map(
            lambda made: list(made.items())
        ),
    }
)


@given(st.lists(ROWS, max_size=4))
def test_json_decodes_to_what_was_encoded(rows):
    kind, table = Json(EVERY, names={"at": "timestamp"}), pa.Table.from_pylist(rows, EVERY)
    kind.check(table.schema)
    made = kind.encode(table, None)
    assert made.unencoded == ()
    assert read_json(kind, made).to_pylist() == table.to_pylist()


def read_json(kind, made):
    payloads = pa.chunked_array([pa.array(made.payloads, pa.binary())])
    headers = pa.chunked_array([pa.nulls(len(payloads), RECORD_SCHEMA.field("headers").type)])
    return kind.decode(Payloads(payloads, headers)).columns


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("ratio", [1.0, math.nan], "column ratio: JSON has no NaN"),
        ("ratio", [1.0, -math.inf], "column ratio: JSON has no NaN"),
        ("inner", [None, {"a": 1, "b": [math.inf]}], "column inner: JSON has no NaN"),
        ("counts", [[], [("a", 1), ("a", 2)]], "column counts: its value is none of Python's"),
        ("id", [1, None], "column id: it must not be null"),
    ],
)
def test_a_row_that_json_has_no_place_for_is_told_with_its_column(column, values, told):
    columns = {"id": [1, 2], column: values}
    schema = pa.schema([pa.field(name, EVERY.field(name).type) for name in columns])
    made = Json(EVERY).encode(pa.table(columns, schema=schema), None)
    assert [row for row, _ in made.unencoded] == [1]
    assert told in made.unencoded[0].reason
    assert len(made.payloads) == 1


STRICT = pa.struct([pa.field("a", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (STRICT, None, {"a": None}),
        (pa.list_(pa.field("item", pa.int64(), nullable=False)), [1], [1, None]),
        (pa.list_(STRICT), [None], [{"a": 1}, {"a": None}]),
        (pa.struct([pa.field("in", STRICT, nullable=False)]), None, {"in": None}),
        (pa.struct([("in", pa.list_(STRICT))]), {"in": None}, {"in": [{"a": None}]}),
        (pa.map_(pa.string(), STRICT), [("k", None)], [("k", {"a": None})]),
        (
            pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
            [("k", 1)],
            [("k", None)],
        ),
    ],
)
def test_a_null_within_where_none_may_be_is_refused_as_its_reader_would(kind, good, bad):
    json_columns = Json(pa.schema([("x", kind)]), names={"x": "y"})
    table = pa.table({"x": pa.array([good, bad], kind)})
    json_columns.check(table.schema)
    made = json_columns.encode(table, None)
    assert made.unencoded == ((1, "column x: within it is a null where none may be"),)
    assert len(made.payloads) == 1


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Europe/Amsterdam", "Africa/Monrovia", "+05:30"])
def test_a_time_is_the_same_however_many_seconds_its_zone_was_off(zone):
    kind = pa.timestamp("us", zone)
    schema = pa.schema([("x", kind), ("xs", pa.list_(kind)), ("m", pa.map_(pa.string(), kind))])
    micros = [-2_840_140_800_000_000, -1_577_923_200_000_000, 1_000_000, 1_698_541_200_000_000]
    times = pa.array(micros, kind).to_pylist()
    rows = [{"x": at, "xs": [at, None], "m": [("k", at)]} for at in times]
    table = pa.Table.from_pylist(rows, schema)
    made = Json(schema).encode(table, None)
    assert read_json(Json(schema), made).equals(table)


def test_a_column_of_another_type_is_refused_by_its_name():
    with pytest.raises(WrongSchema, match="column 'id' must be int64, and it is string"):
        Json(EVERY).check(pa.schema([("id", pa.string())]))
    with pytest.raises(WrongSchema, match="column 'value' must be text, and it is binary"):
        Text().check(pa.schema([("value", pa.binary())]))


def test_text_is_written_as_utf_8_and_null_is_null():
    assert Text().encode(pa.table({"value": ["ü", None]}), None).payloads == ["ü".encode(), None]
