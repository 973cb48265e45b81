"""Plans for logs whose places are wide, have gaps of any size, or whose ends nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from planning_cases import snapshot, snapshots, stream, with_lanes

from headrace.connectors.kafka import OFFSETS
from headrace.model.places import OPEN, Places
from headrace.model.plans import LaneView, Plan, Snapshot, StreamView
from headrace.planning import FaultKind, check, plan

FAR, STEP = 10**55, 10**40
#: a log whose places are so far from each other
SPARSE = Places(
    after=lambda place, records: place + records * STEP,
    between=lambda later, place: (later - place) // STEP,
    behind=lambda place: place + 1,
)
#: one that cannot tell where so many records end
UNKNOWN_END = Places(
    after=lambda _place, _records: OPEN,
    between=lambda _later, _place: None,
    behind=lambda place: place + 1,
)


def elsewhere(asked: Snapshot, *, knows_end: bool) -> Snapshot:
    """The same moment in another log: as much waits in each lane."""
    return with_lanes(asked, lambda _, lane: moved(lane, knows_end=knows_end))


def moved(lane: LaneView, *, knows_end: bool) -> LaneView:
    start = FAR + lane.position * STEP
    return replace(lane, position=start, end=start + lane.waits * STEP if knows_end else OPEN)


def taken(made: Plan) -> list[list[int]]:
    """Records of each bin, in the order of the waves."""
    return [
        sorted(piece.records for piece in bin_.slices) for wave in made.waves for bin_ in wave.bins
    ]


@given(snapshots())
def test_a_plan_without_fault_is_made_for_any_log(asked):
    for places, knows_end in ((SPARSE, True), (UNKNOWN_END, False)):
        there = elsewhere(asked, knows_end=knows_end)
        assert check(there, plan(there, places), places) == []


@pytest.mark.parametrize(("places", "knows_end"), [(SPARSE, True), (UNKNOWN_END, False)])
def test_as_much_is_taken_in_any_log_as_waits(places, knows_end):
    asked = snapshot(stream("a", 40), stream("b", 7, 0, 9), slots=2)
    there = elsewhere(asked, knows_end=knows_end)
    assert taken(plan(there, places)) == taken(plan(asked, OFFSETS))


def test_a_slice_of_a_log_of_unknown_end_is_bounded_by_its_records_alone():
    asked = elsewhere(snapshot(stream("a", 40)), knows_end=False)
    (piece,) = plan(asked, UNKNOWN_END).waves[0].slices
    assert (piece.records, piece.is_open, piece.from_offset) == (40, True, FAR + 100 * STEP)
    assert str(piece).endswith("..")


def test_a_lane_of_unknown_end_that_is_to_stop_before_a_record_is_bounded_by_that():
    asked = elsewhere(snapshot(stream("a", 40)), knows_end=False)
    (view,) = asked.streams
    (lane,) = view.lanes
    stop = lane.position + 3 * STEP
    asked = replace(asked, streams=(replace(view, lanes=(replace(lane, end=stop),)),))
    made = plan(asked, UNKNOWN_END)
    assert [piece.until_offset for piece in made.waves[0].slices] == [stop]
    assert check(asked, made, UNKNOWN_END) == []


def bounded(records: int, waits: int) -> tuple[Snapshot, Plan]:
    """A plan for a lane that is known up to a place, of which so many are wanted at once."""
    asked = elsewhere(snapshot(stream("a", waits), slice_records=records), knows_end=False)
    (view,) = asked.streams
    (lane,) = view.lanes
    lane = replace(lane, end=lane.position + 7 * STEP, untold=True, goes_on=True)
    asked = replace(asked, streams=(replace(view, lanes=(lane,)),))
    return asked, plan(asked, UNKNOWN_END)


def test_a_part_of_what_nobody_can_count_has_its_records_for_a_bound():
    asked, made = bounded(records=2, waits=16)
    (piece,) = made.waves[0].slices
    assert (piece.is_open, piece.records, piece.more) == (True, 2, True)
    assert check(asked, made, UNKNOWN_END) == []


def test_a_part_that_goes_up_to_the_place_where_all_of_it_ends_is_found():
    asked, made = bounded(records=2, waits=16)
    ((wave, (bin_,)),) = [(wave, wave.bins) for wave in made.waves]
    (piece,) = bin_.slices
    whole = replace(piece, until_offset=asked.streams[0].lanes[0].end)
    waves = (replace(wave, bins=(replace(bin_, slices=(whole,)),)),)
    found = check(asked, replace(made, waves=waves), UNKNOWN_END)
    assert [fault.kind for fault in found] == [FaultKind.WRONG_BOUND]


def test_more_than_a_visit_may_take_is_found():
    asked = elsewhere(snapshot(stream("a", 40)), knows_end=False)
    made = plan(asked, UNKNOWN_END)
    less = with_lanes(asked, lambda _, lane: replace(lane, waits=39))
    assert FaultKind.BEYOND_END in {fault.kind for fault in check(less, made, UNKNOWN_END)}


def partly(asked: Snapshot) -> Snapshot:
    """The same moment in a log of which every other lane does not tell where it ends."""

    def hidden(view: StreamView, lane: LaneView) -> LaneView:
        return replace(lane, end=OPEN) if view.lanes.index(lane) % 2 else lane

    return with_lanes(asked, hidden)


@given(snapshots())
def test_a_plan_without_fault_is_made_where_some_lanes_tell_no_end(asked):
    there = partly(asked)
    made = plan(there, OFFSETS)
    assert check(there, made, OFFSETS) == []
    merged = {view.id for view in there.streams if view.order.merges_lanes}
    opened = [piece for wave in made.waves for piece in wave.slices if piece.is_open]
    assert all(piece.lane.stream not in merged for piece in opened)
    assert all(0 < piece.most_bytes <= there.limits.slice_bytes for piece in opened)
