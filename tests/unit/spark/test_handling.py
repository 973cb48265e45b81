"""Calling a handler, and finding the record it cannot take."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.errors import BadRecord, SinkRefused, SinkUnavailable, TargetMissing
from headrace.model.streams import LaneId, Slice
from headrace.sinks import ParquetFiles
from headrace.spark.calling import CallRules
from headrace.spark.handling import handle
from headrace.testing.records import records
from headrace.use_cases import SliceContext, use_case

SLICE = Slice(LaneId("count", "acme", "acme.visits[0]"), "acme.visits", 0, 100, 1)
CONTEXT = SliceContext("count", "acme", (SLICE,))
MOMENT = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)


def made(handler, **options):
    return use_case(topic="{tenant}.visits", sink=ParquetFiles("x"), name="count", **options)(
        handler
    )


def upper(table, _context):
    return table.select(["value"])


def test_a_handler_that_works_gives_its_table_for_all_rows():
    done = handle(made(upper), records([b"a", b"b"]), CONTEXT)
    assert done.rows == 2
    assert done.error is None
    assert done.output.to_pydict() == {"value": [b"a", b"b"]}


@pytest.mark.parametrize("output", [None, pa.schema([("value", pa.binary())])])
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_a_forgotten_return_is_an_error_that_says_how_to_write_nothing(output, guarantee):
    forgets = made(lambda _t, _c: None, output=output, guarantee=guarantee)
    done = handle(forgets, records([b"a", b"b"]), CONTEXT)
    assert (done.output, done.rows, done.error.code) == (None, 0, "WrongSchema")
    assert "returned None, as without a return;" in done.error.message
    assert "pyarrow.table({})" in done.error.message


def test_an_empty_table_means_nothing_to_write():
    schema = pa.schema([("value", pa.binary())])
    for output in (None, schema):
        done = handle(made(lambda _t, _c: pa.table({}), output=output), records([b"a"]), CONTEXT)
        assert (done.output.num_rows, done.rows, done.error) == (0, 1, None)


def test_a_refused_record_is_told_by_its_place_in_kafka_not_by_its_row_in_a_call():
    def second(table, context):
        if table.num_rows > 1:
            raise context.bad_record(1, "no page in it")
        return table.select(["value"])

    done = handle(made(second), records([b"a", b"b", b"c"], first_offset=40), CONTEXT)
    assert done.error.message == "bad record at offset 41 of acme.visits[0]: no page in it"


def test_nothing_from_one_call_and_something_from_the_next_fit_together():
    def every_other(table, context):
        values = table["value"].to_pylist()
        if b"bad" in values:
            raise context.bad_record(values.index(b"bad"), "no")
        return pa.table({}) if values == [b"a"] else table.select(["value"])

    use_case = made(every_other, bad_record="dead-letter")
    rules = CallRules(set_aside=frozenset({"BadRecord"}))
    done = handle(use_case, records([b"a", b"bad", b"b"]), CONTEXT, rules)
    assert (done.output["value"].to_pylist(), done.rows, done.error) == ([b"b"], 3, None)


def test_amounts_of_two_calls_fit_together_whatever_digits_each_has():
    """Arrow takes their type from the values that there are."""

    def paid(table, context):
        values = table["value"].to_pylist()
        if b"bad" in values:
            raise context.bad_record(values.index(b"bad"), "no")
        return pa.table({"amount": [Decimal(value.decode()) for value in values]})

    use_case = made(paid, bad_record="dead-letter")
    rules = CallRules(set_aside=frozenset({"BadRecord"}))
    done = handle(use_case, records([b"1.5", b"bad", b"1000.25"]), CONTEXT, rules)
    assert (done.error, done.rows) == (None, 3)
    assert done.output["amount"].to_pylist() == [Decimal("1.50"), Decimal("1000.25")]


@pytest.mark.parametrize("bad", [0, 1, 6, 7, 63, 99])
def test_the_record_that_makes_a_handler_raise_is_found_and_all_before_it_is_kept(bad):
    def picky(table, _context):
        if b"bad" in table["value"].to_pylist():
            raise ValueError("cannot read this")
        return table.select(["offset"])

    values = [b"good"] * 100
    values[bad] = b"bad"
    done = handle(made(picky), records(values, first_offset=40), CONTEXT)
    assert done.rows == bad
    assert (done.output.num_rows if done.output is not None else 0) == bad
    assert done.error.offset == 40 + bad
    assert done.error.raw_value == b"bad"
    assert done.error.code == "HandlerError"
    assert "cannot read this" in done.error.message
    assert "in picky" in done.error.traceback


def test_a_bad_record_named_by_the_handler_needs_no_search():
    calls = []

    def picky(table, context):
        calls.append(table.num_rows)
        if table.num_rows > 3:
            raise context.bad_record(3, "no JSON")
        return table.select(["offset"])

    done = handle(made(picky), records([b"a"] * 10, first_offset=5), CONTEXT)
    assert calls == [10, 3]
    assert (done.rows, done.error.offset, done.error.code) == (3, 8, "BadRecord")


class Panic(BaseException):
    """As Rust's code raises it in Python."""


