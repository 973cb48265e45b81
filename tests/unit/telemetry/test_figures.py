"""What is described anew, and what waits."""

import pytest

from headrace.board import Board, HeldStream, Lane
from headrace.connectors.kafka import OFFSETS
from headrace.model.receipts import Receipt, Writer, WrittenBy
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Slice, State, Stream, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.telemetry.figures import AT_ONCE, BoardFigures
from headrace.telemetry.report import Reporter

START_S = 1_700_000_010.0
DEPLOYMENT = Deployment("score", "m.py", "0" * 64, "{tenant}.visits")
BUSY = 3 * AT_ONCE


@pytest.fixture
def board():
    made = Board()
    for number in range(BUSY):
        name = StreamId("score", f"t{number:04}")
        stream = Stream(name, f"{name.tenant}.visits")
        held = HeldStream(stream, Tenant(name.tenant), DEPLOYMENT, 1, OFFSETS, {"t[0]": Lane(5, 5)})
        made.streams[name] = held
    return made


@pytest.fixture
def figures(board):
    return BoardFigures(board, Reporter())


def lane_of(held):
    return held.lanes["t[0]"]


def look(figures, after_s):
    return {
        described.stream: described for described in figures.describe(START_S + after_s, after_s)
    }


def test_of_many_streams_that_changed_so_many_are_described_at_a_time_and_all_in_turn(
    figures, board
):
    before = look(figures, 0.0)
    for held in board.streams.values():
        lane_of(held).end = 7
    for number in range(1, 4):
        found = look(figures, 2.0 * number)
        new = [name for name in found if found[name].lag_records == 2]
        assert len(new) == number * AT_ONCE
    assert all(before[name] is not found[name] for name in found)


def test_a_stream_to_which_nothing_happened_is_told_as_the_very_same_value(figures, board):
    look(figures, 0.0)
    before = look(figures, 200.0)
    found = look(figures, 400.0)
    assert all(found[name] is before[name] for name in found)


def test_a_state_or_an_error_does_not_wait_its_turn(figures, board):
    look(figures, 0.0)
    for held in board.streams.values():
        lane_of(held).end = 7
    *_, last = board.streams.values()
    lane_of(last).failure = 3
    *_, second = list(board.streams.values())[:-1]
    second.tenant = Tenant(second.tenant.name, State.SUSPENDED)
    found = look(figures, 2.0)
    assert found[last.stream.id].state == "suspended"
    assert found[second.stream.id].state == "suspended"


def test_who_holds_a_slot_for_long_and_who_waits_for_one_is_told_without_names(figures, board):
    first, second, third, *_ = board.streams.values()
    for held in (first, second, third):
        lane_of(held).end = 7
        board.ready[held.stream.id] = None
    lane_of(third).tries, lane_of(third).trouble = 1, "no answer"
    piece = Slice(LaneId("score", first.stream.id.tenant, "t[0]"), "t", 5, 7, 1, records=2)
    board.started(Wave("w", "score", (Bin((piece,), 0.1),), 1.0), 0.0, 1)
    waits = "waits for a slot: other streams hold theirs for more than"
    for at_s, told in ((9.0, None), (11.0, "10 s"), (29.0, "10 s"), (125.0, "2 min")):
        found = look(figures, at_s)
        notes = [found[held.stream.id].note for held in (first, second, third)]
        if told is None:
            assert notes == ["", "", "no answer"]
        else:
            run = f"use case score has been handling records of it for more than {told}"
            assert notes == [run, f"{waits} {told}", f"no answer; {waits} {told}"]
    assert found[second.stream.id].state == "active"
    board.ended(Wave("w", "score", (Bin((piece,), 0.1),), 1.0))
    assert look(figures, 130.0)[second.stream.id].note == ""


def test_a_wave_whose_worker_may_still_start_is_not_told_as_a_slow_handlers(figures, board):
    held = next(iter(board.streams.values()))
    lane_of(held).end = 7
    piece = Slice(LaneId("score", held.stream.id.tenant, "t[0]"), "t", 5, 7, 1, records=2)
    board.started(Wave("w", "score", (Bin((piece,), 0.1),), 1.0), 0.0, 1, cold=True)
    told = look(figures, 11.0)[held.stream.id].note
    assert told.startswith("use case score has been starting with records of it for more than 10 s")
    assert "workers may have to start" in told


