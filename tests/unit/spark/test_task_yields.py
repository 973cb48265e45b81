"""A slice of which many records are set aside ends with the budget, and goes on in a later wave."""

from dataclasses import replace

import pyarrow as pa
import pytest
from task_bench import LOG_END, ListSink, of_acme, with_tenant

from headrace.errors import SinkRefused
from headrace.ports import RefusedRow, Written
from headrace.spark.slice_errors import error_of

ALL = [b"%d" % number for number in range(LOG_END)]


def all_bad(table, context):
    if table.num_rows:
        raise context.bad_record(0, "no")
    return with_tenant(table, context)


def odd_bad(table, context):
    for row, value in enumerate(table["value"].to_pylist()):
        if int(value) % 2:
            raise context.bad_record(row, "odd")
    return with_tenant(table, context)


class Picky(ListSink):
    """Refuses some values with all that is written with them."""

    refused = frozenset(ALL)

    def _write(self, effect):
        values = effect.output["value"].to_pylist() if effect.output.num_columns else []
        if self.refused.intersection(values):
            return Written(error=error_of(SinkRefused("no such value")))
        return super()._write(effect)


class PickyRows(Picky):
    """Refuses some values, and takes the others."""

    def _write(self, effect):
        values = effect.output["value"].to_pylist() if effect.output.num_columns else []
        error = error_of(SinkRefused("no such value"))
        bad = [row for row, value in enumerate(values) if value in self.refused]
        super()._write(replace(effect, output=effect.output.slice(0, 0)))
        return Written(refused=tuple(RefusedRow(row, error) for row in bad))


def waves(bench, sink, **options):
    """Where a lane is after each wave of no time, until it is at its end."""
    (first, *_), reached = bench.slices(), [0]
    while reached[-1] < LOG_END:
        planned = (replace(first, from_offset=reached[-1]),)
        options.setdefault("bad_record", "dead-letter")
        (receipt,) = bench.run(sink, budget_s=0.0, slices=planned, **options)
        assert receipt.error is None
        assert receipt.reached > reached[-1], "each wave comes further"
        reached.append(receipt.reached)
    return reached


def kept(bench):
    return [letter.error.offset for letter in bench.dead_letters.letters]


@pytest.mark.parametrize("order", ["lane", "stream"])
def test_records_that_a_handler_calls_bad_end_with_the_budget(bench, order):
    assert waves(bench, ListSink(), handler=all_bad, order=order) == list(range(LOG_END + 1))
    assert kept(bench) == list(range(LOG_END))


def test_what_is_good_among_bad_ones_is_written_once(bench):
    sink = ListSink()
    assert waves(bench, sink, handler=odd_bad) == [0, 2, 4, 6, 8, 10]
    assert of_acme(sink) == ALL[::2]
    assert kept(bench) == [1, 3, 5, 7, 9]


def test_records_that_a_sink_refuses_end_with_the_budget(bench):
    assert waves(bench, Picky()) == list(range(LOG_END + 1))
    assert kept(bench) == list(range(LOG_END))


def test_what_a_sink_takes_between_refused_records_is_written_once(bench):
    sink = Picky()
    sink.refused = frozenset({b"3", b"7"})
    assert len(waves(bench, sink)) > 3
    assert of_acme(sink) == [value for value in ALL if value not in sink.refused]
    assert kept(bench) == [3, 7]


def test_rows_whose_record_has_to_be_searched_end_with_the_budget(bench):
    def twice(table, context):
        return with_tenant(table, context).take([row // 2 for row in range(2 * table.num_rows)])

    reached = waves(bench, PickyRows(), handler=twice)
    assert reached == list(range(LOG_END + 1)), "both rows of a record, or none"
    assert kept(bench) == list(range(LOG_END))


def test_rows_whose_record_is_known_are_set_aside_together(bench, monkeypatch):
    async def asked(record, context):
        return [{"tenant": context.tenant, "value": record["value"]}]

    calls, keep = [], bench.dead_letters.keep
    monkeypatch.setattr(
        type(bench.dead_letters), "keep", lambda _self, found: calls.append(found) or keep(found)
    )
    schema = pa.schema([("tenant", pa.string()), ("value", pa.binary())])
    assert waves(bench, PickyRows(), handler=asked, output=schema) == [0, LOG_END]
    assert [len(found) for found in calls] == [LOG_END]


def test_what_was_claimed_is_not_left_for_later(bench):
    options = {"handler": all_bad, "guarantee": "at-most-once"}
    assert waves(bench, ListSink(), **options) == [0, LOG_END]
    assert kept(bench) == list(range(LOG_END))