NO_EXCEPTIONS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Panic]


@pytest.mark.parametrize("kind", NO_EXCEPTIONS)
def test_what_is_no_exception_is_an_error_of_its_record_like_any_other(kind):
    def leaves(table, _context):
        if b"b" in table["value"].to_pylist():
            raise kind("enough")
        return table.select(["value"])

    done = handle(made(leaves), records([b"a", b"b", b"c"]), CONTEXT)
    assert (done.rows, done.error.offset, done.error.temporary) == (1, 1, False)
    assert done.error.message == f"{kind.__name__}: enough"


def test_temporary_trouble_blames_no_record():
    def waits(_table, _context):
        raise SinkUnavailable("CRM asks to slow down", retry_after_s=7.0)

    done = handle(made(waits), records([b"a"] * 10), CONTEXT)
    assert done.error.temporary
    assert done.error.retry_after_s == 7.0
    assert (done.rows, done.error.offset) == (0, None)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("30", 30.0),
        (1e300, 30 * 86_400.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        (timedelta(seconds=3), None),
    ]
    + [(float(text), None) for text in ("nan", "inf", "-inf")],
)
def test_a_wait_is_told_as_a_number_or_not_at_all(asked, told):
    """As a header has it, say; a driver that reckoned with text would end."""

    def waits(_table, _context):
        raise SinkUnavailable("CRM asks to slow down", retry_after_s=asked)

    done = handle(made(waits), records([b"a"]), CONTEXT)
    assert (done.error.temporary, done.error.retry_after_s) == (True, told)


@pytest.mark.parametrize("kind", ["its own", "a bad record"])
def test_a_record_that_is_quoted_whole_is_cut(kind):
    """It would be in each report of its driver, in its log and in every open page."""

    def quotes(table, context):
        if kind == "a bad record":
            raise context.bad_record(0, f"no number: {table['value'][0]}")
        return pa.table({"number": [float(table["value"][0].as_py())]})

    done = handle(made(quotes), records([b"x" * 1_000_000]), CONTEXT)
    assert "characters left out" in done.error.message
    assert len(done.error.message) < 4_100
    assert len(done.error.traceback) < 40_100
    assert done.error.traceback.startswith("Traceback")
    assert len(done.error.raw_value) == 1_000_000


class Busy(SinkUnavailable):
    """As somebody may write one who does not call what is above it."""

    def __init__(self):
        pass


class NoPage(BadRecord):
    """The same."""

    def __init__(self):
        pass


def test_an_error_that_was_not_made_whole_is_one_like_any_other():
    def busy(_table, _context):
        raise Busy

    def picky(table, _context):
        if b"bad" in table["value"].to_pylist():
            raise NoPage
        return table.select(["offset"])

    def odd(_table, _context):
        raise SyntaxError("no", ("a.txt", 1, "2", "text"))

    done = handle(made(busy), records([b"a"]), CONTEXT)
    assert (done.error.temporary, done.error.retry_after_s) == (True, None)
    done = handle(made(picky), records([b"a", b"a", b"bad", b"a"]), CONTEXT)
    assert (done.rows, done.error.offset) == (2, 2)
    done = handle(made(odd), records([b"a"]), CONTEXT)
    assert done.error.code == "HandlerError"
    assert done.error.traceback.startswith("its traceback cannot be had, ")


@pytest.mark.parametrize("row", [None, "2", 2.0, float("nan"), pa.scalar(2)])
def test_a_bad_record_that_is_named_by_no_number_is_searched_for(row):
    def picky(table, context):
        if b"bad" in table["value"].to_pylist():
            raise context.bad_record(row, "no page")
        return table.select(["offset"])

    done = handle(made(picky), records([b"a", b"a", b"bad", b"a"]), CONTEXT)
    assert (done.rows, done.error.offset, done.error.code) == (2, 2, "BadRecord")


