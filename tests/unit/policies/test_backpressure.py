"""The pace of an overloaded sink, tried on simulated ones."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policies.backpressure import Pace, PidGains, Window, paced

GAINS = PidGains()


class Plant:
    """A sink of some capacity behind waves that should take a second, fed at some demand."""

    def __init__(self, capacity, demand, *, refuses=False, fixed_s=0.02):
        self.capacity, self.demand, self.refuses, self.fixed_s = capacity, demand, refuses, fixed_s
        self.waiting = 0.0
        self.pace = Pace()
        self.rates = []

    def window(self):
        self.waiting += self.demand
        rate = self.pace.rate_per_s
        admitted = self.waiting if rate is None else min(self.waiting, rate)
        refused = int(self.refuses and admitted > self.capacity * 1.001)
        done = min(admitted, self.capacity)
        took_s = self.fixed_s + admitted / self.capacity
        self.waiting -= done
        window = Window(
            seconds=1.0,
            records=round(done),
            busy_s=took_s,
            target_s=1.0,
            overrun_s=0.0 if self.refuses else max(0.0, took_s - 1.0),
            refused=refused,
            waiting_records=round(self.waiting),
        )
        self.pace = paced(self.pace, GAINS, window)
        self.rates.append(self.pace.rate_per_s)

    def run(self, windows):
        for _ in range(windows):
            self.window()
        return self.rates[-windows:]


def swings(rates, amplitude=0.1):
    """Changes of direction that are larger than a part of the level."""
    turns, direction, edge = 0, 0, rates[0]
    for rate in rates[1:]:
        change = (rate - edge) / edge
        if abs(change) < amplitude:
            continue
        way = 1 if change > 0 else -1
        if direction and way != direction:
            turns += 1
        direction, edge = way, rate
    return turns


def test_without_overload_there_is_no_limit():
    assert Plant(capacity=1000, demand=900).run(50) == [None] * 50


def test_an_overloaded_sink_is_given_about_what_it_can_do():
    plant = Plant(capacity=1000, demand=5000)
    rates = plant.run(60)
    assert all(800 <= each <= 1250 for each in rates[15:])


@pytest.mark.parametrize("factor", [0.25, 0.5])
def test_after_a_step_down_it_settles_with_at_most_two_swings(factor):
    plant = Plant(capacity=1000, demand=5000)
    plant.run(30)
    plant.capacity = 1000 * factor
    rates = plant.run(15)
    assert rates[-1] == pytest.approx(plant.capacity, rel=0.25)
    assert swings(rates) <= 2


def test_a_cold_start_is_no_overload():
    slow = Window(1.0, 5, 6.0, target_s=1.0, overrun_s=5.0, refused=0, waiting_records=900)
    fine = Window(1.0, 500, 1.0, target_s=1.0, overrun_s=0.0, refused=0, waiting_records=900)
    pace = Pace()
    for window in (slow, slow, fine, slow, slow, fine):
        pace = paced(pace, GAINS, window)
        assert pace.rate_per_s is None


def test_far_too_low_a_rate_is_left_behind_soon():
    plant = Plant(capacity=1000, demand=5000)
    plant.pace = Pace(5.0, ceiling_per_s=1000.0)
    assert plant.run(12)[-1] >= 500


def test_after_a_burst_the_limit_is_lifted():
    plant = Plant(capacity=1000, demand=100)
    plant.run(5)
    plant.demand = 4000
    plant.run(10)
    assert plant.pace.rate_per_s is not None
    plant.demand = 100
    plant.run(120)
    assert plant.pace.rate_per_s is None
    assert plant.waiting == 0


def test_small_batches_with_a_fixed_cost_do_not_spiral_down():
    plant = Plant(capacity=1000, demand=3000, fixed_s=0.3)
    assert min(plant.run(100)[10:]) > 400


def test_a_sink_that_refuses_halves_the_rate_until_it_takes_it():
    plant = Plant(capacity=1000, demand=5000, refuses=True)
    plant.run(60)
    refused = sum(later < earlier for earlier, later in itertools.pairwise(plant.rates))
    assert plant.rates[0] == 500
    assert refused <= 15, "asked in vain too often"
    assert min(plant.rates[5:]) >= 400


def test_a_sink_that_is_down_is_asked_once_in_a_while():
    pace = Pace()
    for _ in range(30):
        pace = paced(pace, GAINS, Window(1.0, 0, 0.1, 1.0, 0.0, refused=1, waiting_records=10**6))
    assert pace.rate_per_s == GAINS.min_rate_per_s


@given(
    seed=st.integers(0, 10_000),
    gains=st.builds(
        PidGains,
        proportional=st.floats(0, 2),
        integral=st.floats(0, 1),
        derivative=st.floats(0, 1),
        min_rate_per_s=st.floats(0.1, 100),
    ),
)
def test_whatever_comes_the_rate_is_finite_and_never_below_its_minimum(seed, gains):
    chance = random.Random(seed)
    pace = Pace()
    for _ in range(80):
        window = Window(
            seconds=chance.choice([1e-9, 0.5, 1.0, 60.0]),
            records=chance.choice([0, 1, 1000, 10**9]),
            busy_s=chance.choice([0.0, 0.5, 500.0]),
            target_s=1.0,
            overrun_s=chance.choice([0.0, 0.4, 10.0, 1e6]),
            refused=chance.choice([0, 0, 0, 3]),
            waiting_records=chance.choice([0, 10**9]),
        )
        pace = paced(pace, gains, window)
        rate = pace.rate_per_s
        assert rate is None or (math.isfinite(rate) and rate >= gains.min_rate_per_s)
