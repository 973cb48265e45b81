"""The simulation with streams that pass over what is too old, if they were left alone.

Nothing else may be passed over, nothing without a note of exactly what it was, and nothing of a
stream that was given back.
"""

from collections import Counter
from dataclasses import replace

import pytest
from planted import also, first_wrong

from headrace.cycle import restarts
from headrace.model.places import OPEN
from headrace.model.streams import PassedRange, State
from headrace.testing.memory_store import MemoryMembership, MemoryProgress, MemoryStore
from headrace.testing.memory_store import progress as memory_progress
from headrace.testing.simulation import brokers, deployed, operators, play, simulate, world
from headrace.testing.simulation.many import RunOptions
from headrace.testing.simulation.run import in_memory, silent

RESTARTS = {"restarts": 1.0, "driver_killed": 0.003}
#: retention takes records again and again, and drivers die
TAKEN = RESTARTS | {"expires": 1.0}
#: lanes stop at records about which nobody decides, and drivers die
STOPPED = RESTARTS | {"bad": 0.1, "raises": 0.1, "unreadable": 0.05, "driver_killed": 0.01}
STOPPED |= {"divided": 0.0}
#: drivers that are not killed, but end though something hangs
CUT = RESTARTS | {"drains_cut": 0.7}


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_nothing_is_wrong_where_streams_that_were_left_alone_pass_over(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=RESTARTS)
        assert not outcome.wrong, str(outcome)


def test_nothing_is_wrong_on_the_real_store_which_is_asked_what_time_it_is():
    counts = Counter()
    for seed in range(800_000, 800_005):
        outcome = RunOptions(sqlite=True, odds=RESTARTS).one(seed)
        assert not outcome.wrong, str(outcome)
        counts += outcome.counts
    assert counts["old records passed over"]


def test_what_is_forgotten_with_a_loss_does_not_run_in_the_same_turn():
    outcome = simulate(1253, odds=RESTARTS)
    assert not outcome.wrong, str(outcome)


def test_what_a_replaced_driver_starts_with_says_nothing_of_what_was_passed_over():
    odds = {"read_again": 0.2, "kills": 0.01, "hangs": 0.01, "lost_after": 0.1, "seeks": 0.3}
    odds |= {"driver_paused": 0.01, "task_paused": 0.05, "comes_and_goes": 0.3}
    outcome = simulate(9300170, actions=100, odds=odds)
    assert not outcome.wrong, str(outcome)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_nothing_is_wrong_where_drains_that_take_too_long_give_back_what_is_idle(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=CUT)
        assert not outcome.wrong, str(outcome)


def test_drains_that_take_too_long_are_played():
    counts = sum((simulate(seed, odds=CUT).counts for seed in range(60)), start=Counter())
    assert counts["drains cut beside what was idle"] > 5
    assert counts["drains cut"] > counts["drains cut beside what was idle"]


def test_a_driver_that_gives_nothing_back_where_something_still_runs_is_found(monkeypatch):
    class Keeping(MemoryMembership):
        def leave(self, driver, number, running=()):
            mine = {one.id for one in self.data.streams.values() if one.holder == driver}
            super().leave(driver, number, mine if running else ())

    also(monkeypatch, CUT)
    made = replace(in_memory(), store=lambda: store_of(membership=Keeping))
    assert first_wrong(made, how="nobody left it alone", known=79)


def test_restarts_are_played():
    counts = sum((simulate(seed, odds=RESTARTS).counts for seed in range(120)), start=Counter())
    assert counts["old records passed over"] > 5
    assert counts["ranges told"] > 5


def test_what_is_passed_over_without_a_note_is_found(monkeypatch):
    class Silent(MemoryProgress):
        def pass_over(self, stream, moves, failures):
            return super().pass_over(stream, moves, failures[:1])

    also(monkeypatch, RESTARTS)
    made = replace(in_memory(), store=lambda: store_of(progress=Silent))
    assert first_wrong(made, how="not on record")


def test_a_note_of_other_offsets_is_found(monkeypatch):
    def short(self, held, move, restart):
        note = whole(self, held, move, restart)
        piece = replace(note.slice, from_offset=note.slice.from_offset + 1)
        return replace(note, slice=piece)

    whole = restarts.Restarts._note
    also(monkeypatch, RESTARTS)
    monkeypatch.setattr(restarts.Restarts, "_note", short)
    assert first_wrong(how="not on record")


def test_a_stream_that_was_given_back_and_passes_over_is_found(monkeypatch):
    class Hasty(MemoryMembership):
        def hold(self, streams, driver=None, number=None):
            free = {one.id for one in self.data.streams.values() if one.holder is None}
            epochs = super().hold(streams, driver, number)
            for stream in free & epochs.keys():
                if self.data.positions[stream]:
                    self.data.set_stream(stream, silent_s=60.0)
            return epochs

    also(monkeypatch, RESTARTS)
    made = replace(in_memory(), store=lambda: store_of(membership=Hasty))
    assert first_wrong(made, how="nobody left it alone")


