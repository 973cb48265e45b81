"""Formats keep the promises of their port, and say what they do not take."""

import io
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.formats import Json, Text, json_records
from headrace.testing.format_contract import *  # noqa: F403 - as the suite is taken
from headrace.testing.format_contract import decoded

LEAD = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("age", pa.int32())])
EVERY = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("page", pa.string()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("day", pa.date32()),
        pa.field("eur", pa.decimal128(10, 2)),
        pa.field("ms", pa.float64()),
        pa.field("seen", pa.bool_()),
        pa.field("raw", pa.binary()),
        pa.field("small", pa.uint8()),
        pa.field("lead", LEAD),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("leads", pa.list_(LEAD)),
        pa.field("rates", pa.map_(pa.string(), pa.decimal128(5, 1))),
        pa.field("prices", pa.list_(pa.decimal128(5, 1))),
        pa.field("berlin", pa.timestamp("us", "Europe/Berlin")),
        pa.field("times", pa.list_(pa.timestamp("us", "UTC"))),
        pa.field("by_day", pa.map_(pa.string(), pa.list_(LEAD))),
    ]
)
FULL = {
    "id": 2**63 - 1,
    "page": "/ü\n",
    "at": "2026-11-24T10:00:00.123456+02:00",
    "local": "2026-11-24T10:00:00",
    "day": "2026-02-28",
    "eur": "12345678.90",
    "ms": 1,
    "seen": True,
    "raw": "aGk=",
    "small": 255,
    "lead": {"name": "Ada"},
    "tags": ["a", None],
    "leads": [{"name": "Ada", "age": 36}, None],
    "rates": {"EUR": 1.5, "": None},
    "prices": [1, None, "0e-999999999"],
    "berlin": "2026-11-24T10:00:00Z",
    "times": ["9999-12-31T23:59:59.999999Z", None, "0001-01-01T00:00:00Z"],
    "by_day": {"mon": [{"name": "Bob"}], "tue": None},
    "more": [[[{"of": "it"}]]],
}
MADE = {
    "id": 2**63 - 1,
    "page": "/ü\n",
    "at": datetime(2026, 11, 24, 8, 0, 0, 123456, tzinfo=UTC),
    "local": datetime(2026, 11, 24, 10),
    "day": date(2026, 2, 28),
    "eur": Decimal("12345678.90"),
    "ms": 1.0,
    "seen": True,
    "raw": b"hi",
    "small": 255,
    "lead": {"name": "Ada", "age": None},
    "tags": ["a", None],
    "leads": [{"name": "Ada", "age": 36}, None],
    "rates": [("EUR", Decimal("1.5")), ("", None)],
    "prices": [Decimal("1.0"), None, Decimal("0.0")],
    "berlin": datetime(2026, 11, 24, 10, tzinfo=UTC),
    "times": [
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        None,
        datetime(1, 1, 1, tzinfo=UTC),
    ],
    "by_day": [("mon", [{"name": "Bob", "age": None}]), ("tue", None)],
}
#: what does not fit, and what is told
REFUSED = [
    (None, "no value, and JSON was expected"),
    (b"", "truncated"),
    (b"x", "JSON is malformed: invalid character (byte 0)"),
    (b"[]", "Expected `object`, got `array`"),
    (b"null", "Expected `object`, got `null`"),
    (b'{"id": 1} {}', "trailing characters"),
    (b'\xef\xbb\xbf{"id": 1}', "invalid character (byte 0)"),
    (b'{"id": 1, "page": "a\nb"}', "invalid character"),
    (b'{"id": 1, "page": "\xff"}', "no UTF-8: invalid start byte"),
    (b'{"id": 1, "page": "\\ud800"}', "truncated"),
    (b"{}", "missing required field `id`"),
    (b'{"id": null}', "Expected `int`, got `null` - at `$.id`"),
    (b'{"id": "1"}', "Expected `int`, got `str` - at `$.id`"),
    (b'{"id": 1.0}', "Expected `int`, got `float` - at `$.id`"),
    (b'{"id": true}', "Expected `int`, got `bool` - at `$.id`"),
    (b'{"id": 9223372036854775808}', "<= 9223372036854775807"),
    (b'{"id": 1, "small": 256}', "at `$.small`"),
    (b'{"id": 1, "small": -1}', "at `$.small`"),
    (b'{"id": 1, "ms": NaN}', "invalid character"),
    (b'{"id": 1, "ms": 1e999}', "at `$.ms`"),
    (b'{"id": 1, "at": "2026-11-24T10:00:00"}', "with a timezone"),
    (b'{"id": 1, "at": "0001-01-01T00:00:00+01:00"}', "not from the year 1 to 9999"),
    (b'{"id": 1, "at": "9999-12-31T23:59:59-01:00"}', "9999 in UTC and in its zone - in column at"),
    (b'{"id": 1, "berlin": "9999-12-31T23:59:59Z"}', "in column berlin"),
    (b'{"id": 1, "times": ["0001-01-01T00:00:00+01:00"]}', "in column times"),
    (b'{"id": 1, "local": "2026-11-24T10:00:00Z"}', "no timezone"),
    (b'{"id": 1, "at": 5}', "got `int` - at `$.at`"),
    (b'{"id": 1, "day": "2026-02-30"}', "at `$.day`"),
    (b'{"id": 1, "eur": 0.001}', "other digits than its decimal can have - in column eur"),
    (b'{"id": 1, "eur": 123456789}', "other digits"),
    (b'{"id": 1, "eur": "NaN"}', "no number"),
    (b'{"id": 1, "eur": 1e400}', "in column eur"),
    (b'{"id": 1, "eur": "1_0"}', "no number such as -12.50 - at `$.eur`"),
    (b'{"id": 1, "eur": " 1.5 "}', "no number"),
    ('{"id": 1, "eur": "１２"}'.encode(), "no number"),  # noqa: RUF001
    (b'{"id": 1, "eur": true}', "Expected `decimal`, got `bool` - at `$.eur`"),
    (b'{"id": 1, "eur": []}', "Expected `decimal`, got `list` - at `$.eur`"),
    (b'{"id": 1, "rates": {"EUR": "1_0"}}', "at `$.rates[...]`"),
    (b'{"id": 1, "eur": "Infinity"}', "no number"),
    (b'{"id": 1, "eur": 1e99999999999999999999}', "too far from 1, or too near to 0 - at `$.eur`"),
    (b'{"id": 1, "eur": 0e-99999999999999999999}', "too near to 0 - at `$.eur`"),
    (b'{"id": 1, "eur": "1e-99999999999999999999"}', "too near to 0 - at `$.eur`"),
    (b'{"id": 1, "prices": [1e99999999999999999999]}', "at `$.prices[0]`"),
    # Arrow ends the process at these.
    (b'{"id": 1, "eur": 1e-99999999}', "other digits"),
    (b'{"id": 1, "eur": "1e-2147483647"}', "other digits"),
    (b'{"id": 1, "rates": {"EUR": 1e-99999999}}', "in column rates"),
    (b'{"id": 1, "prices": [1e-99999999]}', "in column prices"),
    (b'{"id": 1, "raw": "?"}', "at `$.raw`"),
    (b'{"id": 1, "lead": {"age": 1}}', "missing required field `name` - at `$.lead`"),
    (b'{"id": 1, "lead": {"name": "x", "age": 2147483648}}', "at `$.lead.age`"),
    (b'{"id": 1, "tags": [1]}', "at `$.tags[0]`"),
    (b'{"id": 1, "leads": [{"name": "x"}, {}]}', "at `$.leads[1]`"),
    (b'{"id": 1, "rates": {"EUR": "x"}}', "at `$.rates[...]`"),
    (b'{"id": 1, "more": ' + b"[" * 100_000, "nested too deep"),
]


