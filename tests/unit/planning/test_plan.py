"""What every plan promises, in the order of the specification."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_cases import (
    QUICK,
    cost,
    finished,
    records_of,
    seconds_of,
    snapshot,
    snapshots,
    started,
    stream,
    valid_plan,
)

from headrace.connectors.kafka import OFFSETS
from headrace.model.plans import Cost, LaneView, Snapshot
from headrace.model.streams import Order
from headrace.planning import plan


@given(asked=snapshots())
@QUICK
def test_a_plan_has_no_fault(asked: Snapshot) -> None:
    valid_plan(asked)


@given(asked=snapshots(), seed=st.integers(0, 99))
@QUICK
def test_the_order_of_streams_in_the_snapshot_does_not_matter(asked: Snapshot, seed: int) -> None:
    shuffled = list(asked.streams)
    random.Random(seed).shuffle(shuffled)
    again = Snapshot(asked.turn, tuple(shuffled), asked.free_slots, asked.limits)
    assert plan(again, OFFSETS) == plan(asked, OFFSETS)


@given(asked=snapshots())
@QUICK
def test_what_runs_is_not_planned_again(asked: Snapshot) -> None:
    made = valid_plan(asked)
    running = {piece.lane for wave in made.waves for piece in wave.slices}
    again = valid_plan(started(asked, made))
    assert running.isdisjoint(piece.lane for wave in again.waves for piece in wave.slices)


@given(asked=snapshots())
@QUICK
def test_done_turns_end_in_an_empty_plan(asked: Snapshot) -> None:
    small = Snapshot(
        asked.turn,
        tuple(
            stream(
                view.id.tenant,
                *[lane.end % 3 for lane in view.lanes],
                use_case=view.id.use_case,
                order=view.order,
                cost=view.cost,
            )
            for view in asked.streams
        ),
        asked.free_slots + 1,
        asked.limits,
    )
    left = sum(lane.end - lane.position for view in small.streams for lane in view.lanes)
    while left:
        made = valid_plan(small)
        done = sum(records_of(made).values())
        assert done, "there is work and a free slot, so something is planned"
        left -= done
        small = finished(small, made)
    assert valid_plan(small).waves == ()


def holds_the_others(lane: LaneView) -> bool:
    return lane.in_flight or (lane.goes_on and lane.end == lane.position)


@given(asked=snapshots())
@QUICK
def test_a_slot_is_not_left_idle_while_somebody_could_use_it(asked: Snapshot) -> None:
    waiting = [
        view
        for view in asked.streams
        if any(lane.end > lane.position and not lane.in_flight for lane in view.lanes)
        and not (view.order is Order.STREAM and any(map(holds_the_others, view.lanes)))
        and view.allowance_records != 0
        and view.allowance_bytes != 0
    ]
    made = valid_plan(asked)
    planned = seconds_of(asked, made)
    bins = sum(len(wave.bins) for wave in made.waves)
    if any(planned[view.id] == 0 for view in waiting):
        assert bins == asked.free_slots


@given(
    lags=st.lists(st.integers(1, 3000), min_size=1, max_size=12),
    slots=st.integers(1, 5),
)
@QUICK
def test_a_turn_is_used_to_a_record_while_there_is_work(lags: list[int], slots: int) -> None:
    streams = [stream(f"t{number}", lag) for number, lag in enumerate(lags)]
    asked = snapshot(*streams, slots=slots, quick_s=0.0)
    used_s = sum(seconds_of(asked, valid_plan(asked)).values())
    wanted_s = sum(min(lag, 1000) for lag in lags) / 1000
    most_s = min(wanted_s, slots)
    # A lane is never split, so what is left of a bin may be too little for all but its own lanes.
    slack_s = 0.0 if len(lags) == 1 or wanted_s <= 1.0 or slots == 1 else 0.25 * slots
    assert used_s >= most_s - slack_s - 0.002


def test_capacity_is_shared_by_weight_in_seconds_not_in_records() -> None:
    asked = snapshot(
        stream("dear", 10**6, cost=cost(0.004)),
        stream("cheap", 10**6, cost=cost(0.001)),
        stream("heavy", 10**6, cost=cost(0.001), weight=3.0),
    )
    assert records_of(valid_plan(asked)) == {"dear": 50, "cheap": 200, "heavy": 600}


def test_who_needs_less_leaves_the_rest_to_the_others() -> None:
    asked = snapshot(stream("small", 200), stream("whale", 10**6), stream("other", 10**6))
    assert records_of(valid_plan(asked)) == {"small": 200, "whale": 400, "other": 400}


def test_credit_is_paid_first() -> None:
    asked = snapshot(stream("owed", 10**6, credit_s=0.4), stream("other", 10**6))
    assert records_of(valid_plan(asked)) == {"owed": 700, "other": 300}


def test_a_debt_is_paid_back_by_waiting() -> None:
    asked = snapshot(stream("owing", 10**6, credit_s=-5.0), stream("other", 10**6))
    assert records_of(valid_plan(asked)) == {"other": 1000}


def test_who_waits_alone_is_served_whatever_it_owes() -> None:
    asked = snapshot(stream("owing", 10**6, credit_s=-5.0))
    assert records_of(valid_plan(asked)) == {"owing": 1000}


@pytest.mark.parametrize(("allowed", "planned"), [(0, None), (1, 1), (70, 70), (None, 1000)])
def test_a_throttle_is_kept_to_the_record(allowed: int | None, planned: int | None) -> None:
    made = valid_plan(snapshot(stream("a", 600, 600, allowance_records=allowed), slots=1))
    assert records_of(made).get("a") == planned


def test_a_record_larger_than_the_throttle_passes_alone() -> None:
    made = valid_plan(snapshot(stream("a", 600, 600, allowance_bytes=10)))
    assert records_of(made) == {"a": 1}


def test_bytes_are_throttled_as_records_are() -> None:
    made = valid_plan(snapshot(stream("a", 600, 600, allowance_bytes=50_000)))
    assert records_of(made) == {"a": 100}


def test_a_single_record_over_the_budget_gets_a_bin_of_its_own() -> None:
    asked = snapshot(stream("a", 50), stream("slow", 5, cost=cost(7.0)), slots=2)
    made = valid_plan(asked)
    assert [wave.bins[0].predicted_s for wave in made.waves] == pytest.approx([0.05, 7.0])


def test_a_merged_stream_goes_with_all_its_lanes_or_not_at_all() -> None:
    merged = stream("a", 10, 20, 0, 30, order=Order.STREAM, allowance_records=2)
    assert records_of(valid_plan(snapshot(merged))) == {"a": 3}


def test_a_small_load_is_not_spread_over_bins() -> None:
    asked = snapshot(*[stream(f"t{number}", 1) for number in range(90)], slots=8)
    assert len(valid_plan(asked).waves) == 1


def test_a_load_worth_it_is_spread_over_free_slots() -> None:
    asked = snapshot(*[stream(f"t{number}", 100) for number in range(6)], slots=4)
    lengths = [wave.bins[0].predicted_s for wave in valid_plan(asked).waves]
    assert lengths == pytest.approx([0.2, 0.2, 0.1, 0.1])


def test_an_unknown_stream_is_probed_and_trusted_more_with_each_receipt() -> None:
    seen = []
    for samples in range(5):
        known = stream("new", 10**6, cost=Cost(samples=samples, spread=0.1))
        seen += records_of(valid_plan(snapshot(known, bin_budget_s=9.0))).values()
    assert seen == [200, 800, 3200, 12800, 100_000]


def test_a_thousand_unknown_streams_begin_in_one_turn() -> None:
    asked = snapshot(*[stream(f"t{number}", 5, cost=Cost()) for number in range(1000)], slots=2)
    assert len(records_of(valid_plan(asked))) == 1000


def test_with_fewer_slots_than_use_cases_their_turns_go_round() -> None:
    asked = snapshot(
        *[stream("a", 1000, use_case=name, cost=cost(0.0001)) for name in ("x", "y", "z")]
    )
    served = []
    for _ in range(3):
        made = valid_plan(asked)
        served += [wave.use_case for wave in made.waves]
        asked = finished(asked, made)
    assert served == ["x", "y", "z"]