def test_at_most_once_never_calls_the_handler_twice():
    calls = []

    def fails(table, _context):
        calls.append(table.num_rows)
        raise ValueError("no")

    done = handle(made(fails, guarantee="at-most-once"), records([b"a"] * 8), CONTEXT)
    assert calls == [8]
    assert done.rows == 0
    assert done.error.offset is None


def test_a_handler_that_fails_only_at_times_blames_nothing_it_cannot_repeat():
    calls = []

    def moody(table, _context):
        calls.append(table.num_rows)
        raise ValueError("moody")

    done = handle(made(moody), records([b"a"] * 4), CONTEXT)
    assert done.rows == 0
    assert not done.error.temporary


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([1, 2], "returned list"),
        (pa.table({"other": [1]}), "no column score"),
        (pa.table({"score": ["many"]}), "another type"),
    ],
)
def test_a_wrong_answer_is_told_by_column(answer, told):
    schema = pa.schema([("score", pa.int64())])
    done = handle(made(lambda _t, _c: answer, output=schema), records([b"a"]), CONTEXT)
    assert done.error.code == "WrongSchema"
    assert told in done.error.message


def test_declared_columns_are_cast_and_put_in_order():
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    answer = pa.table({"b": ["x"], "a": pa.array([1], pa.int8())})
    done = handle(made(lambda _t, _c: answer, output=schema), records([b"a"]), CONTEXT)
    assert done.output.schema.equals(schema)


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        ([2.675], pa.decimal128(12, 2), "a float is not exact"),
        ([MOMENT], pa.date32(), "which day a moment is"),
        ([MOMENT.replace(tzinfo=None)], pa.timestamp("us", "UTC"), "another type"),
        ([0.1], pa.float32(), "another type"),
        (["12"], pa.int64(), "another type"),
        ([2], pa.bool_(), "another type"),
        ([1], pa.string(), "another type"),
        ([{"a": 1, "b": 2}], pa.struct([("a", pa.int64())]), "another type"),
        ([["1"]], pa.list_(pa.int64()), "another type"),
        ([2**40], pa.int32(), "not in range"),
        ([2**53 + 1], pa.float64(), "not in range"),
        (["1.005"], pa.decimal128(12, 2), "it has 3 digits after the point"),
    ],
)
def test_what_is_declared_is_never_had_by_losing_something(answer, kind, told):
    table = pa.table({"x": answer})
    use_case = made(lambda _t, _c: table, output=pa.schema([("x", kind)]))
    done = handle(use_case, records([b"a"]), CONTEXT)
    assert (done.output, done.error.code) == (None, "WrongSchema")
    assert told in done.error.message


@pytest.mark.parametrize(
    ("answer", "kind", "had"),
    [
        (pa.array([None]), pa.int64(), None),
        (pa.array([7], pa.int8()), pa.float64(), 7.0),
        (pa.array(["7.5"]), pa.decimal128(12, 2), Decimal("7.50")),
        (pa.array(["a"]).dictionary_encode(), pa.string(), "a"),
        (pa.array([[1]], pa.large_list(pa.int8())), pa.list_(pa.int64()), [1]),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.int32())]), {"a": 1}),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(), b"ab"),
    ],
)
def test_what_is_declared_may_be_wider(answer, kind, had):
    schema, table = pa.schema([("x", kind)]), pa.table({"x": answer})
    done = handle(made(lambda _t, _c: table, output=schema), records([b"a"]), CONTEXT)
    assert done.error is None
    assert done.output.schema.equals(schema)
    assert done.output["x"].to_pylist() == [had]


def test_a_null_is_refused_where_none_may_be():
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    nulls = made(lambda table, _c: pa.table({"x": pa.nulls(table.num_rows)}), output=schema)
    done = handle(nulls, records([b"a"]), CONTEXT)
    assert (done.error.code, done.output) == ("WrongSchema", None)
    assert "column 'x' has a null" in done.error.message


def around_a_bad_record(first, second):
    """What is made of a record, a bad one, and another."""

    def fickle(table, context):
        values = table["value"].to_pylist()
        if b"bad" in values:
            raise context.bad_record(values.index(b"bad"), "no")
        return first if b"a" in values else second

    rules = CallRules(set_aside=frozenset({"BadRecord"}))
    use_case = made(fickle, bad_record="dead-letter")
    return handle(use_case, records([b"a", b"bad", b"b"]), CONTEXT, rules)


WHOLE = pa.table({"name": ["x"], "amount": [1]})