@pytest.fixture
def formats():
    inner = [*EVERY, pa.field("deeper", pa.struct([pa.field("lead", LEAD)]))]
    strict = pa.struct([pa.field(field.name, field.type, nullable=False) for field in inner])
    below = pa.schema([pa.field("lead", strict), pa.field("leads", pa.list_(LEAD))])
    return [Json(EVERY), Json(EVERY, fields=["id", "leads"]), Json(below), Text()]


@pytest.fixture
def payloads():
    taken = [json.dumps(FULL).encode(), b'{"id": 1}', b'{"id": 2, "leads": [], "tags": []}']
    return [*taken, *(payload for payload, _ in REFUSED), b'{"id": -5, "lead": null}']


def test_a_record_becomes_the_columns_that_were_named():
    found = decoded(Json(EVERY), [json.dumps(FULL).encode()])
    assert found.undecoded == ()
    assert found.columns.schema == EVERY
    assert found.columns.to_pylist() == [MADE]


@pytest.mark.parametrize(("payload", "told"), REFUSED)
def test_what_does_not_fit_is_told_with_its_place_and_harms_nobody(payload, told):
    found = decoded(Json(EVERY), [b'{"id": 1}', payload, b'{"id": 2}'])
    assert found.columns["id"].to_pylist() == [1, 2]
    ((row, reason),) = found.undecoded
    assert (row, told in reason) == (1, True), reason


def test_of_a_name_that_is_there_twice_the_last_one_counts():
    assert decoded(Json(EVERY), [b'{"id": 1, "id": 2}']).columns["id"].to_pylist() == [2]
    assert decoded(Json(EVERY), [b'{"id": "a", "id": 2}']).undecoded, "each of them has to fit"


def test_a_column_may_have_another_name_than_its_field():
    kind = Json(pa.schema([("sent_at", pa.int64())]), names={"sent_at": "time stamp"})
    assert decoded(kind, [b'{"time stamp": 5}']).columns.to_pylist() == [{"sent_at": 5}]


