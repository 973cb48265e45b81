"""What a worker keeps of schemas that others wrote has a bound in bytes."""

import gc
import json
import tracemalloc

import pyarrow as pa
import pytest

from headrace.formats import Avro, JsonSchemaOutput, avro_records, json_judge
from headrace.formats.kept import Kept
from headrace.ports import RECORD_SCHEMA, Payloads, SchemaKind, WrittenSchema
from headrace.testing.schemas_fake import MemorySchemas

MIB = 1024**2


def record(name, fields):
    named = [{"name": f"{name}{at}", "type": kind} for at, kind in enumerate(fields)]
    return {"type": "record", "name": name, "fields": named}


OPTIONAL = ["null", "string"]
PART = record("Part", [OPTIONAL] * 50)
ONE = record("Whole", ["string"])
MANY = record("Whole", ["string", PART, *["Part"] * 59])
FLAT = record("Whole", ["string"] * 3000)
ENUM = {"type": "enum", "name": "E", "symbols": [f"S{number}" for number in range(20_000)]}
SYMBOLS = record("Whole", ["string", ENUM])


def no_headers(rows):
    return pa.chunked_array([pa.nulls(rows, RECORD_SCHEMA.field("headers").type)])


def taken(do):
    """Bytes that something leaves behind."""
    gc.collect()
    tracemalloc.start()
    try:
        do()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("reader", [ONE, "same"])
@pytest.mark.parametrize("writer", [MANY, FLAT, SYMBOLS])
def test_a_plan_is_taken_for_no_smaller_than_it_is(writer, reader):
    kind = Avro(writer if reader == "same" else reader)
    schema = WrittenSchema(SchemaKind.AVRO, json.dumps(writer))
    made = []
    held = taken(lambda: made.append(avro_records._made(kind, schema)))
    assert held <= made[0].bytes


def test_plans_for_many_writers_have_a_bound(monkeypatch):
    monkeypatch.setattr(avro_records, "_PLANS", Kept(16 * MIB, lambda made: made.bytes))
    kind = Avro(ONE)

    def meet(numbers=range(20)):
        for number in numbers:
            fields = [*MANY["fields"], {"name": f"other{number}", "type": "int"}]
            schema = WrittenSchema(SchemaKind.AVRO, json.dumps(MANY | {"fields": fields}))
            schemas = MemorySchemas({number: schema})
            sent = pa.chunked_array([[b"\0" + number.to_bytes(4, "big")]], pa.binary())
            kind.decode(Payloads(sent, no_headers(1), schemas=schemas))

    meet([20])
    assert taken(meet) < 8 * MIB


def test_judges_of_many_schemas_have_a_bound(monkeypatch):
    columns, rows = pa.schema([("a", pa.int64())]), pa.table({"a": [1]})
    output = JsonSchemaOutput(columns, {})
    monkeypatch.setattr(json_judge, "_JUDGES", Kept(4 * MIB, lambda judge: judge.bytes))

    def meet(numbers=range(20)):
        for number in numbers:
            more = {f"p{number}_{at}": {"type": "string"} for at in range(5000)}
            output.encode(rows, WrittenSchema(SchemaKind.JSON, json.dumps({"properties": more})))

    meet([20])
    assert taken(meet) < 8 * MIB
