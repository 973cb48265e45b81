"""Bad records that a task sets aside, and sinks that refuse them."""

import asyncio
import sys
import time
from dataclasses import dataclass

import pytest
from task_bench import ListSink, by_tenant, of_acme, with_tenant

from headrace.errors import (
    BadRecord,
    BrokerUnavailable,
    ConfigError,
    SinkRefused,
    TargetMissing,
)
from headrace.model.lane_names import number_of
from headrace.model.records import Move
from headrace.model.streams import LaneId, StreamId
from headrace.ports import Written
from headrace.spark import event_samples
from headrace.spark.slice_errors import error_of


def refuses(*values):
    def picky(table, context):
        for row, value in enumerate(table["value"].to_pylist()):
            if context.tenant == "acme" and value in values:
                raise context.bad_record(row, "no")
        return with_tenant(table, context)

    return picky


def test_bad_records_are_set_aside_and_the_rest_is_one_effect(bench):
    sink = ListSink()
    receipts = by_tenant(
        bench.run(sink, handler=refuses(b"0", b"4", b"5", b"9"), bad_record="dead-letter")
    )
    assert receipts["acme"].reached == 10
    assert receipts["acme"].error is None
    assert (receipts["acme"].dead_letters, receipts["acme"].records) == (4, 10)
    assert of_acme(sink) == [b"1", b"2", b"3", b"6", b"7", b"8"]
    letters = bench.dead_letters.letters
    assert [(letter.error.offset, letter.error.raw_value) for letter in letters] == [
        (0, b"0"),
        (4, b"4"),
        (5, b"5"),
        (9, b"9"),
    ]


def test_a_bad_record_of_a_kind_of_the_use_cases_own_is_set_aside_as_well(bench):
    class NoPage(BadRecord):
        """What a use case calls its bad records."""

    def picky(table, context):
        if context.tenant == "acme" and b"4" in table["value"].to_pylist():
            raise NoPage(table["value"].to_pylist().index(b"4"), "no page")
        return with_tenant(table, context)

    sink = ListSink()
    receipts = by_tenant(bench.run(sink, handler=picky, bad_record="dead-letter"))
    assert (receipts["acme"].error, receipts["acme"].reached) == (None, 10)
    assert [letter.error.raw_value for letter in bench.dead_letters.letters] == [b"4"]


def test_a_slice_of_bad_records_only_is_passed(bench):
    sink = ListSink()
    values = [b"%d" % number for number in range(10)]
    receipts = by_tenant(bench.run(sink, handler=refuses(*values), bad_record="dead-letter"))
    assert receipts["acme"].reached == 10
    assert len(bench.dead_letters.letters) == 10
    assert of_acme(sink) == []


def test_nobody_waits_until_a_neighbours_dead_letters_are_ready(bench):
    sink, handler = ListSink(), refuses(b"4")
    bench.dead_letters.at_once = False
    receipts = by_tenant(bench.run(sink, handler=handler, bad_record="dead-letter"))
    assert (receipts["bolt"].error, receipts["bolt"].reached) == (None, 10)
    assert (receipts["acme"].error.code, receipts["acme"].reached) == ("HandlerSlow", 0)
    assert bench.dead_letters.letters == []
    alone = tuple(piece for piece in bench.slices() if piece.lane.tenant == "acme")
    (receipt,) = bench.run(sink, handler=handler, bad_record="dead-letter", slices=alone)
    assert (receipt.error, receipt.reached, receipt.dead_letters) == (None, 10, 1)


def test_a_record_that_the_sink_refuses_is_set_aside(bench):
    sink = ListSink(refuses=b"7")
    receipts = bench.run(sink, bad_record="dead-letter")
    assert all(receipt.reached == 10 and receipt.dead_letters == 1 for receipt in receipts)
    assert [letter.error.code for letter in bench.dead_letters.letters] == ["SinkRefused"] * 2
    assert of_acme(sink) == [b"%d" % number for number in range(10) if number != 7]