def test_a_tombstone_is_all_null_where_that_is_wanted():
    kind = Json(pa.schema([("id", pa.int64())]), tombstones="null")
    assert decoded(kind, [b'{"id": 1}', None]).columns["id"].to_pylist() == [1, None]
    assert decoded(kind, [b"x", None]).columns["id"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Json(pa.schema([("x", pa.uint64())])), "column x: uint64 is none of"),
        (lambda: Json(pa.schema([("x", pa.float32())])), "column x: float"),
        (lambda: Json(pa.schema([("x", pa.timestamp("ns", "UTC"))])), "column x: timestamp"),
        (lambda: Json(pa.schema([("x", pa.list_(pa.time32("s")))])), "column x: column item: time"),
        (lambda: Json(pa.schema([("x", pa.map_(pa.int8(), pa.int8()))])), "column x: map"),
        (lambda: Json(pa.schema([("x", pa.struct([]))])), "column x: an object without a field"),
        (lambda: Json(pa.schema([])), "an object without a field"),
        (lambda: Json(pa.schema([("x", pa.int8()), ("x", pa.int8())])), "x is there twice"),
        (lambda: Json(EVERY, names={"id": "page"}), "field page is there twice"),
        (lambda: Json([("x", pa.int8())]), "Json takes a pyarrow.schema"),
        (lambda: Json(EVERY, fields=["nope"]), "fields: there is no column nope"),
        (lambda: Json(EVERY, names={"nope": "x"}), "names: there is no column nope"),
        (lambda: Json(EVERY, tombstones="null"), "needs columns that may be null: id"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_written(make, told):
    with pytest.raises(ConfigError, match=r".") as caught:
        make()
    assert told in str(caught.value)


def test_text_is_text():
    found = decoded(Text(), ["ü".encode(), None, b"\xff", b""])
    assert found.columns.column(0).to_pylist() == ["ü", None, ""]
    assert found.undecoded == ((2, "no UTF-8: invalid start byte at byte 0"),)


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "ms", "page", "deep", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)
FUZZED = pa.schema(
    [
        ("id", pa.int64()),
        ("ms", pa.float64()),
        ("page", pa.string()),
        ("deep", pa.list_(pa.struct([("id", pa.int64()), ("page", pa.list_(pa.string()))]))),
    ]
)


def _fits(value, kind):
    """Whether JSON that ``json.loads`` has read is what a column takes, said once more."""
    if value is None:
        return True
    if pa.types.is_struct(kind):
        return isinstance(value, dict) and all(
            _fits(value.get(field.name), field.type) for field in kind
        )
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(_fits(item, kind.value_type) for item in value)
    return _SCALAR_FITS[kind](value)


_SCALAR_FITS = {
    pa.string(): lambda value: isinstance(value, str),
    pa.int64(): lambda value: type(value) is int and -(2**63) <= value < 2**63,
    pa.float64(): lambda value: type(value) in (int, float),
}


def _made(value, kind):
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _made(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_made(item, kind.value_type) for item in value]
    return float(value) if kind == pa.float64() else value


def _finite(value):
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@given(st.lists(VALUES, max_size=6))
def test_what_comes_out_is_what_json_loads_reads_or_a_refusal(values):
    kind, objects = Json(FUZZED), pa.struct(list(FUZZED))
    sent = [value for value in values if _finite(value)]
    found = decoded(kind, [json.dumps(value).encode() for value in sent])
    fits = [isinstance(value, dict) and _fits(value, objects) for value in sent]
    assert [row for row, _ in found.undecoded] == [row for row, good in enumerate(fits) if not good]
    assert found.columns.to_pylist() == [
        _made(value, objects) for value, good in zip(sent, fits, strict=True) if good
    ]


@given(st.lists(st.binary(max_size=60) | st.none(), max_size=8))
def test_any_bytes_are_columns_or_a_refusal(payloads):
    for kind in (Json(FUZZED), Json(EVERY), Text()):
        found = decoded(kind, payloads)
        assert found.columns.num_rows + len(found.undecoded) == len(payloads)


def test_a_missing_object_with_a_field_that_has_to_be_there_can_be_written_to_parquet():
    found = decoded(Json(pa.schema([("lead", LEAD)])), [b'{"lead": null}', b"{}"]).columns
    pq.write_table(found, file := io.BytesIO())
    assert pq.read_table(file).to_pylist() == [{"lead": None}] * 2


@pytest.mark.parametrize("piece_bytes", [1, 20, 50, 1000])
def test_what_is_parsed_piece_by_piece_is_the_same(monkeypatch, piece_bytes):
    kind = Json(pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    values = [b"no" if n % 4 == 0 else None if n % 7 == 0 else b'{"n": %d}' % n for n in range(40)]
    whole = decoded(kind, values)
    monkeypatch.setattr(json_records, "_PIECE_BYTES", piece_bytes)
    found = decoded(kind, values)
    assert found.undecoded == whole.undecoded
    assert found.columns.equals(whole.columns)
    assert decoded(kind, []).columns.num_rows == 0
