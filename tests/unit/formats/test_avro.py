"""Avro: what bytes become, what is refused, and Avro's rules between two schemas."""

import json
import time
from datetime import UTC, date, datetime
from datetime import time as clock_time
from decimal import Decimal
from io import BytesIO
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from avro_bytes import number, sized

from headrace.errors import ConfigError
from headrace.formats import Avro, avro_records
from headrace.ports import SchemaKind, WrittenSchema
from headrace.testing.format_contract import *  # noqa: F403 - as the suite is taken
from headrace.testing.format_contract import as_given, decoded, see_no_null_within
from headrace.testing.named_schemas_contract import *  # noqa: F403 - the same
from headrace.testing.named_schemas_contract import NamedSchemas
from headrace.testing.schemas_fake import MemorySchemas


def record(*fields, name="Visit", **more):
    return {
        "type": "record",
        "name": name,
        "fields": [
            found if isinstance(found, dict) else {"name": found[0], "type": found[1]}
            for found in fields
        ],
        **more,
    }


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def fixed(size, name="F", **more):
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items):
    return {"type": "array", "items": items}


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


LEAD = record(("name", "string"), ("age", ["null", "int"]), name="Lead")
EVERY = record(
    ("id", "long"),
    ("page", ["null", "string"]),
    ("small", "int"),
    ("ms", "double"),
    ("share", "float"),
    ("seen", "boolean"),
    ("raw", "bytes"),
    ("code", fixed(2, "Code")),
    ("kind", enum("A", "B")),
    ("eur", logical("bytes", "decimal", precision=10, scale=2)),
    ("most", fixed(16, "Most", logicalType="decimal", precision=38, scale=0)),
    ("day", logical("int", "date")),
    ("clock", logical("int", "time-millis")),
    ("fine", logical("long", "time-micros")),
    ("at", logical("long", "timestamp-millis")),
    ("finely", [logical("long", "timestamp-micros"), "null"]),
    ("local", logical("long", "local-timestamp-micros")),
    ("key", logical("string", "uuid")),
    ("guid", fixed(16, "Guid", logicalType="uuid")),
    ("lead", ["null", LEAD]),
    ("leads", array("Lead")),
    ("rates", {"type": "map", "values": logical("bytes", "decimal", precision=5, scale=1)}),
)
GUID = UUID("12345678-1234-5678-9abc-123456789abc")
FULL = {
    "id": 2**63 - 1,
    "page": "/ü\n",
    "small": -(2**31),
    "ms": 0.1,
    "share": 0.5,
    "seen": True,
    "raw": b"\0\xff",
    "code": b"ab",
    "kind": "B",
    "eur": Decimal("12345678.90"),
    "most": Decimal(-(10**38) + 1),
    "day": date(2026, 2, 28),
    "clock": clock_time(23, 59, 59, 999000),
    "fine": clock_time(23, 59, 59, 999999),
    "at": datetime(2026, 11, 24, 8, 0, 0, 123000, tzinfo=UTC),
    "finely": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "local": datetime(1, 1, 1),
    "key": str(GUID),
    "guid": str(GUID),
    "lead": {"name": "Ada", "age": None},
    "leads": [{"name": "Ada", "age": 36}, {"name": "", "age": None}],
    "rates": [("EUR", Decimal("1.5")), ("", Decimal("-0.1"))],
}


def by_fastavro(schema, value):
    made = BytesIO()
    fastavro.schemaless_writer(made, fastavro.parse_schema(schema), value)
    return made.getvalue()


WRITTEN = by_fastavro(
    EVERY,
    {
        **FULL,
        "key": GUID,
        "guid": GUID.bytes,
        "rates": dict(FULL["rates"]),
        "local": datetime(1, 1, 1),
    },
)
#: how many times a record is given: a few are read by record, many by column
OFTEN = [1, 300]


def read(schema, payload, *, reader=None, times=1, **more):
    """What one payload is, among others."""
    schemas = MemorySchemas({7: WrittenSchema(SchemaKind.AVRO, json.dumps(schema))})
    column = pa.chunked_array([pa.array([b"\0\0\0\0\7" + payload] * times, pa.binary())])
    return Avro(reader or schema, **more).decode(as_given(column, schemas=schemas))


@pytest.fixture
def formats():
    return [
        Avro(EVERY, framing="none"),
        Avro(EVERY, framing="none", fields=["leads", "id"]),
        Avro(record(("page", "string")), framing="none"),
    ]


