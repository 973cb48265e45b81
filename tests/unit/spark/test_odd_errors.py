"""Errors of a handler whose own texts and attributes raise, take their time or have no end."""

import time

import pyarrow as pa
import pytest
from task_bench import ListSink, by_tenant, with_tenant

from headrace.errors import BadRecord, Temporary

SCHEMA = pa.schema([("tenant", pa.string()), ("value", pa.binary())])


class OddBad(BadRecord):
    """A kind of a use case's own."""

    def __init__(self):
        Exception.__init__(self, "odd")

    row = 0
    reason = "odd"


class NoRow(OddBad):
    row = property(lambda self: 1 / 0)


class ExitsAsRow(OddBad):
    @property
    def row(self):
        raise SystemExit(3)


class NoReason(OddBad):
    @property
    def reason(self):
        raise KeyError("x")


class Wordless:
    def __str__(self):
        raise SystemExit(4)


class WordlessReason(OddBad):
    reason = Wordless()


class NoWait(Temporary):
    retry_after_s = property(lambda self: 1 / 0)


class SlowText(Exception):
    def __str__(self):
        time.sleep(30)
        return "slow"


class SlowReason(OddBad):
    @property
    def reason(self):
        time.sleep(30)


class SlowExit(BaseException):
    def __str__(self):
        time.sleep(30)
        return "slow"


def many():
    return ExceptionGroup("many", [SlowText() for _ in range(1_000)])


def noted():
    error = ValueError("noted")
    error.__notes__ = ["y" * 1_000] * 200_000
    return error


@pytest.mark.parametrize("policy", ["suspend", "dead-letter"])
@pytest.mark.parametrize("make", [NoRow, ExitsAsRow, NoReason, WordlessReason, NoWait])
def test_an_error_that_raises_where_it_is_read_stops_its_lane_alone(bench, make, policy):
    found = by_tenant(bench.run(ListSink(), handler=raises(make), bad_record=policy))
    assert (found["bolt"].reached, found["bolt"].error) == (10, None)
    acme = found["acme"]
    assert acme.error is not None or acme.dead_letters


@pytest.mark.parametrize("make", [SlowText, SlowReason, SlowExit, many, noted])
def test_an_error_that_takes_its_time_to_be_told_costs_seconds_at_most(bench, make):
    began_s = time.monotonic()
    found = by_tenant(bench.run(ListSink(), handler=raises(make)))
    assert time.monotonic() - began_s < 12
    assert (found["bolt"].reached, found["bolt"].error) == (10, None)
    assert found["acme"].error.offset == 0


def test_of_many_errors_in_one_itself_is_quoted(bench):
    group = ExceptionGroup("many of them", [ValueError(number) for number in range(1_000)])
    acme = by_tenant(bench.run(ListSink(), handler=raises(lambda: group)))["acme"]
    assert "ExceptionGroup: many of them (1000 sub-exceptions)" in acme.error.traceback
    assert "in handler" in acme.error.traceback


@pytest.mark.parametrize("make", [NoReason, SlowReason])
def test_a_reason_that_cannot_be_had_of_one_call_of_many_is_its_kind(bench, make):
    async def asked(record, context):
        raise make

    found = by_tenant(bench.run(ListSink(), handler=asked, output=SCHEMA, concurrency=1))
    assert found["acme"].error.message.endswith(f": {make.__name__}")


def raises(make):
    def handler(table, context):
        if context.tenant == "acme":
            raise make()
        return with_tenant(table, context)

    return handler
