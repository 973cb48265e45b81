"""Which addresses count as one."""

import time

import pytest

from headrace.doors.attempts import Attempts
from headrace.doors.problems import Problem


def waits(attempts, address, prefix="a"):
    try:
        attempts.check(address, prefix)
    except Problem as problem:
        return problem.status_code == 429
    return False


@pytest.mark.parametrize(
    ("failing", "asking", "same"),
    [
        ("9.9.9.9", "9.9.9.9", True),
        ("9.9.9.9", "9.9.9.8", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:9.9.9.9", "9.9.9.9", True),
        ("", "somewhere", True),
    ],
)
def test_of_ipv6_the_network_counts(failing, asking, same):
    attempts = Attempts(per_minute=1)
    attempts.failed(failing, "a")
    assert waits(attempts, asking, "b") is same


def test_one_key_may_fail_less_often_than_all():
    attempts = Attempts(per_minute=100, of_one_key_per_minute=2)
    for _ in range(2):
        attempts.failed("9.9.9.9", "a")
    assert waits(attempts, "9.9.9.9", "a")
    assert not waits(attempts, "9.9.9.9", "b")


@pytest.mark.parametrize("set_by_s", [-86_400.0, -3_600.0, 3_600.0])
def test_who_guesses_waits_for_the_rest_of_a_minute_however_the_clock_is_set(monkeypatch, set_by_s):
    steady_s = 100.0
    attempts = Attempts(per_minute=1, steady=lambda: steady_s)
    attempts.failed("9.9.9.9", "a")
    steady_s += 59.0
    set_s = time.time() + set_by_s
    monkeypatch.setattr(time, "time", lambda: set_s)
    with pytest.raises(Problem) as refused:
        attempts.check("9.9.9.9", "b")
    assert refused.value.headers == {"Retry-After": "1"}
    steady_s += 1.0
    assert not waits(attempts, "9.9.9.9", "b")