@pytest.mark.parametrize("other", [WHOLE.select(["name"]), WHOLE.select([])])
def test_a_column_that_only_one_of_two_calls_has_is_not_made_up(other):
    for done in (around_a_bad_record(WHOLE, other), around_a_bad_record(other, WHOLE)):
        assert (done.output, done.rows, done.error.code) == (None, 0, "WrongSchema")
        assert "amount" in done.error.message


def test_a_call_that_has_nothing_to_write_leaves_the_others_as_they_are():
    done = around_a_bad_record(WHOLE, pa.table({}))
    assert (done.output.to_pylist(), done.rows, done.error) == (WHOLE.to_pylist(), 3, None)


def test_tables_of_two_calls_that_do_not_fit_together_are_a_wrong_answer():
    def fickle(table, context):
        values = table["value"].to_pylist()
        if b"bad" in values:
            raise context.bad_record(values.index(b"bad"), "no")
        kind = pa.int64() if b"a" in values else pa.string()
        return pa.table({"count": pa.nulls(len(values), pa.string()).cast(kind)})

    use_case = made(fickle, bad_record="dead-letter")
    rules = CallRules(set_aside=frozenset({"BadRecord"}))
    done = handle(use_case, records([b"a", b"bad", b"b"]), CONTEXT, rules)
    assert (done.output, done.rows) == (None, 0)
    assert done.error.code == "WrongSchema"
    assert "count" in done.error.message


@pytest.mark.parametrize("stamp_ms", [253402300800000, -62135596800001, 2**62])
@pytest.mark.parametrize("trouble", ["raises", "is bad"])
def test_a_record_of_a_time_that_python_cannot_name_is_blamed_like_any_other(stamp_ms, trouble):
    def picky(table, context):
        values = table["value"].to_pylist()
        if b"bad" in values and trouble == "is bad":
            raise context.bad_record(values.index(b"bad"), "no")
        if b"bad" in values:
            raise ValueError("cannot read this")
        return table.select(["value"])

    done = handle(made(picky), records([b"a", b"bad"], timestamps_ms=[stamp_ms] * 2), CONTEXT)
    assert (done.rows, done.blamed) == (1, 1)
    assert (done.error.offset, done.error.raw_value) == (1, b"bad")
    assert done.error.timestamp_ms == stamp_ms


def fault_by_fault(table, context):
    """Looks for one fault in all records, and then for the next."""
    values = table["value"].to_pylist()
    for fault in (b"no page", b"no time"):
        if fault in values:
            raise context.bad_record(values.index(fault), fault.decode())
    if b"raises" in values:
        raise ValueError("cannot read this")
    return table.select(["value"])


@pytest.mark.parametrize("earlier", ["no time", "raises"])
def test_a_record_before_one_that_the_handler_calls_bad_is_found_too(earlier):
    given = records([b"a", b"b", earlier.encode(), b"c", b"d", b"no page", b"e"])
    done = handle(made(fault_by_fault), given, CONTEXT)
    assert (done.rows, done.blamed, done.error.offset) == (2, 2, 2)
    assert done.error.raw_value == earlier.encode()
    assert earlier in done.error.message or done.error.code == "HandlerError"
    assert done.output["value"].to_pylist() == [b"a", b"b"]


def test_each_record_that_is_bad_in_its_own_way_is_set_aside():
    given = records([b"no time", b"a", b"no time", b"no page", b"b", b"no time"])
    rules = CallRules(set_aside=frozenset({"BadRecord"}))
    done = handle(made(fault_by_fault), given, CONTEXT, rules)
    assert (done.output["value"].to_pylist(), done.rows, done.error) == ([b"a", b"b"], 6, None)
    assert [row for row, _ in done.aside] == [0, 2, 3, 5]


def test_a_handler_that_looks_from_the_end_costs_a_search_for_each_bad_record():
    calls = []

    def backwards(table, context):
        calls.append(table.num_rows)
        values = table["value"].to_pylist()
        if b"bad" in values:
            raise context.bad_record(len(values) - 1 - values[::-1].index(b"bad"), "no")
        return table.select(["value"])

    rules = CallRules(set_aside=frozenset({"BadRecord"}))
    done = handle(made(backwards), records([b"a", b"bad"] * 32), CONTEXT, rules)
    assert done.output["value"].to_pylist() == [b"a"] * 32
    assert [row for row, _ in done.aside] == list(range(1, 64, 2))
    assert len(calls) <= 32 * (6 + 5)


def noting_first_bad():
    """How many records each call was given, and a handler that names the first bad one."""
    given = []

    def first_bad(table, context):
        given.append(table.num_rows)
        values = table["value"].to_pylist()
        if b"bad" in values:
            raise context.bad_record(values.index(b"bad"), "no")
        return table.select(["value"])

    return given, first_bad


