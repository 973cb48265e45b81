"""The rate settles where the sink can follow, harms nobody who is not overloaded, and lets go."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policies.backpressure import LoadWindow, Pace, PidGains, paced

GAINS = PidGains()
OverTime = Callable[[int], float]


def always(value: float) -> OverTime:
    return lambda window: value


def between(begin: int, end: int, then: float, else_: float) -> OverTime:
    return lambda window: then if begin <= window < end else else_


@dataclass
class Queueing:
    """A sink that takes what it is given and answers the later the more is queued before it.

    Its drivers have at most ``in_flight_s`` seconds' worth of its first capacity in flight.
    """

    capacity: OverTime
    load: OverTime
    in_flight_s: float = 4.0
    noise: random.Random | None = None
    waiting: float = 0.0
    queued: float = 0.0

    def run(self, number: int, rate_per_s: float | None) -> LoadWindow:
        able = self.capacity(number)
        if self.noise:
            able *= self.noise.uniform(0.95, 1.05)
        done = latency_s = 0.0
        for _ in range(10):
            self.waiting += self.load(number) / 10
            room = max(0.0, self.in_flight_s * self.capacity(0) - self.queued)
            given_ = min(self.waiting, room, math.inf if rate_per_s is None else rate_per_s / 10)
            self.waiting -= given_
            self.queued += given_
            out = min(self.queued, able / 10)
            self.queued -= out
            done += out
            latency_s += (0.05 + self.queued / able) / 10
        return LoadWindow(
            seconds=1.0,
            records=round(done),
            busy_s=10 * latency_s,
            slots_used=10 * latency_s,
            overrun_s=max(0.0, latency_s - 1.25),
            refused=0,
            waiting_records=round(self.waiting + self.queued),
        )


@dataclass
class Refusing:
    """A sink that answers at once, and refuses what is over its capacity."""

    capacity: OverTime
    load: OverTime
    waiting: float = 0.0
    tried: float = 0.0

    def run(self, number: int, rate_per_s: float | None) -> LoadWindow:
        self.waiting += self.load(number)
        given_ = self.waiting if rate_per_s is None else min(self.waiting, rate_per_s)
        done = min(given_, self.capacity(number))
        self.waiting -= done
        self.tried = given_
        refused = math.ceil((given_ - done) / 100)
        return LoadWindow(1.0, round(done), 0.5, 0.5, 0.0, refused, round(self.waiting))


@dataclass
class Batching:
    """One slot, where each batch of a second costs 0.3 s besides its records' millisecond each."""

    load: OverTime
    waiting: float = 0.0

    def run(self, number: int, rate_per_s: float | None) -> LoadWindow:
        self.waiting += self.load(number)
        batch = self.waiting if rate_per_s is None else min(self.waiting, rate_per_s)
        took_s = 0.3 + batch / 1000
        self.waiting -= batch
        overrun_s = max(0.0, took_s - 1.0)
        return LoadWindow(
            max(1.0, took_s),
            round(batch),
            took_s,
            min(1.0, took_s),
            overrun_s,
            0,
            round(self.waiting + self.load(number) * overrun_s),
        )


def rates(plant: Queueing | Refusing | Batching, windows: int) -> list[float | None]:
    pace, seen = Pace(), []
    for number in range(windows):
        pace = paced(pace, GAINS, plant.run(number, pace.rate_per_s))
        seen.append(pace.rate_per_s)
    return seen


def swings(seen: list[float | None], capacity: float) -> int:
    """How often a rate turned round and went on by more than a tenth of the capacity."""
    going = [rate / capacity for rate in seen if rate is not None]
    turns, direction, extreme = 0, 0, going[0]
    for part in going:
        if direction * (part - extreme) > 0 or (direction == 0 and abs(part - extreme) > 0.1):
            direction = direction or (1 if part > extreme else -1)
            extreme = part
        elif direction * (extreme - part) > 0.1:
            turns, direction, extreme = turns + 1, -direction, part
    return turns


def within(seen: list[float | None], capacity: float, tolerance: float = 0.2) -> bool:
    least, most = (1 - tolerance) * capacity, (1 + tolerance) * capacity
    return all(rate is not None and least <= rate <= most for rate in seen)


def test_a_plant_that_keeps_up_is_never_limited():
    assert set(rates(Queueing(always(1000), always(950)), 100)) == {None}


