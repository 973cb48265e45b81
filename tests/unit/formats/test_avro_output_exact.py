"""What is written as Avro is read as it was, by one's own schema or another, or it is refused."""

import datetime as dt
import io
import json
import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_reader

from headrace.errors import ConfigError, WrongSchema
from headrace.formats import Avro, AvroOutput
from headrace.ports import Encoded, SchemaKind, Unencoded, WrittenSchema
from headrace.testing.format_contract import decoded

MICROS = pa.array([1], pa.timestamp("us", "UTC"))
NANOS = pa.array([1], pa.timestamp("ns", "UTC"))
FOUR = {"type": "fixed", "name": "F", "size": 4}
INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "float"}]}


def record(kind):
    return {"type": "record", "name": "V", "fields": [{"name": "a", "type": kind}]}


def logical(name, of="long"):
    return {"type": of, "logicalType": name}


def avro(schema):
    return WrittenSchema(SchemaKind.AVRO, json.dumps(schema))


def read(schema, payload):
    return schemaless_reader(io.BytesIO(payload), parse_schema(schema))


LOSSES = [
    ("float", pa.array(["0.5"]), "cannot be float"),
    ("float", pa.array([Decimal("0.5")]).dictionary_encode(), "cannot be float"),
    (
        {"type": "array", "items": "float"},
        pa.array([["1"]], pa.large_list(pa.string())),
        "be float",
    ),
    (logical("time-millis", "int"), pa.array([1], pa.time64("ns")), r"cast it to time64\('us'\)"),
    (logical("time-micros"), pa.array([1], pa.time64("ns")), r"cast it to time64\('us'\)"),
    (logical("timestamp-nanos"), NANOS, "is written of whole numbers; cast it"),
    (logical("local-timestamp-micros"), MICROS, "is not a time with a zone"),
    (["null", logical("local-timestamp-millis"), "string"], MICROS, "no type of the union"),
    (["null", "long", "string"], pa.array([0.1]), "no type of the union"),
    (logical("date", "int"), pa.array([1]), "cannot be int"),
    (logical("date", "int"), pa.array(["2026-01-02"]), "cannot be int"),
    ("string", pa.array([1], pa.duration("us")), "cannot be string"),
    (INNER, pa.array([{"x": "0.1"}]), "its field x: .*cannot be float"),
    (INNER, pa.array([{"y": 1}]), "its field y: the schema has no such field"),
    (INNER, pa.array([{}], pa.struct([])), "its field x: the schema has this field"),
]


@pytest.mark.parametrize(("kind", "column", "told"), LOSSES)
def test_types_that_lose_something_are_refused_by_column(kind, column, told):
    table = pa.table({"a": column})
    with pytest.raises(WrongSchema, match=rf"^column 'a' is .*{told}"):
        AvroOutput(record(kind)).check(table.schema)


@pytest.mark.parametrize(("kind", "column", "told"), LOSSES)
def test_so_it_is_with_the_schema_that_is_given_to_write_by(kind, column, told):
    table, newest = pa.table({"a": column}), avro(record(kind))
    output = AvroOutput(record("bytes"))
    with pytest.raises(WrongSchema, match=rf"^column 'a' is .*{told}"):
        output.check(table.schema, newest)
    made = output.encode(table, newest)
    assert made.payloads == []
    assert [row for row, _ in made.unencoded] == [0]
    assert "column 'a'" in made.unencoded[0].reason


