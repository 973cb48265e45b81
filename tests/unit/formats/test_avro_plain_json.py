"""Plain JSON written as Avro: the same value to whoever reads it, or refused by its place."""

import base64
import io
import json
import struct
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.formats import Avro
from headrace.formats.avro.json_values import Misfit
from headrace.formats.avro.plain_json import json_writer
from headrace.testing.format_contract import as_given
from own_time import calls_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def of_fields(**kinds):
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    return {"type": "record", "name": "R", "fields": fields}


def written(schema, value, text_bytes=1000):
    return json_writer(json.dumps(schema)).written(value, text_bytes)


def read(schema, payload):
    """By somebody else's library."""
    source = io.BytesIO(payload)
    found = fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None)
    assert not source.read(), "all of it is the value"
    return found


def with_texts(value):
    """UUIDs as the texts that a column of ours has for them."""
    if isinstance(value, dict):
        return {name: with_texts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_texts(inner) for inner in value]
    return str(value) if isinstance(value, UUID) else value


def refused(schema, value):
    with pytest.raises(Misfit) as caught:
        written(schema, value)
    return "".join(f"/{part}" for part in reversed(caught.value.path)), caught.value.reason


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


#: an Avro type, its values as plain JSON and as a reader has them
def plain(schema, values, as_json=lambda value: value):
    return st.just((schema, values.map(lambda value: (as_json(value), value))))


def moments(unit_us, **zone):
    return st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), **zone).map(
        lambda at: at - timedelta(microseconds=at.microsecond % unit_us)
    )


LEAVES = st.one_of(
    plain("boolean", st.booleans()),
    plain("int", st.integers(-(2**31), 2**31 - 1)),
    plain("long", st.integers(-(2**63), 2**63 - 1)),
    plain("double", st.floats(allow_nan=False, allow_infinity=False)),
    plain("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    plain("string", st.text(st.characters(codec="utf-8"))),
    plain("bytes", st.binary(), lambda value: base64.b64encode(value).decode()),
    plain(
        logical("bytes", "decimal", precision=12, scale=3),
        st.decimals(-999_999_999, 999_999_999, places=3),
        str,
    ),
    plain(logical("int", "date"), st.dates(), date.isoformat),
    plain(logical("long", "time-micros"), st.times(), lambda at: at.isoformat("microseconds")),
    plain(
        logical("long", "timestamp-millis"),
        moments(1000, timezones=st.just(UTC)),
        lambda at: at.isoformat(timespec="milliseconds"),
    ),
    plain(
        logical("long", "timestamp-micros"),
        moments(1, timezones=st.just(UTC)),
        lambda at: at.isoformat().replace("+00:00", "Z"),
    ),
    plain(logical("long", "local-timestamp-micros"), moments(1), datetime.isoformat),
    plain(logical("string", "uuid"), st.uuids(), str),
)
NAMES = st.sampled_from("abcdef")


def lists(inner):
    return inner.map(
        lambda of: (
            {"type": "array", "items": of[0]},
            st.lists(of[1], max_size=4).map(
                lambda pairs: ([one for one, _ in pairs], [one for _, one in pairs])
            ),
        )
    )


def maps(inner):
    return inner.map(
        lambda of: (
            {"type": "map", "values": of[0]},
            st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), of[1]).map(split),
        )
    )


def optional(inner):
    return inner.map(
        lambda of: (
            ["null", of[0]],
            st.one_of(st.just((None, None)), of[1]),
        )
    )


def split(pairs):
    return (
        {name: one for name, (one, _) in pairs.items()},
        {name: one for name, (_, one) in pairs.items()},
    )


