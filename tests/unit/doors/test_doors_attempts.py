"""Which addresses count as one."""

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
