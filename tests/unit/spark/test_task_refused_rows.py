"""Rows that a sink does not take, while it takes others of their effect."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from task_bench import ListSink, with_tenant

from headrace.errors import SinkRefused, SinkUnavailable
from headrace.ports import RefusedRow, Written
from headrace.spark import refused_rows
from headrace.spark.slice_errors import error_of

LATER, NEVER = error_of(SinkUnavailable("full")), error_of(SinkRefused("no such value"))


@dataclass
class RowSink(ListSink):
    """Takes rows one by one; refuses values so often, or for ever."""

    #: value -> how often it is refused for now
    busy: dict[bytes, int] = field(default_factory=dict)
    never: tuple[bytes, ...] = ()
    #: values that are of one key
    of_a_key: tuple[bytes, ...] = ()
    offered: list[list[bytes]] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)

    def _write(self, effect):
        values = effect.output["value"].to_pylist() if effect.output.num_columns else []
        if effect.slices[0].lane.tenant != "acme":
            return Written()
        self.offered.append(values)
        refused, blocked = [], False
        for row, value in enumerate(values):
            if blocked and value in self.of_a_key:
                refused.append(RefusedRow(row))
                continue
            error = self._why(value)
            if error is None:
                self.taken.append(value)
                continue
            refused.append(RefusedRow(row, error))
            blocked = blocked or value in self.of_a_key
        return Written(refused=tuple(refused))

    def _why(self, value):
        if value in self.never:
            return NEVER
        if self.busy.get(value, 0):
            self.busy[value] -= 1
            return LATER
        return None


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(refused_rows, "PAUSES_S", (0.0, 0.0, 0.0))


def values(*numbers):
    return [str(number).encode() for number in numbers]


def acme(receipts):
    return receipts[0]


def test_what_was_taken_is_not_offered_again(bench):
    sink = RowSink(busy={b"3": 1, b"5": 2})
    receipt = acme(bench.run(sink))
    assert sink.offered == [values(*range(10)), values(3, 5), values(5)]
    assert sorted(sink.taken) == values(*range(10))
    assert (receipt.reached, receipt.error) == (10, None)
    assert (receipt.offered, receipt.refused) == (10, 2)


def test_the_position_stops_before_the_first_record_that_was_not_taken(bench):
    sink = RowSink(busy={b"3": 99, b"5": 99})
    receipt = acme(bench.run(sink))
    assert (receipt.reached, receipt.records) == (3, 3)
    assert receipt.error.temporary
    assert sorted(sink.taken) == values(0, 1, 2, 4, 6, 7, 8, 9)
    assert len(sink.offered) == 1 + len(refused_rows.PAUSES_S)


def test_nothing_is_reached_if_the_first_record_was_not_taken(bench):
    receipt = acme(bench.run(RowSink(busy={b"0": 99})))
    assert (receipt.reached, receipt.records) == (0, 0)
    assert receipt.error.temporary


def test_later_rows_of_a_key_wait_for_the_one_before_them(bench):
    sink = RowSink(busy={b"3": 1}, of_a_key=(b"3", b"5", b"7"))
    receipt = acme(bench.run(sink))
    assert sink.taken == values(0, 1, 2, 4, 6, 8, 9, 3, 5, 7)
    assert (receipt.reached, receipt.refused) == (10, 3)


def test_a_row_that_is_never_taken_stops_its_lane_at_its_record(bench):
    sink = RowSink(never=(b"4",), of_a_key=(b"4", b"6"))
    receipt = acme(bench.run(sink))
    assert (receipt.reached, receipt.error.code, receipt.error.offset) == (4, "SinkRefused", 4)
    assert receipt.error.raw_value == b"4"
    assert sink.offered == [values(*range(10))]
    assert b"6" not in sink.taken, "it would overtake the one that is looked at"


def test_no_record_is_blamed_for_a_row_behind_it_that_is_never_taken(bench):
    sink = RowSink(busy={b"3": 99}, never=(b"7",))
    receipt = acme(bench.run(sink))
    assert (receipt.reached, receipt.error.code) == (3, "SinkUnavailable")
    assert receipt.error.temporary


def test_the_record_of_a_row_that_is_never_taken_is_set_aside_where_that_is_wanted(bench):
    sink = RowSink(never=(b"4", b"8"), of_a_key=(b"4", b"6"))
    receipt = acme(bench.run(sink, bad_record="dead-letter"))
    assert (receipt.reached, receipt.error, receipt.dead_letters) == (10, None, 2)
    assert [letter.error.offset for letter in bench.dead_letters.letters] == [4, 8]
    assert sink.offered == [values(*range(10)), values(6)]


def test_the_record_of_a_row_is_found_where_a_record_makes_several_or_none(bench):
    def doubled(table, context):
        kept = with_tenant(table, context)
        rows = [row for row in range(table.num_rows) if row % 3 for _ in range(2)]
        return kept.take(rows)

    receipt = acme(bench.run(RowSink(busy={b"5": 99}), handler=doubled))
    assert receipt.reached == 5


def test_no_record_is_named_where_what_fewer_make_is_not_how_the_whole_begins(bench):
    def backwards(table, context):
        return with_tenant(table, context).take(list(reversed(range(table.num_rows))))

    sink = RowSink(busy={b"5": 99})
    receipt = acme(bench.run(sink, handler=backwards))
    assert (receipt.reached, receipt.error.temporary) == (0, True)


def test_an_awaited_handler_is_not_called_again_to_find_the_record(bench):
    calls = []

    async def asked(record, context):
        calls.append(record["offset"])
        return [{"tenant": context.tenant, "value": record["value"]}] * (record["offset"] % 3)

    schema = pa.schema([("tenant", pa.string()), ("value", pa.binary())])
    receipt = acme(bench.run(RowSink(busy={b"5": 99}), handler=asked, output=schema))
    assert receipt.reached == 5
    assert sorted(calls) == sorted([*range(10), *range(10)]), "of two tenants"


def test_what_was_claimed_is_told_as_lost(bench):
    sink = RowSink(busy={b"3": 99})
    receipt = acme(bench.run(sink, guarantee="at-most-once"))
    assert (receipt.committed, receipt.lost_from) == (True, 0)
    assert len(sink.offered) == 1


def test_no_rows_are_offered_when_the_time_is_used_up(bench, monkeypatch):
    monkeypatch.setattr(refused_rows, "PAUSES_S", (99.0,))
    sink = RowSink(busy={b"3": 1})
    assert acme(bench.run(sink)).reached == 3
    assert len(sink.offered) == 1


def test_rows_that_are_refused_together_for_good_are_not_all_to_blame(bench):
    class Moody(RowSink):
        def _write(self, effect):
            told = super()._write(effect)
            again = effect.output.num_rows == 2
            return Written(error=NEVER) if again else told

    receipt = acme(bench.run(Moody(busy={b"3": 1, b"5": 1}), bad_record="dead-letter"))
    assert (receipt.reached, receipt.error.temporary, receipt.dead_letters) == (3, True, 0)
    assert bench.dead_letters.letters == []


@pytest.mark.parametrize("rows", [(10,), (-1,), (3, 3), (5, 3)])
def test_a_sink_that_names_rows_that_are_not_there_stops_its_lane_alone(bench, rows):
    class Wrong(RowSink):
        def _write(self, effect):
            theirs = effect.slices[0].lane.tenant == "acme"
            return Written(refused=tuple(RefusedRow(row, LATER) for row in rows if theirs))

    first, second = bench.run(Wrong())
    assert (first.reached, first.error.code) == (0, "TargetMissing")
    assert (second.reached, second.error) == (10, None)
