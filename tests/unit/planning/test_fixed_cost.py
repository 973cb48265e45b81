"""Handlers with a fixed cost for each call get long slices, whatever the first ones looked like."""

from __future__ import annotations

import pytest
from fixed_cases import Handler, play
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.plans import Limits
from headrace.model.streams import Order

PLAYS = settings(max_examples=12, deadline=None, derandomize=True)
WARM_S, SECONDS = 60.0, 120.0


def quick() -> Handler:
    return Handler("quick", 0.001, 0.000_5, per_s=5.0, backlog=0)


def worst_of(delays_s: list[float], part: float) -> float:
    return sorted(delays_s)[int((len(delays_s) - 1) * part)]


def test_two_seconds_for_a_call_do_not_end_in_slices_of_one_record() -> None:
    """The spiral: each slice is thought to be slow for its records, so the next one has fewer."""
    calls = Handler("calls", 2.0, 0.0, noise=0.1)
    play(calls, until_s=SECONDS)
    assert calls.rate(WARM_S, SECONDS) >= 0.8 * calls.best_rate()


@given(
    fixed_s=st.floats(0.3, 3.0),
    record_s=st.sampled_from([0.0, 0.000_05, 0.001, 0.01]),
    lanes=st.integers(1, 3),
    noise=st.sampled_from([0.0, 0.1, 0.2]),
)
@PLAYS
def test_after_a_minute_the_rate_is_near_that_of_the_best_fixed_size(
    fixed_s: float, record_s: float, lanes: int, noise: float
) -> None:
    calls, other = Handler("calls", fixed_s, record_s, lanes=lanes, noise=noise), quick()
    play(calls, other, until_s=SECONDS)
    assert calls.overdue == 0
    # The best is known here without a trial and without noise, and may take its whole timeout.
    assert calls.rate(WARM_S, SECONDS) >= 0.75 * calls.best_rate()


@pytest.mark.parametrize("record_s", [0.0, 0.001, 0.01])
def test_a_quick_tenant_beside_it_waits_no_longer_than_beside_nobody(record_s: float) -> None:
    alone, beside = quick(), quick()
    play(alone, until_s=SECONDS)
    play(Handler("calls", 2.0, record_s, noise=0.1), beside, until_s=SECONDS)
    # Until a few receipts are there nobody knows that it is quick.
    assert worst_of(beside.delays_s[100:], 1.0) <= worst_of(alone.delays_s[100:], 1.0) + 0.1


def test_with_one_slot_a_bin_is_no_longer_than_twice_the_fixed_cost() -> None:
    calls = Handler("calls", 2.0, 0.01)
    play(calls, quick(), slots=1, until_s=SECONDS)
    longest_s = max(seconds for at_s, _, seconds in calls.ran if at_s > WARM_S)
    assert longest_s <= 1.3 * 2 * 2.0


@given(record_s=st.floats(0.02, 3.0), noise=st.sampled_from([0.0, 0.2]))
@PLAYS
def test_a_handler_that_is_slow_for_each_record_is_seldom_given_more_than_a_budget(
    record_s: float, noise: float
) -> None:
    slow = Handler("slow", 0.001, record_s, noise=noise)
    play(slow, quick(), until_s=6 * SECONDS)
    budget_s = Limits().bin_budget_s
    known = [(records, took_s) for _, records, took_s in slow.ran[20:]]
    over = [
        took_s for records, took_s in known if records > 1 and took_s > (1.3 + noise) * budget_s
    ]
    assert len(over) <= 0.12 * len(known)
    assert all(took_s <= 2.5 * max(budget_s, record_s) * (1 + noise) for took_s in over)


def test_order_stream_finds_the_best_size_too() -> None:
    calls = Handler("calls", 2.0, 0.001, lanes=3, order=Order.STREAM, noise=0.05)
    play(calls, until_s=SECONDS)
    spent_s = sum(seconds for at_s, _, seconds in calls.ran if at_s > WARM_S)
    done = sum(records for at_s, records, _ in calls.ran if at_s > WARM_S)
    assert done / spent_s >= 0.6 * 1000


def test_a_handler_that_loses_its_fixed_cost_has_ordinary_slices_again() -> None:
    calls = Handler("calls", 2.0, 0.01)
    running = play(calls, until_s=SECONDS)
    calls.fixed_s = 0.0
    running.run(6 * SECONDS)
    recent = [seconds for at_s, _, seconds in calls.ran if at_s > 5 * SECONDS]
    assert max(recent) <= 3.0