@pytest.mark.parametrize("sink", [ListSink(), ListSink(refuses=b"4")])
def test_without_its_dead_letter_no_lane_passes_the_record(bench, sink):
    handler = refuses(b"4") if sink.refuses is None else None
    for _ in range(2):
        bench.dead_letters.fail_next(BrokerUnavailable("no broker"))
    receipts = by_tenant(bench.run(sink, handler=handler, bad_record="dead-letter"))
    assert receipts["acme"].reached <= 4
    assert receipts["acme"].error.code == "BrokerUnavailable"
    assert b"5" not in of_acme(sink)


@pytest.mark.parametrize("order", ["lane", "stream"])
def test_five_tries_with_a_sink_that_is_down_leave_one_letter_that_counts_once(bench, order):
    sink, handler = ListSink(down=True), refuses(b"4")
    options = {"handler": handler, "bad_record": "dead-letter", "order": order}
    tries = [bench.run(sink, **options) for _ in range(4)]
    sink.down = False
    tries.append(bench.run(sink, **options))
    assert [letter.error.offset for letter in bench.dead_letters.letters] == [4]
    assert [by_tenant(try_)["acme"].dead_letters for try_ in tries] == [0, 0, 0, 0, 1]


def test_a_letter_has_the_time_of_its_record(bench):
    bench.run(ListSink(), handler=refuses(b"4"), bad_record="dead-letter")
    (letter,) = bench.dead_letters.letters
    assert letter.error.timestamp_ms == 4


def test_with_order_stream_a_letter_names_the_lane_of_its_record(bench):
    def picky(table, context):
        if context.tenant == "acme":
            offsets, lanes = table["offset"].to_pylist(), table["partition"].to_pylist()
            if (1, 6) in zip(lanes, offsets, strict=True):
                raise context.bad_record([*zip(lanes, offsets, strict=True)].index((1, 6)), "no")
        return with_tenant(table, context)

    pieces = bench.slices(partitions=(0, 1))
    receipts = bench.run(
        ListSink(), handler=picky, slices=pieces, order="stream", bad_record="dead-letter"
    )
    assert all(receipt.reached == 10 for receipt in receipts)
    (letter,) = bench.dead_letters.letters
    assert (number_of(letter.slice.lane.name), letter.error.offset) == (1, 6)


def test_with_order_stream_an_error_is_on_the_lane_of_its_record_alone(bench):
    def picky(table, context):
        rows = [*zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)]
        if context.tenant == "acme" and (1, 6) in rows:
            raise context.bad_record(rows.index((1, 6)), "no")
        return with_tenant(table, context)

    receipts = bench.run(
        ListSink(), handler=picky, slices=bench.slices(partitions=(0, 1)), order="stream"
    )
    of_acme = {
        number_of(receipt.slice.lane.name): receipt
        for receipt in receipts
        if receipt.slice.lane.tenant == "acme"
    }
    assert of_acme[0].error is None
    assert (of_acme[1].error.offset, of_acme[1].reached) == (6, 6)


def test_with_order_stream_at_most_once_claims_all_lanes_of_a_call_or_none(bench):
    sink, slices = ListSink(), bench.slices(partitions=(0, 1))
    moved = Move(
        LaneId("keep", "acme", "acme.visits[1]"), 0, 3, bench.epochs[StreamId("keep", "acme")]
    )
    assert bench.store.positions.advance([moved]) == [True]
    receipts = bench.run(sink, slices=slices, order="stream", guarantee="at-most-once")
    assert {row[0] for row in sink.written} == {"bolt"}
    assert (bench.position("acme", 0), bench.position("acme", 1)) == (0, 3)
    assert all(receipt.superseded for receipt in receipts if receipt.slice.lane.tenant == "acme")


