"""Waits grow, are spread, and are never nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.policies.retry import Backoff

BACKOFF = Backoff(first_s=0.2, most_s=30.0)
chances = st.floats(0.0, 1.0, exclude_max=True)


def test_the_wait_doubles_with_every_try():
    waits = [BACKOFF.wait_s(tries, 0.5) for tries in range(4)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_the_limit_is_kept_however_long_it_goes_on():
    assert BACKOFF.wait_s(8, 0.5) == 15.0
    assert BACKOFF.wait_s(10**9, 0.5) == 15.0


def test_no_luck_makes_a_hot_loop():
    assert BACKOFF.wait_s(0, 0.0) == BACKOFF.wait_s(50, 0.0) == 0.05


@given(tries=st.integers(0, 10**6), low=chances, high=chances)
def test_chance_spreads_the_waits_between_the_least_and_the_most(
    tries: int, low: float, high: float
):
    low, high = sorted((low, high))
    early, late = BACKOFF.wait_s(tries, low), BACKOFF.wait_s(tries, high)
    assert BACKOFF.least_s <= early <= late <= BACKOFF.most_s


def test_lanes_that_failed_together_come_back_apart():
    waits = {BACKOFF.wait_s(5, chance / 100) for chance in range(10, 100)}
    assert len(waits) == 90


@pytest.mark.parametrize(
    ("first_s", "most_s"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)]
)
def test_a_backoff_that_makes_no_sense_is_refused(first_s: float, most_s: float):
    with pytest.raises(ConfigError, match="first_s"):
        Backoff(first_s, most_s)