@pytest.fixture
def payloads():
    return [WRITTEN, None, WRITTEN[:-1], b"", sized(b"/page"), sized(b"\xff"), WRITTEN + b"x"]


@pytest.fixture
def written():
    old, new = record(("id", "int")), record(("id", "long"), ("more", array("string")))
    others = record(("nothing", "string"))
    schemas = {
        1: WrittenSchema(SchemaKind.AVRO, json.dumps(old)),
        2: WrittenSchema(SchemaKind.AVRO, json.dumps(new)),
        GUID: WrittenSchema(SchemaKind.AVRO, json.dumps(new)),
        3: WrittenSchema(SchemaKind.AVRO, json.dumps(others)),
        4: WrittenSchema(SchemaKind.AVRO, "{"),
        5: WrittenSchema(SchemaKind.JSON, "{}"),
    }
    payloads = [
        (1, number(5)),
        (2, number(2**60) + number(1) + sized(b"x") + b"\0"),
        (1, b""),
        (GUID, number(6) + b"\0"),
        (3, sized(b"y")),
        (2, number(7) + b"\0"),
        (4, b"\0"),
        (1, number(8)),
        (5, b"{}"),
        (2, number(9) + b"\0\0"),
        (1, number(10)),
    ]
    return NamedSchemas(Avro(record(("id", "long"))), schemas, payloads)


@pytest.mark.parametrize("times", OFTEN)
def test_each_type_has_its_column(times):
    found = read(EVERY, WRITTEN, times=times)
    assert found.undecoded == ()
    assert found.columns.to_pylist() == [FULL] * times
    found.columns.validate(full=True)
    assert {column.name: str(column.type) for column in found.columns.schema} | {
        "lead": "struct",
        "leads": "list",
        "rates": "map",
    } == {
        "id": "int64",
        "page": "string",
        "small": "int32",
        "ms": "double",
        "share": "double",
        "seen": "bool",
        "raw": "binary",
        "code": "binary",
        "kind": "string",
        "eur": "decimal128(10, 2)",
        "most": "decimal128(38, 0)",
        "day": "date32[day]",
        "clock": "time64[us]",
        "fine": "time64[us]",
        "at": "timestamp[us, tz=UTC]",
        "finely": "timestamp[us, tz=UTC]",
        "local": "timestamp[us]",
        "key": "string",
        "guid": "string",
        "lead": "struct",
        "leads": "list",
        "rates": "map",
    }
    assert [column.name for column in found.columns.schema if column.nullable] == [
        "page",
        "finely",
        "lead",
    ]


