"""The simulation with streams that begin at the end, some before their topics are made.

They begin once: what comes later, be it a topic or a partition, is read from its beginning.
"""

from collections import Counter
from dataclasses import replace

import pytest
from planted import also, first_wrong

from headrace.cycle import first_places
from headrace.model.starting import Edge
from headrace.testing.memory_store import MemoryProgress, MemoryStore
from headrace.testing.simulation import simulate
from headrace.testing.simulation.run import in_memory, silent

AT_END = {"at_end": 0.6, "comes_and_goes": 0.5}


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_nothing_is_wrong_where_streams_begin_at_the_end(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=AT_END)
        assert not outcome.wrong, str(outcome)


def test_beginnings_are_played():
    counts = sum((simulate(seed, odds=AT_END).counts for seed in range(40)), start=Counter())
    for what in ("lanes begun at their end", "streams begun without a topic", "added again"):
        assert counts[what] > 0, what


def test_a_stream_that_waits_for_its_topic_and_begins_at_its_end_is_found(monkeypatch):
    def forgets(held):
        return bool(held.lanes) or held.stream.topic_id is not None

    class Believing(MemoryProgress):
        def start_lanes(self, starts):
            super().start_lanes([replace(start, begins=False) for start in starts])

    also(monkeypatch, AT_END)
    monkeypatch.setattr(first_places, "has_begun", forgets)
    assert first_wrong(replace(in_memory(), store=lambda: store_of(Believing)), how="its log at")


def test_a_store_that_lets_a_stream_begin_again_is_found(monkeypatch):
    class Forgetful(MemoryProgress):
        def start_lanes(self, starts):
            for start in starts:
                if start.topic_id is None:
                    self.data.set_stream(start.stream, begun_without_topic=True)
                    return
            super().start_lanes([replace(start, begins=False) for start in starts])

    also(monkeypatch, {**AT_END, "driver_killed": 0.02})
    monkeypatch.setattr(first_places, "has_begun", lambda held: bool(held.lanes))
    assert first_wrong(
        replace(in_memory(), store=lambda: store_of(Forgetful)), seeds=300, how="its log at"
    )


def test_a_partition_that_comes_later_and_begins_at_its_end_is_found(monkeypatch):
    also(monkeypatch, {**AT_END, "widens": 1.0})
    monkeypatch.setattr(first_places, "starting_of", lambda held: Edge.LATEST)
    assert first_wrong(seeds=300, how="its log at")


def store_of(progress):
    made = MemoryStore()
    made.progress = progress(made.data)
    return made