@pytest.mark.parametrize("in_flight_s", [2.0, 4.0, 8.0])
def test_when_capacity_falls_to_a_quarter_the_rate_settles_in_fifteen_windows(in_flight_s: float):
    plant = Queueing(between(20, 80, 250, 1000), always(900), in_flight_s)
    seen = rates(plant, 80)
    assert within(seen[35:], 250)
    assert swings(seen[20:], 250) <= 2


@pytest.mark.parametrize("in_flight_s", [2.0, 4.0, 8.0])
def test_when_capacity_returns_the_rate_follows_in_fifteen_windows(in_flight_s: float):
    plant = Queueing(between(20, 60, 250, 1000), always(900), in_flight_s)
    seen = rates(plant, 150)
    assert within(seen[75:150], 1000)
    assert swings(seen[60:], 1000) <= 2


def test_a_load_eight_times_as_high_is_held_at_capacity_and_then_let_go():
    plant = Queueing(always(1000), between(20, 50, 4000, 500))
    seen = rates(plant, 400)
    assert within(seen[35:200], 1000)
    assert swings(seen[20:200], 1000) <= 2
    assert seen[-1] is None


def test_a_sink_that_is_a_little_unsteady_is_held_near_its_capacity():
    for seed in range(3):
        plant = Queueing(always(1000), always(2000), noise=random.Random(seed))
        assert within(rates(plant, 100)[15:], 1000)


def test_a_limit_goes_once_what_waited_is_done():
    plant = Queueing(between(20, 40, 250, 1000), always(600))
    seen = rates(plant, 150)
    assert seen[39] is not None
    assert seen[-50:] == [None] * 50
    assert plant.waiting < 100


def test_small_batches_with_a_fixed_cost_are_not_taken_for_slow_ones():
    assert set(rates(Batching(always(600)), 100)) == {None}
    assert set(rates(Batching(always(1)), 100)) == {None}


def test_a_fixed_cost_does_not_drive_the_rate_down():
    seen = rates(Batching(between(10, 40, 2000, 300)), 200)
    limited = [rate for rate in seen if rate is not None]
    assert limited
    assert min(limited) > 0.8 * 700
    assert seen[-1] is None


def test_a_sink_that_refuses_some_is_used_nearly_to_its_capacity():
    plant = Refusing(always(1000), always(1500))
    seen = rates(plant, 100)
    done = sum(min(rate or 0, 1000) for rate in seen[10:]) / 90
    assert 850 < done <= 1000
    assert max(rate or math.inf for rate in seen) < 1100


def test_a_sink_that_is_down_is_halved_to_one_probe_a_second_and_found_up_again():
    plant = Refusing(between(10, 60, 0, 1000), always(400))
    pace, tried, seen = Pace(), [], []
    for number in range(200):
        pace = paced(pace, GAINS, plant.run(number, pace.rate_per_s))
        tried.append(plant.tried)
        seen.append(pace.rate_per_s)
    assert seen[10] == 200
    assert seen[11] == 100
    assert tried[25:60] == [1.0] * 35
    assert (seen[75] or 0) > 350
    assert seen[-1] is None


def test_a_sink_that_never_worked_is_probed_once_a_second():
    assert rates(Refusing(always(0), always(800)), 30) == [1.0] * 30


def test_a_cold_start_is_no_overload_and_three_slow_windows_are():
    slow = LoadWindow(1.0, 5, 6.0, 1.0, 5.0, 0, 900)
    fine = LoadWindow(1.0, 500, 1.0, 1.0, 0.0, 0, 900)
    pace = Pace()
    for window in (slow, slow, fine, slow, slow):
        pace = paced(pace, GAINS, window)
        assert pace.rate_per_s is None
    assert paced(pace, GAINS, fine).rate_per_s is None
    assert paced(pace, GAINS, slow).rate_per_s is not None


def test_far_too_low_a_rate_is_left_behind_soon():
    pace, plant = Pace(5.0, ceiling_per_s=1000.0), Queueing(always(1000), always(5000))
    for number in range(12):
        pace = paced(pace, GAINS, plant.run(number, pace.rate_per_s))
    assert pace.rate_per_s == pytest.approx(1000, rel=0.2)