MOST = 2**62
#: a type, bytes that are none of it, and what is told
REFUSED = [
    ("long", b"", "the bytes end within - at `$.x`"),
    ("long", b"\x80", "the bytes end within - at `$.x`"),
    ("long", b"\xff" * 9 + b"\x02", "more than 64 bits - at `$.x`"),
    ("long", b"\xff" * 10 + b"\x00", "more than 64 bits - at `$.x`"),
    ("long", b"\0\0", "1 bytes more than the record has"),
    ("int", number(2**31), "more than 32 bits - at `$.x`"),
    ("boolean", b"\2", "a boolean that is neither"),
    ("double", bytes(7), "the bytes end within"),
    ("float", bytes(3), "the bytes end within"),
    ("string", number(-1), "a length below zero"),
    ("string", number(MOST) + b"abc", "the bytes end within"),
    ("string", sized(b"\xff"), "no UTF-8: invalid start byte - at `$.x`"),
    ("string", sized(b"\xed\xa0\x80"), "no UTF-8"),
    ("bytes", number(2) + b"a", "the bytes end within"),
    (fixed(3), b"ab", "the bytes end within"),
    (enum("A"), number(1), "a symbol that its enum does not have"),
    (enum("A"), number(-1), "a symbol that its enum does not have"),
    (enum(), number(0), "a symbol that its enum does not have"),
    (["null", "long"], number(2), "a branch that its union does not have"),
    (["null", "long"], number(-1), "a branch that its union does not have"),
    (logical("int", "date"), number(2_932_897), "a time that is in no year"),
    (logical("int", "date"), number(-719_163), "a time that is in no year"),
    (logical("int", "time-millis"), number(86_400_000), "a time that no day has"),
    (logical("long", "time-micros"), number(-1), "a time that no day has"),
    (logical("long", "timestamp-millis"), number(2**62), "a time that is in no year"),
    (logical("long", "timestamp-micros"), number(-(2**62)), "a time that is in no year"),
    (logical("bytes", "decimal", precision=2, scale=1), sized(b"\x64"), "a decimal of more digits"),
    (logical("bytes", "decimal", precision=2), sized(b""), "a decimal without a digit"),
    (
        logical("bytes", "decimal", precision=2),
        sized(b"\x01" + bytes(40)),
        "a decimal of more digits",
    ),
    (
        logical("bytes", "decimal", precision=2),
        sized(b"\x7f" + b"\xff" * 15),
        "a decimal of more digits",
    ),
    (array("long"), number(MOST), "more items than there are bytes for"),
    (array("long"), number(-MOST) + number(1), "the bytes end within"),
    (array("long"), number(-(2**63)) + number(0) + b"\0", "more items than there are bytes for"),
    (array("long"), number(-1) + number(2) + b"\0\0\0", "a block of items that has another size"),
    (array("long"), number(-1) + number(-1) + b"\0\0", "a size below zero"),
    (array("long"), number(2) + b"\0", "more items than there are bytes for"),
    (
        array("string"),
        number(1) + sized(b"\xff") + b"\0",
        "no UTF-8: invalid start byte - at `$.x[0]`",
    ),
    ({"type": "map", "values": "int"}, number(1) + sized(b"\xff") + b"\0\0", "at `$.x[...]`"),
    (
        {"type": "map", "values": "int"},
        number(1) + sized(b"k") + number(2**31) + b"\0",
        "at `$.x[...]`",
    ),
    (
        record(("name", "string"), ("age", "int"), name="Lead"),
        sized(b"a") + number(2**40),
        "at `$.x.age`",
    ),
    (array(record(("age", "int"), name="Lead")), b"\2" + number(2**40) + b"\0", "at `$.x[0].age`"),
]


@pytest.mark.parametrize("times", OFTEN)
@pytest.mark.parametrize(("kind", "payload", "told"), REFUSED)
def test_what_does_not_fit_is_told_with_its_place_and_harms_nobody(kind, payload, told, times):
    schema, good = record(("x", kind), ("y", "string")), record(("x", "string"), ("y", "string"))
    other = sized(b"good") + sized(b"end")
    schemas = MemorySchemas(
        {
            1: WrittenSchema(SchemaKind.AVRO, json.dumps(schema)),
            2: WrittenSchema(SchemaKind.AVRO, json.dumps(good)),
        }
    )
    # Without the last field, which would only hide where the bytes end.
    bare = Avro(record(("x", kind)), framing="none")
    found = decoded(bare, [payload] * times)
    assert found.columns.num_rows == 0
    assert [row for row, _ in found.undecoded] == list(range(times))
    assert {told in reason for _, reason in found.undecoded} == {True}, found.undecoded[0]
    ours = Avro(record(("y", "string")))
    column = [b"\0\0\0\0\2" + other, b"\0\0\0\0\1" + payload, b"\0\0\0\0\2" + other] * times
    mixed = ours.decode(
        as_given(pa.chunked_array([pa.array(column, pa.binary())]), schemas=schemas)
    )
    assert mixed.columns["y"].to_pylist()[:1] == ["end"]
    assert mixed.columns.num_rows + len(mixed.undecoded) == 3 * times


NOTHING = array("null")
EMPTY = array(record(("x", "null"), name="Empty"))


@pytest.mark.parametrize("times", OFTEN)
@pytest.mark.parametrize("kind", [NOTHING, EMPTY, array(fixed(0)), array(NOTHING)])
def test_items_of_no_bytes_are_counted_before_they_are_made(kind, times):
    schema = record(("x", kind), ("y", "long"))
    for payload in (number(2**60) + b"\0\2", b"\2" + number(2**60) + b"\0\0\2", b"\x40" * 900):
        begun_s = time.monotonic()
        found = read(schema, payload, reader=record(("y", "long")), times=times)
        assert time.monotonic() - begun_s < 20
        assert len(found.undecoded) == times
    some = read(schema, b"\0\2", reader=record(("y", "long")), times=times)
    assert some.columns["y"].to_pylist() == [1] * times