KINDS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        lists(inner),
        maps(inner),
        inner.filter(lambda of: not isinstance(of[0], list)).flatmap(
            lambda of: optional(st.just(of))
        ),
    ),
    max_leaves=4,
)
RECORDS = st.dictionaries(NAMES, KINDS, min_size=1, max_size=6).map(
    lambda kinds: (
        of_fields(**{name: of[0] for name, of in kinds.items()}),
        st.fixed_dictionaries({name: of[1] for name, of in kinds.items()}).map(split),
    )
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_written_is_read_by_others_as_the_same(data):
    schema, values = data.draw(RECORDS)
    sent, meant = data.draw(values)
    assert read(schema, written(schema, sent)) == meant


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_written_is_read_by_us_as_by_others(data):
    schema, values = data.draw(RECORDS)
    sent, _ = data.draw(values)
    payload = written(schema, sent)
    kind = Avro(schema, framing="none")
    given_ = pa.chunked_array([pa.array([payload], pa.binary())])
    decoded = kind.decode(as_given(given_, [None]))
    assert not decoded.undecoded
    again = pa.Table.from_pylist([with_texts(read(schema, payload))], decoded.columns.schema)
    assert decoded.columns.to_pylist() == again.to_pylist()


def wrong_for(kind):
    """What a type takes of no kind."""
    return "no map" if "map" in str(kind)[:24] else {"no": "value"}


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_field_that_is_wrong_is_the_one_that_is_named(data):
    schema, values = data.draw(RECORDS)
    sent, _ = data.draw(values)
    field = data.draw(st.sampled_from(schema["fields"]))
    name = field["name"]
    pointer, reason = refused(schema, {**sent, name: wrong_for(field["type"])})
    assert pointer == f"/{name}"
    assert "expected" in reason
    assert refused(schema, {key: sent[key] for key in sent if key != name})[0] == f"/{name}"
    assert refused(schema, {**sent, "unheard_of": 1})[0] == "/unheard_of"


NUMBER = logical("bytes", "decimal", precision=5, scale=2)
MOMENT = logical("long", "timestamp-millis")


@pytest.mark.parametrize(
    ("schema", "sent", "meant"),
    [
        ("long", 2**53 + 1, 2**53 + 1),
        ("long", 5.0, 5),
        ("long", Decimal(9223372036854775807), 2**63 - 1),
        ("long", 123456789012345e4, 1234567890123450000),
        (["null", "long", "double"], 123456789012345e4, 1234567890123450000),
        (logical("long", "timestamp-nanos"), -876543210987654e3, -876543210987654000),
        ("double", 5, 5.0),
        ("double", Decimal("0.10000000000000001"), 0.1),
        ("float", 0.1, single(0.1)),
        ("float", 1e11, single(1e11)),
        ("float", -3e12, single(-3e12)),
        ("float", 1e22, single(1e22)),
        ("float", 0.0, 0.0),
        ("double", Decimal("0.10000000000000000000"), 0.1),
        (NUMBER, "1.5", Decimal("1.50")),
        (NUMBER, 1.5, Decimal("1.50")),
        (NUMBER, Decimal("-999.99"), Decimal("-999.99")),
        (NUMBER, 0, Decimal("0.00")),
        (NUMBER, "-1.28", Decimal("-1.28")),
        ({"type": "fixed", "name": "F", "size": 2, **logical("fixed", "decimal", precision=4)},
         -32, Decimal(-32)),
        ({"type": "fixed", "name": "F", "size": 3}, "AAEC", b"\0\1\2"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        (MOMENT, "1969-12-31T23:59:59.999Z", EPOCH - timedelta(milliseconds=1)),
        (MOMENT, "2026-11-25t02:00:00.120000+02:00", datetime(2026, 11, 25, 0, 0, 0, 120_000, UTC)),
        (MOMENT, 1_000, EPOCH + timedelta(seconds=1)),
        (logical("int", "time-millis"), "23:59:59.999", time_of_day(23, 59, 59, 999_000)),
        (logical("int", "date"), 1, date(1970, 1, 2)),
        (["long", "double"], 1, 1),
        (["double", "long"], 2**53 + 1, 2**53 + 1),
        (["float", "double"], 0.1, 0.1),
        (["null", MOMENT, "double"], 5, 5.0),
        (["bytes", "string"], "abcd", "abcd"),
        ([MOMENT, "string"], "2026-11-25T02:00:00Z", "2026-11-25T02:00:00Z"),
        ([MOMENT, "null"], "1970-01-01T00:00:00Z", EPOCH),
        (["null", NUMBER], 1.25, Decimal("1.25")),
        (["null", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}], [1], [1]),
    ],
)  # fmt: skip
def test_a_value_is_taken_where_nothing_of_it_is_lost(schema, sent, meant):
    found = read(schema, written(schema, sent))
    assert (found, type(found)) == (meant, type(meant))


@pytest.mark.parametrize(
    ("schema", "sent", "reason"),
    [
        ("int", 2**31, "32 bits"),
        ("int", True, "true or false"),
        ("long", 2**63, "64 bits"),
        ("long", 1.5, "this number is none"),
        ("long", "5", "a text"),
        ("long", Decimal("1e500"), "none"),
        ("double", 2**53 + 1, "does not hold"),
        ("double", Decimal("9007199254740993.0"), "does not hold"),
        ("double", Decimal("1e-400"), "does not hold"),
        ("double", Decimal("NaN"), "does not hold"),
        ("double", "NaN", "a text"),
        ("float", 0.123456789, "does not hold"),
        ("float", 2**24 + 1, "does not hold"),
        ("float", 10**11, "does not hold"),
        ("float", 10**22, "does not hold"),
        ("float", 123456789e4, "does not hold"),
        ("float", 1e300, "does not hold"),
        (NUMBER, "1.234", "has more"),
        (NUMBER, 1000, "has more"),
        (NUMBER, Decimal("1e400"), "has more"),
        (NUMBER, "1e2", "a text"),
        ("bytes", "abc", "base64"),
        ("bytes", "äöü=", "base64"),
        ({"type": "fixed", "name": "F", "size": 3}, "AAEC AA==", "base64"),
        ({"type": "fixed", "name": "F", "size": 3}, "AAE=", "3 bytes"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "C", "one of A, B"),
        (MOMENT, "2026-11-25T02:00:00", "expected"),
        (MOMENT, "2026-11-25T02:00:00.0001Z", "at most 3 places"),
        (MOMENT, "2026-02-30T02:00:00Z", "expected"),
        (MOMENT, "2026-11-25T02:00:60Z", "expected"),
        (MOMENT, "2026-W48-3T02:00:00Z", "expected"),
        (MOMENT, 10**15, "no year"),
        (logical("int", "time-millis"), 86_400_000, "no day"),
        (logical("long", "local-timestamp-millis"), "2026-11-25T02:00:00Z", "expected"),
        (["null", "string"], 5, "null or a text"),
    ],
)
def test_a_value_is_refused_where_it_would_be_another_one(schema, sent, reason):
    pointer, told = refused(of_fields(a=schema), {"a": sent})
    assert pointer == "/a"
    assert reason in told


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 4))
def test_a_whole_number_that_a_parser_made_a_float_is_the_one_that_was_written(digits, power):
    meant = digits * 10**power
    for kind in ("long", logical("long", "timestamp-nanos"), ["null", "double", "long"]):
        if abs(meant) < 2**63:
            assert read(kind, written(kind, float(f"{digits}e{power}"))) == meant


