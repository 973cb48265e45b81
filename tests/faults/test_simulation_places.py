"""The simulation with order none, and partitions divided by places: none lost, none twice.

Use cases are deployed with other numbers of buckets, by place, by key and by lane, at any moment.
What each guarantee allows is what it allows of any lane; of order within a key nothing is judged.
"""

from collections import Counter

import pytest
from planted import DIVIDED, also, first_wrong

from headrace.spark import bucket_reading
from headrace.testing.simulation import deployed, simulate
from headrace.testing.simulation.run import silent


@pytest.fixture(autouse=True)
def by_place(monkeypatch):
    """Most use cases are by place, and some by key."""
    monkeypatch.setattr(deployed, "_KEYED_OF_TEN", 9)
    monkeypatch.setattr(deployed, "_PLACED_OF_TEN", 7)
    with silent():
        yield


@pytest.fixture
def divided(monkeypatch):
    also(monkeypatch, DIVIDED)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_nothing_is_lost_or_twice_where_partitions_are_divided_by_place(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=DIVIDED)
        assert not outcome.wrong, str(outcome)


def test_a_run_has_divisions_of_both_kinds():
    counts = sum((simulate(seed, odds=DIVIDED).counts for seed in range(30)), start=Counter())
    for what in ("lanes divided otherwise", "divisions forgotten", "records checked"):
        assert counts[what] > 0, what


def test_a_bucket_that_is_given_what_is_anothers_is_found(monkeypatch, divided):
    def shifted(places, buckets):
        numbers = true(places, buckets)
        return (numbers + (numbers == 0)) % buckets

    true = bucket_reading.buckets_of_places
    monkeypatch.setattr(bucket_reading, "buckets_of_places", shifted)
    assert first_wrong(seeds=60)


def test_a_record_that_is_in_two_buckets_is_found(monkeypatch, divided):
    def both(places, buckets):
        numbers = true(places, buckets)
        return numbers * (places % 5 != 0)

    true = bucket_reading.buckets_of_places
    monkeypatch.setattr(bucket_reading, "buckets_of_places", both)
    assert first_wrong(seeds=60)