@pytest.mark.parametrize("times", OFTEN)
def test_of_a_key_that_is_there_twice_the_last_one_counts(times):
    pairs = sized(b"a") + number(1) + sized(b"b") + number(2) + sized(b"a") + number(3)
    found = read(
        record(("x", {"type": "map", "values": "int"})), number(3) + pairs + b"\0", times=times
    )
    assert found.columns["x"].to_pylist() == [[("a", 3), ("b", 2)]] * times


@pytest.mark.parametrize("count", [0, 1, 9, 64, 5_000])
def test_an_array_may_be_long_in_one_record_and_short_in_others(count):
    schema = record(("x", array("long")))
    long = number(count) + b"".join(map(number, range(count))) if count else b""
    payloads = [number(1) + number(7) + b"\0"] * 200 + [long + b"\0"]
    found = decoded(Avro(schema, framing="none"), payloads)
    assert found.columns["x"].to_pylist() == [[7]] * 200 + [list(range(count))]


def test_a_slice_of_a_larger_array_is_read_where_it_lies():
    payloads = pa.array([sized(str(row).encode()) for row in range(1_000)], pa.binary())
    found = Avro(record(("x", "string")), framing="none").decode(
        as_given(pa.chunked_array([payloads.slice(300, 400)]))
    )
    assert found.columns["x"].to_pylist() == [str(row) for row in range(300, 700)]


@pytest.mark.parametrize(("piece_bytes", "pieces"), [(1, 9), (20, 3), (1000, 1)])
def test_what_is_read_one_by_one_becomes_columns_piece_by_piece(monkeypatch, piece_bytes, pieces):
    monkeypatch.setattr(avro_records, "_PIECE_BYTES", piece_bytes)
    payloads = [b"\xff" if n == 4 else sized(b"%06d" % n) for n in range(10)]
    found = decoded(Avro(one("string"), framing="none"), payloads)
    assert found.columns["x"].to_pylist() == [f"{n:06}" for n in range(10) if n != 4]
    assert [row for row, _ in found.undecoded] == [4]
    assert found.columns["x"].num_chunks == pieces


def test_what_is_no_record_is_one_column_in_the_place_of_its_bytes():
    kind = Avro("string", framing="none")
    assert kind.schema("key") == pa.schema([pa.field("key", pa.string(), nullable=False)])
    found = decoded(kind, [sized(b"a"), None, sized(b"\xff")])
    assert found.columns.column(0).to_pylist() == ["a"]
    assert [reason for _, reason in found.undecoded] == [
        "no value, and Avro was expected",
        "no UTF-8: invalid start byte",
    ]


def test_a_tombstone_is_all_null_where_that_is_wanted():
    kind = Avro(record(("x", ["null", "int"])), framing="none", tombstones="null")
    assert decoded(kind, [b"\2\2", None]).columns["x"].to_pylist() == [1, None]
    with pytest.raises(ConfigError, match="needs columns that may be null: x"):
        Avro(record(("x", "int")), tombstones="null")


def test_a_schema_is_a_file_text_or_a_dict(tmp_path):
    path = tmp_path / "visit.avsc"
    path.write_text(json.dumps(LEAD))
    assert Avro(path) == Avro(str(path)) == Avro(json.dumps(LEAD)) == Avro(LEAD)
    with pytest.raises(ConfigError, match="cannot be read"):
        Avro(tmp_path / "gone.avsc")


def one(kind, **more):
    return record({"name": "x", "type": kind, **more})


