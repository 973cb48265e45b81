"""The simulation with order none, and partitions divided by places: none lost, none twice.

Use cases are deployed with other numbers of buckets, by place, by key and by lane, at any moment.
What each guarantee allows is what it allows of any lane; of order within a key nothing is judged.
"""

from collections import Counter

import pytest
from planted import DIVIDED, also, first_wrong

from headrace.spark import bucket_reading
from headrace.testing.simulation import simulate
from headrace.testing.simulation.run import silent

#: most use cases are by place, and some by key
BY_PLACE = DIVIDED | {"divided": 0.9, "by_place": 0.7}


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


@pytest.fixture
def divided(monkeypatch):
    also(monkeypatch, BY_PLACE)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_nothing_is_lost_or_twice_where_partitions_are_divided_by_place(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=BY_PLACE)
        assert not outcome.wrong, str(outcome)


@pytest.mark.parametrize(
    ("seed", "how"),
    [
        pytest.param(22651, "buckets that were done stay of a lane that was given up", id="left"),
        pytest.param(22705, "the answer to a transaction was lost, and it is paid back", id="paid"),
    ],
)
def test_what_was_wrong_once_is_right(seed, how):
    outcome = simulate(seed, odds=BY_PLACE | {"hides": 0.0})
    assert not outcome.wrong, f"{how}: {outcome}"


def test_a_run_has_divisions_of_both_kinds():
    counts = sum((simulate(seed, odds=BY_PLACE).counts for seed in range(30)), start=Counter())
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
