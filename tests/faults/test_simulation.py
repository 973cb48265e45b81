"""The simulation finds planted faults, plays a seed the same way each time, and nothing is wrong.

For a long run: ``python -m headrace.testing.simulation --seeds 10000``.
"""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from headrace.cycle import losses, replay, topics
from headrace.cycle.board import Board
from headrace.cycle.commit import Committer
from headrace.cycle.losses import Losses
from headrace.policies.data_loss import lost_range
from headrace.spark import task
from headrace.testing.log_twin import ReaderTwin
from headrace.testing.simulation import simulate
from headrace.testing.simulation.cluster import Engine
from headrace.testing.simulation.many import Asked
from headrace.testing.simulation.run import on_twins, silent
from headrace.testing.simulation.sinks import Notebook
from headrace.testing.store_twin import StoreTwin
from headrace.testing.store_twin_positions import PositionsTwin

#: seeds in which each planted fault has to be found
ENOUGH = 60


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


def first_wrong(make=None, seeds=ENOUGH, how=""):
    """What is wrong with the first seed with which anything of that kind is."""
    outcomes = (simulate(seed, make) for seed in range(seeds))
    return next((str(each) for each in outcomes if each.wrong and how in str(each)), "")


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_nothing_is_wrong_whatever_happens(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed)
        assert not outcome.wrong, str(outcome)


def test_nothing_is_wrong_on_the_real_store():
    for seed in range(20):
        outcome = Asked(sqlite=True).one(seed)
        assert not outcome.wrong, str(outcome)


def test_a_run_has_what_it_is_to_be_survived():
    counts = sum((simulate(seed).counts for seed in range(40)), start=simulate(40).counts)
    for what in (
        "drivers killed",
        "drivers paused",
        "drivers replaced",
        "executors lost",
        "store failed after",
        "store failed before",
        "tasks killed",
        "tasks paused",
        "added again",
        "losses passed over",
        "partitions added",
        "retentions",
        "seeks",
        "streams suspended for losses",
        "streams that waited for a person",
        "topics deleted",
    ):
        assert counts[what] > 0, what
    assert counts["records checked"] > 1000


def test_a_compare_and_set_that_ignores_the_epoch_is_found():
    class Careless(PositionsTwin):
        def matches(self, position, move):
            return position.next_offset == move.from_offset

    class CarelessStore(StoreTwin):
        def __init__(self):
            super().__init__()
            self.positions = Careless(self.data)

        def record_intent(self, wave, driver=None):
            return super().record_intent(wave)

    assert first_wrong(replace(on_twins(), store=CarelessStore), seeds=600)


def test_a_compare_and_set_that_ignores_the_offset_is_found():
    class Careless(PositionsTwin):
        def matches(self, position, move):
            return position.epoch == move.epoch

    class CarelessStore(StoreTwin):
        def __init__(self):
            super().__init__()
            self.positions = Careless(self.data)

    assert "broken chain" in first_wrong(replace(on_twins(), store=CarelessStore))


def test_an_engine_that_forgets_a_wave_is_found():
    class Forgetful(Engine):
        def start(self, wave):
            if not wave.id.endswith("7-0"):
                Engine.start(self, wave)

    assert "does not come to rest" in first_wrong(replace(on_twins(), engine=Forgetful))


def test_an_engine_that_brings_a_wave_twice_is_found():
    class Eager(Engine):
        def finished(self, timeout_s):
            return 2 * Engine.finished(self, timeout_s)

    assert first_wrong(replace(on_twins(), engine=Eager))


def test_a_driver_that_does_not_read_positions_back_is_found(monkeypatch):
    fill = Board.fill

    def only_new(self, positions):
        fill(self, [each for each in positions if self.lane(each.lane) is None])

    monkeypatch.setattr(Board, "fill", only_new)
    assert first_wrong(how="does not come to rest")


def test_a_driver_that_forgets_what_it_wrote_down_is_found(monkeypatch):
    monkeypatch.setattr(Committer, "find_recorded", lambda self, use_cases: None)
    assert "exactly-once-intent" in first_wrong(seeds=300)


def test_a_reader_that_loses_a_record_is_found(monkeypatch):
    read = ReaderTwin.read

    def short(self, slices, batch_records):
        for batch in read(self, slices, batch_records):
            yield replace(batch, records=batch.records.slice(0, 2))

    monkeypatch.setattr(ReaderTwin, "read", short)
    assert "lost" in first_wrong()


def test_a_task_that_mixes_tenants_up_is_found(monkeypatch):
    note = Notebook.note

    def mixed(self, effect):
        swapped = tuple(
            replace(piece, lane=piece.lane._replace(tenant="t0")) for piece in effect.slices
        )
        note(self, replace(effect, slices=swapped))

    monkeypatch.setattr(Notebook, "note", mixed)
    assert "foreign effects" in first_wrong()


