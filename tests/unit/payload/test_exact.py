"""Amounts and days come through exactly, or are refused by their row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.payload.exact import (
    Digits,
    alike,
    conforming,
    dates,
    decimals,
    digits_of,
    may_be_date,
    may_be_decimal,
)

MONEY = Digits(10, 2)


def chunked(values, kind=None):
    return pa.chunked_array([pa.array(values, kind)])


@st.composite
def amounts(draw):
    """Digits, and amounts that have no more."""
    precision = draw(st.integers(1, 38))
    digits = Digits(precision, draw(st.integers(0, precision)))
    most = 10**precision - 1
    units = draw(st.lists(st.none() | st.integers(-most, most), min_size=1, max_size=20))
    return digits, [None if unit is None else Decimal(f"{unit}e-{digits.scale}") for unit in units]


@given(amounts())
def test_what_fits_comes_through_from_decimals_and_from_text(given_):
    digits, values = given_
    wide = pa.decimal256(76, 38)
    texts = [None if value is None else f"{value:f}" for value in values]
    sources = [
        chunked(values, digits.arrow),
        chunked(values, wide),
        chunked(texts, pa.string()),
        chunked([None if value is None else str(value) for value in values], pa.large_string()),
    ]
    for source in sources:
        made = decimals(source, digits)
        assert made.type == digits.arrow
        assert made.to_pylist() == values


@given(st.lists(st.integers(-(2**63), 2**64 - 1), max_size=9))
def test_whole_numbers_of_64_bits_come_through(numbers):
    signed = [number for number in numbers if number < 2**63]
    unsigned = [number for number in numbers if number >= 0]
    for values, kind in ((signed, pa.int64()), (unsigned, pa.uint64())):
        made = decimals(chunked(values, kind), Digits(38, 18))
        assert made.to_pylist() == [Decimal(value) for value in values]


@given(amounts(), st.integers(1, 5))
def test_a_digit_too_many_is_never_rounded_or_cut(given_, more):
    digits, values = given_
    value = next((value for value in values if value is not None), Decimal(1))
    after = value + Decimal(f"1e-{digits.scale + more}") if digits.scale + more < 30 else None
    before = Decimal(f"1e{digits.precision - digits.scale + more - 1}")
    for one, words in ((after, "after the point"), (before, "before the point")):
        if one is None or len(one.as_tuple().digits) > 27:
            continue
        for source in ([one], [f"{one:f}"]):
            with pytest.raises(ValueError, match=rf"row 0: it has \d+ digits {words}"):
                decimals(chunked(source), digits)


def test_the_row_to_blame_is_named_and_its_value_is_not():
    for source in (
        [Decimal("1.25"), None, Decimal("7.125")],
        ["1.25", None, "7.125"],
    ):
        with pytest.raises(ValueError, match="row 2") as caught:
            decimals(chunked(source), MONEY)
        assert str(caught.value) == (
            "row 2: it has 3 digits after the point, and decimal(10, 2) has 2; round it in the "
            "handler"
        )
    with pytest.raises(ValueError, match="row 1") as caught:
        decimals(chunked([1, 123456789]), MONEY)
    assert str(caught.value) == (
        "row 1: it has 9 digits before the point, and decimal(10, 2) has 8; declare more"
    )


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "nan",
        "Infinity",
        "",
        " 1",
        "1 ",
        "1,5",
        "1_000",
        "0x1",
        "\u0661",
        "1e",
        "--1",
        ".",
        "e5",
    ],
)
def test_text_that_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match=r"row 0: the text is no number such as -12\.50"):
        decimals(chunked([text]), MONEY)


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "9" * 5000])
def test_a_number_of_absurd_size_is_refused_at_once(text):
    with pytest.raises(ValueError, match="row 0: "):
        decimals(chunked([text]), MONEY)


@pytest.mark.parametrize(
    ("text", "value"),
    [("+1.5", "1.50"), ("1.500", "1.50"), ("1E+2", "100.00"), ("-0", "0.00"), (".5", "0.50")],
)
def test_a_number_may_be_written_in_any_way_that_is_exact(text, value):
    (made,) = decimals(chunked([text]), MONEY).to_pylist()
    assert f"{made:f}" == value


def test_floats_and_truth_values_are_no_amounts_and_moments_are_no_days():
    assert not any(map(may_be_decimal, (pa.float64(), pa.float32(), pa.bool_(), pa.binary())))
    assert not any(map(may_be_date, (pa.timestamp("us", "UTC"), pa.int32(), pa.binary())))


@pytest.mark.parametrize(
    ("kind", "digits"),
    [("decimal(10, 2)", (10, 2)), ("decimal(38,38)", (38, 38)), ("decimal( 1 , 0 )", (1, 0))],
)
def test_a_kind_says_its_digits(kind, digits):
    assert digits_of(kind) == digits
    assert digits_of("bigint") is None


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("decimal", "such as decimal(12, 2)"),
        ("decimal(10)", "such as decimal(12, 2)"),
        ("decimal(-1, 2)", "such as decimal(12, 2)"),
        ("decimal(0, 0)", "1 to 38 digits"),
        ("decimal(39, 2)", "1 to 38 digits"),
        ("decimal(2, 3)", "of 2 digits not 3 can be after the point"),
    ],
)
def test_a_kind_that_cannot_be_is_told_how(kind, told):
    with pytest.raises(ValueError, match="kind") as caught:
        digits_of(kind)
    assert told in str(caught.value)


# --- days -------------------------------------------------------------------------------------


@given(st.lists(st.none() | st.dates(), max_size=20))
def test_every_day_comes_through_from_dates_and_from_text(days):
    texts = [None if day is None else day.isoformat() for day in days]
    for source in (
        chunked(days, pa.date32()),
        chunked(days, pa.date64()),
        chunked(texts, pa.string()),
    ):
        assert dates(source).to_pylist() == days


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30",
        "2026-1-2",
        "20260102",
        "2026-W01-1",
        "0000-01-01",
        "today",
        "",
        "2026-01-02T00:00",
    ],
)
def test_text_that_is_no_day_is_refused_by_its_row(text):
    with pytest.raises(ValueError, match="row 1: the text is no day such as 2026-01-31"):
        dates(chunked(["2026-01-02", text]))


@pytest.mark.parametrize("days", [2932897, -719163])
def test_a_day_that_python_has_no_name_for_is_refused(days):
    with pytest.raises(ValueError, match="row 0: it is no day of the years 1 to 9999"):
        dates(chunked([days], pa.int32()).cast(pa.date32()))
    assert dates(chunked([2932896], pa.int32()).cast(pa.date32())).to_pylist() == [dt.date.max]


# --- tables -----------------------------------------------------------------------------------


def test_a_table_is_made_to_fit_a_schema_where_that_is_exact():
    schema = pa.schema([("amount", pa.decimal128(10, 2)), ("day", pa.date32()), ("n", pa.int64())])
    table = pa.table({"amount": ["1.5"], "day": ["2026-01-02"], "n": pa.array([1], pa.int8())})
    made = conforming(table, schema)
    assert made.schema.field("amount").type == pa.decimal128(10, 2)
    assert made.schema.field("n").type == pa.int8(), "only amounts and days are made to fit"
    assert made.to_pylist() == [{"amount": Decimal("1.50"), "day": dt.date(2026, 1, 2), "n": 1}]
    with pytest.raises(ValueError, match="column 'amount', row 0: it has 3 digits"):
        conforming(pa.table({"amount": ["1.125"]}), schema)


@given(
    st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=3), min_size=1, max_size=6)
)
def test_amounts_of_several_calls_go_into_one_table(values):
    values = [value for value in values if len(value.as_tuple().digits) < 30] or [Decimal("1.5")]
    tables = [pa.table({"amount": [value]}) for value in values]
    joined = pa.concat_tables(alike(tables), promote_options="default")
    assert joined["amount"].to_pylist() == values


def test_what_is_not_alike_stays_as_it_is():
    tables = [pa.table({"a": [Decimal("1.5")]}), pa.table({"a": [1]})]
    assert alike(tables) == tables
    tables = [pa.table({"a": [Decimal("1.5")]}), pa.table({"b": [1]})]
    assert alike(tables) == tables