def test_a_place_is_told_through_lists_maps_and_unions():
    inner = of_fields(n="int") | {"name": "Inner"}
    schema = of_fields(a={"type": "array", "items": ["null", {"type": "map", "values": inner}]})
    sent = {"a": [None, {"x": {"n": 1}, "y": {"n": "no"}}]}
    assert refused(schema, sent)[0] == "/a/1/y/n"


def test_what_is_left_out_is_its_default_as_the_schema_writes_defaults():
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "y", "type": "bytes", "default": "\u00ff\u0001"},
            {"name": "n", "type": ["null", "int"], "default": None},
            {"name": "d", "type": "double", "default": "Infinity"},
            {"name": "u", "type": ["bytes", "string"], "default": "b"},
            {"name": "r", "type": of_fields(i="int") | {"name": "I"}, "default": {"i": 7}},
            {"name": "m", "type": MOMENT, "default": 0},
        ],
    }
    assert read(schema, written(schema, {})) == {
        "y": b"\xff\1", "n": None, "d": float("inf"), "u": b"b", "r": {"i": 7}, "m": EPOCH
    }  # fmt: skip


def test_an_object_is_the_record_that_has_its_fields_and_no_other():
    one = of_fields(a="int") | {"name": "One"}
    other = of_fields(a="int", b="int") | {"name": "Other"}
    same = of_fields(a="string") | {"name": "Same"}
    as_map = {"type": "map", "values": "int"}
    schema = of_fields(u=[one, other])
    assert read(schema, written(schema, {"u": {"a": 1, "b": 2}})) == {"u": {"a": 1, "b": 2}}
    assert refused(schema, {"u": {"a": 1, "b": "no"}})[0] == "/u/b"
    assert "none of" in refused(schema, {"u": {"c": 1}})[1]
    assert "more than one of One, Same" in refused(of_fields(u=[one, same]), {"u": {"a": "x"}})[1]
    schema = of_fields(u=[one, as_map])
    assert read(schema, written(schema, {"u": {"c": 1}})) == {"u": {"c": 1}}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]},
         "holds itself"),
        ({"type": "record", "name": "R",
          "fields": [{"name": "a", "type": "int", "default": "x"}]}, "default of field a"),
        ({"type": "record", "name": "R",
          "fields": [{"name": "a", "type": "string", "default": "x" * 20_000}]}, "more than"),
        ({"type": "enum", "name": "E", "symbols": ["a" * 2_000_000]}, "at most"),
        ([{"type": "enum", "name": f"E{n}", "symbols": ["A"]} for n in range(9)], "more types"),
        ({"type": "fixed", "name": "F", "size": 10**6, "logicalType": "decimal", "precision": 9},
         "at most 64 bytes"),
        (logical("bytes", "decimal", precision=10**6), "digits"),
    ],
)  # fmt: skip
def test_a_schema_that_nobody_should_write_by_is_refused_at_once(schema, told):
    with pytest.raises(ConfigError, match=told):
        json_writer(json.dumps(schema))


def doubling(levels):
    """Each type twice in the next: 2 to the power of its levels, for who looks at it each time."""
    nothing = {"name": "end", "type": "null", "default": None}
    inner = {"type": "record", "name": "L0", "fields": [nothing]}
    for level in range(1, levels):
        fields = [
            {"name": "a", "type": inner, "default": {}},
            {"name": "b", "type": inner["name"], "default": {}},
        ]
        inner = {"type": "record", "name": f"L{level}", "fields": fields}
    return inner


def test_a_schema_that_doubles_with_each_level_takes_no_time():
    found = []
    calls_of(lambda: found.append(written(doubling(30), {})), most=1_000_000)
    assert found == [b""]


def test_defaults_do_not_make_much_of_little():
    fields = [{"name": f"f{n}", "type": "string", "default": "x" * 1000} for n in range(10)]
    items = {"type": "record", "name": "I", "fields": fields}
    sent = {"a": [{}] * 1000}
    pointer, told = refused(of_fields(a={"type": "array", "items": items}), sent)
    assert "far more than what is there" in told
    assert pointer.startswith("/a/")