class HastySink(ListSink):
    """Does not catch what a database says of one tenant's rows."""

    def write(self, effects):
        if any(effect.slices[0].lane.tenant == "acme" for effect in effects):
            raise self.kind("too large for a column")
        return super().write(effects)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("kind", [OverflowError, KeyboardInterrupt, asyncio.CancelledError])
def test_a_sink_that_raises_for_one_tenants_rows_fails_nobody_else(bench, guarantee, kind):
    sink = HastySink()
    sink.kind = kind
    sink.exactly_once = "intent"
    receipts = by_tenant(bench.run(sink, guarantee=guarantee))
    assert receipts["bolt"].error is None
    assert receipts["bolt"].reached == 10
    assert receipts["acme"].error.code == "HandlerError"
    assert receipts["acme"].reached == 0


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Exception, "its text cannot be had, AttributeError"),
        (SystemExit, "its text cannot be had, AttributeError"),
        (BadRecord, "bad record at offset 0 of acme.visits[0]: no"),  # it has its reason apart
    ],
)
def test_an_error_whose_text_cannot_be_had_stops_its_lane_alone(bench, kind, told):
    class Wordless(kind):
        def __str__(self):
            raise AttributeError("it has no field")

    def handler(table, context):
        if context.tenant == "acme":
            raise Wordless(0, "no") if kind is BadRecord else Wordless
        return with_tenant(table, context)

    found = by_tenant(bench.run(ListSink(), handler=handler))
    assert (found["bolt"].reached, found["bolt"].error) == (10, None)
    assert found["acme"].error.message.endswith(told)
    assert found["acme"].error.offset == 0


@pytest.mark.parametrize("policy", ["dead-letter", "suspend", "fail"])
def test_at_most_once_a_bad_record_does_not_take_along_what_comes_before_it(bench, policy):
    """Nothing of the call was written, so what the handler names can be left out in a second."""
    sink, given = ListSink(), []

    def picky(table, context):
        given.append(context.tenant)
        return refuses(b"3")(table, context)

    options = {"guarantee": "at-most-once", "bad_record": policy}
    receipt = by_tenant(bench.run(sink, handler=picky, **options))["acme"]
    assert (receipt.reached, bench.position("acme"), given.count("bolt")) == (10, 10, 1)
    letters = [letter.error.offset for letter in bench.dead_letters.letters]
    before, behind = [b"0", b"1", b"2"], [b"4", b"5", b"6", b"7", b"8", b"9"]
    if policy == "dead-letter":
        assert of_acme(sink) == before + behind
        assert (receipt.error, receipt.lost_from, receipt.dead_letters) == (None, None, 1)
        assert letters == [3]
    else:
        assert of_acme(sink) == before
        assert (receipt.error.offset, receipt.lost_from, letters) == (3, 3, [])


def test_at_most_once_waits_for_dead_letters_also_beside_others(bench):
    """There is no later try: what is not done in this one is lost."""
    sink = ListSink()
    bench.dead_letters.at_once = False
    options = {"guarantee": "at-most-once", "bad_record": "dead-letter"}
    receipts = by_tenant(bench.run(sink, handler=refuses(b"4"), **options))
    assert (receipts["acme"].error, receipts["acme"].dead_letters) == (None, 1)
    assert len(of_acme(sink)) == 9


def test_at_most_once_loses_what_no_dead_letter_is_kept_of_and_tells_it(bench):
    sink = ListSink()
    bench.dead_letters.accidents = [BrokerUnavailable("down")]
    options = {"guarantee": "at-most-once", "bad_record": "dead-letter"}
    receipts = by_tenant(bench.run(sink, handler=refuses(b"4"), **options))
    acme = receipts["acme"]
    assert (acme.error.code, acme.lost_from, acme.reached) == ("BrokerUnavailable", 0, 10)
    assert of_acme(sink) == []