ADA = record(("a", "int"), name="R")
#: writer, its bytes, reader, what is read
RESOLVED = {
    "int as long": (one("int"), number(5), one("long"), 5),
    "int as float": (one("int"), number(2**31 - 1), one("float"), 2.0**31 - 1),
    "int as double": (one("int"), number(5), one("double"), 5.0),
    "long as float": (one("long"), number(2**53), one("float"), 2.0**53),
    "long as double, far but exact": (one("long"), number(2**60), one("double"), 2.0**60),
    "float as double": (one("float"), b"\0\0\0\x3f", one("double"), 0.5),
    "string as bytes": (one("string"), sized("ü".encode()), one("bytes"), "ü".encode()),
    "bytes as string": (one("bytes"), sized("ü".encode()), one("string"), "ü"),
    "one that may be null": (one("int"), number(5), one(["null", "long"]), 5),
    "null, where that may be": (one("null"), b"", one(["null", "long"]), None),
    "a union of several types": (one(["null", "int", "long"]), b"\4\2", one(["long", "null"]), 1),
    "a union, and a type": (one(["null", "int"]), b"\2\2", one("long"), 1),
    "a union of one": (one(["int"]), b"\0\2", one("int"), 1),
    "null of a union": (one(["null", "int", "string"]), b"\0", one(["null", "int"]), None),
    "an enum in another order": (one(enum("A", "B")), b"\2", one(enum("B", "C", "A")), "B"),
    "an enum's default": (one(enum("A", "Z")), b"\2", one(enum("A", default="A")), "A"),
    "items": (one(array("int")), b"\4\2\4\0", one(array("long")), [1, 2]),
    "values": (
        one({"type": "map", "values": "int"}),
        b"\2" + sized(b"k") + b"\2\0",
        one({"type": "map", "values": "double"}),
        [("k", 1.0)],
    ),
    "a fixed by its name": (
        one(fixed(1, "a.F")),
        b"z",
        one(fixed(1, "b.F")),
        b"z",
    ),
    "an alias of a type": (one(fixed(1, "Old")), b"z", one(fixed(1, "F", aliases=["Old"])), b"z"),
    "an alias of a field": (record(("old", "int")), b"\2", one("int", aliases=["older", "old"]), 1),
    "a field that is not written": (record(("y", "int")), b"\2", one("int", default=7), 7),
    "null that is not written": (
        record(("y", "int")),
        b"\2",
        one(["null", "int"], default=None),
        None,
    ),
    "a record that is not written": (
        record(("y", "int")),
        b"\2",
        one(
            record(("a", "int"), {"name": "b", "type": "string", "default": "z"}, name="R"),
            default={"a": 5},
        ),
        {"a": 5, "b": "z"},
    ),
    "bytes that are not written": (
        record(("y", "int")),
        b"\2",
        one("bytes", default="\xff"),
        b"\xff",
    ),
    "a decimal that is not written": (
        record(("y", "int")),
        b"\2",
        one(logical("bytes", "decimal", precision=4, scale=2), default="\x00\xff"),
        Decimal("2.55"),
    ),
    "a float that is not written is what a written one is": (
        record(("y", "int")),
        b"\2",
        one("float", default=0.1),
        0.10000000149011612,
    ),
    "a double that is not written": (record(("y", "int")), b"\2", one("double", default=0.1), 0.1),
    "a real that JSON has no number for": (
        record(("y", "int")),
        b"\2",
        one("float", default="-Infinity"),
        float("-inf"),
    ),
    "a time that is not written": (
        record(("y", "int")),
        b"\2",
        one(logical("long", "timestamp-millis"), default=1000),
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    ),
    "lists that are not written": (
        record(("y", "int")),
        b"\2",
        one(array("int"), default=[1]),
        [1],
    ),
    "fields in another order": (
        record(("y", "string"), ("x", "int"), ("z", array("int"))),
        sized(b"yyy") + b"\2" + b"\2\4\0",
        one("int"),
        1,
    ),
    "a record within": (
        one(record(("b", "string"), ("a", "int"), name="R")),
        sized(b"q") + b"\2",
        one(ADA),
        {"a": 1},
    ),
    "a plain long as a time": (
        one("long"),
        number(0),
        one(logical("long", "timestamp-micros")),
        datetime(1970, 1, 1, tzinfo=UTC),
    ),
    "a time as a plain long": (one(logical("long", "timestamp-micros")), b"\2", one("long"), 1),
    "an unknown logical type": (one(logical("long", "timestamp-nanos")), b"\2", one("long"), 1),
    "a decimal of fewer digits": (
        one(logical("bytes", "decimal", precision=3, scale=1)),
        sized(b"\x0f"),
        one(logical("bytes", "decimal", precision=9, scale=1)),
        Decimal("1.5"),
    ),
}


@pytest.mark.parametrize("times", OFTEN)
@pytest.mark.parametrize("rule", RESOLVED)
def test_a_writers_schema_is_read_as_the_readers(rule, times):
    writer, payload, reader, value = RESOLVED[rule]
    found = read(writer, payload, reader=reader, times=times)
    assert found.undecoded == ()
    assert found.columns["x"].to_pylist() == [value] * times


