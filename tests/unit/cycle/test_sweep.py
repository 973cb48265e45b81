"""A round over many keys, a bounded number a second."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.cycle.sweep import Sweep


def sweep_of(count, rate_per_s=10.0, most=10.0, every_s=0.01, step_s=0.0):
    made = Sweep(rate_per_s, most, every_s, step_s)
    for key in range(count):
        made.add(key)
    made.due(0.0)
    return made


def test_a_new_key_comes_at_once_and_takes_nobodys_place():
    made = sweep_of(100)
    made.add("new")
    assert made.due(1.0) == ["new", *range(10)]


def test_a_hurried_key_comes_at_once_however_little_is_left():
    made = sweep_of(100)
    made.due(1.0)
    made.hurry(50)
    assert made.due(1.0) == [50]


def test_a_hurried_key_that_is_gone_does_not_come():
    made = sweep_of(3)
    made.hurry(1)
    made.discard(1)
    assert made.due(1.0) == [0, 2]


def test_few_keys_come_up_at_every_call_but_not_twice_in_one():
    made = sweep_of(3)
    assert made.due(1.0) == made.due(1.5) == [0, 1, 2]
    assert made.due(1.5) == []


def test_a_long_pause_does_not_save_up_more_than_one_call_may_give():
    assert len(sweep_of(100).due(1000.0)) == 10


def test_no_key_comes_before_its_time():
    made = sweep_of(5, every_s=30.0)
    assert made.due(29.9) == []
    assert made.due(30.0) == [0, 1, 2, 3, 4]


def test_between_two_steps_only_what_is_hurried_comes():
    made = sweep_of(5, rate_per_s=100.0, step_s=1.0)
    assert made.due(0.5) == []
    made.hurry(3)
    assert made.due(0.9) == [3]
    assert made.due(1.0) == [0, 1, 2, 4, 3]


def test_a_claim_takes_from_what_is_left_for_the_others():
    made = sweep_of(100)
    made.due(1.0)
    assert [made.claim(key, 1.5) for key in range(90, 97)] == [True] * 5 + [False] * 2
    assert made.due(1.5) == []


def test_a_claim_for_what_was_looked_at_lately_or_is_not_there_is_refused():
    made = sweep_of(5, every_s=30.0)
    assert not made.claim(2, 10.0)
    assert not made.claim("nobody", 50.0)


@given(
    count=st.integers(1, 200),
    rate=st.floats(1.0, 500.0),
    waits=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60),
)
def test_every_key_comes_once_a_round_and_no_more_than_the_rate_allows(count, rate, waits):
    made = sweep_of(count, rate_per_s=rate, most=rate, every_s=1e-6)
    now_s, given_out = 0.0, []
    for wait_s in waits:
        now_s += wait_s
        portion = made.due(now_s)
        assert len(portion) == len(set(portion))
        given_out += portion
    assert len(given_out) <= rate * (now_s + 1.0) + 1
    often = [given_out.count(key) for key in range(count)]
    assert max(often) - min(often) <= 1
