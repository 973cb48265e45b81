"""The simulation with partitions that are divided by keys: nothing is wrong but what is planted.

Use cases are deployed with other numbers of buckets, and by lane and by key, at any moment.
"""

from collections import Counter

import pytest
from planted import first_wrong

from headrace.cycle import divisions
from headrace.spark import bucket_reading
from headrace.testing.simulation import deployed, simulate, world
from headrace.testing.simulation.odds import draw
from headrace.testing.simulation.run import silent

#: what is drawn beside whatever else a seed has
DIVIDED = {"other_terms": 1.0, "cuts": 0.2}


@pytest.fixture(autouse=True)
def by_key(monkeypatch):
    """Nearly all use cases whose order is not over all partitions are by key."""
    monkeypatch.setattr(deployed, "_KEYED_OF_TEN", 8)
    with silent():
        yield


@pytest.fixture
def divided(monkeypatch):
    """What is drawn has these as well, also in runs that are given nothing."""

    def drawn(rng):
        odds = draw(rng)
        return type(odds)(**{name: getattr(odds, name) for name in odds.__slots__} | DIVIDED)

    monkeypatch.setattr(world, "draw", drawn)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_nothing_is_wrong_where_partitions_are_divided_and_divided_otherwise(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=DIVIDED)
        assert not outcome.wrong, str(outcome)


def test_a_run_has_divisions_that_change():
    counts = sum((simulate(seed, odds=DIVIDED).counts for seed in range(40)), start=Counter())
    for what in ("lanes divided otherwise", "divisions forgotten", "terms changed", "seeks"):
        assert counts[what] > 0, what


def test_buckets_that_begin_where_something_may_still_run_are_found(monkeypatch, divided):
    def early(held, recorded):
        return {name: lane.position for name, lane in held.lanes.items()}

    monkeypatch.setattr(divisions, "_sure_ends", early)
    assert first_wrong(seeds=400, how="twice: ")


def test_old_buckets_that_read_on_behind_their_end_are_found(monkeypatch, divided):
    monkeypatch.setattr("headrace.board.streams.replaced", lambda lineage: {})
    assert first_wrong(seeds=200)


def test_a_bucket_that_is_given_what_is_anothers_is_found(monkeypatch, divided):
    def shifted(keys, buckets):
        numbers = bucket_reading_buckets(keys, buckets)
        return (numbers + (numbers == 0)) % buckets

    bucket_reading_buckets = bucket_reading.buckets_of
    monkeypatch.setattr(bucket_reading, "buckets_of", shifted)
    assert first_wrong(seeds=60)