def test_at_most_once_a_table_that_the_sink_refuses_is_not_written_in_parts(bench):
    sink = ListSink(refuses=b"7")
    options = {"guarantee": "at-most-once", "bad_record": "dead-letter"}
    acme = by_tenant(bench.run(sink, **options))["acme"]
    assert (acme.error.code, acme.lost_from, of_acme(sink)) == ("SinkRefused", 0, [])


MERGED = [(number, lane) for number in range(10) for lane in (0, 1)]


def test_with_order_stream_the_record_that_the_sink_refuses_is_known_by_its_lane(bench):
    sink = ListSink(refuses=b"7")
    slices = bench.slices(partitions=(0, 1))
    receipts = bench.run(sink, order="stream", slices=slices)
    acme = {
        number_of(told.slice.lane.name): told
        for told in receipts
        if told.slice.lane.tenant == "acme"
    }
    assert of_acme(sink) == [b"%d" % number for number, _ in MERGED if number < 7]
    assert {lane: told.reached for lane, told in acme.items()} == {0: 7, 1: 7}
    assert (acme[0].error.code, acme[0].error.offset) == ("SinkRefused", 7)
    assert acme[1].error is None


def test_with_order_stream_what_the_sink_refuses_is_set_aside(bench):
    sink = ListSink(refuses=b"7")
    slices = bench.slices(partitions=(0, 1))
    receipts = bench.run(sink, order="stream", slices=slices, bad_record="dead-letter")
    assert all((told.reached, told.error, told.dead_letters) == (10, None, 1) for told in receipts)
    assert of_acme(sink) == [b"%d" % number for number, _ in MERGED if number != 7]
    letters = [letter.slice.lane for letter in bench.dead_letters.letters]
    assert len(set(letters)) == 4


@dataclass
class GoesAway(ListSink):
    """A sink whose table is dropped while the record that it refuses is looked for."""

    calls: int = 0
    gone_at: int = 0

    def _write(self, effect):
        if effect.slices[0].lane.tenant == "acme":
            self.calls += 1
            if self.calls == self.gone_at:
                return Written(error=error_of(TargetMissing("no such table")))
        return super()._write(effect)


@pytest.mark.parametrize("gone_at", [2, 3, 4])
def test_what_is_missing_for_all_records_is_held_against_none_of_them(bench, gone_at):
    sink = GoesAway(refuses=b"7", gone_at=gone_at)
    receipts = by_tenant(bench.run(sink, bad_record="dead-letter"))
    acme = receipts["acme"]
    assert (acme.error.code, acme.error.offset) == ("TargetMissing", None)
    assert of_acme(sink) == [b"%d" % number for number in range(acme.reached)]
    assert [letter.slice.lane.tenant for letter in bench.dead_letters.letters] == ["bolt"]


@dataclass
class Misplaced(ListSink):
    """A sink that cannot be written to, whatever it is given."""

    error: Exception | None = None

    def _write(self, effect):
        if effect.slices[0].lane.tenant == "acme":
            return Written(error=error_of(self.error))
        return super()._write(effect)


@pytest.mark.parametrize("exactly_once", [None, "intent"])
@pytest.mark.parametrize("kind", [ConfigError, TargetMissing])
@pytest.mark.parametrize("until", [1, 10])
def test_a_sink_that_cannot_be_written_to_holds_it_against_no_record(
    bench, exactly_once, kind, until
):
    sink = Misplaced(error=kind("the folder is read-only"))
    sink.exactly_once = exactly_once
    guarantee = "exactly-once" if exactly_once else "at-least-once"
    slices = bench.slices(until=until)
    receipts = by_tenant(
        bench.run(sink, bad_record="dead-letter", guarantee=guarantee, slices=slices)
    )
    acme = receipts["acme"]
    assert (acme.error.code, acme.error.offset, acme.reached) == (kind.__name__, None, 0)
    assert (receipts["bolt"].error, receipts["bolt"].reached) == (None, until)
    assert bench.dead_letters.letters == []


