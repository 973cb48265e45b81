"""Costs are learnt from receipts of any size, and no single one of them upsets the prediction."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.plans import Cost
from headrace.policies.cost import learn, learn_guessed

SIZES = (1, 3, 10, 100, 1_000, 10_000)
STEADY = Cost(seconds_per_record=1e-4, seconds_per_slice=1e-3, spread=0.05, samples=200)
sizes = st.integers(0, 10**6)
costs = st.builds(
    Cost,
    seconds_per_record=st.floats(1e-8, 10.0),
    bytes_per_record=st.floats(1.0, 1e6),
    seconds_per_slice=st.floats(1e-5, 10.0),
    spread=st.floats(0.0, 4.0),
    samples=st.integers(0, 10**6),
)


def predicted_s(cost: Cost, records: int) -> float:
    return cost.seconds_per_slice + records * cost.seconds_per_record


def taught(cost: Cost, true: Cost, receipts: int, *, noise: float, seed: int = 0) -> Cost:
    chance = random.Random(seed)
    for _ in range(receipts):
        records = chance.choice(SIZES)
        seconds = predicted_s(true, records) * chance.uniform(1 - noise, 1 + noise)
        size_bytes = round(records * true.bytes_per_record)
        cost = learn(cost, records, size_bytes, seconds)
    return cost


@settings(max_examples=25)
@given(
    fixed_s=st.floats(2e-4, 0.02),
    record_s=st.floats(2e-6, 2e-3),
    noise=st.floats(0.0, 0.25),
    seed=st.integers(0, 999),
)
def test_a_steady_stream_is_predicted_well_at_every_size(
    fixed_s: float, record_s: float, noise: float, seed: int
):
    true = Cost(record_s, 800.0, fixed_s)
    learnt = taught(Cost(), true, 250, noise=noise, seed=seed)
    for records in SIZES:
        assert predicted_s(learnt, records) == pytest.approx(
            predicted_s(true, records), rel=0.25 + noise
        )
    assert learnt.bytes_per_record == pytest.approx(800.0, rel=0.01)
    assert learnt.samples == 250


def test_fixed_and_growing_cost_are_told_apart():
    true = Cost(seconds_per_record=5e-4, seconds_per_slice=5e-3)
    learnt = taught(Cost(), true, 250, noise=0.05)
    assert learnt.seconds_per_slice == pytest.approx(5e-3, rel=0.2)
    assert learnt.seconds_per_record == pytest.approx(5e-4, rel=0.2)


@pytest.mark.parametrize(
    ("true", "within"),
    [
        (Cost(seconds_per_record=5.5e-3, seconds_per_slice=5e-4), 1.5),
        (Cost(seconds_per_record=2e-5, seconds_per_slice=5e-4), 3.0),
        (Cost(seconds_per_record=1e-5, seconds_per_slice=0.05), 6.0),
    ],
    ids=["a slow handler", "a quick one", "a slow sink"],
)
def test_a_backlog_is_foreseen_by_a_stream_that_has_seen_small_slices_only(
    true: Cost, within: float
):
    chance, cost = random.Random(1), Cost()
    for _ in range(150):
        records = chance.randint(1, 13)
        seconds = predicted_s(true, records) * chance.uniform(0.9, 1.1)
        cost = learn(cost, records, records * 500, seconds)
    assert 1 / within < predicted_s(cost, 300) / predicted_s(true, 300) < within


def test_the_spread_is_small_for_a_steady_stream_and_large_for_a_moody_one():
    steady = taught(Cost(), STEADY, 250, noise=0.02)
    moody = taught(Cost(), STEADY, 250, noise=0.9)
    assert steady.spread < 0.05
    assert moody.spread > 0.3


def test_one_lucky_guess_does_not_make_a_stream_steady():
    first = Cost()
    assert learn(first, 100, 50_000, predicted_s(first, 100)).spread > 0.5


@pytest.mark.parametrize("records", [1, 100, 10_000])
@pytest.mark.parametrize("known", [Cost(), STEADY])
def test_a_stream_ten_times_slower_is_known_after_ten_receipts(known: Cost, records: int):
    slower_s = 10 * predicted_s(known, records)
    learnt = known
    for _ in range(10):
        learnt = learn(learnt, records, records * 500, slower_s)
    assert predicted_s(learnt, records) == pytest.approx(slower_s, rel=0.2)


@pytest.mark.parametrize("records", [1, 100, 10_000])
def test_a_handler_five_hundred_times_slower_than_the_guess_is_known_soon(records: int):
    cost, true_s = Cost(), 500 * predicted_s(Cost(), records)
    for _ in range(10):
        cost = learn(cost, records, records * 500, true_s)
    assert predicted_s(cost, records) == pytest.approx(true_s, rel=0.25)


@given(cost=costs, records=sizes, other=sizes, seconds=st.floats(0.0, 1e9))
def test_one_receipt_moves_no_prediction_far(cost: Cost, records: int, other: int, seconds: float):
    learnt = learn(cost, records, records * 100, seconds)
    most, rounding = 2.0 if cost.samples >= 4 else 6.0, 1e-9
    ratio = predicted_s(learnt, other) / predicted_s(cost, other)
    assert ratio <= most + rounding
    if cost.samples >= 4:
        assert ratio >= 0.5 - rounding


def test_a_stutter_is_forgotten_again():
    cost = learn(STEADY, 100, 50_000, 60.0)
    assert predicted_s(cost, 100) < 2 * predicted_s(STEADY, 100)
    cost = taught(cost, STEADY, 40, noise=0.0)
    assert predicted_s(cost, 100) == pytest.approx(predicted_s(STEADY, 100), rel=0.1)


@given(
    cost=costs,
    receipts=st.lists(
        st.tuples(st.integers(-1, 10**9), st.integers(-1, 10**15), st.floats(allow_nan=True)),
        max_size=10,
    ),
)
def test_the_averages_stay_positive_and_finite_whatever_comes(
    cost: Cost, receipts: list[tuple[int, int, float]]
):
    for records, size_bytes, seconds in receipts:
        cost = learn(cost, records, size_bytes, seconds)
    assert 1e-5 <= cost.seconds_per_slice <= 3_600
    assert 1e-8 <= cost.seconds_per_record <= 3_600
    assert 1.0 <= cost.bytes_per_record <= 1e9
    assert 0.0 <= cost.spread <= 4.0


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_broken_clock_teaches_nothing(seconds: float):
    assert learn(STEADY, 10, 100, seconds) == STEADY


def test_a_slice_of_gaps_teaches_only_what_is_fixed():
    learnt = learn(STEADY, 0, 0, 2e-3)
    assert learnt.seconds_per_slice > STEADY.seconds_per_slice
    assert learnt.seconds_per_record == STEADY.seconds_per_record
    assert learnt.bytes_per_record == STEADY.bytes_per_record


def sized(cost: Cost, sizes: list[int], true: Cost, noise: float = 0.0) -> Cost:
    chance = random.Random(5)
    for records in sizes:
        seconds = predicted_s(true, records) * chance.uniform(1 - noise, 1 + noise)
        cost = learn(cost, records, records * 500, seconds)
    return cost


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_slices_that_shrink_and_take_as_long_have_a_fixed_cost(noise: float):
    learnt = sized(Cost(), [200, 100, 50, 25, 12, 6] * 3, Cost(1e-6, 500.0, 2.0), noise)
    assert learnt.seconds_per_slice > 1.2
    assert predicted_s(learnt, 1_000) < 20


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_slices_that_shrink_and_take_less_have_none(noise: float):
    learnt = sized(Cost(), [200, 100, 50, 25, 12, 6] * 3, Cost(0.01, 500.0, 1e-4), noise)
    assert learnt.seconds_per_slice < 0.03
    assert predicted_s(learnt, 1_000) == pytest.approx(10.0, rel=0.3)


def test_a_handler_that_became_slower_and_gets_smaller_slices_has_no_fixed_cost():
    """Ten times slower, a tenth as large: over the two ages, seconds do not grow with records."""
    before = sized(Cost(), [1000, 700, 1000, 800] * 5, Cost(0.001, 500.0, 1e-4))
    after = sized(before, [1000, 600, 300, 150, 100, 80, 100, 70] * 2, Cost(0.01, 500.0, 1e-4))
    assert after.seconds_per_slice < 0.2
    assert predicted_s(after, 100) == pytest.approx(1.0, rel=0.3)


def test_what_pairs_tell_of_other_sizes_leaves_the_last_size_as_it_was():
    cost = sized(Cost(), [200, 100, 50, 25] * 8, Cost(1e-6, 500.0, 2.0))
    again = learn(cost, 25, 12_500, predicted_s(cost, 25))
    assert predicted_s(again, 25) == pytest.approx(predicted_s(cost, 25), rel=0.05)


@given(cost=costs, records=sizes, guessed=st.integers(1, 10**6), seconds=st.floats(0.0, 100.0))
def test_a_guess_counts_as_far_as_it_was_too_high_and_is_no_sample_if_nothing_was_there(
    cost: Cost, records: int, guessed: int, seconds: float
) -> None:
    size_bytes = round(records * cost.bytes_per_record)
    learned = learn_guessed(cost, records, size_bytes, seconds, guessed)
    assert learned.samples == cost.samples + bool(records)
    assert learned.contrast.records in {max(records, guessed), cost.contrast.records}
    assert learned.bytes_per_record == pytest.approx(cost.bytes_per_record, rel=0.1, abs=1.0)
    if records >= guessed:
        assert learned == learn(cost, records, size_bytes, seconds)
