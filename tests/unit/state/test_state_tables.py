"""What a table of state may be, and what can be kept in one."""

import pyarrow as pa
import pytest

from headrace import StateTable
from headrace.errors import ConfigError, StateRefused, WrongSchema
from headrace.model.state import MOST_KEY_BYTES, MOST_ROW_BYTES

COLUMNS = pa.schema([("user", pa.string()), ("score", pa.float64()), ("at", pa.timestamp("us"))])
SCORES = StateTable("scores", COLUMNS, key="user")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Scores"}, "a name is lower-case letters"),
        ({"columns": [("user", pa.string())]}, "columns are a pyarrow.schema"),
        ({"key": "visitor"}, "its key 'visitor' is none of its columns"),
        ({"scope": "tenant"}, "scope 'tenant' is none of key, lane"),
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
