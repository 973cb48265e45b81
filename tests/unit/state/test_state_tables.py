"""What a table of state may be, and what can be kept in one."""

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from headrace import StateTable
from headrace.errors import ConfigError, StateRefused, WrongSchema
from headrace.model.state import MOST_KEY_BYTES, MOST_ROW_BYTES
from headrace.state.seen import State

COLUMNS = pa.schema([("user", pa.string()), ("score", pa.float64()), ("at", pa.timestamp("us"))])
SCORES = StateTable("scores", COLUMNS, key="user")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Scores"}, "a name is lower-case letters"),
        ({"columns": [("user", pa.string())]}, "columns are a pyarrow.schema"),
        ({"key": "visitor"}, "its key 'visitor' is none of its columns"),
        ({"scope": "tenant"}, "scope 'tenant' is none of key, lane"),
        (
            {"columns": COLUMNS.append(pa.field("user", pa.string()))},
            "column 'user' is there twice",
        ),
        ({"columns": COLUMNS.append(pa.field("at", pa.string()))}, "column 'at' is there twice"),
        ({"max_row_bytes": 0}, "max_row_bytes is 1 to 67108864, not 0"),
        ({"max_row_bytes": 2**30}, "max_row_bytes is 1 to"),
        ({"max_row_bytes": True}, "max_row_bytes is 1 to"),
        ({"key": "score"}, "its key is double, and with scope key it has to be string or binary"),
        ({"key": "at", "scope": "lane"}, "has to be string, binary or int64"),
    ],
)
def test_what_cannot_be_one_is_refused_by_name(changes, message):
    given = {"name": "scores", "columns": COLUMNS, "key": "user", "scope": "key"} | changes
    with pytest.raises(ConfigError, match="state table") as refused:
        StateTable(**given)
    assert message in str(refused.value)


def test_a_type_that_cannot_be_kept_is_refused_when_it_is_declared():
    columns = pa.schema([("user", pa.string()), ("what", pa.month_day_nano_interval())])
    with pytest.raises(ConfigError, match="what"):
        StateTable("scores", columns, key="user")


def test_rows_come_back_as_they_were():
    rows = pa.table({"user": ["a", "b"], "score": [0.1, None], "at": [None, 7]}, schema=COLUMNS)
    assert SCORES.table_of(SCORES.rows_of(rows)).equals(rows)
    assert SCORES.table_of([]).equals(COLUMNS.empty_table())


def test_a_column_that_is_new_and_may_be_null_is_null_in_rows_of_before():
    more = StateTable("scores", COLUMNS.append(pa.field("visits", pa.int64())), key="user")
    rows = SCORES.rows_of(pa.table({"user": ["a"], "score": [0.1], "at": [7]}, schema=COLUMNS))
    assert more.table_of(rows).to_pylist()[0]["visits"] is None


def test_what_was_kept_by_other_columns_is_told():
    rows = SCORES.rows_of(pa.table({"user": ["a"], "score": [0.5], "at": [7]}, schema=COLUMNS))
    columns = pa.schema([("user", pa.string()), ("score", pa.int64())])
    with pytest.raises(ConfigError, match=r"does not fit its columns.*score.*--forget-state"):
        StateTable("scores", columns, key="user").table_of(rows)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["a", None], "key 'user' of row 1 is null"),
        (["a" * (MOST_KEY_BYTES + 1)], f"has {MOST_KEY_BYTES + 1} bytes"),
        (pa.array(["x" * 10_000_000]), "has 10000000 bytes"),
    ],
)
def test_what_cannot_be_a_key_is_told(keys, message):
    with pytest.raises(StateRefused) as refused:
        SCORES.keys_of(keys)
    assert message in str(refused.value)


def test_keys_of_numbers_are_as_wide_as_these():
    by_number = StateTable("n", pa.schema([("id", pa.int64())]), key="id", scope="lane")
    assert len(set(by_number.keys_of([0, -1, 2**63 - 1, -(2**63)]))) == 4
    with pytest.raises(StateRefused):
        by_number.keys_of([2**63])
    for wrong in (True, "1"):
        with pytest.raises(WrongSchema, match=f"of type {type(wrong).__name__}, and has to be"):
            by_number.keys_of([wrong])
    with pytest.raises(WrongSchema, match="of type bytes, and has to be string"):
        SCORES.keys_of([b"a"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"user": ["a"], "score": [float("nan")], "at": [None]}, "row 0"),
        ({"user": ["a" * MOST_ROW_BYTES], "score": [1.0], "at": [None]}, "row 0 takes"),
    ],
)
def test_what_cannot_be_kept_is_told(rows, message):
    with pytest.raises(StateRefused) as refused:
        SCORES.rows_of(pa.table(rows))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"user": ["a"]}, "'score' is missing"),
        (
            {"user": ["a"], "score": ["1"], "at": [None]},
            "'score' is string, and declared as double",
        ),
    ],
)
def test_what_is_not_as_declared_is_no_matter_of_a_record(rows, message):
    with pytest.raises(WrongSchema) as wrong:
        SCORES.rows_of(pa.table(rows))
    assert message in str(wrong.value)


def keyed(kind, key="user"):
    return StateTable("n", pa.schema([(key, kind), ("count", pa.int64())]), key=key, scope="lane")


KEYS = {pa.string(): "AAAAAAAA", pa.binary(): b"AAAAAAAA", pa.int64(): 0x4141414141414141}


