"""What we encode by keeps the promises of its port; an encoding that does not is found."""

import datetime as dt
import io
import json
from dataclasses import dataclass
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError, WrongSchema
from headrace.formats import (
    Avro,
    AvroOutput,
    Json,
    JsonSchemaOutput,
    Text,
)
from headrace.ports import Encoded, SchemaKind, Unencoded, WrittenSchema
from headrace.testing.encoding_contract import *  # noqa: F403 - as the suite is taken
from headrace.testing.encoding_contract import TestEncoding as Suite
from headrace.testing.encoding_contract import WrittenAndRead


def logical(name, of="long", **more):
    return {"type": of, "logicalType": name, **more}


def record(**fields):
    told = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "acme.Visit", "fields": told}


EVERY = record(
    i="int",
    d=["null", "double"],
    s=["null", "string"],
    b=["null", "bytes"],
    ok=["null", "boolean"],
    day=["null", logical("date", "int")],
    at=["null", logical("timestamp-micros")],
    ms=["null", logical("time-millis", "int")],
    eur=["null", logical("decimal", "bytes", precision=8, scale=2)],
    tags=["null", {"type": "array", "items": "string"}],
    counts=["null", {"type": "map", "values": "long"}],
    inner=["null", {**record(x="float"), "name": "I"}],
)
COLUMNS = pa.schema(
    [
        pa.field("i", pa.int64(), nullable=False),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("ms", pa.time32("ms")),
        ("eur", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("inner", pa.struct([("x", pa.float32())])),
    ]
)
FULL = {
    "i": 1,
    "d": 0.1,
    "s": "ü",
    "b": b"\xff",
    "ok": True,
    "day": dt.date(2026, 2, 28),
    "at": dt.datetime(2026, 2, 28, 1, 2, 3, 4567, dt.UTC),
    "ms": dt.time(1, 2, 3, 4000),
    "eur": Decimal("-12.30"),
    "tags": ["a", ""],
    "counts": [("k", 2**62)],
    "inner": {"x": 0.5},
}
ROWS = pa.Table.from_pylist(
    [FULL, {"i": 2}, {**FULL, "i": 2**40}, {**FULL, "eur": Decimal("1234567.89")}], COLUMNS
)
NO_JSON = ["ms", "inner"]
JSON = Json(
    pa.schema([field for field in COLUMNS if field.name not in NO_JSON]), names={"at": "sent"}
)
AS_JSON = ROWS.drop_columns(NO_JSON)
#: takes rows whose ``i`` is small
NEWEST = WrittenSchema(
    SchemaKind.JSON, json.dumps({"properties": {"i": {"maximum": 9}}, "required": ["i"]})
)


@pytest.fixture
def encodings():
    newest = WrittenSchema(SchemaKind.AVRO, json.dumps(EVERY))
    older = record(**dict.fromkeys(COLUMNS.names, "bytes"))
    text = pa.table({"value": ["ü", None, ""]})
    return [
        WrittenAndRead(AvroOutput(EVERY), Avro(EVERY, framing="none"), ROWS),
        WrittenAndRead(AvroOutput(older), Avro(EVERY, framing="none"), ROWS, newest),
        WrittenAndRead(AvroOutput("long"), Avro("long", framing="none"), pa.table({"value": [1]})),
        WrittenAndRead(JSON, JSON, ROWS.drop_columns(NO_JSON)),
        WrittenAndRead(Text(), Text(), text),
        WrittenAndRead(JsonSchemaOutput(JSON.columns, {}, names={"at": "sent"}), JSON, AS_JSON),
        WrittenAndRead(
            JsonSchemaOutput(JSON.columns, {}, names={"at": "sent"}), JSON, AS_JSON, NEWEST
        ),
    ]


def test_both_are_seen_what_is_taken_and_what_is_refused(encodings):
    assert [row for row, _ in encodings[0].encoded(ROWS).unencoded] == [2, 3]


@dataclass(frozen=True)
class Faulty:
    """Writes JSON, with one fault."""

    fault: str

    @property
    def registers(self):
        return None

    def takes(self, column):
        return {"n": True, **({"m": True} if self.fault == "takes" else {})}

    def check(self, found, schema=None):
        if self.fault != "any type" and found.field("n").type != pa.int64():
            raise WrongSchema("column 'n' is no int64")

    def encode(self, rows, schema):
        if self.fault == "any type" and not pa.types.is_integer(rows.schema.field("n").type):
            raise TypeError
        made = [
            b'{"n":%d}' % (float(n) if self.fault == "rounds" else n) for n in rows["n"].to_pylist()
        ]
        if self.fault == "drops":
            return Encoded(made[1:])
        if self.fault == "beside" and rows.num_rows > 1:
            return Encoded(made[1:], (Unencoded(0, "no"),))
        return Encoded(made)

    def __reduce__(self):
        return (Faulty, ("rounds" if self.fault == "travel" else self.fault,))


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("rounds", "test_what_was_encoded_decodes_to_what_it_was"),
        ("drops", "test_what_was_encoded_decodes_to_what_it_was"),
        ("beside", "test_each_row_is_what_it_is_alone"),
        ("travel", "test_it_travels"),
        ("takes", "test_it_takes_the_columns_that_it_encodes"),
        ("any type", "test_a_column_of_any_type_is_refused_or_exact"),
    ],
)
def test_an_encoding_that_does_not_keep_a_promise_is_found(fault, name):
    reader = Json(pa.schema([("n", pa.int64())]))
    table = pa.table({"n": [2**53 + 1, 5]})
    getattr(Suite(), name)([WrittenAndRead(Faulty(""), reader, table)])
    with pytest.raises((AssertionError, TypeError)):
        getattr(Suite(), name)([WrittenAndRead(Faulty(fault), reader, table)])


INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
TIMES = st.datetimes()
#: type of a column, and what may be in it
COLUMN = st.sampled_from(
    [
        (pa.int8(), st.integers(-128, 127)),
        (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
        (pa.int64(), INTS),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.float32(), st.floats(width=32, allow_nan=False)),
        (pa.float64(), FLOATS),
        (pa.dictionary(pa.int8(), pa.float64()), FLOATS),
        (pa.bool_(), st.booleans()),
        (pa.string(), st.text() | st.sampled_from(["2026-01-02", "A"])),
        (pa.large_binary(), st.binary()),
        (pa.date32(), st.dates()),
        (pa.time64("us"), st.times()),
        (pa.time64("ns"), st.times()),
        (pa.time32("ms"), st.times().map(lambda at: at.replace(microsecond=0))),
        (pa.timestamp("us"), TIMES),
        (pa.timestamp("us"), st.datetimes().map(lambda at: at.replace(microsecond=5000))),
        (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
        (pa.timestamp("s", "UTC"), st.datetimes().map(lambda at: at.replace(microsecond=0))),
        (pa.decimal128(12, 2), st.decimals(-(10**9), 10**9, places=2)),
        (pa.list_(pa.float64()), st.lists(FLOATS, max_size=3)),
        (pa.list_(pa.int64()), st.lists(INTS, max_size=3)),
        (pa.struct([("x", pa.int64())]), st.fixed_dictionaries({"x": INTS})),
    ]
)
ONE = st.sampled_from(
    [
        *("boolean", "int", "long", "float", "double", "bytes", "string"),
        {"type": "enum", "name": "E", "symbols": ["A"]},
        logical("date", "int"),
        logical("time-millis", "int"),
        logical("uuid", "string"),
        logical("decimal", "bytes", precision=9, scale=2),
        *map(logical, ("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos")),
        *map(logical, ("local-timestamp-millis", "local-timestamp-micros", "of-nobody")),
        {**record(x="double"), "name": "I"},
        {"type": "array", "items": "float"},
        {"type": "array", "items": ["double", "long"]},
        {"type": "map", "values": "double"},
    ]
)
KIND = ONE | st.lists(ONE, min_size=1, max_size=4, unique_by=str).map(
    lambda branches: ["null", *branches]
)


@given(st.data())
def test_whatever_avro_is_written_of_whatever_column_it_is_exact_or_refused(data):
    schema, (arrow, values) = record(x=data.draw(KIND)), data.draw(COLUMN)
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=4)), arrow)
    rows = pa.table({"x": column})
    try:
        kind, newest = AvroOutput(schema), None
    except ConfigError:  # a union with a type twice
        return
    if data.draw(st.booleans()):
        kind, newest = AvroOutput(record(x="bytes")), kind.registers.schema
    made = kind.encode(rows, newest)
    refused = {row for row, _ in made.unencoded}
    parsed = fastavro.parse_schema(schema)
    again = [fastavro.schemaless_reader(io.BytesIO(one), parsed)["x"] for one in made.payloads]
    assert again == [value for row, value in enumerate(column.to_pylist()) if row not in refused]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "i": st.integers(-(2**31), 2**31 - 1),
                "d": st.none() | FLOATS,
                "s": st.none() | st.text(),
                "b": st.none() | st.binary(),
                "day": st.none() | st.dates(),
                "at": st.none() | st.datetimes(timezones=st.just(dt.UTC)),
                "eur": st.none() | st.decimals(-999_999, 999_999, places=2),
                "tags": st.none() | st.lists(st.text()),
                "inner": st.none()
                | st.fixed_dictionaries({"x": st.floats(width=32, allow_nan=False)}),
            }
        ),
        max_size=4,
    )
)
def test_avro_decodes_to_what_was_encoded(rows):
    table = pa.Table.from_pylist(rows, COLUMNS)
    made = WrittenAndRead(AvroOutput(EVERY), Avro(EVERY, framing="none"), table).see_exact(table)
    assert made.unencoded == ()
