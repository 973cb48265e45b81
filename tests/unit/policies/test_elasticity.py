"""How many slots there should be."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.policies.elasticity import Load, Scale, SlotLimits, scaled

LIMITS = SlotLimits(1, 16)


def run(loads, limits=LIMITS, scale=None):
    """Slots after each look; a load is what is busy and what waits."""
    scale = scale or Scale(limits.least)
    found = []
    for now_s, (busy, backlog_s) in enumerate(loads):
        load = Load(float(now_s), 1.0, busy, backlog_s)
        scale = scaled(scale, load, limits)
        found.append(scale.slots)
    return found


def test_the_worked_example():
    grown = scaled(Scale(4), Load(10.0, 1.0, 3.0, 15.0), LIMITS)
    assert grown.slots == 12


def test_a_step_is_answered_at_once_and_whole():
    assert run([(0.2, 0.0)] * 5 + [(1.0, 14.0)])[-1] == 10


def test_a_need_is_not_answered_twice_before_executors_can_have_come():
    found = run([(1.0, 6.0), (1.0, 12.0), (1.0, 18.0)])
    assert found == [5, 5, 12]


def test_what_piles_up_while_executors_come_asks_for_no_more_of_them_for_a_time():
    scale = scaled(Scale(1), Load(0.0, 1.0, 1.0, 0.0), LIMITS)
    assert scale.slots == 2
    for now_s in range(1, 20):
        waiting = scaled(scale, Load(now_s, 1.0, 1.0, 2.0 * now_s, coming=True), LIMITS)
        assert waiting.slots == 2
    assert scaled(scale, Load(20.0, 1.0, 1.0, 40.0, coming=True), LIMITS).slots == 16
    assert scaled(scale, Load(3.0, 1.0, 2.0, 4.0), LIMITS).slots == 4


def test_without_load_it_ends_at_the_least():
    assert run([(0.0, 0.0)] * 200, scale=Scale(16))[-1] == 1


def test_shrinking_waits_for_the_whole_cool_down():
    found = run([(0.0, 0.0)] * 60, scale=Scale(8))
    assert found[25] == 8
    assert found[-1] == 1


@given(level=st.floats(0.0, 14.0), seed=st.integers(0, 999))
def test_a_steady_load_with_noise_never_flaps(level, seed):
    chance = random.Random(seed)
    noisy = [(level * chance.uniform(0.8, 1.2), 0.0) for _ in range(120)]
    found = run(noisy, scale=Scale(max(1, math.ceil(level / 0.65))))
    turns = [after - before for before, after in itertools.pairwise(found) if after != before]
    ups = sum(turn > 0 for turn in turns)
    downs = sum(turn < 0 for turn in turns)
    assert min(ups, downs) == 0, turns


@given(
    busy=st.floats(0, 20), less=st.floats(0, 100), more=st.floats(0, 100), slots=st.integers(1, 16)
)
def test_more_backlog_never_gives_fewer_slots(busy, less, more, slots):
    answers = [
        scaled(Scale(slots), Load(50.0, 1.0, busy, backlog), LIMITS).slots
        for backlog in sorted((less, more))
    ]
    assert answers == sorted(answers)


@given(
    loads=st.lists(st.tuples(st.floats(0, 50), st.floats(0, 1e6)), max_size=60),
    least=st.integers(1, 4),
    spread=st.integers(0, 10),
)
def test_it_stays_between_its_limits(loads, least, spread):
    limits = SlotLimits(least, least + spread)
    assert all(least <= slots <= least + spread for slots in run(loads, limits))


@pytest.mark.parametrize(
    "wrong", [{"least": 0, "most": 2}, {"least": 3, "most": 2}, {"scale_down_ratio": 0.95}]
)
def test_limits_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigError, match="slots:"):
        SlotLimits(**{"least": 1, "most": 2, **wrong})


def test_waves_counted_when_they_end_are_not_taken_for_more_than_all_slots():
    assert scaled(Scale(4), Load(0.0, 1.0, 20.0, 0.0), LIMITS).slots == 5


def test_the_largest_need_of_the_cool_down_counts():
    found = run([(4.0 if now == 7 else 1.0, 0.0) for now in range(31)], scale=Scale(16))
    assert found[-2:] == [16, math.ceil(4.0 / 0.6)]


def with_slow_executors(load, coming_s, looks, limits):
    """Slots asked for, and what waits at the end, when executors come late."""
    scale, there, backlog_s, asked = Scale(limits.least), limits.least, 0.0, []
    for now in range(looks):
        backlog_s += load(now)
        used = min(float(there), backlog_s)
        backlog_s -= used
        load_now = Load(float(now), 1.0, used, backlog_s, coming=there < scale.slots)
        scale = scaled(scale, load_now, limits)
        asked.append(scale.slots)
        there = min(asked[-1 - coming_s :])
    return asked, backlog_s


@given(before=st.floats(0.5, 6.0), coming_s=st.integers(0, 5))
def test_a_step_by_eight_is_answered_within_two_looks_though_executors_come_late(before, coming_s):
    asked, backlog_s = with_slow_executors(
        lambda now: before * (8 if now >= 30 else 1), coming_s, 90, SlotLimits(1, 64)
    )
    assert max(asked[30:32]) > asked[29]
    assert asked[-1] >= 8 * before
    assert backlog_s < 1.0


@given(load=st.floats(1.0, 50.0))
def test_a_while_after_the_load_ended_the_least_is_left(load):
    asked, _ = with_slow_executors(lambda now: load if now < 60 else 0.0, 3, 160, SlotLimits(1, 64))
    assert asked[-1] == 1


@given(
    level=st.floats(0.0, 14.0),
    backlog_s=st.floats(0.0, 30.0),
    noise=st.lists(st.floats(0.8, 1.2), min_size=1, max_size=20),
)
def test_a_steady_load_never_gets_back_what_was_taken_from_it(level, backlog_s, noise):
    loads = [
        (level * part, backlog_s * part) for part in (noise[now % len(noise)] for now in range(200))
    ]
    found = run(loads, SlotLimits(1, 64), Scale(64))
    turns = [after - before for before, after in itertools.pairwise(found)]
    first = next((now for now, turn in enumerate(turns) if turn < 0), len(turns))
    assert all(turn <= 0 for turn in turns[first:]), [turn for turn in turns if turn]