@pytest.mark.parametrize("now", KEYS)
@pytest.mark.parametrize("then", KEYS)
def test_a_row_that_was_kept_by_a_key_of_another_type_is_not_misread(then, now):
    before = keyed(then)
    (row,) = before.rows_of(pa.table({"user": pa.array([KEYS[then]], then), "count": [1]}))
    kept = dict(zip(before.keys_of([KEYS[then]]), [row], strict=True))
    if then == now:
        assert keyed(now).kept(kept).to_pylist() == [{"user": KEYS[now], "count": 1}]
        return
    with pytest.raises(ConfigError, match=r"state table 'n'.*another name"):
        keyed(now).kept(kept)


def test_a_key_column_of_another_name_is_told_as_no_trouble_of_a_record():
    row = b'{"user":"ada","count":1}'
    with pytest.raises(ConfigError, match="it was not kept by a key 'who' of type string"):
        keyed(pa.string(), "who").kept({b"ada": row})


@pytest.mark.parametrize("one", ["ada", b"ada", bytearray(b"ada")])
def test_one_key_is_not_taken_for_its_letters(one):
    with pytest.raises(ConfigError, match=r"asked for many keys, and was given one.*get\(key\)"):
        SCORES.keys_of(one)


def test_a_row_may_take_what_its_table_says():
    small = StateTable("scores", COLUMNS, key="user", max_row_bytes=40)
    fits = {"user": ["a"], "score": [None], "at": [None]}
    assert len(small.rows_of(pa.table(fits, schema=COLUMNS))[0]) < 40
    with pytest.raises(StateRefused, match="one may take 40: keep less, or say max_row_bytes"):
        small.rows_of(pa.table(fits | {"user": ["a" * 40]}, schema=COLUMNS))
    large = StateTable("scores", COLUMNS, key="user", max_row_bytes=2 * MOST_ROW_BYTES)
    wide = fits | {"user": ["a" * MOST_ROW_BYTES]}
    assert len(large.rows_of(pa.table(wide, schema=COLUMNS))[0]) > MOST_ROW_BYTES


_US = dt.datetime(2026, 5, 17, 10, 5, 0, 7)
#: a value of every type that may be declared
VALUES = {
    pa.bool_(): True,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), 100),
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32()), 200),
    pa.float64(): 0.1,
    pa.string(): "a",
    pa.large_string(): "a",
    pa.binary(): b"\xff",
    pa.date32(): dt.date(2026, 5, 17),
    pa.decimal128(5, 2): Decimal("1.10"),
    pa.timestamp("us"): _US,
    pa.timestamp("us", "UTC"): _US.replace(tzinfo=dt.UTC),
    pa.timestamp("us", "Europe/Vienna"): _US.replace(tzinfo=ZoneInfo("Europe/Vienna")),
    pa.list_(pa.int64()): [1, 2],
    pa.struct([("a", pa.decimal128(3, 1)), ("b", pa.list_(pa.string()))]): {"a": None, "b": ["x"]},
    pa.map_(pa.string(), pa.int64()): [("a", 1), ("b", None)],
    pa.map_(pa.string(), pa.list_(pa.binary())): [("a", [b"x"])],
    pa.list_(pa.map_(pa.string(), pa.string())): [[("a", "b")], []],
}


@pytest.mark.parametrize("value", [True, False], ids=["value", "null"])
@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_what_can_be_declared_can_be_saved_and_comes_back(kind, value):
    columns = pa.schema([("user", pa.string()), ("what", kind)])
    state = State.of(StateTable("of", columns, key="user"))
    row = {"user": "ada", "what": VALUES[kind] if value else None}
    table = pa.Table.from_pylist([row], schema=columns)
    state["of"].save(table)
    assert state["of"].load(["ada"]).equals(table)
    state["of"].put(state["of"].get("ada") | {"user": "bo"})
    assert state["of"].load(["bo"])["what"].equals(table["what"])


@pytest.mark.parametrize(
    "kind",
    [
        pa.float32(),
        pa.uint64(),
        pa.timestamp("ns"),
        pa.date64(),
        pa.large_binary(),
        pa.binary(4),
        pa.map_(pa.int64(), pa.string()),
        pa.list_(pa.float32()),
        pa.dictionary(pa.int32(), pa.string()),
        pa.decimal256(50, 2),
        pa.null(),
    ],
    ids=str,
)
def test_what_cannot_be_saved_cannot_be_declared(kind):
    with pytest.raises(ConfigError, match="column what"):
        StateTable("of", pa.schema([("user", pa.string()), ("what", kind)]), key="user")


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (pa.list_(pa.int64()), [[]]),
        (pa.list_(pa.field("element", pa.int64())), [[1]]),
        (pa.struct([("a", pa.string())]), [{"a": None}]),
        (pa.list_(pa.struct([("a", pa.list_(pa.int8()))])), [[{"a": []}]]),
    ],
    ids=str,
)
def test_what_is_inferred_of_empty_and_nested_values_can_be_saved(kind, found):
    table = StateTable("of", pa.schema([("user", pa.string()), ("what", kind)]), key="user")
    state = State.of(table)
    state["of"].save(pa.table({"user": ["ada"], "what": found}))
    assert state["of"].get("ada")["what"] == found[0]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (pa.list_(pa.int64()), [["1"]]),
        (pa.struct([("a", pa.string())]), [{"b": None}]),
        (pa.struct([("a", pa.string())]), [{"a": None, "b": None}]),
        (pa.list_(pa.int8()), [[300]]),
    ],
    ids=str,
)
def test_nested_values_of_another_type_are_refused(kind, found):
    table = StateTable("of", pa.schema([("user", pa.string()), ("what", kind)]), key="user")
    # A value that is too large is its record's trouble, another type is the handler's.
    with pytest.raises((StateRefused, WrongSchema), match="state table 'of'"):
        table.rows_of(pa.table({"user": ["ada"], "what": found}))