#: writer, bytes, reader, what is told
UNRESOLVED = [
    (one("long"), b"\2", one("int"), "x: long is not to be read as int"),
    (one("double"), bytes(8), one("float"), "double is not to be read as float"),
    (one("string"), b"\0", one("int"), "string is not to be read as int"),
    (one("null"), b"", one("int"), "null, and int was expected"),
    (one(["null", "int"]), b"\0", one("int"), "null, and int was expected - at `$.x`"),
    (one(["int", "string"]), b"\2\0", one("int"), "string is not to be read as int - at `$.x`"),
    (one(["string", "bytes"]), b"\0\0", one("int"), "no type of a union is to be read as int"),
    (one(enum("A", "Z")), b"\2", one(enum("A")), "a symbol that the enum of the use case"),
    (one(fixed(1)), b"z", one(fixed(2)), "F is not to be read as F"),
    (one(fixed(1, "G")), b"z", one(fixed(1)), "G is not to be read as F"),
    (record(("x", "int"), name="Other"), b"\2", one("int"), "Other is not to be read as Visit"),
    (record(("y", "int")), b"\2", one("int"), "x is not written, and has no default"),
    (one(array("string")), b"\0", one(array("int")), "x: string is not to be read as int"),
    (
        one(logical("long", "timestamp-millis")),
        b"\2",
        one(logical("long", "timestamp-micros")),
        "long (timestamp-millis) is not to be read as long (timestamp-micros)",
    ),
    (
        one(logical("long", "timestamp-nanos")),
        b"\2",
        one(logical("long", "timestamp-micros")),
        "long (timestamp-nanos) is not to be read as long (timestamp-micros)",
    ),
    (
        one(logical("long", "local-timestamp-nanos")),
        b"\2",
        one(logical("long", "local-timestamp-millis")),
        "long (local-timestamp-nanos) is not to be read as long (local-timestamp-millis)",
    ),
    (
        one(logical("long", "timestamp-micros")),
        b"\2",
        one(logical("long", "timestamp-nanos")),
        "long (timestamp-micros) is not to be read as long (timestamp-nanos)",
    ),
    (
        one(logical("bytes", "decimal", precision=4, scale=1)),
        b"\2\2",
        one(logical("bytes", "decimal", precision=4, scale=2)),
        "is not to be read as",
    ),
    (one("long"), number(2**53 + 1), one("double"), "a number that no float is exactly"),
    (one(array("Visit")), b"\0", one("int"), "Visit holds itself, and no column can"),
    ({"type": "record", "name": "Visit"}, b"\2", one("int"), "Visit has no fields"),
    ({"type": "array"}, b"\2", one("int"), "a type has no items"),
    (one("nope"), b"\2", one("int"), "there is no type nope"),
    (one(["int", "int"]), b"\2", one("int"), "a union has no type, the same twice"),
    (one(fixed(-1)), b"\2", one("int"), "size is no whole number"),
    (one(7), b"\2", one("int"), "a type"),
    ("string", b"\0", one("int"), "string is not to be read as Visit"),
]


@pytest.mark.parametrize("times", OFTEN)
@pytest.mark.parametrize(("writer", "payload", "reader", "told"), UNRESOLVED)
def test_what_is_not_to_be_read_as_the_readers_is_refused(writer, payload, reader, told, times):
    found = read(writer, payload, reader=reader, times=times)
    assert found.columns.num_rows == 0
    assert {told in reason for _, reason in found.undecoded} == {True}, found.undecoded[0]


def test_a_schema_may_refer_to_others():
    lead = json.dumps({**LEAD, "namespace": "crm"})
    outer = json.dumps(one("crm.Lead"))
    schemas = MemorySchemas({7: WrittenSchema(SchemaKind.AVRO, outer, (("lead", lead),))})
    column = pa.chunked_array([pa.array([b"\0\0\0\0\7" + sized(b"Ada") + b"\0"], pa.binary())])
    found = Avro(one(LEAD)).decode(as_given(column, schemas=schemas))
    assert found.columns["x"].to_pylist() == [{"name": "Ada", "age": None}]


def deep(levels):
    schema = "long"
    for _ in range(levels):
        schema = array(schema)
    return one(schema)


def doubling(levels):
    """Types of which each has the one before twice."""
    kind = record(("z", "long"), name="T0")
    for level in range(1, levels):
        again = kind["name"]
        kind = record(("a", kind), ("b", again), name=f"T{level}")
    return record(("x", kind), ("y", "int"))


