"""A wrong prediction is put right by what was really used."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policies.fairness import settled

seconds = st.floats(0, 1000)


@pytest.mark.parametrize(
    ("predicted_s", "measured_s", "after_s"),
    [
        (0.3, 0.3, 0.5),
        (0.3, 0.7, 0.1),
        (0.3, 3.0, -2.2),
        (0.3, 0.1, 0.7),
        (0.3, 0.0, 0.8),
    ],
    ids=["as predicted", "dearer", "far dearer", "cheaper", "never begun"],
)
def test_the_difference_goes_to_the_credit(
    predicted_s: float, measured_s: float, after_s: float
) -> None:
    assert settled(0.5, predicted_s, measured_s, 16.0) == pytest.approx(after_s)


@pytest.mark.parametrize("broken_s", [math.nan, math.inf, -math.inf, -1.0])
def test_a_broken_clock_changes_nothing(broken_s: float) -> None:
    assert settled(0.5, 0.3, broken_s, 16.0) == 0.5


def test_nothing_is_paid_for_for_ever() -> None:
    assert settled(0.0, 0.1, 900.0, 16.0) == -16.0
    assert settled(15.0, 900.0, 0.1, 16.0) == 16.0


@given(parts=st.lists(st.tuples(seconds, seconds), max_size=8), credit_s=st.floats(-9, 9))
def test_within_bounds_the_order_of_receipts_does_not_matter(
    parts: list[tuple[float, float]], credit_s: float
) -> None:
    forth = back = credit_s
    for predicted_s, measured_s in parts:
        forth = settled(forth, predicted_s, measured_s, 1e9)
    for predicted_s, measured_s in reversed(parts):
        back = settled(back, predicted_s, measured_s, 1e9)
    assert forth == pytest.approx(back, abs=1e-6)
