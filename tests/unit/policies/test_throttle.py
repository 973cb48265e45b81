"""A bucket holds its rate over any time, and lets the smallest rate through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policies.throttle import TokenBucket

rates = st.floats(0.01, 1e6)


def test_a_full_bucket_holds_one_second():
    assert TokenBucket.full(100.0, 5.0).tokens == 100.0


def test_a_burst_is_as_long_as_asked_for_and_fits_at_least_one_record():
    assert TokenBucket.full(100.0, 0.0, burst_s=0.25).tokens == 25.0
    assert TokenBucket.full(100.0, 0.0, burst_s=3.0).spend(300).refilled(99.0).tokens == 300.0
    assert TokenBucket.full(100.0, 0.0, burst_s=0.0).tokens == 1.0


def test_it_gains_its_rate_and_no_more_than_a_burst():
    empty = TokenBucket.full(100.0, 0.0).spend(100)
    assert empty.refilled(0.25).tokens == pytest.approx(25.0)
    assert empty.refilled(900.0).tokens == 100.0


def test_half_a_record_a_second_lets_one_through_every_two_seconds():
    bucket, taken = TokenBucket.full(0.5, 0.0).spend(1), []
    for step in range(1, 101):
        bucket = bucket.refilled(step / 10)
        if bucket.tokens >= 1.0:
            bucket = bucket.spend(1)
            taken.append(step / 10)
    assert len(taken) in (4, 5)
    assert taken[0] == pytest.approx(2.0, abs=0.11)


def test_a_debt_is_paid_back_before_anything_else_is_taken():
    bucket = TokenBucket.full(100.0, 0.0).spend(350)
    assert bucket.tokens == -250.0
    assert bucket.refilled(2.0).tokens == pytest.approx(-50.0)
    assert bucket.refilled(3.0).tokens == pytest.approx(50.0)


def test_a_clock_that_goes_back_gives_nothing_twice():
    empty = TokenBucket.full(10.0, 100.0).spend(10)
    assert empty.refilled(50.0) == empty
    assert empty.refilled(50.0).refilled(100.5).tokens == pytest.approx(5.0)


@given(
    rate=rates,
    burst_s=st.floats(0.0, 60.0),
    steps=st.lists(st.tuples(st.floats(-5.0, 20.0), st.floats(0.0, 1.0)), max_size=40),
)
def test_no_more_than_rate_times_time_plus_a_burst_is_ever_taken(
    rate: float, burst_s: float, steps: list[tuple[float, float]]
):
    bucket, now_s, latest_s, taken = TokenBucket.full(rate, 0.0, burst_s), 0.0, 0.0, 0.0
    for seconds, share in steps:
        now_s += seconds
        latest_s = max(latest_s, now_s)
        bucket = bucket.refilled(now_s)
        amount = bucket.tokens * share
        bucket = bucket.spend(amount)
        taken += amount
        assert taken <= (rate * latest_s + bucket.burst) * (1 + 1e-9)


@given(rate=rates, debt=st.floats(0.0, 1e3))
def test_whoever_waits_long_enough_may_take_a_record_again(rate: float, debt: float):
    bucket = TokenBucket.full(rate, 0.0).spend(debt)
    assert bucket.refilled((debt + 1.0) / rate + 1.0).tokens >= 1.0


def test_a_rate_beyond_all_measure_gives_tokens_that_can_be_counted():
    bucket = TokenBucket.full(1e308, 0.0, burst_s=10.0)
    assert int(bucket.tokens) == int(bucket.refilled(1e6).tokens) == 2**53
    assert bucket.spend(5.0).given_back(1e300).is_full