@pytest.mark.parametrize(
    ("writer", "told"),
    [(deep(80), "nested too deep"), (doubling(40), "too many types within types")],
)
def test_a_schema_is_read_within_bounds(writer, told):
    begun_s = time.monotonic()
    found = read(writer, b"\0", reader=record({"name": "y", "type": "int", "default": 1}))
    assert time.monotonic() - begun_s < 10
    assert told in found.undecoded[0].reason


@pytest.mark.parametrize(
    "writer",
    [
        record(("x", "int"), name="n" * 900_000),
        record(("x", "int"), ("n" * 900_000, "boolean")),
        record(("x", "int"), ("y", record(("n" * 900_000, "boolean"), name="Z"))),
        record(("x", "n" * 900_000)),
        record(("x", ["int", fixed(1, "n" * 900_000)])),
    ],
)
def test_what_is_told_of_a_long_name_is_short(writer):
    payload = b"\2\2" if isinstance(writer["fields"][0]["type"], list) else b"\2"
    found = read(writer, payload, reader=one("int"), times=200)
    assert found.columns.num_rows == 0
    assert all(len(reason) < 500 for _, reason in found.undecoded)


def test_a_schema_that_python_cannot_nest_is_refused():
    schemas = MemorySchemas({7: WrittenSchema(SchemaKind.AVRO, "[" * 200_000)})
    column = pa.chunked_array([pa.array([b"\0\0\0\0\7"], pa.binary())])
    found = Avro(one("int")).decode(as_given(column, schemas=schemas))
    assert "nested too deep" in found.undecoded[0].reason


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Avro(one(["int", "string"])), "x: a union of int, string is no column"),
        (lambda: Avro(one("null")), "x: null is no column"),
        (lambda: Avro(one(array(["null"]))), "item: a union of null is no column"),
        (lambda: Avro(one(["null", array("Visit")])), "Visit holds itself"),
        (lambda: Avro(record()), "a record without a field has no column"),
        (lambda: Avro(one(record(name="R"))), "x: a record without a field has no column"),
        (
            lambda: Avro(one(logical("bytes", "decimal", precision=39))),
            "x: a decimal has at most 38",
        ),
        (lambda: Avro("{"), "a schema is no JSON"),
        (lambda: Avro("nope"), "a schema is no JSON"),
        (lambda: Avro(5), "a schema of Avro is given as a dict"),
        (lambda: Avro(EVERY, fields=["nope"]), "fields: there is no field nope"),
        (lambda: Avro(EVERY, fields=[]), "fields: there is none"),
        (lambda: Avro(EVERY, fields=["id", "id"]), "fields: there is none, or one is there twice"),
        (lambda: Avro("string", fields=["id"]), "fields: string has none"),
        (lambda: Avro(EVERY, framing="kafka"), "framing is 'confluent' or 'none'"),
        (lambda: Avro(one("int", default="x")), "the default of x is no int"),
        (lambda: Avro(one("double", default="x")), "the default of x is no double"),
        (
            lambda: Avro(one("double", default=2**53 + 1)),
            "the default of x is a number that no double holds exactly",
        ),
        (
            lambda: Avro(one("float", default=2**24 + 1)),
            "the default of x is a number that no float holds exactly",
        ),
        (lambda: Avro(one("double", default=10**400)), "a number that no double holds"),
        (lambda: Avro(one("float", default=10**400)), "a number that no float holds"),
        (lambda: Avro(one("float", default=1e300)), "a number that no float holds"),
        (lambda: Avro(one("double", default=float("nan"))), "a number that no double holds"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_written(make, told):
    with pytest.raises(ConfigError, match=r".") as caught:
        make()
    assert told in str(caught.value)


def test_below_an_absent_object_is_no_null_where_none_may_be_however_many_are_read():
    inner = record(("a", "long"), ("bs", array("string")), ("c", ["null", LEAD]), name="Inner")
    schema = record(("o", ["null", inner]))
    for tombstones, payloads in (
        ("refuse", [by_fastavro(schema, {"o": None})] * 200),
        (
            "refuse",
            [
                by_fastavro(schema, {"o": {"a": n, "bs": [], "c": None} if n % 2 else None})
                for n in range(200)
            ],
        ),
        ("null", [None] * 3),
    ):
        kind = Avro(schema, framing="none", tombstones=tombstones)
        found = decoded(kind, payloads).columns
        assert found.num_rows == len(payloads)
        see_no_null_within(found)
