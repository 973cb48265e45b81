"""Reading by column and reading by record are one: fuzzed, and with another's reader beside.

``HEADRACE_FUZZED_RECORDS=100000`` makes it as many records as one likes.
"""

import json
import os
import random
from datetime import date
from functools import reduce
from io import BytesIO
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from avro_bytes import record, spoilt

from headrace.formats import Avro, avro_records
from headrace.formats.avro import by_column
from headrace.ports import SchemaKind, WrittenSchema
from headrace.testing.format_contract import as_given, see_no_null_within
from headrace.testing.schemas_fake import MemorySchemas

RECORDS = int(os.environ.get("HEADRACE_FUZZED_RECORDS", "6000"))


def fields(**kinds):
    return [{"name": name, "type": kind} for name, kind in kinds.items()]


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def fixed(name, size, **more):
    return {"type": "fixed", "name": name, "size": size, **more}


INNER = {"type": "array", "items": {"type": "array", "items": ["null", "int"]}}
SCHEMAS = {
    "plain": fields(
        i="int",
        l="long",
        s="string",
        b="boolean",
        d="double",
        f="float",
        y="bytes",
        n=["null", "string"],
        m=["long", "null"],
    ),
    "logical": fields(
        e={"type": "enum", "name": "E", "symbols": ["A", "B", "C"]},
        x=fixed("F", 3),
        dec=logical("bytes", "decimal", precision=9, scale=2),
        wide=fixed("G", 16, logicalType="decimal", precision=38, scale=10),
        u=fixed("U", 16, logicalType="uuid"),
        day=logical("int", "date"),
        clock=logical("int", "time-millis"),
        fine=logical("long", "time-micros"),
        at=logical("long", "timestamp-millis"),
        au=["null", logical("long", "timestamp-micros")],
        la=logical("long", "local-timestamp-millis"),
    ),
    "nested": fields(
        tags={"type": "array", "items": "string"},
        m={"type": "map", "values": ["null", "long"]},
        r=["null", {"type": "record", "name": "R", "fields": fields(a="int", bs=INNER)}],
        rs={
            "type": "array",
            "items": {
                "type": "record",
                "name": "Q",
                "fields": fields(
                    z="string",
                    at=logical("long", "timestamp-millis"),
                    mm={"type": "map", "values": "string"},
                ),
            },
        },
    ),
}
#: of these the reader wants others than are written, in another order and of another type
OTHER = {
    "plain": fields(n=["null", "bytes"], d="double", l="double", i=["null", "long"]),
    "logical": fields(
        e={"type": "enum", "name": "E", "symbols": ["B", "C"], "default": "C"},
        at=["null", logical("long", "timestamp-millis")],
        day="int",
    ),
    "nested": [
        *fields(
            r=[
                "null",
                {
                    "type": "record",
                    "name": "R",
                    "fields": [
                        {"name": "new", "type": "string", "default": "?"},
                        *fields(bs=INNER),
                    ],
                },
            ],
            m={"type": "map", "values": ["double", "null"]},
        ),
        {"name": "gone", "type": ["null", INNER], "default": None},
    ],
}


def whole(some):
    return {"type": "record", "name": "Fuzzed", "fields": some}


def decoded(kind, column, monkeypatch, *, many, **more):
    monkeypatch.setattr(avro_records, "_MANY", many)
    return kind.decode(as_given(column, **more))


def told(found):
    """What was decoded, so that what is no number is itself."""
    found.columns.validate(full=True)
    see_no_null_within(found.columns)
    return repr(found.columns.to_pylist())


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("reader", [SCHEMAS, OTHER], ids=["same", "other"])
def test_by_column_and_by_record_are_one(name, reader, monkeypatch):
    chance = random.Random(f"{name} {reader is OTHER}")
    writer, kind = whole(SCHEMAS[name]), Avro(whole(reader[name]))
    schemas = MemorySchemas({7: WrittenSchema(SchemaKind.AVRO, json.dumps(writer))})
    left = RECORDS // 6
    while left > 0:
        count = min(left, chance.choice([40, 300, 2000]))
        left -= count
        payloads = [spoilt(record(writer, chance), chance) for _ in range(count)]
        framed = [b"\0\0\0\0\7" + payload for payload in payloads]
        column = pa.chunked_array([pa.array(framed, pa.binary())])
        alone = decoded(kind, column, monkeypatch, many=10**9, schemas=schemas)
        together = decoded(kind, column, monkeypatch, many=1, schemas=schemas)
        assert together.undecoded == alone.undecoded
        assert told(together) == told(alone)
        assert 0 < alone.columns.num_rows < count, "else the test has seen nothing"
        assert_what_is_read_is_what_another_reads(writer, reader[name], payloads, alone)


def assert_what_is_read_is_what_another_reads(writer, reader, payloads, found):
    """Of what both take: what we refuse it may take, for it looks less closely.

    And it makes a date or text of what our reader wants as a number or bytes, and fails at some.
    """
    refused = {row for row, _ in found.undecoded}
    parsed, wanted = fastavro.parse_schema(writer), fastavro.parse_schema(whole(reader))
    ours, theirs = found.columns.to_pylist(), []
    for row, payload in zip(
        ours, (p for n, p in enumerate(payloads) if n not in refused), strict=True
    ):
        try:
            theirs.append(fastavro.schemaless_reader(BytesIO(payload), parsed, wanted))
        except (UnicodeDecodeError, ValueError, OverflowError):
            continue
        assert text(row) == text(as_ours(theirs[-1], wanted))
    assert len(theirs) > 0.9 * len(ours)


def as_ours(value, schema):
    """Another's value as it is in a column."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        return None if value is None else as_ours(value, next(k for k in kind if k != "null"))
    if isinstance(kind, dict):
        return as_ours(value, kind)
    return NESTED.get(kind, plain)(value, schema)


NESTED = {
    "record": lambda value, schema: {
        found["name"]: as_ours(value[found["name"]], found["type"]) for found in schema["fields"]
    },
    "array": lambda value, schema: [as_ours(item, schema["items"]) for item in value],
    "map": lambda value, schema: [
        (key, as_ours(item, schema["values"])) for key, item in value.items()
    ],
}


def plain(value, schema):
    if isinstance(schema, dict) and schema.get("logicalType") == "uuid":
        return str(UUID(bytes=value))
    if schema == "int" and isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    return value


def text(row):
    """What no number is, is itself; UTC is, whoever's object it is."""
    zones = ("datetime.timezone.utc", "zoneinfo.ZoneInfo(key='UTC')", "<UTC>")
    return reduce(lambda told, zone: told.replace(zone, "UTC"), zones, repr(row))


def test_most_good_records_are_read_by_column():
    chance, kept = random.Random(3), 0
    for name in ("plain", "logical"):
        schema = whole(SCHEMAS[name])
        payloads = pa.array([record(schema, chance) for _ in range(500)], pa.binary())
        edges = np.frombuffer(payloads.buffers()[1], np.int32).astype(np.int64)
        plan = avro_records._plan(Avro(schema, framing="none"), None)
        _, aside = by_column.read_columns(plan.step, payloads, edges[:-1], edges[1:])
        kept += 500 - int(aside.sum())
    assert kept > 850, "else the quick way is none; wide decimals are left to the other one"