def test_a_record_that_is_named_a_second_time_is_the_same_record():
    schema = record("I")
    schema["fields"].insert(0, {"name": "b", "type": INNER})
    exact = pa.struct([("x", pa.float32())])
    with pytest.raises(WrongSchema, match=r"column 'a' is .*cannot be float"):
        AvroOutput(schema).check(pa.schema([("b", exact), ("a", pa.struct([("x", pa.string())]))]))
    AvroOutput(schema).check(pa.schema([("b", exact), ("a", exact)]))


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("float", pa.array([2**24, 2**24 + 1])),
        ("double", pa.array([2**53, 2**53 + 1])),
        (["null", "double"], pa.array([None, 2**53 + 1])),
        (["double", "long"], pa.array([1, 2**53 + 1])),
        (
            {"type": "map", "values": "float"},
            pa.array([[], [("k", 2**24 + 1)]], pa.map_("string", "int64")),
        ),
        (logical("uuid", "string"), pa.array(["6f1f3b0e-5a64-4a9f-9a0c-0f6f0d8f3c11", "no"])),
    ],
)
def test_where_types_do_not_tell_a_row_that_would_be_another_is_refused(kind, column):
    output = AvroOutput(record(kind))
    table = pa.table({"a": column})
    output.check(table.schema)
    made = output.encode(table, None)
    assert [row for row, _ in made.unencoded] == [1]
    assert len(made.payloads) == 1


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("float", pa.array([0.5, 0.1])),
        ("float", pa.array([0.5, 0.1]).dictionary_encode()),
        ("float", pa.array([0.5, 1e300])),
        (["null", "float"], pa.array([None, 2.0**24 + 1])),
        (["null", "float", "string"], pa.array([0.5, 0.1])),
        ({"type": "array", "items": "float"}, pa.array([[0.5], [0.5, 0.1]])),
        (INNER, pa.array([{"x": 0.5}, {"x": 0.1}])),
    ],
)
def test_of_floats_of_64_bits_those_that_a_float_has_are_written(kind, column):
    made = AvroOutput(record(kind)).encode(pa.table({"a": column}), None)
    assert [read(record(kind), one)["a"] for one in made.payloads] == column.to_pylist()[:1]
    assert [row for row, _ in made.unencoded] == [1]
    assert made.unencoded[0].reason == "column a: the schema has no exact place for its value"


def test_what_was_read_as_a_float_is_written_as_that_again():
    values = (0.1, -0.0, 3e38, 1e-45, math.inf, -math.inf, math.nan)
    payloads = [struct.pack("<f", value) for value in values]
    schema = record("float")
    columns = decoded(Avro(schema, framing="none"), payloads).columns
    assert columns.schema.field("a").type == pa.float64()
    made = AvroOutput(schema).encode(columns, None)
    assert (list(made.payloads), made.unencoded) == (payloads, ())


def test_a_number_that_is_none_is_read_back_as_itself():
    schema = record(["null", "float", "double"])
    made = AvroOutput(schema).encode(pa.table({"a": [0.1, float("nan")]}), None)
    assert made.unencoded == ()
    assert read(schema, made.payloads[0]) == {"a": 0.1}


@pytest.mark.parametrize(
    ("newest", "told"),
    [
        ('{"type":["null","int"]}', "a union"),
        ('["null","int"]', "a union"),
        ('"string"', "one is a record, and one is none"),
        ("string", "one is a record, and one is none"),
        ("{", "no JSON"),
        ('{"type":"record","name":"V","fields":[{"name":"a","type":"x.Y"}]}', "no type x.Y"),
        ('{"type":"record","name":"V","fields":[{"name":"b","type":"int"}]}', "no such field"),
        (json.dumps(record({"type": "enum", "name": "E", "symbols": ["-"]})), "no Avro schema"),
    ],
)
def test_a_newest_schema_that_nothing_is_written_by_refuses_and_does_not_raise(newest, told):
    output, schema = AvroOutput(record("int")), WrittenSchema(SchemaKind.AVRO, newest)
    made = output.encode(pa.table({"a": [1, 2]}), schema)
    assert [row for row, _ in made.unencoded] == [0, 1]
    assert told in made.unencoded[0].reason
    with pytest.raises((ConfigError, WrongSchema), match=told):
        output.check(pa.schema([("a", pa.int64())]), schema)


def test_a_schema_of_another_kind_is_not_written_by():
    schema = WrittenSchema(SchemaKind.JSON, '"int"')
    assert (
        "Avro is written"
        in AvroOutput('"int"').encode(pa.table({"value": [1]}), schema).unencoded[0][1]
    )


