"""Merged lanes are one call: what it costs is planned once, however the old records lie."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merged_cases import OVERHEAD_S, Merged, in_blocks, steady
from planning_cases import QUICK, cost, snapshot, stream, valid_plan

from headrace.model.plans import Contrast, Cost, LaneView
from headrace.model.streams import Order
from headrace.planning.demand import by_pull, find_demands, level
from headrace.planning.kinds import Kind

PLAYS = settings(max_examples=12, deadline=None, derandomize=True)
WARM_S, SECONDS = 60.0, 120.0
MANY = 200_000


def skewed(shape: str, lanes: int) -> list[Sequence[int]]:
    """When the records of each lane happened."""
    if shape == "one lane is older":
        return [steady(4 * MANY, 1), *(steady(900, 1, 10**7) for _ in range(lanes - 1))]
    if shape == "one lane has more":
        return [steady(4 * MANY, 1), *(steady(MANY // 100, 500) for _ in range(lanes - 1))]
    if shape == "the others have one":
        return [steady(4 * MANY, 1), *([1] for _ in range(lanes - 1))]
    if shape == "they take turns":
        return [*in_blocks(lanes, 4 * lanes, MANY // lanes // 4)]
    return [steady(4 * MANY // lanes, 1) for _ in range(lanes)]


SHAPES = (
    "one lane is older",
    "one lane has more",
    "the others have one",
    "they take turns",
    "all are alike",
)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lanes", [2, 20, 100])
@pytest.mark.parametrize("fixed_s", [2.0, 0.3])
def test_a_call_with_a_fixed_cost_is_long_however_the_old_records_lie(
    shape: str, lanes: int, fixed_s: float
) -> None:
    merged = Merged(skewed(shape, lanes), fixed_s, 0.000_1)
    merged.run(SECONDS)
    # Where lanes take turns a call ends with a block, whatever is planned.
    least = 100 if shape == "they take turns" else 1_000
    assert merged.rate(WARM_S if merged.now_s > SECONDS else 0.0) > least
    assert max(seconds for *_, seconds in merged.ran) < 15.0


@given(
    shape=st.sampled_from(SHAPES[:3]),
    lanes=st.integers(2, 60),
    fixed_s=st.floats(0.3, 3.0),
    record_s=st.sampled_from([0.000_3, 0.001, 0.01]),
)
@PLAYS
def test_the_rate_is_a_fifth_at_least_of_what_one_who_knew_the_order_would_have(
    shape: str, lanes: int, fixed_s: float, record_s: float
) -> None:
    merged = Merged(skewed(shape, lanes), fixed_s, record_s)
    merged.run(SECONDS)
    # Eight times the fixed cost, or half of what is left of the timeout.
    longest_s = min(8 * fixed_s, (fixed_s + 30.0) / 2)
    best = (longest_s - fixed_s) / record_s / (longest_s + OVERHEAD_S)
    assert merged.rate(WARM_S if merged.now_s > SECONDS else 0.0) >= 0.2 * best
    assert all(seconds < 25.0 for *_, seconds in merged.ran)


def test_slices_of_one_record_of_each_lane_grow_though_most_of_each_call_is_left() -> None:
    """One record of three is taken each time, so it seems to cost all that the call does."""
    merged = Merged(skewed("they take turns", 3), 0.4, 0.000_1)
    seen = Contrast(records=1, planned=3, seconds=0.4)
    merged.cost = Cost(0.3, seconds_per_slice=0.05, samples=99, spread=0.1, contrast=seen)
    merged.run(60.0)
    assert merged.ran[-1][1] > 100


def test_merged_lanes_are_one_call_to_the_budget_and_to_what_is_quick() -> None:
    lags = [1] * 50
    (merged,) = find_demands(
        snapshot(stream("a", *lags, order=Order.STREAM, cost=cost(slice_s=0.03)))
    )
    (apart,) = find_demands(snapshot(stream("a", *lags, cost=cost(slice_s=0.03))))
    assert merged.seconds_for(50) == pytest.approx(0.08)
    assert apart.seconds_for(50) == pytest.approx(1.55)
    assert (merged.group.kind, apart.group.kind) == (Kind.QUICK, Kind.BULK)


def test_a_plan_of_merged_lanes_is_predicted_as_one_call() -> None:
    merged = stream("a", 400, 400, order=Order.STREAM, cost=cost(slice_s=0.04))
    (wave,) = valid_plan(snapshot(merged)).waves
    assert wave.bins[0].predicted_s == pytest.approx(0.84)


@given(
    drawn=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 40)), min_size=1, max_size=8),
    data=st.data(),
)
@QUICK
def test_lanes_are_divided_half_alike_and_half_as_the_last_call_took(
    drawn: list[tuple[int, int]], data: st.DataObject
) -> None:
    lanes = [
        LaneView(f"a[{number}]", 0, 99, 99, taken=taken) for number, (_, taken) in enumerate(drawn)
    ]
    most = [some for some, _ in drawn]
    total = data.draw(st.integers(len(most), sum(most)))
    chosen = by_pull(lanes, most, total)
    assert sum(chosen) == total
    assert all(1 <= some <= each for some, each in zip(chosen, most, strict=True))
    alike = level(most, max(len(most), total // 2))
    assert all(some >= least for some, least in zip(chosen, alike, strict=True))


def test_the_lane_that_had_all_old_records_has_half_of_the_next_slices() -> None:
    lanes = [
        LaneView(f"a[{number}]", 0, 10**6, 10**6, taken=90 if number == 1 else 0)
        for number in range(10)
    ]
    assert by_pull(lanes, [10**6] * 10, 1_000) == [50, 550, *[50] * 8]
