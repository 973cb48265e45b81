"""Who shares a bin with whom."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from planning_cases import QUICK, cost, finished, snapshot, snapshots, stream, valid_plan

from headrace.model.plans import Cost, LaneView, Plan, Snapshot, StreamView
from headrace.model.streams import Order
from headrace.planning.demand import find_demands
from headrace.planning.kinds import Group, Kind

WHALE = stream("whale", *[10**6] * 4)
NEW = stream("new", 9, cost=Cost())
SMALL = stream("small", 9)


def kind_of(view: StreamView, **limits: float) -> Kind:
    (demand,) = find_demands(snapshot(view, **limits))
    return demand.group.kind


def together(made: Plan) -> list[set[str]]:
    """The tenants of each bin."""
    return [
        {piece.lane.tenant for piece in bin_.slices} for wave in made.waves for bin_ in wave.bins
    ]


@pytest.mark.parametrize(
    ("view", "kind"),
    [
        (stream("a", 60, 40), Kind.QUICK),
        (stream("a", 60, 41), Kind.BULK),
        (stream("a", 9, cost=cost(0.051)), Kind.CAUTIOUS),
        (stream("a", 99, cost=cost(spread=1.1)), Kind.CAUTIOUS),
        (stream("a", 9, cost=cost(spread=1.1)), Kind.QUICK),
        (stream("a", 9, cost=cost(samples=0)), Kind.UNKNOWN),
        (stream("a", 9, apart="p"), Kind.APART),
        (stream("a", 9, cost=Cost(), apart="p"), Kind.APART),
    ],
    ids=[
        "quick",
        "one too many",
        "slow",
        "unsteady",
        "unsteady but little",
        "unknown",
        "suspected",
        "and unknown",
    ],
)
def test_a_stream_has_one_kind(view: StreamView, kind: Kind) -> None:
    assert kind_of(view) is kind


def test_what_waits_counts_and_not_what_may_be_taken() -> None:
    assert kind_of(stream("a", 10**6, allowance_records=1)) is Kind.BULK


def test_what_runs_already_does_not_count() -> None:
    lanes = (LaneView("a[0]", 0, 10**6, 10**6, in_flight=True), LaneView("a[1]", 0, 5, 5))
    assert kind_of(stream("a", lanes=lanes)) is Kind.QUICK


def test_without_time_for_quick_ones_nobody_is_quick() -> None:
    assert kind_of(SMALL, quick_s=0.0) is Kind.BULK


@given(asked=snapshots())
@QUICK
def test_a_bin_is_of_one_group(asked: Snapshot) -> None:
    groups = {demand.view.id: demand.group for demand in find_demands(asked)}
    for planned in (bin_ for wave in valid_plan(asked).waves for bin_ in wave.bins):
        assert len({groups[piece.lane.stream] for piece in planned.slices}) == 1


@given(asked=snapshots())
@QUICK
def test_a_wave_is_of_one_group(asked: Snapshot) -> None:
    groups = {demand.view.id: demand.group for demand in find_demands(asked)}
    for wave in valid_plan(asked).waves:
        assert len({groups[piece.lane.stream] for piece in wave.slices}) == 1


def test_with_slots_for_all_each_kind_has_its_own_bins_and_quick_ones_start_first() -> None:
    made = valid_plan(snapshot(WHALE, NEW, SMALL, slots=3))
    assert together(made) == [{"small"}, {"whale"}, {"new"}]


def test_with_one_slot_a_quick_stream_does_not_wait_for_a_flood_in_its_bin() -> None:
    made = valid_plan(snapshot(WHALE, SMALL))
    assert together(made) == [{"small"}]
    assert made.waves[0].bins[0].predicted_s == pytest.approx(0.009)


def test_with_one_slot_a_flood_and_a_trickle_take_turns() -> None:
    asked = snapshot(WHALE, SMALL)
    served = []
    for _ in range(8):
        made = valid_plan(asked)
        served += together(made)
        asked = trickled(finished(asked, made))
    assert served == [{"small"}, {"whale"}] * 4


def test_suspects_of_one_label_share_and_others_do_not() -> None:
    suspects = [stream(f"t{number}", 9, apart="pq"[number // 2]) for number in range(4)]
    made = valid_plan(snapshot(*suspects, SMALL, slots=3, min_bin_s=9.0))
    assert together(made) == [{"small"}, {"t0", "t1"}, {"t2", "t3"}]


def test_the_same_label_in_two_use_cases_is_two_groups() -> None:
    suspects = [stream("a", 9, use_case=name, apart="p") for name in "xy"]
    found = [demand.group for demand in find_demands(snapshot(*suspects))]
    assert found == [Group("x", Kind.APART, "p"), Group("y", Kind.APART, "p")]


def test_a_merged_suspect_brings_all_its_lanes() -> None:
    made = valid_plan(snapshot(stream("a", 5, 5, order=Order.STREAM, apart="p"), SMALL, slots=2))
    assert together(made) == [{"small"}, {"a"}]


def trickled(asked: Snapshot) -> Snapshot:
    """With nine more records for the small one."""
    whale, small = asked.streams
    (lane,) = small.lanes
    small = replace(small, lanes=(replace(lane, end=lane.position + 9, waits=9),))
    return replace(asked, streams=(whale, small))


def test_a_group_of_debtors_waits_while_others_want_the_slots() -> None:
    debtor = stream("debtor", *[900] * 4, cost=cost(0.06), credit_s=-5.0)
    assert together(valid_plan(snapshot(debtor, WHALE, slots=2))) == [{"whale"}, {"whale"}]


def test_a_group_of_debtors_has_a_slot_that_nobody_else_can_use() -> None:
    debtor = stream("debtor", *[900] * 4, cost=cost(0.06), credit_s=-5.0)
    assert together(valid_plan(snapshot(debtor, SMALL, slots=2))) == [{"small"}, {"debtor"}]


def test_what_goes_on_beside_a_lane_that_hangs_owes_for_all_the_time_of_that() -> None:
    debtor = stream("debtor", *[900] * 4, cost=cost(0.06), credit_s=-90.0)
    made = {
        spared: valid_plan(snapshot(replace(debtor, spared=spared), WHALE, slots=1))
        for spared in (True, False)
    }
    owed = {key: min(credit.credit_s for credit in found.credits) for key, found in made.items()}
    assert owed[True] < -80.0 < owed[False]