def test_a_name_without_quotes_is_the_type_of_that_name():
    made = AvroOutput('"string"').encode(
        pa.table({"value": ["x"]}), WrittenSchema(SchemaKind.AVRO, "string")
    )
    assert made.payloads == [b"\x02x"]


@pytest.mark.parametrize("wrapped", [{"type": ["null", "int"]}, {"type": {"type": "int"}}])
def test_a_type_in_a_type_is_that_type(wrapped):
    made = AvroOutput(record(wrapped)).encode(pa.table({"a": [1]}), None)
    assert made.unencoded == ()
    assert made.payloads[0].endswith(b"\x02")


@pytest.mark.parametrize(
    "bad", ['{"type":["null","int"]}', '["int"]', '{"type":{"type":["null","int"]}}']
)
def test_a_union_is_refused_when_it_is_named(bad):
    with pytest.raises(ConfigError, match="a union is not what one writes by"):
        AvroOutput(bad)


#: logical type, what it stands on, and values of the column as which it is read
READ = [
    (logical("date", "int"), [dt.date(1969, 12, 31)]),
    (logical("time-millis", "int"), [dt.time(1, 2, 3, 4000)]),
    (logical("time-micros"), [dt.time(1, 2, 3, 4567)]),
    (logical("timestamp-millis"), [dt.datetime(1969, 12, 31, 23, 59, 59, 4000, dt.UTC)]),
    (logical("timestamp-micros"), [dt.datetime(1969, 12, 31, 23, 59, 59, 4567, dt.UTC)]),
    (logical("local-timestamp-millis"), [dt.datetime(1969, 12, 31, 23, 59, 59, 4000)]),
    (logical("local-timestamp-micros"), [dt.datetime(1969, 12, 31, 23, 59, 59, 4567)]),
    (logical("timestamp-nanos"), [-1, 2**62]),
    (logical("local-timestamp-nanos"), [-1, 2**62]),
    ({**logical("decimal", "bytes"), "precision": 6, "scale": 2}, [Decimal("-12.30")]),
    ({**FOUR, "logicalType": "decimal", "precision": 6, "scale": 2}, [Decimal("-12.30")]),
    (logical("uuid", "string"), ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
]


@pytest.mark.parametrize(("kind", "values"), READ)
@pytest.mark.parametrize("within", [lambda kind: kind, lambda kind: ["null", kind]])
def test_what_was_read_of_a_logical_type_is_written_as_it_came(kind, values, within):
    schema = record(within(kind))
    output, reader = AvroOutput(schema), Avro(schema, framing="none")
    column = pa.array(values, reader.schema("value").field("a").type)
    sent = output.encode(pa.table({"a": column}), None).payloads
    rows = decoded(reader, list(sent)).columns
    assert rows["a"].to_pylist() == values
    output.check(rows.schema)
    assert output.encode(rows, None) == Encoded(sent)


@pytest.mark.parametrize(
    ("kind", "column", "fits"),
    [
        (logical("timestamp-millis"), pa.array([-1000, -1001], MICROS.type), dt.datetime),
        (logical("timestamp-millis"), pa.array([10**6, 10**6 + 1], NANOS.type), dt.datetime),
        (logical("timestamp-micros"), pa.array([1000, 1001], NANOS.type), dt.datetime),
        (logical("local-timestamp-millis"), pa.array([1000, 1], pa.timestamp("us")), dt.datetime),
        (logical("time-millis", "int"), pa.array([1000, 1], pa.time64("us")), dt.time),
    ],
)
def test_a_column_of_a_finer_unit_fits_where_its_values_do_and_else_its_row_is_refused(
    kind, column, fits
):
    table = pa.table({"a": column})
    output = AvroOutput(record(kind))
    output.check(table.schema)
    made = output.encode(table, None)
    told = "column a: the schema has no exact place for its value"
    assert made.unencoded == (Unencoded(1, told),)
    (again,) = (read(record(kind), payload)["a"] for payload in made.payloads)
    assert isinstance(again, fits)
    assert again == column[0].as_py()