def test_the_first_limit_is_what_is_done_less_a_part_of_the_overrun():
    late, pace = LoadWindow(1.0, 100, 10.0, 10.0, 0.6, 0, 1000), Pace()
    for _ in range(3):
        pace = paced(pace, GAINS, late)
    assert pace.rate_per_s == pytest.approx(100 - 0.2 * 0.6 * 100)


def test_the_controller_is_proportional_integral_and_derivative():
    gains = PidGains(proportional=0.5, integral=0.1, derivative=0.2)
    before = Pace(rate_per_s=150, done_per_s=100, error_per_s=20)
    after = paced(before, gains, LoadWindow(1.0, 100, 10.0, 10.0, 0.5, 0, 1000))
    wanted = 150 - 0.5 * 50 - 0.1 * 0.5 * 100 - 0.2 * (50 - 20)
    assert after.rate_per_s == pytest.approx(wanted)


def test_long_waves_that_run_change_nothing():
    limited = Pace(rate_per_s=50, done_per_s=50, ceiling_per_s=50, calm=7)
    assert paced(limited, GAINS, LoadWindow(1.0, 0, 0.0, 4.0, 0.0, 0, 9)) == limited


def test_with_nothing_to_do_a_limit_is_lifted():
    pace = Pace(rate_per_s=50, done_per_s=50, ceiling_per_s=50)
    for _ in range(8):
        assert pace.rate_per_s == 50
        pace = paced(pace, GAINS, LoadWindow(1.0, 0, 0.0, 0.0, 0.0, 0, 0))
    assert pace.rate_per_s is None


def test_a_limit_that_others_keep_from_being_used_is_lifted_though_work_waits():
    pace = Pace(rate_per_s=100, done_per_s=40, ceiling_per_s=100)
    for _ in range(8):
        pace = paced(pace, GAINS, LoadWindow(1.0, 40, 1.0, 1.0, 0.0, 0, 100_000))
    assert pace.rate_per_s is None


windows = st.builds(
    LoadWindow,
    seconds=st.floats(0.5, 5.0),
    records=st.integers(0, 10**7),
    busy_s=st.one_of(st.just(0.0), st.floats(1e-3, 1e4)),
    slots_used=st.floats(0.0, 1000.0),
    overrun_s=st.one_of(st.just(0.0), st.floats(0.0, 1e4)),
    refused=st.one_of(st.just(0), st.integers(0, 1000)),
    waiting_records=st.integers(0, 10**9),
    target_s=st.floats(0.05, 60.0),
)
gains = st.builds(
    PidGains,
    st.floats(0.0, 2.0),
    st.floats(0.0, 2.0),
    st.floats(0.0, 1.0),
    st.floats(0.1, 10.0),
)


@given(gains, st.lists(windows, max_size=8))
def test_whatever_happens_the_rate_is_finite_and_no_less_than_the_least(
    with_gains: PidGains, history: list[LoadWindow]
):
    pace = again = Pace()
    for window in history:
        pace, again = paced(pace, with_gains, window), paced(again, with_gains, window)
        assert pace == again
        figures = (pace.done_per_s, pace.ceiling_per_s, pace.error_per_s, pace.rate_per_s or 1.0)
        assert all(map(math.isfinite, figures))
        assert pace.rate_per_s is None or pace.rate_per_s >= with_gains.min_rate_per_s


@given(gains, st.lists(windows, max_size=8))
def test_a_limit_begins_at_no_more_than_was_done_and_grows_only_while_work_waits(
    with_gains: PidGains, history: list[LoadWindow]
):
    pace = Pace()
    for window in history:
        before, pace = pace, paced(pace, with_gains, window)
        if pace.rate_per_s is None:
            continue
        most = max(with_gains.min_rate_per_s, pace.done_per_s)
        if before.rate_per_s is None:
            assert pace.rate_per_s <= most
        elif pace.rate_per_s > max(before.rate_per_s, most):
            assert window.waiting_records > before.rate_per_s * window.target_s
            assert not window.refused


@given(gains, st.floats(1.0, 1e6), windows)
def test_a_refusal_halves_at_once(with_gains: PidGains, rate_per_s: float, window: LoadWindow):
    before = Pace(rate_per_s, rate_per_s, rate_per_s)
    after = paced(before, with_gains, replace(window, refused=1)).rate_per_s
    assert after == max(with_gains.min_rate_per_s, rate_per_s / 2)
