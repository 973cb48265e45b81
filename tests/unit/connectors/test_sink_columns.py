"""Columns are compared by name and kind, and a difference is said by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.connectors.columns import check_columns
from headrace.errors import WrongSchema

_EXPECTED = {"lead": "text", "score": "bigint"}


def _schema(**columns):
    return pa.schema(list(columns.items()))


@pytest.mark.parametrize(
    ("kind", "fitting"),
    [
        ("text", pa.large_string()),
        ("bigint", pa.uint32()),
        ("double", pa.float32()),
        ("boolean", pa.bool_()),
        ("bytes", pa.binary(4)),
        ("timestamp", pa.timestamp("ms", "Europe/Oslo")),
        ("bytes or text", pa.string()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("bigint", pa.null()),
        ("decimal(10, 2)", pa.decimal128(4, 1)),
        ("decimal(10, 2)", pa.decimal256(50, 9)),
        ("decimal(10, 2)", pa.uint64()),
        ("decimal(10, 2)", pa.large_string()),
        ("decimal(10, 2)", pa.null()),
        ("date", pa.date32()),
        ("date", pa.date64()),
        ("date", pa.string()),
    ],
)
def test_a_type_of_the_kind_is_taken(kind, fitting):
    check_columns(_schema(a=fitting), {"a": kind}, "sink")


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("text", pa.binary()),
        ("bigint", pa.uint64()),
        ("bigint", pa.float64()),
        ("double", pa.int64()),
        ("timestamp", pa.timestamp("ms")),
        ("headers", pa.list_(pa.string())),
        ("headers", pa.list_(pa.struct([("key", pa.string())]))),
        ("decimal(10, 2)", pa.bool_()),
        ("date", pa.int32()),
    ],
)
def test_another_type_is_named_with_what_was_expected(kind, other):
    with pytest.raises(WrongSchema) as caught:
        check_columns(_schema(a=other), {"a": kind}, "sink")
    assert str(caught.value) == f"sink: column 'a' must be {kind}, the table returned has {other}"


def test_a_missing_column_is_named_with_what_is_there():
    with pytest.raises(WrongSchema, match=r"has lead, but no column 'score' \(bigint\)"):
        check_columns(_schema(lead=pa.string()), _EXPECTED, "sink")


def test_a_column_too_many_is_not_dropped_in_silence():
    found = _schema(lead=pa.string(), score=pa.int64(), name=pa.string())
    with pytest.raises(WrongSchema, match="'name'"):
        check_columns(found, _EXPECTED, "sink")


def test_a_column_that_comes_twice_is_refused():
    found = pa.schema([("lead", pa.string()), ("score", pa.int64()), ("lead", pa.string())])
    with pytest.raises(WrongSchema, match="'lead' twice"):
        check_columns(found, _EXPECTED, "sink")


def test_an_optional_column_may_be_there():
    found = _schema(lead=pa.string(), score=pa.int64(), note=pa.string())
    check_columns(found, _EXPECTED, "sink", {"note": "text"})


@pytest.mark.parametrize("found", [pa.float64(), pa.float32()])
def test_a_float_is_no_amount_and_what_to_return_is_said(found):
    with pytest.raises(WrongSchema, match="a float is not exact: return Decimal, whole numbers or"):
        check_columns(_schema(a=found), {"a": "decimal(10, 2)"}, "sink")


def test_a_moment_is_no_day_and_what_to_return_is_said():
    with pytest.raises(WrongSchema, match="depends on the time zone: return the date or its text"):
        check_columns(_schema(a=pa.timestamp("us", "UTC")), {"a": "date"}, "sink")