def test_a_seek_that_leaves_the_recorded_wave_alive_is_found():
    class Keeping(StoreTwin):
        def __init__(self):
            super().__init__()
            self.kept = set()

        def seek(self, stream, offsets, topic_id=None):
            recorded = (piece for wave, _ in self.data.intents.values() for piece in wave.slices)
            self.kept |= {piece.begin for piece in recorded if piece.lane.stream == stream}
            super().seek(stream, offsets, topic_id)

        def _is_due(self, piece, nothing):
            return piece.begin in self.kept or super()._is_due(piece, nothing)

    found = first_wrong(replace(on_twins(), store=Keeping), seeds=300)
    assert "does not come to rest: intents ['" in found


def test_a_seek_that_forgets_which_topic_it_was_for_is_found():
    class Forgetful(StoreTwin):
        def seek(self, stream, offsets, topic_id=None):
            super().seek(stream, offsets)

    assert "as if it were" in first_wrong(replace(on_twins(), store=Forgetful), seeds=300)


def test_a_seek_that_moves_only_some_lanes_is_found():
    class Lazy(StoreTwin):
        def seek(self, stream, offsets, topic_id=None):
            super().seek(stream, dict(list(offsets.items())[:1]), topic_id)

    assert first_wrong(replace(on_twins(), store=Lazy), seeds=300)


def test_a_stream_that_is_added_again_and_keeps_its_positions_is_found():
    class Hoarding(StoreTwin):
        def _begin(self, stream, template):
            before = self.data.positions.get(stream, {})
            super()._begin(stream, template)
            self._put(stream, {lane: at.next_offset for lane, at in before.items()})

    found = first_wrong(replace(on_twins(), store=Hoarding), seeds=300)
    assert "nowhere yet" in found or "led to None" in found


def test_a_stream_that_is_added_again_under_its_old_epoch_is_found():
    class Careless(StoreTwin):
        def _begin(self, stream, template):
            before = self.data.streams.get(stream)
            super()._begin(stream, template)
            if before is not None:
                self._set_stream(stream, epoch=before.epoch, holder=before.holder)

    assert first_wrong(replace(on_twins(), store=Careless), seeds=600)


def test_a_topic_made_again_that_nobody_notices_is_found(monkeypatch):
    monkeypatch.setattr(Losses, "look", lambda self, seen: {})
    assert first_wrong(seeds=300, how="in topic 1 of 2")


def test_a_skip_that_passes_over_one_record_more_is_found(monkeypatch):
    def further(position, start, end):
        lost = lost_range(position, start, end)
        return lost and replace(lost, go_on_at=lost.go_on_at + 1)

    monkeypatch.setattr(losses, "lost_range", further)
    assert "its log has" in first_wrong(seeds=300)


def test_a_loss_that_is_told_by_wrong_offsets_is_found(monkeypatch):
    def elsewhere(position, start, end):
        lost = lost_range(position, start, end)
        return lost and replace(lost, from_offset=lost.from_offset + 1)

    monkeypatch.setattr(losses, "lost_range", elsewhere)
    found = first_wrong(seeds=300)
    assert "the note is of" in found or "was never at" in found


def test_a_stream_that_is_sent_on_although_it_is_to_be_suspended_is_found(monkeypatch):
    monkeypatch.setattr(Losses, "_suspend", Losses._skip)
    assert "it is not for skip" in first_wrong(seeds=300)


def test_a_recorded_slice_that_waits_for_records_of_another_topic_is_found(monkeypatch):
    monkeypatch.setattr(replay, "past_the_end", lambda wave, wait, board: [])
    assert "does not come to rest" in first_wrong(seeds=900)


def test_a_new_partition_that_is_not_read_from_its_beginning_is_found(monkeypatch):
    monkeypatch.setattr(topics, "_begins_at_end", lambda held: True)
    assert "its log at" in first_wrong(seeds=300)


def test_settings_of_tasks_are_as_before():
    before = (task.BATCH_RECORDS, task.GROUP_RECORDS, task.GROUP_S)
    simulate(0)
    assert before == (task.BATCH_RECORDS, task.GROUP_RECORDS, task.GROUP_S)


def test_a_failing_seed_is_replayed_by_one_command(monkeypatch):
    monkeypatch.setattr(ReaderTwin, "read", lambda self, slices, batch_records: iter(()))
    outcome = next(each for each in map(simulate, range(ENOUGH)) if each.wrong)
    assert outcome.command == (
        f"python -m headrace.testing.simulation --seed {outcome.seed} --trace"
    )
    assert outcome.command in str(outcome)


def test_a_seed_plays_the_same_run_in_every_process():
    def trace(hash_seed):
        command = [sys.executable, "-m", "headrace.testing.simulation", "--seed", "3", "--trace"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout

    assert trace("1") == trace("2") != b""