@pytest.mark.parametrize("every", [1, 2, 10, 100])
def test_many_bad_records_cost_no_look_at_all_that_follows_for_each(every):
    given, first_bad = noting_first_bad()
    values = [b"a" if row % every else b"bad" for row in range(3_000)]
    rules = CallRules(set_aside=frozenset({"BadRecord"}))
    done = handle(made(first_bad), records(values), CONTEXT, rules)
    assert [row for row, _ in done.aside] == list(range(0, 3_000, every))
    assert (done.rows, done.error) == (3_000, None)
    assert (done.output.num_rows if done.output else 0) == values.count(b"a")
    assert sum(given) <= 10 * len(values)


def test_a_few_bad_records_cost_a_call_or_two_each():
    calls, first_bad = noting_first_bad()
    rules = CallRules(set_aside=frozenset({"BadRecord"}))
    handle(made(first_bad), records([b"a", b"bad", b"bad", *[b"a"] * 900]), CONTEXT, rules)
    assert calls == [903, 1, 901, 900]


def test_trouble_that_passes_before_a_bad_record_blames_no_record():
    def down(table, context):
        if table.num_rows > 3:
            raise context.bad_record(3, "no")
        raise SinkUnavailable("the CRM is down")

    done = handle(made(down), records([b"a"] * 5), CONTEXT)
    assert (done.output, done.rows, done.error.offset) == (None, 0, None)
    assert done.error.temporary


def test_a_handler_that_calls_records_bad_only_at_times_is_not_believed():
    calls = []

    def moody(table, context):
        calls.append(table.num_rows)
        if len(calls) in (1, 2):
            raise context.bad_record(3, "no")
        return table.select(["value"])

    done = handle(made(moody), records([b"a"] * 8), CONTEXT)
    assert (done.output, done.rows, done.error.offset) == (None, 0, None)
    assert done.error.code == "BadRecord"


@pytest.mark.parametrize("error", [ValueError("x" * 1_000_000), BadRecord(1, "x" * 1_000_000)])
def test_an_error_that_quotes_all_it_was_given_does_not_travel_whole(error):
    def quotes(table, _context):
        if table.num_rows > 1:
            raise error
        return table

    told = handle(made(quotes), records([b"a", b"b" * 100_000]), CONTEXT).error
    assert len(told.message) < 21_000
    assert len(told.traceback) < 21_000
    assert told.traceback.startswith("Traceback")
    assert "characters left out" in told.message
    assert told.raw_value == b"b" * 100_000


@pytest.mark.parametrize("away_at", [2, 3, 4, 5])
@pytest.mark.parametrize("raised", [SinkUnavailable("away"), TargetMissing("no such schema")])
@pytest.mark.parametrize("bad_record", ["suspend", "dead-letter"])
def test_a_search_that_meets_what_is_no_records_fault_blames_nobody(away_at, raised, bad_record):
    """A server that is away for one call made the half that was tried look bad."""
    calls = []

    def picky(table, _context):
        calls.append(table.num_rows)
        if len(calls) == away_at:
            raise raised
        if b"bad" in table["value"].to_pylist():
            raise SinkRefused("not this one")
        return table.select(["offset"])

    values = [b"good"] * 8
    values[6] = b"bad"
    rules = CallRules(set_aside=frozenset({"SinkRefused"}) if bad_record == "dead-letter" else ())
    done = handle(made(picky, bad_record=bad_record), records(values), CONTEXT, rules)
    assert len(calls) == away_at
    assert (done.aside, done.rows, done.output) == ((), 0, None)
    assert (done.error.code, done.error.offset) == (type(raised).__name__, None)
    assert done.error.temporary == isinstance(raised, SinkUnavailable)


def test_the_record_that_is_found_is_told_with_its_own_fault():
    """What is set aside at once must not take along another one, found in search of it."""

    def picky(table, _context):
        values = table["value"].to_pylist()
        if b"refused" in values:
            raise SinkRefused("not this one")
        if b"odd" in values:
            raise ValueError("a moment's trouble, as far as anybody knows")
        return table.select(["offset"])

    values = [b"good", b"odd", b"good", b"refused"]
    rules = CallRules(set_aside=frozenset({"SinkRefused"}))
    done = handle(made(picky, bad_record="dead-letter"), records(values), CONTEXT, rules)
    assert (done.aside, done.rows) == ((), 1)
    assert (done.error.code, done.error.offset) == ("HandlerError", 1)
