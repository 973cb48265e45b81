"""What a stream could use, and how it is divided over its lanes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from planning_cases import QUICK, cost, snapshot, snapshots, stream

from headrace.model.lineage import Ahead
from headrace.model.plans import LaneView, Snapshot
from headrace.model.streams import Order
from headrace.planning.demand import find_demands, level, rotation


@given(most=st.lists(st.integers(1, 50), min_size=1, max_size=8), data=st.data())
@QUICK
def test_lanes_get_the_same_unless_they_have_less(most: list[int], data: st.DataObject) -> None:
    total = data.draw(st.integers(0, sum(most)))
    chosen = level(most, total)
    assert sum(chosen) == total
    assert all(0 <= some <= limit for some, limit in zip(chosen, most, strict=True))
    if total >= len(most):
        short = [some for some, limit in zip(chosen, most, strict=True) if some < limit]
        assert not short or max(chosen) - min(short) <= 1


def test_with_fewer_records_than_lanes_one_each_goes_round() -> None:
    assert level([9, 9, 9], 2, first=2) == [1, 0, 1]


@given(asked=snapshots())
@QUICK
def test_records_that_fit_a_room_need_no_more_than_it(asked: Snapshot) -> None:
    for demand in find_demands(asked):
        for part in (0.1, 0.5, 1.0, 3.0):
            room_s = part * demand.budget_s
            records = demand.records_in(room_s)
            assert demand.room_for(records) <= room_s + 1e-6
            assert records == 0 or demand.least <= records <= demand.records


@given(asked=snapshots())
@QUICK
def test_all_that_is_wanted_fits_the_room_it_asks_for(asked: Snapshot) -> None:
    for demand in find_demands(asked):
        assert demand.records_in(demand.room_for(demand.records) + 1e-6) == demand.records


def test_the_lane_that_begins_moves_on_and_none_is_last_for_long() -> None:
    waits = [0] * 5
    for position in range(60):
        first = rotation([LaneView("a[0]", position, position, 0)], 5)
        waits = [0 if lane == first else wait + 1 for lane, wait in enumerate(waits)]
        assert max(waits) < 20


def test_an_idle_stream_asks_for_nothing() -> None:
    assert find_demands(snapshot(stream("a", 0, 0))) == []


def test_one_order_waits_for_every_lane_that_runs() -> None:
    lanes = (LaneView("a[0]", 0, 5, 5), LaneView("a[1]", 5, 5, 0, in_flight=True))
    assert find_demands(snapshot(stream("a", order=Order.STREAM, lanes=lanes))) == []


def test_a_slice_is_bounded_by_bytes_and_by_the_budget() -> None:
    big = stream("big", 9000, cost=cost(bytes_per_record=1e6))
    slow = stream("slow", 9000, cost=cost(0.01, slice_s=0.5))
    found = find_demands(snapshot(big, slow, slice_bytes=5 * 10**6))
    assert [demand.records for demand in found] == [5, 50]


def test_a_merged_stream_is_bounded_by_the_bytes_of_all_its_lanes() -> None:
    dear = cost(bytes_per_record=1e6)
    merged = stream("a", 90, 90, order=Order.STREAM, cost=dear)
    (demand,) = find_demands(snapshot(merged, slice_bytes=7 * 10**6))
    assert (demand.records, demand.most) == (7, [3, 4])
    (loose,) = find_demands(snapshot(stream("a", 90, 90, cost=dear), slice_bytes=7 * 10**6))
    assert loose.records == 14


def test_a_merged_stream_takes_one_record_of_each_lane_however_large() -> None:
    merged = stream("a", 90, 90, order=Order.STREAM, cost=cost(bytes_per_record=1e9))
    (demand,) = find_demands(snapshot(merged))
    assert demand.records == 2


def test_a_closed_lane_is_not_planned_and_keeps_merged_ones_from_nothing():
    waits = (Ahead("a[9]", 3, 5),)
    lanes = (LaneView("a[0]", 0, 5, 5), LaneView("a[1]", 0, 5, 5, parents=waits))
    for order in (Order.LANE, Order.STREAM):
        (demand,) = find_demands(snapshot(replace(stream("a"), lanes=lanes, order=order)))
        assert [lane.name for lane in demand.lanes] == ["a[0]"]
        done = (lanes[0], replace(lanes[1], parents=(Ahead("a[9]", 5, 5),)))
        (demand,) = find_demands(snapshot(replace(stream("a"), lanes=done, order=order)))
        assert [lane.name for lane in demand.lanes] == ["a[0]", "a[1]"]
