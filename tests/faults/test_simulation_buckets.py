"""The simulation with partitions that are divided by keys: nothing is wrong but what is planted.

Use cases are deployed with other numbers of buckets, and by lane and by key, at any moment.
"""

from collections import Counter
from dataclasses import replace

import pytest
from planted import DIVIDED, also, first_wrong

from headrace.board import streams
from headrace.connectors.kafka import OFFSETS
from headrace.cycle import divisions
from headrace.spark import bucket_reading
from headrace.testing.log_fake import MemoryLog
from headrace.testing.memory_store import data
from headrace.testing.memory_store.membership import MemoryMembership
from headrace.testing.simulation import simulate
from headrace.testing.simulation.odds import read_odds
from headrace.testing.simulation.run import silent

#: nearly all use cases whose order is not over all partitions are by key
BY_KEY = DIVIDED | {"divided": 0.8, "by_place": 0.0}


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


@pytest.fixture
def divided(monkeypatch):
    also(monkeypatch, BY_KEY)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_nothing_is_wrong_where_partitions_are_divided_and_divided_otherwise(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=BY_KEY)
        assert not outcome.wrong, str(outcome)


@pytest.mark.parametrize("seed", [40168, 40255, 40831])
def test_what_a_former_division_had_is_judged_as_what_it_was(seed):
    """Lanes that are sent back, expire without a place, or end where others begin."""
    odds = read_odds("divided=0.8,by_place=0,splits=0.3,drops=0.15,lists_late=0.4")
    outcome = simulate(seed, odds=odds)
    assert not outcome.wrong, str(outcome)


def test_a_run_has_divisions_that_change():
    counts = sum((simulate(seed, odds=BY_KEY).counts for seed in range(40)), start=Counter())
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


def test_a_bucket_that_does_not_wait_for_those_before_it_is_found(monkeypatch, divided):
    def soon(lineage, places):
        return {lane: of for lane, of in true(lineage, places).items() if "#" not in lane}

    true = streams.closed
    monkeypatch.setattr(streams, "closed", soon)
    assert first_wrong(seeds=200)


def test_buckets_that_wait_for_one_of_those_before_them_are_found(monkeypatch, divided):
    def hasty(lane, now, buckets, at, **by):
        made = true(lane, now, buckets, at, **by)
        return made._replace(parents={name: of[:1] for name, of in made.parents.items()})

    true = divisions.heirs_of
    monkeypatch.setattr(divisions, "heirs_of", hasty)
    assert first_wrong(seeds=200)


def test_a_bucket_that_is_missing_in_another_division_is_found(monkeypatch, divided):
    def lossy(lane, now, buckets, at, **by):
        made = true(lane, now, buckets, at, **by)
        return made._replace(places=dict([*made.places.items()][: max(1, len(made.places) - 1)]))

    true = divisions.heirs_of
    monkeypatch.setattr(divisions, "heirs_of", lossy)
    assert first_wrong(seeds=100, how="without some of its buckets")


def test_a_store_that_forgets_a_bucket_is_found(monkeypatch, divided):
    """By what its stream says of itself, and not only by what was never handled."""

    def lossy(membership, streams, *who):
        for name in streams:
            lanes = membership.data.positions[name]
            lanes.pop(max((lane for lane in lanes if "#" in lane), default=None), None)
        return true(membership, streams, *who)

    true = MemoryMembership.hold
    monkeypatch.setattr(MemoryMembership, "hold", lossy)
    assert first_wrong(seeds=20, how="without some of its buckets in the store")


def test_what_follows_a_partition_and_waits_for_its_first_bucket_is_found(monkeypatch, divided):
    def first(lineage, parts):
        return true(lineage, {lane: names[:1] for lane, names in parts.items()})

    true = divisions.of_parts
    monkeypatch.setattr(divisions, "of_parts", first)
    assert first_wrong(seeds=400)


def test_a_lane_that_is_not_listed_any_more_is_not_divided_again():
    """What it was divided into was given up, and came again, without an end."""
    odds = BY_KEY | {"splits": 0.3, "drops": 0.15, "lists_late": 0.4}
    outcome = simulate(1119, odds=odds)
    assert not outcome.wrong, str(outcome)


def test_a_rerun_that_is_newer_than_what_other_buckets_made_of_the_same_is_found(monkeypatch):
    """As where lanes of another division were deeper, though their offsets compare."""
    numberless = property(lambda log: replace(OFFSETS, numbers=False))
    monkeypatch.setattr(MemoryLog, "places", numberless)
    also(monkeypatch, BY_KEY | {"reruns": 1.0})
    assert first_wrong(seeds=400, how=" had ")


def test_buckets_whose_records_are_older_than_what_those_before_made_are_found(
    monkeypatch, divided
):
    monkeypatch.setattr(data, "depths", lambda names, *rest, **how: dict.fromkeys(names, 0))
    assert first_wrong(seeds=200, how="has depth 0")