@dataclass
class Checks(ListSink):
    """A sink of files: it has one identity for an effect, and looks at tables."""

    exactly_once = "intent"
    #: what only its server refuses
    late: bytes | None = None

    def check(self, output):
        if self.refuses in output["value"].to_pylist():
            raise SinkRefused("value not allowed")

    def _write(self, effect):
        values = effect.output["value"].to_pylist() if effect.output.num_columns else []
        if self.late in values:
            return Written(error=error_of(SinkRefused("the server says no")))
        return super()._write(effect)


@pytest.mark.parametrize(("order", "lanes"), [("lane", (0,)), ("stream", (0, 1))])
def test_a_recorded_slice_is_whole_but_for_what_the_sink_refuses(bench, order, lanes):
    sink = Checks(refuses=b"7")
    options = {"order": order, "slices": bench.slices(partitions=lanes)}
    for _ in range(2):  # its replay
        sink.written.clear()
        receipts = bench.run(sink, guarantee="exactly-once", bad_record="dead-letter", **options)
        assert all((told.reached, told.error) == (10, None) for told in receipts)
        assert of_acme(sink) == [b"%d" % n for n, lane in MERGED if n != 7 and lane in lanes]
        assert len([tenant for tenant, *_ in sink.written if tenant == "acme"]) == 1
    assert {letter.error.offset for letter in bench.dead_letters.letters} == {7}


@dataclass
class KnowsItsLimit(Checks):
    """Its writer, which it is as well, looks at whole effects, and knows what it does not."""

    def check_effect(self, effect):
        assert (effect.slices[0].from_offset, effect.reached) == (0, (10,))
        Checks.check(self, effect.output)

    def check(self, output):
        raise SinkRefused("it knows no better")


def test_the_record_to_blame_is_found_by_the_writer_where_that_can(bench):
    sink = KnowsItsLimit(refuses=b"7")
    piece = bench.slices()[0]
    options = {"guarantee": "exactly-once", "bad_record": "dead-letter", "slices": [piece]}
    (receipt,) = bench.run(sink, **options)
    assert (receipt.reached, receipt.error) == (10, None)
    assert {letter.error.offset for letter in bench.dead_letters.letters} == {7}


@pytest.mark.parametrize(("order", "lanes"), [("lane", (0,)), ("stream", (0, 1))])
def test_a_recorded_slice_names_the_record_that_its_sink_refuses(bench, order, lanes):
    sink = Checks(refuses=b"7")
    options = {"order": order, "slices": bench.slices(partitions=lanes)}
    receipts = bench.run(sink, guarantee="exactly-once", **options)
    told = next(told for told in receipts if told.slice.lane == ("keep", "acme", "acme.visits[0]"))
    assert (told.reached, told.error.code, told.error.offset) == (0, "SinkRefused", 7)
    assert sink.written == []


def test_what_only_a_server_refuses_is_named_where_it_is_alone(bench):
    sink = Checks(late=b"0")
    for until, offset in ((10, None), (1, 0)):
        receipts = bench.run(sink, guarantee="exactly-once", slices=bench.slices(until=until))
        told = by_tenant(receipts)["acme"].error
        assert (told.code, told.offset) == ("SinkRefused", offset)


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
@pytest.mark.parametrize("does", [sys.exit, lambda: time.sleep(30), lambda: 1 / 0])
def test_an_event_time_that_fails_costs_no_slice(bench, monkeypatch, guarantee, does):
    monkeypatch.setattr(event_samples, "LONGEST_S", 0.05)
    sink, asked = ListSink(), []

    def at(records):
        asked.append(list(sink.written))
        return does()

    receipts = bench.run(sink, event_time=at, guarantee=guarantee)
    assert all((told.reached, told.error) == (10, None) for told in receipts)
    assert all(told.timestamps_s[0] == 0.0 for told in receipts)
    assert asked == [[], []], "what is written cannot be taken back if it ends the worker"
    assert of_acme(sink) == [b"%d" % number for number in range(10)]