def test_what_was_passed_over_is_told_before_who_holds_a_slot(figures, board):
    first, second, *_ = board.streams.values()
    for held in (first, second):
        lane_of(held).end = 7
        board.ready[held.stream.id] = None
        figures.reporter.meter(held.stream.id).note("t passed over offsets 3..5", START_S)
    piece = Slice(LaneId("score", first.stream.id.tenant, "t[0]"), "t", 5, 7, 1, records=2)
    board.started(Wave("w", "score", (Bin((piece,), 0.1),), 1.0), 0.0, 1)
    notes = [look(figures, 11.0)[held.stream.id].note for held in (first, second)]
    begins = ["t passed over offsets 3..5; use case score", "t passed over offsets 3..5; waits for"]
    assert all(note.startswith(begin) for note, begin in zip(notes, begins, strict=True))


def test_who_is_held_back_by_a_limit_is_not_said_to_wait_for_a_slot(figures, board):
    first, second, *_ = board.streams.values()
    for held in (first, second):
        lane_of(held).end = 7
        board.ready[held.stream.id] = None
    second.limited_by = "the pace of its sink"
    piece = Slice(LaneId("score", first.stream.id.tenant, "t[0]"), "t", 5, 7, 1, records=2)
    board.started(Wave("w", "score", (Bin((piece,), 0.1),), 1.0), 0.0, 1)
    assert look(figures, 11.0)[second.stream.id].note == "the pace of its sink holds it back"


def test_a_stream_that_is_not_held_any_more_is_not_told(figures, board):
    look(figures, 0.0)
    for held in board.streams.values():
        lane_of(held).end = 7
    gone = next(iter(board.streams))
    del board.streams[gone]
    assert gone not in look(figures, 2.0)
    assert len(look(figures, 4.0)) == BUSY - 1


def test_what_was_told_of_an_earlier_tenant_is_not_told_of_the_next_of_its_name(figures, board):
    name, held = next(iter(board.streams.items()))
    meter = figures.reporter.meter(name)
    meter.records_total, meter.dead_letters = 9, 2
    meter.note("it sent rubbish", START_S)
    assert look(figures, 0.0)[name].note == "it sent rubbish"
    held.tenant = Tenant(name.tenant, generation=7, added_again_s=START_S)
    found = look(figures, 2.0)[name]
    assert (found.note, found.records_total, found.dead_letters_total) == ("", 0, 0)
    figures.reporter.meter(name).records_total = 3
    look(figures, 4.0)
    assert figures.reporter.meter(name).records_total == 3, "it is its own"


def test_a_lag_that_begins_after_an_hour_of_rest_is_not_an_hour_old(figures, board):
    name, held = next(iter(board.streams.items()))
    for number in range(5):
        look(figures, 900.0 * number)
    look(figures, 3602.0)
    lane_of(held).end = 9
    found = look(figures, 3604.0)
    assert 0.0 < found[name].lag_s <= 2.0


def test_a_clock_that_is_set_back_makes_no_lag_younger(figures, board):
    name, held = next(iter(board.streams.items()))
    figures.describe(START_S, 0.0)
    lane_of(held).end = 9
    figures.describe(START_S + 2.0, 2.0)
    found = {described.stream: described for described in figures.describe(START_S - 3600.0, 10.0)}
    assert 8.0 <= found[name].lag_s <= 10.0


def test_an_end_that_is_not_known_is_neither_lag_nor_something_that_came(figures, board):
    name, held = next(iter(board.streams.items()))
    look(figures, 0.0)
    for after_s, end in ((2.0, -1), (4.0, 5)):
        lane_of(held).end = end
        found = look(figures, after_s)
        assert (found[name].lag_records, found[name].in_per_s) == (0, 0.0)


def test_a_lane_that_was_sent_back_lags_and_nothing_came(figures, board):
    name, held = next(iter(board.streams.items()))
    look(figures, 0.0)
    lane_of(held).position = 0
    found = look(figures, 2.0)
    assert (found[name].lag_records, found[name].in_per_s) == (5, 0.0)
    assert found[name].lanes[0].lag_s == found[name].lag_s


def test_who_wrote_records_is_told_for_an_hour_and_then_forgotten_without_anything_happening(
    figures, board
):
    name = next(iter(board.streams))
    piece = Slice(LaneId(name.use_case, name.tenant, "t[0]"), "t", 0, 3, 1)
    by = (WrittenBy(Writer("value", "100001"), 3),)
    figures.reporter.committed(Receipt(piece, 3, True, records=3, writers=by), START_S, "w")
    (writer,) = look(figures, 2.0)[name].writers
    assert (writer.schema_id, writer.records, writer.last_at_s) == ("100001", 3, START_S)
    before = look(figures, 200.0)[name]
    assert look(figures, 3000.0)[name] is before
    assert look(figures, 3602.0)[name].writers == ()