def test_a_stream_for_which_it_counts_that_it_was_free_is_found(monkeypatch):
    class Counting(MemoryMembership):
        def hold(self, streams, driver=None, number=None):
            before = dict(self.data.moved_s)
            epochs = super().hold(streams, driver, number)
            self.data.moved_s |= {of: before[of] for of in epochs.keys() & before.keys()}
            return epochs

    also(monkeypatch, RESTARTS)
    made = replace(in_memory(), store=lambda: store_of(membership=Counting))
    assert first_wrong(made, how="nobody left it alone")


def test_a_stream_that_passes_over_records_that_have_not_waited_is_found(monkeypatch):
    def however_young(places, edges, ends):
        return {
            name: at
            for name, fresh in edges.fresh.items()
            if places[name] < (at := min(fresh, ends.get(name, OPEN))) < OPEN
        }

    also(monkeypatch, RESTARTS | {"driver_killed": 0.02})
    monkeypatch.setattr(restarts, "passed_over", however_young)
    assert first_wrong(how="that have not waited", known=27)


def test_a_driver_that_reads_what_is_to_be_passed_over_is_found(monkeypatch):
    also(monkeypatch, RESTARTS)
    monkeypatch.setattr("headrace.board.streams.HeldStream.restarts", False)
    assert first_wrong(how="was not passed over")


def test_a_handler_that_is_not_told_what_was_passed_over_is_found(monkeypatch):
    also(monkeypatch, RESTARTS)
    monkeypatch.setattr("headrace.model.streams.Slice.passed_over", None)
    assert first_wrong(how="its lane passed over PassedRange")
    monkeypatch.undo()
    also(monkeypatch, RESTARTS)
    monkeypatch.setattr(
        "headrace.testing.simulation.passed_ranges.PassedRanges.heard", lambda *_: None
    )
    assert first_wrong(how="its handler was not told")


def test_a_handler_that_is_told_of_what_was_not_passed_over_is_found(monkeypatch):
    also(monkeypatch, RESTARTS)
    invented = property(lambda own: PassedRange(own.from_offset - 1, own.from_offset))
    monkeypatch.setattr("headrace.model.streams.Slice.passed_over", invented)
    assert first_wrong(how="its lane passed over None")
    monkeypatch.setattr(
        "headrace.testing.simulation.passed_ranges.PassedRanges.starts", lambda *_: None
    )
    assert first_wrong(how="which is not before it")


def test_what_is_passed_over_though_slices_of_it_are_to_run_again_is_found(monkeypatch):
    """Somebody may have written them, and then they are done and passed over."""

    def hasty(self, held):
        return held.state is State.ACTIVE and bool(held.lanes) and not held.waits

    monkeypatch.setattr(world, "GUARANTEES", ["exactly-once, by intent"] * 2)
    monkeypatch.setattr(deployed, "_WAVES", 0.0)
    also(monkeypatch, RESTARTS | {"driver_killed": 0.01})
    assert not first_wrong(seeds=5)
    monkeypatch.setattr(restarts.Restarts, "_is_settled", hasty)
    assert first_wrong(how="passes over what was recorded of it", known=4)


@pytest.mark.parametrize(
    ("merged", "how"),
    [
        (True, "passes over the record that it is stopped at"),
        (False, "one of its lanes is stopped"),
    ],
)
def test_a_stream_that_passes_over_and_was_stopped_is_found(monkeypatch, merged, how):
    """Nobody has decided about the record yet, and its merged lanes go on together."""

    def hasty(there, stopped, lineage, **of):
        return whole(there, () if merged else stopped, lineage, **{**of, "merged": merged})

    whole = restarts.movable
    often(
        monkeypatch, {play._kill_driver: 4.0, operators.decide_something: 0.0, brokers.widen: 5.0}
    )
    also(monkeypatch, STOPPED)
    assert not first_wrong(seeds=20, known=59)
    monkeypatch.setattr(restarts, "movable", hasty)
    assert first_wrong(how=how, known=59)


def test_ranges_of_which_nobody_was_told_and_that_are_not_joined_are_found(monkeypatch):
    often(monkeypatch, {brokers.expire: 10.0, play._kill_driver: 3.0})
    also(monkeypatch, TAKEN)
    assert not first_wrong(seeds=0, known=23)
    monkeypatch.setattr(memory_progress, "_untold_from", lambda at, move: move.from_offset)
    assert first_wrong(how="its lane passed over PassedRange", known=23)


def test_the_age_of_what_is_passed_over_is_judged_by_buckets_as_well():
    """Only of the lane that became others was the age known, and it was empty."""
    with pytest.MonkeyPatch.context() as patch:
        often(patch, {brokers.expire: 10.0, play._kill_driver: 3.0})
        outcome = simulate(11, odds=TAKEN)
    assert not outcome.wrong, str(outcome)


def often(monkeypatch, choices):
    """Let these things happen more often, or not at all."""
    monkeypatch.setattr(play, "_WEIGHTS", list({**play._CHOICES, **choices}.values()))


def store_of(progress=MemoryProgress, membership=MemoryMembership):
    made = MemoryStore()
    made.progress, made.membership = progress(made.data), membership(made.data)
    return made
