"""What makes a report fail, and what it only shows."""

import pytest

from headrace.demo.report import Check


@pytest.mark.parametrize(
    ("check", "met", "passed"),
    [
        (Check("orders", "5", "5"), True, True),
        (Check("orders", "5", "4"), False, False),
        (Check("orders", "5", "5", faults=("acme 3 arrived 2 times",)), False, False),
        (Check("delay", "p99 under 2 s", "p99 2.48 s", speed=True), False, True),
    ],
)
def test_what_differs_fails_and_what_is_slow_is_shown(check, met, passed):
    assert (check.met, check.passed) == (met, passed)
