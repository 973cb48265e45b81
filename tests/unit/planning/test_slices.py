"""Which lanes a share is taken from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_cases import (
    QUICK,
    cost,
    finished,
    refilled,
    snapshot,
    snapshots,
    stream,
    valid_plan,
    with_lanes,
)

from headrace.connectors.kafka import OFFSETS
from headrace.model.lane_names import number_of
from headrace.model.plans import LaneView, Plan, Snapshot, StreamView
from headrace.model.streams import Order
from headrace.planning.demand import find_demands
from headrace.planning.shares import Claim
from headrace.planning.slices import cut


def sizes(made: Plan, tenant: str) -> dict[int, int]:
    """Planned records of a tenant's lanes, by partition."""
    pieces = (piece for wave in made.waves for piece in wave.slices)
    return {
        number_of(piece.lane.name): piece.records for piece in pieces if piece.lane.tenant == tenant
    }


@given(asked=snapshots())
@QUICK
def test_cuts_hold_every_share_exactly_and_no_lane_twice(asked: Snapshot) -> None:
    for demand in find_demands(asked):
        for share in {demand.least, (demand.least + demand.records) // 2, demand.records}:
            claim = Claim(demand, demand.room_for(demand.records), 0.0, 1.0, records=share)
            cuts = cut([claim], 0.1, 0.25)
            most = {
                number_of(lane.name): some
                for lane, some in zip(demand.lanes, demand.most, strict=True)
            }
            lanes = [number_of(lane.name) for piece in cuts for lane in piece.lanes]
            taken = [count for piece in cuts for count in piece.records]
            counts_lanes = demand.whole and not demand.merged
            assert (len(lanes) if counts_lanes else sum(taken)) == share
            assert len(set(lanes)) == len(lanes)
            assert all(1 <= some <= most[lane] for lane, some in zip(lanes, taken, strict=True))
            # A share of lanes that are taken whole is predicted by their mean, and some are longer.
            longer = max(most.values()) - sum(most.values()) / len(most) if counts_lanes else 0
            predicted_s = demand.seconds_for(share) + share * longer * demand.record_s
            assert sum(piece.seconds for piece in cuts) <= predicted_s + 1e-6


def test_short_lanes_are_served_whole_and_few_long_ones_take_the_rest() -> None:
    whale = stream("whale", 10**6, 3, 10**6, 40, 10**6)
    found = sizes(valid_plan(snapshot(whale, stream("other", 10**6))), "whale")
    long = [size for size in found.values() if size > 40]
    assert (found[1], found[3]) == (3, 40)
    assert long == [457]


def test_a_flood_leaves_lanes_for_the_slot_that_becomes_free_next() -> None:
    assert len(sizes(valid_plan(snapshot(stream("whale", *[10**6] * 10))), "whale")) == 2


@pytest.mark.parametrize("others", [1, 2, 4, 7])
@pytest.mark.parametrize("record_s", [0.000_1, 0.001, 0.000_819_67])
def test_every_long_lane_has_its_turn(others: int, record_s: float) -> None:
    """A share of 610 records, a Fibonacci number, is one of those that the golden ratio minds."""
    price = cost(record_s)
    rest = [stream(f"t{number}", 10**6, cost=price) for number in range(others)]
    asked = snapshot(stream("whale", *[10**6] * 6, cost=price), *rest)
    waits_s = dict.fromkeys(range(6), 0.0)
    for _ in range(100):
        made = valid_plan(asked)
        served = sizes(made, "whale")
        done_s = sum(served.values()) * record_s
        waits_s = {lane: 0.0 if lane in served else s + done_s for lane, s in waits_s.items()}
        assert max(waits_s.values()) <= 12.0, "seconds that the stream had meanwhile"
        asked = refilled(finished(asked, made), 10**6)


@pytest.mark.parametrize("slots", [1, 2])
def test_a_part_of_a_merged_stream_is_taken_from_all_its_lanes(slots: int) -> None:
    merged = stream("merged", 9000, 5, 9000, order=Order.STREAM)
    made = valid_plan(snapshot(merged, stream("other", *[10**6] * 4, weight=3.0), slots=slots))
    found = sizes(made, "merged")
    assert set(found) == {0, 1, 2}


@given(asked=snapshots(), every=st.sampled_from([2, 7, 64]))
@QUICK
def test_a_bucket_is_planned_over_the_places_of_its_records_and_never_too_far(
    asked: Snapshot, every: int
) -> None:
    def sparse(_: StreamView, lane: LaneView) -> LaneView:
        waits = -(-lane.waits // every)
        return replace(lane, name=f"{lane.name}#0/64", every=every, waits=waits)

    sparse_ones = with_lanes(asked, sparse)
    made = valid_plan(sparse_ones)
    views = {view.id: view for view in sparse_ones.streams}
    for piece in (piece for wave in made.waves for piece in wave.slices):
        view = views[piece.lane.stream]
        (lane,) = [lane for lane in view.lanes if lane.name == piece.lane.name]
        length = OFFSETS.between(piece.until_offset, piece.from_offset) or 0
        assert length <= piece.records * every
        assert length <= max(piece.records, asked.limits.slice_records)
        assert piece.until_offset <= lane.end
