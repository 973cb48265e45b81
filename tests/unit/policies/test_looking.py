"""However often something is changed, looks take a part of the turn, and none waits for long."""

from hypothesis import given
from hypothesis import strategies as some

from headrace.policies.looking import MOST_S, rest_s

_seconds = some.floats(0.0, 30.0)


@given(took_s=some.lists(some.floats(1e-6, MOST_S / 9), min_size=1, max_size=30))
def test_looks_that_follow_each_other_take_a_tenth_of_the_time_at_most(took_s):
    whole_s = sum(one_s + rest_s(one_s) for one_s in took_s)
    assert sum(took_s) <= 0.1 * whole_s + 1e-9


@given(took_s=_seconds)
def test_no_change_waits_for_longer_than_a_second(took_s):
    assert 0.0 <= rest_s(took_s) <= MOST_S == 1.0


@given(less_s=_seconds, more_s=_seconds)
def test_a_look_that_took_longer_is_not_followed_sooner(less_s, more_s):
    less_s, more_s = sorted((less_s, more_s))
    assert rest_s(less_s) <= rest_s(more_s)


def test_a_clock_that_goes_back_has_nobody_wait():
    assert rest_s(-1.0) == 0.0
