"""The simulation with lanes whose ends only reading tells: nothing is wrong but what is planted.

They are mixed with lanes that tell their ends, and become others, while everybody may die or sleep.
"""

from collections import Counter
from dataclasses import replace

import pytest
from planted import first_wrong

from headrace.cycle import commit
from headrace.model.places import number_at, place_at
from headrace.model.records import Move
from headrace.policies.visits import Visits
from headrace.spark.bin_run import BinRun
from headrace.testing.memory_store import MemoryStore
from headrace.testing.memory_store.positions import MemoryPositions
from headrace.testing.simulation import simulate, world
from headrace.testing.simulation.odds import Odds
from headrace.testing.simulation.run import in_memory, silent

#: what is drawn beside whatever else a seed has
HIDES = {"hides": 0.7, "reads_less": 0.3}
HIDING = {**HIDES, "splits": 0.1, "drops": 0.05}


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


def only(monkeypatch, **odds):
    """Let runs have these faults and no others, in lanes that do not tell where they end."""
    monkeypatch.setattr(world, "draw", lambda rng: Odds(**{**HIDES, **odds}))


def moving(kind):
    """Parts of a run whose store has other positions."""

    def made():
        store = MemoryStore()
        store.positions = kind(store.data)
        return store

    return replace(in_memory(), store=made)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_nothing_is_wrong_where_only_reading_tells_where_lanes_end(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=HIDING)
        assert not outcome.wrong, str(outcome)


def test_a_slice_that_ends_before_a_bad_record_is_read_as_an_attempt_that_slept_has_read():
    # A task of an earlier slice from the same place sleeps, reads less, and writes.
    outcome = simulate(7210, odds=HIDING)
    assert not outcome.wrong, str(outcome)


def test_a_slice_of_one_record_is_of_one_whatever_cannot_be_read_behind_it():
    # A record kills its worker, and one behind it cannot be read.
    odds = {"hides": 0.9, "reads_less": 0.5, "task_paused": 0.1, "unreadable": 0.03, "bad": 0.03}
    outcome = simulate(20275, odds=odds)
    assert not outcome.wrong, str(outcome)


def test_a_skip_of_a_record_that_was_claimed_does_not_pass_over_the_next_one():
    outcome = simulate(5713)
    assert not outcome.wrong, str(outcome)


def test_a_recorded_slice_of_a_lane_that_is_done_and_not_listed_any_more_is_over():
    outcome = simulate(3230)
    assert not outcome.wrong, str(outcome)


def test_what_can_happen_to_such_lanes_is_played():
    counts = sum((simulate(seed, odds=HIDING).counts for seed in range(81)), start=Counter())
    for what in (
        "reads written down",
        "slices read as before",
        "lanes split",
        "lanes merged",
        "drivers replaced",
        "tasks killed",
        "seeks",
    ):
        assert counts[what] > 0, what


def test_attempts_meet_that_read_otherwise_or_too_late(monkeypatch):
    only(monkeypatch, hides=1.0, reads_less=0.5, task_paused=0.15)
    outcomes = [simulate(seed) for seed in range(100)]
    assert [str(outcome) for outcome in outcomes if outcome.wrong] == []
    counts = sum((outcome.counts for outcome in outcomes), start=Counter())
    for what in ("reads that differ", "reads of lanes that moved", "slices read as before"):
        assert counts[what] > 0, what


TROUBLE = {"task_killed": 0.02, "task_paused": 0.05, "lost_after": 0.2, "driver_paused": 0.004}


def test_a_replay_that_reads_to_another_end_than_was_written_down_is_found(monkeypatch):
    class Forgetful(MemoryPositions):
        def reads_of(self, slices):
            return [None] * len(slices)

    only(monkeypatch, **TROUBLE)
    monkeypatch.setattr(BinRun, "_is_as_kept", lambda self, portion, kept: True)
    assert first_wrong(moving(Forgetful), seeds=300, how="exactly-once-intent: ")


def test_what_was_read_and_a_later_epoch_overwrites_is_found(monkeypatch):
    class Overwriting(MemoryPositions):
        def _kept(self, lane, begin, epoch):
            read = self._data.reads.get(lane)
            return (
                read
                if read is not None and (read.from_offset, read.epoch) == (begin, epoch)
                else None
            )

    only(monkeypatch, **TROUBLE, driver_killed=0.004)
    assert first_wrong(moving(Overwriting), seeds=900, how="exactly-once-intent: ")


def test_a_position_that_moves_past_what_was_read_is_found(monkeypatch):
    class Further:
        @staticmethod
        def of(piece, reached, passed):
            move = Move.of(piece, reached, passed)
            further = place_at(number_at(reached) + 1)
            return replace(move, to_offset=further) if piece.is_open else move

    only(monkeypatch)
    monkeypatch.setattr(commit, "Move", Further)
    assert first_wrong(seeds=300, how="lost: ", known=76)


def test_a_visit_that_found_nothing_and_was_the_last_is_found(monkeypatch):
    only(monkeypatch)
    monkeypatch.setattr(
        Visits, "is_due", lambda self, now_s: self.behind is None or not self.behind.caught_up
    )
    assert first_wrong(seeds=300, how="stands at")


def test_a_claim_of_what_was_read_that_is_not_in_the_store_is_found(monkeypatch):
    def claim(self, portions):
        for portion in portions:
            self.tally.claimed(portion, mine=True)
        return portions

    only(monkeypatch, **TROUBLE)
    monkeypatch.setattr(BinRun, "_claim", claim)
    assert first_wrong(seeds=300, how="at-most-once: ")
