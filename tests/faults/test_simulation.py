"""The simulation finds planted faults, plays a seed the same way each time, and nothing is wrong.

For a long run: ``python -m headrace.testing.simulation --seeds 10000``.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from planted import ENOUGH, also, first_wrong

from headrace.board import Board, HeldStream, Lane, streams
from headrace.cycle import accounts, apply, commit, driver, first_places, losses, replay, topics
from headrace.cycle import recorded as recorded_waves
from headrace.cycle.dead_letters import LetterOutcome, PendingLetters
from headrace.cycle.late_claims import LateClaims
from headrace.cycle.losses import Losses
from headrace.cycle.recorded import LostWave, RecordedWaves
from headrace.cycle.reruns import Reruns
from headrace.cycle.topics import TopicKeeper
from headrace.errors import OutcomeUnknown, SinkRefused, SinkUnavailable, WorkerKilled
from headrace.model import lineage
from headrace.model.places import UNKNOWN
from headrace.model.starting import Edge
from headrace.model.streams import DataLossPolicy, Order, original
from headrace.model.waves import Wave
from headrace.operating import seeking
from headrace.policies import quarantine
from headrace.policies.data_loss import Loss, lost_lanes, lost_range
from headrace.spark import (
    bin_run,
    calling,
    culprits,
    decoding,
    frame_calls,
    handling,
    portions,
    reading_again,
    task,
)
from headrace.spark.bin_run import BinRun
from headrace.spark.slice_errors import name_record
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.log_fake import MemoryReader
from headrace.testing.memory_store import (
    Data,
    MemoryProgress,
    MemoryRegistry,
    MemoryStore,
    recorded,
)
from headrace.testing.simulation import deployed, play, simulate, world
from headrace.testing.simulation.__main__ import main
from headrace.testing.simulation.brokers import send
from headrace.testing.simulation.cluster import Cluster, Engine
from headrace.testing.simulation.deployed import Deployed
from headrace.testing.simulation.many import RunOptions
from headrace.testing.simulation.odds import Odds, read_odds
from headrace.testing.simulation.operators import seek_somewhere
from headrace.testing.simulation.run import in_memory, silent
from headrace.testing.simulation.sinks import Notebook, TableWriter
from headrace.testing.simulation.topics import WorldTopics


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


def played(seed, **odds):
    """As it is without any planted fault, once for all who look at it."""
    return _played(seed, tuple(odds.items()))


@cache
def _played(seed, odds):
    return simulate(seed, odds=dict(odds))


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_nothing_is_wrong_whatever_happens(first):
    for seed in range(first, first + 20):
        outcome = played(seed)
        assert not outcome.wrong, str(outcome)


def test_nothing_is_wrong_on_the_real_store():
    for seed in range(20):
        outcome = RunOptions(sqlite=True).one(seed)
        assert not outcome.wrong, str(outcome)


@pytest.mark.parametrize(
    ("seed", "how"),
    [
        pytest.param(
            2011, "a stream is misled about its topic long after that was made", id="misled"
        ),
        pytest.param(
            2013, "a driver sleeps while its stream is removed and added again", id="late"
        ),
        pytest.param(2020, "merged lanes come on by one record in each round", id="slow"),
    ],
)
def test_what_is_right_is_not_called_wrong(seed, how):
    odds = {"other_terms": 0.5, "cuts": 0.2, "reruns": 0.5, "driver_paused": 0.05}
    outcome = simulate(seed, odds=odds)
    assert not outcome.wrong, f"{how}: {outcome}"


def test_a_seek_is_judged_by_the_topic_that_a_person_was_told_of():
    """It was made again, and the broker that was asked had not heard of that."""
    often = {"unheard": 0.2, "deletes": 1.0, "seeks": 1.0, "expires": 1.0}
    outcome = simulate(90129, odds=often | {"driver_killed": 0.004, "driver_paused": 0.003})
    assert not outcome.wrong, str(outcome)


def test_a_run_has_what_it_is_to_be_survived():
    counts = sum((played(seed).counts for seed in range(241)), start=Counter())
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
        "engines ended",
        "leaders cut off",
        "logs cut",
        "reruns begun",
        "reruns ended",
        "calls beside turns",
        "slow calls",
        "terms changed",
        "throttles",
        "waves read again",
        "waves read otherwise",
        "commits late",
        "effects not tried",
        "tenants' databases locked",
    ):
        assert counts[what] > 0, what
    assert counts["records checked"] > 1000


def test_what_is_lost_and_not_told_is_found(monkeypatch):
    monkeypatch.setattr(commit, "lost_claims", lambda *_: [])
    assert first_wrong(how="untold", known=95)


def storing(**parts):
    """Parts of a run whose store has others in the place of some of its own."""

    def made():
        store = MemoryStore()
        for name, part in parts.items():
            setattr(store, name, part(store.data))
        return store

    return replace(in_memory(), store=made)


def test_a_compare_and_set_that_ignores_the_epoch_is_found():
    class Careless(Data):
        def matches(self, position, move):
            return position.next_offset == move.from_offset

    class Unasked(MemoryProgress):
        def record_intent(self, wave, driver=None):
            return super().record_intent(wave)

    def made():
        store = MemoryStore(Careless())
        store.progress = Unasked(store.data)
        return store

    assert first_wrong(replace(in_memory(), store=made), seeds=600)


def test_a_compare_and_set_that_ignores_the_offset_is_found():
    class Careless(Data):
        def matches(self, position, move):
            return position.epoch == move.epoch

    made = replace(in_memory(), store=lambda: MemoryStore(Careless()))
    assert first_wrong(made, how="broken chain")


def test_an_engine_that_forgets_a_wave_is_found():
    class Forgetful(Engine):
        def start(self, wave):
            if not wave.id.endswith("7-0"):
                Engine.start(self, wave)

    assert first_wrong(replace(in_memory(), engine=Forgetful), how="does not come to rest")


def test_an_engine_that_brings_a_wave_twice_is_found():
    class Eager(Engine):
        def finished(self, timeout_s):
            return 2 * Engine.finished(self, timeout_s)

    assert first_wrong(replace(in_memory(), engine=Eager))


def test_a_driver_that_does_not_read_positions_back_is_found(monkeypatch):
    fill = Board.fill

    def only_new(self, positions):
        fill(self, [position for position in positions if self.lane(position.lane) is None])

    monkeypatch.setattr(Board, "fill", only_new)
    assert first_wrong(how="does not come to rest")


def test_a_driver_that_forgets_what_it_wrote_down_is_found(monkeypatch):
    monkeypatch.setattr(RecordedWaves, "find", lambda self, use_cases: None)
    assert first_wrong(seeds=300, how="exactly-once-intent")


def test_a_replay_that_leaves_out_more_than_a_cut_took_is_found(monkeypatch):
    note, cut, topics = Notebook.note, WorldTopics.cut, set()

    def noted_cut(self, topic, partition, before=None):
        topics.add(topic)
        return cut(self, topic, partition, before)

    def short(self, effect):
        spans = zip(effect.slices, effect.reached, strict=True)
        again = tuple((piece.lane, piece.from_offset, end) for piece, end in spans) in self.kept
        if again and effect.slices[0].topic in topics:
            effect = replace(effect, output=effect.output.slice(1))
        note(self, effect)

    monkeypatch.setattr(WorldTopics, "cut", noted_cut)
    monkeypatch.setattr(Notebook, "note", short)
    assert first_wrong(how="replaced by another effect", known=48)


def test_records_that_do_not_decode_and_are_kept_nowhere_are_found(monkeypatch):
    without = handling._without

    def forgetful(handled, found, faults):
        return replace(without(handled, found, faults), aside=())

    monkeypatch.setattr(handling, "_without", forgetful)
    assert first_wrong(how="lost", known=163)


@pytest.mark.parametrize("room", [calling, frame_calls])
def test_records_that_wait_for_a_schema_and_count_as_done_are_found(monkeypatch, room):
    decoded = decoding.decoded

    def hasty(use_case, records, schemas):
        return replace(decoded(use_case, records, schemas), waiting=None)

    monkeypatch.setattr(room, "decoded", hasty)
    assert first_wrong(how="lost", known=145)


def test_rows_that_are_counted_without_those_that_do_not_decode_are_found(monkeypatch):
    drawn = world.draw
    monkeypatch.setattr(world, "draw", lambda rng: replace(drawn(rng), bad=0.15))
    monkeypatch.setattr(decoding.DecodedRecords, "row", lambda self, number: number)
    assert first_wrong(seeds=300, how="lost")


def test_a_reader_that_loses_a_record_is_found(monkeypatch):
    read = MemoryReader.read

    def short(self, slices, batch_records):
        for batch in read(self, slices, batch_records):
            yield replace(batch, records=batch.records.slice(0, 2))

    monkeypatch.setattr(MemoryReader, "read", short)
    assert first_wrong(how="lost")


def test_a_task_that_mixes_tenants_up_is_found(monkeypatch):
    note = Notebook.note

    def mixed(self, effect):
        swapped = tuple(
            replace(piece, lane=piece.lane._replace(tenant="t0")) for piece in effect.slices
        )
        note(self, replace(effect, slices=swapped))

    monkeypatch.setattr(Notebook, "note", mixed)
    assert first_wrong(how="foreign effects")


def test_a_seek_that_leaves_the_recorded_wave_alive_is_found(monkeypatch):
    kept, is_due = set(), recorded.is_due

    class Keeping(MemoryProgress):
        def seek(self, stream, offsets, topic_id=None, *more, **how):
            waves = (wave for wave, _ in self.data.intents.values())
            pieces = (piece for wave in waves for piece in wave.slices)
            kept.update(piece.begin for piece in pieces if piece.lane.stream == stream)
            super().seek(stream, offsets, topic_id, *more, **how)

    def due(data, piece, nothing):
        return piece.begin in kept or is_due(data, piece, nothing)

    def progress(data):
        kept.clear()
        return Keeping(data)

    monkeypatch.setattr(recorded, "is_due", due)
    found = first_wrong(storing(progress=progress), known=139)
    assert "does not come to rest: intents ['" in found


def test_a_seek_that_forgets_which_topic_it_was_for_is_found(monkeypatch):
    class Forgetful(MemoryProgress):
        def seek(self, stream, offsets, topic_id=None, *more, **how):
            super().seek(stream, offsets, None, *more, **how)

    only(monkeypatch, seeks=1.0, deletes=1.0)
    assert first_wrong(storing(progress=Forgetful), how="as if it were", known=124)


def test_a_seek_that_moves_only_some_lanes_is_found():
    class Lazy(MemoryProgress):
        def seek(self, stream, offsets, topic_id=None, *more, **how):
            super().seek(stream, dict(list(offsets.items())[:1]), topic_id, *more, **how)

    assert first_wrong(storing(progress=Lazy), seeds=300)


def test_a_stream_that_is_added_again_and_keeps_its_positions_is_found():
    class Hoarding(MemoryRegistry):
        def _begin(self, stream, template):
            before = self.data.positions.get(stream, {})
            super()._begin(stream, template)
            self.data.put(stream, {lane: at.next_offset for lane, at in before.items()})

    found = first_wrong(storing(registry=Hoarding), seeds=300)
    assert "nowhere yet" in found or "led to None" in found


def test_a_stream_that_is_added_again_and_forgets_which_topics_it_left_is_found():
    class Forgetful(MemoryRegistry):
        def _begin(self, stream, template):
            super()._begin(stream, template)
            self.data.set_stream(stream, left_ids=())

    assert first_wrong(storing(registry=Forgetful), seeds=300, how="forgets topic")


def test_a_topic_made_again_that_nobody_notices_is_found(monkeypatch):
    monkeypatch.setattr(Losses, "find", lambda self, seen, edges: {})
    assert first_wrong(seeds=300, how="in topic 1 of 2")


def test_a_skip_that_passes_over_one_record_more_is_found(monkeypatch):
    def further(*given):
        lost = lost_range(*given)
        return lost and replace(lost, go_on_at=lost.go_on_at + 1)

    monkeypatch.setattr(losses, "lost_range", further)
    assert first_wrong(how="its log has", known=103)


def test_a_loss_that_is_told_by_wrong_offsets_is_found(monkeypatch):
    def elsewhere(*given):
        lost = lost_range(*given)
        return lost and replace(lost, from_place=lost.from_place + 1)

    monkeypatch.setattr(losses, "lost_range", elsewhere)
    found = first_wrong(seeds=300)
    assert "the note is of" in found or "was never at" in found


def test_a_stream_that_is_sent_on_although_it_is_to_be_suspended_is_found(monkeypatch):
    monkeypatch.setattr(Losses, "_suspend", Losses._skip)
    assert first_wrong(seeds=300, how="it is not for skip")


def test_a_recorded_slice_that_waits_for_records_of_another_topic_is_found(monkeypatch):
    only(monkeypatch, seeks=1.0, deletes=1.0, lost_before=0.2, lost_after=0.2, driver_killed=0.004)
    monkeypatch.setattr(replay, "past_the_end", lambda wave, wait, board: [])
    monkeypatch.setattr(replay, "_of_another_topic", lambda recorded, board: [])
    assert first_wrong(how="does not come to rest", known=458)


def test_a_merged_lane_that_passes_over_what_stands_before_an_unreadable_record_is_found(
    monkeypatch,
):
    only(monkeypatch, unreadable=0.1)
    monkeypatch.setattr(apply, "_all_or_nothing", lambda wave: wave.intended)
    assert first_wrong(seeds=300, how="lost: ")


def test_claims_that_are_not_told_when_an_engine_ends_are_found(monkeypatch):
    only(monkeypatch, engine_stops=0.05, task_killed=0.3)
    monkeypatch.setattr(commit.Committer, "give_up", lambda self, end: None)
    assert first_wrong(seeds=900, how="untold: ", known=37)


def test_claims_that_are_committed_late_and_not_told_are_found(monkeypatch):
    only(monkeypatch, commits_late=0.3)
    monkeypatch.setattr(LateClaims, "came_back", lambda self, done: None)
    assert first_wrong(seeds=300, how="untold: ")


def test_claims_that_are_committed_late_are_told():
    for seed in range(60):
        outcome = simulate(seed, odds={"commits_late": 0.3})
        assert not outcome.wrong, str(outcome)


def test_what_a_sink_had_no_time_to_try_and_counts_as_written_is_found(monkeypatch):
    def written(self, effects):
        return [replace(one, untried=False) for one in offered(self, effects)]

    offered = BinRun.offered
    only(monkeypatch, locks=0.7)
    monkeypatch.setattr(BinRun, "offered", written)
    assert first_wrong(seeds=300)


def test_who_shares_a_sink_with_tenants_whose_databases_are_locked_loses_nothing():
    for seed in range(60):
        outcome = simulate(seed, odds={"locks": 0.7})
        assert not outcome.wrong, str(outcome)


def test_a_new_partition_that_is_not_read_from_its_beginning_is_found(monkeypatch):
    monkeypatch.setattr(first_places, "starting_of", lambda held: Edge.LATEST)
    assert first_wrong(seeds=300, how="its log at")


# lanes that follow others


def only_lineage(monkeypatch, **odds):
    """Let lanes become others, and be dropped, and little else happen."""
    only(monkeypatch, splits=0.4, **odds)


RESHAPED = {"splits": 0.3, "drops": 0.15, "lists_late": 0.4}


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_lanes_follow_others_whatever_happens(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=RESHAPED)
        assert not outcome.wrong, str(outcome)


def test_lanes_that_become_others_are_played():
    odds = RESHAPED | {"drops": 0.5}
    counts = sum((simulate(seed, odds=odds).counts for seed in range(61)), start=Counter())
    for what in (
        "lanes split",
        "lanes merged",
        "lanes dropped",
        "lanes listed late",
        "lanes given up",
        "parents forgotten",
    ):
        assert counts[what] > 0, what


def test_a_lane_that_is_opened_when_its_parent_was_read_is_found(monkeypatch):
    def read(self):
        lanes = self.lanes.items()
        return {name: lane.end if lane.wave else lane.position for name, lane in lanes}

    only_lineage(monkeypatch, task_paused=0.05)
    monkeypatch.setattr(HeldStream, "places", property(read))
    assert first_wrong(seeds=300, how="runs before")


def test_a_merged_lane_that_waits_for_one_of_two_is_found(monkeypatch):
    whole = HeldStream.lineage.fget
    only_lineage(monkeypatch)
    one = property(lambda self: {name: of[:1] for name, of in whole(self).items()})
    monkeypatch.setattr(HeldStream, "lineage", one)
    assert first_wrong(seeds=300, how="runs before")


def test_a_lane_that_waits_for_its_parents_and_not_for_theirs_is_found(monkeypatch):
    def direct(name, lineage, places):
        return whole(name, {name: lineage.get(name, ())}, places)

    whole = lineage.ahead
    only_lineage(monkeypatch)
    monkeypatch.setattr(lineage, "ahead", direct)
    monkeypatch.setattr(streams, "ahead", direct)
    assert first_wrong(seeds=300, how="late: ")


def test_a_lane_that_begins_at_its_end_as_its_parents_did_is_found(monkeypatch):
    only_lineage(monkeypatch)
    monkeypatch.setattr(first_places, "starting_of", lambda held: Edge.LATEST)
    assert first_wrong(seeds=300, how="its log at")


def test_a_parent_that_expired_and_counts_as_done_is_found(monkeypatch):
    only_lineage(monkeypatch, drops=0.3)
    monkeypatch.setattr(losses, "lost_lanes", lambda *_: {})
    monkeypatch.setattr(
        topics,
        "is_over",
        lambda listed, kept, places, starts: [lane for lane in places if lane not in listed],
    )
    assert first_wrong(seeds=300, how="is forgotten at")


def test_lanes_whose_parents_were_never_seen_and_that_nobody_reads_are_found(monkeypatch):
    def known(held, info, first):
        found, parents = whole(held, info, first)
        seen = held.lanes.keys() | found.keys()
        orphans = [
            name
            for name in found
            if held.lanes and any(of.lane not in seen for of in info.parents.get(name, ()))
        ]
        return {name: at for name, at in found.items() if name not in orphans}, parents

    whole = topics.startable
    only_lineage(monkeypatch, drops=0.3)
    monkeypatch.setattr(topics, "startable", known)
    assert first_wrong(seeds=300, how="stands at None")


def test_a_lane_that_was_lost_unseen_and_that_nobody_is_told_of_is_found(monkeypatch):
    def seen(listed, told, kept, places):
        lost = lost_lanes(listed, told, kept, places)
        return {name: loss for name, loss in lost.items() if name in places}

    only_lineage(monkeypatch, drops=0.3)
    monkeypatch.setattr(losses, "lost_lanes", seen)
    assert first_wrong(seeds=300, how="which has no place")


def is_done(held, parents):
    """Whether all that a new lane follows is at its end when its log first tells of it."""
    places = held.places
    return all(of.until is not None and places.get(of.lane, -1) >= of.until for of in parents)


def test_a_lane_that_is_listed_late_and_begins_at_its_end_is_found(monkeypatch):
    only_lineage(monkeypatch, lists_late=0.8)
    at = {True: Edge.LATEST, False: Edge.EARLIEST}
    start_of = topics.start_of
    monkeypatch.setattr(first_places, "starting_of", lambda held: at[bool(held.lanes)])
    # Of a stream that has begun the store takes no first places, and lanes begin one by one.
    monkeypatch.setattr(topics, "start_of", lambda *of: replace(start_of(*of), begins=False))
    monkeypatch.setattr(topics, "begins_whole", lambda held, _: not held.lanes)
    assert first_wrong(seeds=300, how="its log at")


def test_a_lane_that_is_listed_when_its_parents_are_done_and_that_nobody_reads_is_found(
    monkeypatch,
):
    def early(held, info, first):
        first = {
            name: at
            for name, at in first.items()
            if not (held.lanes and name in info.parents and is_done(held, info.parents[name]))
        }
        return whole(held, info, first)

    whole = topics.startable
    only_lineage(monkeypatch, lists_late=0.8)
    monkeypatch.setattr(topics, "startable", early)
    assert first_wrong(seeds=300, how="stands at None")


def test_the_second_of_two_lanes_that_does_not_wait_as_the_first_does_is_found(monkeypatch):
    def once(held, info, first):
        found, parents = whole(held, info, first)
        followed = {of.lane for known in held.lineage.values() for of in known}
        return found, {
            name: () if any(of.lane in followed for of in given) else given
            for name, given in parents.items()
        }

    whole = topics.startable
    only_lineage(monkeypatch, lists_late=0.8)
    monkeypatch.setattr(topics, "startable", once)
    assert first_wrong(how="runs before", known=174)


@pytest.mark.parametrize("planted", ["seek", "split"])
def test_records_that_are_not_newer_than_what_was_read_before_are_found(monkeypatch, planted):
    class Careless(Data):
        def deepen(self, stream):
            if planted != "seek":
                super().deepen(stream)

        def put(self, stream, offsets, lineage=None, **how):
            super().put(stream, offsets, lineage if planted != "split" else None, **how)

    only_lineage(monkeypatch, seeks=1.0)
    made = replace(in_memory(), store=lambda: MemoryStore(Careless()))
    assert first_wrong(made, seeds=300, how="has depth")


def test_a_recorded_slice_that_is_as_old_as_before_a_seek_is_found(monkeypatch):
    def under_its_epoch(wave, board):
        depths = {piece.begin: piece.depth for piece in wave.slices}
        bins = renewed(wave, board).bins
        return replace(
            wave,
            bins=tuple(
                replace(
                    bin_,
                    slices=tuple(replace(one, depth=depths[one.begin]) for one in bin_.slices),
                )
                for bin_ in bins
            ),
        )

    renewed = replay.renewed
    only(monkeypatch, seeks=1.0, lost_before=0.2, lost_after=0.2, splits=0.6)
    monkeypatch.setattr(replay, "renewed", under_its_epoch)
    assert first_wrong(how="has depth", known=76)


@pytest.mark.parametrize(("planted", "known"), [("of one lane", 76), ("of merged lanes", 75)])
def test_a_recorded_slice_that_was_given_up_and_runs_is_found(monkeypatch, planted, known):
    def left(data, stream, *, merged=False):
        del merged
        if planted == "of merged lanes":
            leave_behind(data, stream, merged=False)

    leave_behind = recorded.leave_behind
    only(monkeypatch, seeks=1.0, lost_before=0.6)
    often = {**play._CHOICES, seek_somewhere: 12.0}
    monkeypatch.setattr(play, "_WEIGHTS", list(often.values()))
    if planted == "of merged lanes":
        made = Deployed._of_slices
        merging = lambda *of: replace(made(*of), order=Order.STREAM)  # noqa: E731
        monkeypatch.setattr(Deployed, "_of_slices", merging)
        monkeypatch.setattr(deployed, "_WAVES", 0.0)
    monkeypatch.setattr(recorded, "leave_behind", left)
    assert first_wrong(how="was given up", known=known)


def only_frames(monkeypatch, **odds):
    """Recorded waves of DataFrames alone, of some tenants at once."""
    before = world.World.__post_init__

    def crowded(self):
        before(self)
        while self.counts["tenants"] < 4:
            self.add_tenant()

    only(monkeypatch, **odds)
    monkeypatch.setattr(world.World, "__post_init__", crowded)
    monkeypatch.setattr(world, "GUARANTEES", ["exactly-once, by intent"] * 2)
    monkeypatch.setattr(deployed, "_WAVES", 1.0)
    monkeypatch.setattr(play, "_WEIGHTS", list({**play._CHOICES, send: 20.0}.values()))


@pytest.mark.parametrize(
    ("planted", "known"),
    [("a part is given", 8), ("names of their own", 27), ("a tenant is given in part", 38)],
)
def test_a_wave_of_frames_that_is_not_replaced_by_what_comes_after_it_is_found(
    monkeypatch, planted, known
):
    """Nobody heard of it, it was not read to its end, and then its handler raised."""
    alone, by_stream = frame_calls.FrameCalls._alone, frame_calls._whole_streams

    def renamed(self, wave, frame, receipts, stream):
        return alone(self, replace(wave, id=f"{wave.id}.{stream.tenant}"), frame, receipts, stream)

    def whole_slices(receipts):
        return [whole for receipt in receipts for whole in by_stream([receipt])]

    only_frames(monkeypatch, reads_end=0.3, lost_after=0.4, raises=0.05)
    assert not first_wrong(seeds=0, known=known)
    if planted == "a part is given":
        monkeypatch.setattr(frame_calls, "_whole_streams", list)
    elif planted == "a tenant is given in part":
        monkeypatch.setattr(frame_calls, "_whole_streams", whole_slices)
    else:
        monkeypatch.setattr(frame_calls.FrameCalls, "_alone", renamed)
    assert first_wrong(how="under the ids of two waves", known=known)


def only_intents(monkeypatch, **odds):
    """Recorded waves alone, and none of DataFrames."""
    only(monkeypatch, **odds)
    monkeypatch.setattr(world, "GUARANTEES", ["exactly-once, by intent"] * 2)
    monkeypatch.setattr(deployed, "_WAVES", 0.0)


def test_a_wave_that_is_written_down_by_who_does_not_hold_its_streams_is_found(monkeypatch):
    """Its driver slept before it wrote it down, and another has other slices of the lanes."""

    class Unasked(MemoryProgress):
        def record_intent(self, wave, driver=None):
            self._holds = lambda *_: True
            try:
                return super().record_intent(wave, driver)
            finally:
                del self._holds

    only_intents(monkeypatch, driver_paused=0.02)
    assert not first_wrong(seeds=0, known=5)
    assert first_wrong(storing(progress=Unasked), how=" twice: ", known=5)


def test_a_recorded_slice_that_runs_though_its_log_is_too_short_is_found(monkeypatch):
    """It comes back with nothing, again and again."""
    only_intents(monkeypatch, cuts=1.0, lost_after=0.4)
    assert not first_wrong(seeds=0, known=2)
    monkeypatch.setattr(replay, "_is_short", lambda piece, board: False)
    assert first_wrong(how="does not come to rest", known=2)


def test_a_dataframe_of_a_recorded_wave_that_is_called_by_who_was_replaced_is_found(monkeypatch):
    """It slept while it read, and then replaces what its heir wrote under the id."""

    def unasked(self, receipts):
        claimed = claim(self, receipts)
        return claimed if self.use_case.claims else list(receipts)

    claim = frame_calls.FrameCalls._claim
    only_frames(monkeypatch, task_paused=0.15, raises=0.05)
    often = {**play._CHOICES, send: 20.0, play._start_driver: 15.0, play._kill_driver: 3.0}
    monkeypatch.setattr(play, "_WEIGHTS", list(often.values()))
    assert not first_wrong(seeds=0, known=238)
    monkeypatch.setattr(frame_calls.FrameCalls, "_claim", unasked)
    assert first_wrong(how="under the ids of two waves", known=238)


def test_parts_of_a_recorded_wave_that_who_was_replaced_divides_are_found(monkeypatch):
    """Who slept over it under the name of its heir has older epochs; the heir runs it whole.

    Of slices, whose effects have identities of their own, it makes no difference which wave they
    are in.
    """
    odds = {"driver_paused": 0.04, "driver_killed": 0.004, "raises": 0.06}
    only_frames(monkeypatch, **odds, lost_after=0.2, reads_end=0.1)
    often = {**play._CHOICES, send: 20.0, play._start_driver: 10.0, play._kill_driver: 4.0}
    monkeypatch.setattr(play, "_WEIGHTS", list(often.values()))
    monkeypatch.setattr(play, "_NAMES", ("d0",) * 3)
    assert not first_wrong(seeds=0, known=2129)
    monkeypatch.setattr(recorded, "is_ours", lambda data, piece: True)
    assert first_wrong(how="under the ids of two waves", known=2129)


def test_a_part_of_a_recorded_slice_that_is_written_before_a_bad_record_is_read_is_found(
    monkeypatch,
):
    """Its driver was killed, or nobody heard of it; read whole, other slices follow."""
    also(monkeypatch, {"reads_end": 0.2, "lost_after": 0.3, "bad": 0.03})
    assert not first_wrong(seeds=0, known=86)
    monkeypatch.setattr(task, "whole_or_nothing", lambda portions: portions)
    monkeypatch.setattr(bin_run, "_stopped", lambda portion, whole: portion)
    assert first_wrong(how=" twice: ", known=86)


def test_a_wave_of_frames_that_is_divided_beside_what_it_wrote_is_found(monkeypatch):
    """Its first attempt wrote and was not heard of, and the worker of the next one died."""
    lost = RecordedWaves.lost

    def divides(self, wave, error):
        streams = {piece.lane.stream for piece in wave.slices}
        if error.code in quarantine.HURTS_NEIGHBOURS and len(streams) > 1:
            return LostWave(self._divide(wave, quarantine.divided(streams, wave.id)), times=0)
        return lost(self, wave, error)

    only_frames(monkeypatch, lost_before=0.4, lost_after=0.4)
    monkeypatch.setattr(Cluster, "_why_lost", lambda self: WorkerKilled)
    assert not first_wrong(seeds=12)
    monkeypatch.setattr(RecordedWaves, "lost", divides)
    assert first_wrong(how="under the ids of two waves")


def test_a_tenant_that_runs_under_an_id_that_is_anothers_is_found_by_what_is_gone(monkeypatch):
    """It waited while the other ran, and then takes all away that this one has there."""
    only_frames(monkeypatch, lost_after=0.4, kills=0.03)
    assert not first_wrong(seeds=12)
    monkeypatch.setattr(Wave, "is_taken_by", lambda self, done: False)
    assert first_wrong(how="lost: ")


@pytest.mark.parametrize(
    ("odds", "seed"),
    [
        ("lost_after=0.4,kills=0.02,bad=0.03,log_stale=0.5", 80),
        ("reads_end=0.3,lost_after=0.4,raises=0.05,bad=0.03", 77),
    ],
)
def test_a_tenant_with_a_bad_record_in_one_partition_does_not_wait_for_its_other_ones(
    monkeypatch, odds, seed
):
    only_frames(monkeypatch, **read_odds(odds))
    outcome = simulate(seed)
    assert not outcome.wrong, str(outcome)


def test_what_comes_through_while_its_heir_has_the_wave_already_is_not_replaced(monkeypatch):
    odds = "lost_after=0.3,down=0.1,raises=0.03,driver_paused=0.005"
    only_frames(monkeypatch, **read_odds(odds))
    outcome = simulate(584)
    assert not outcome.wrong, str(outcome)


def test_a_tenant_that_waits_and_has_an_id_of_its_own_before_anothers_call_is_found(monkeypatch):
    def decided(wave, *of):
        made = replay.decide(wave, *of)
        divides = made.step is replay.ReplayStep.RUN and made.waiting
        return replace(made, step=replay.ReplayStep.DIVIDE) if divides else made

    only_frames(monkeypatch, lost_after=0.4, kills=0.02, bad=0.03, log_stale=0.5)
    assert not first_wrong(seeds=0, known=17)
    monkeypatch.setattr(recorded_waves, "decide", decided)
    assert first_wrong(how="under the ids of two waves", known=17)


def test_a_seek_that_forgets_what_lanes_follow_is_found(monkeypatch):
    class Forgetful(MemoryProgress):
        def seek(self, stream, offsets, topic_id=None, parents=None, gone=(), **how):
            nothing = dict.fromkeys(self.data.positions[stream], ())
            super().seek(stream, offsets, topic_id, nothing, gone, **how)

    # Lanes that were read before go on beside what they follow, which comes again.
    only_lineage(monkeypatch, seeks=1.0)
    assert first_wrong(storing(progress=Forgetful), seeds=300, how="runs before")


def test_a_lane_that_is_sought_back_without_what_was_made_of_it_is_found(monkeypatch):
    only_lineage(monkeypatch, seeks=1.0, divided=0.0)  # fewer seeks find a lane that is whole
    often = {**play._CHOICES, seek_somewhere: 12.0}
    monkeypatch.setattr(play, "_WEIGHTS", list(often.values()))
    monkeypatch.setattr(seeking, "_check_followers", lambda *of: None)
    assert first_wrong(how="stays read up to", known=157)


# what is played since there is one simulator


def only(monkeypatch, **odds):
    """Let runs have these faults and no others."""
    monkeypatch.setattr(world, "draw", lambda rng: Odds(**odds))


def test_dead_letters_that_are_not_kept_are_found(monkeypatch):
    only(monkeypatch, bad=0.02, refused=0.02)
    monkeypatch.setattr(MemoryDeadLetters, "keep", lambda self, letters: None)
    assert first_wrong(seeds=300, how="lost: ")


def test_a_lane_that_goes_on_before_its_letter_is_kept_is_found(monkeypatch):
    def hasty(self):
        """Say of each letter that it is kept, when it is only handed over."""
        found = [LetterOutcome(waiting, None) for waiting in self._waiting.values()]
        for kept in found:
            self.thread.submit(self.dead_letters.keep, [kept.aside.letter])
        self._waiting.clear()
        return found

    only(monkeypatch, raises=0.3, beside_late=0.95, driver_killed=0.004, letters_fail=0.9)
    monkeypatch.setattr(PendingLetters, "poll", hasty)
    assert first_wrong(how="lost: ", known=300)


def test_an_answer_about_a_topic_that_was_made_again_meanwhile_is_found(monkeypatch):
    only(monkeypatch, beside_late=0.9, deletes=1.0)
    monkeypatch.setattr(TopicKeeper, "_is_same", lambda self, held, mark: True)
    assert first_wrong(seeds=600)


def test_a_failure_that_blames_a_good_record_is_found(monkeypatch):
    def next_one(failure, records, row):
        return name_record(failure, records, max(0, row - 1))

    only(monkeypatch, bad=0.05)
    monkeypatch.setattr(handling, "name_record", next_one)
    assert first_wrong(seeds=300, how="which is good")


def test_a_search_that_takes_what_passes_for_a_records_fault_is_found(monkeypatch):
    def any_trouble(call, records):
        try:
            call(records)
        except Exception:
            return SinkRefused("as was told of all of them")
        return None

    only(monkeypatch, refused=0.05, dawdles=0.3)
    monkeypatch.setattr(culprits, "raised_by", any_trouble)
    assert first_wrong(how="which is good", known=38)


def test_order_stream_that_takes_an_unknown_end_for_an_empty_lane_is_found(monkeypatch):
    def naive(lane, name, places, *, merged, **said):
        shown = view(lane, name, places, merged=False, **said)
        return replace(shown, goes_on=lane.end > shown.end)

    view = Lane.view
    only(monkeypatch, log_partial=0.1)
    monkeypatch.setattr(Lane, "view", naive)
    monkeypatch.setattr(Lane, "is_blind", property(lambda lane: False))
    assert first_wrong(seeds=600, how="unordered", known=168)


def test_a_merge_that_forgets_its_horizon_is_found(monkeypatch):
    monkeypatch.setattr(portions, "_rows_before_horizon", lambda table, of: table.num_rows)
    assert first_wrong(seeds=600, how="unordered")


def test_a_cut_that_is_believed_at_once_is_found(monkeypatch):
    only(monkeypatch, log_stale=1.0)
    monkeypatch.setattr(Losses, "_too_early", lambda self, held, found, asked_s: None)
    assert first_wrong(seeds=300, how="treated as if it had lost")


def test_a_cut_that_sends_a_lane_before_its_end_is_found(monkeypatch):
    def too_far(*given):
        lost = lost_range(*given)
        cut = lost is not None and lost.loss is Loss.CUT
        return replace(lost, from_place=0, go_on_at=0) if cut else lost

    only(monkeypatch, cuts=1.0)
    monkeypatch.setattr(losses, "lost_range", too_far)
    assert first_wrong(seeds=600, how="where its log never ended")


def test_a_cut_that_nobody_notices_is_found(monkeypatch):
    def whole(*given):
        lost = lost_range(*given)
        return None if lost is not None and lost.loss is Loss.CUT else lost

    only(monkeypatch, cuts=1.0)
    monkeypatch.setattr(losses, "lost_range", whole)
    assert first_wrong(seeds=300)


def test_a_rerun_that_moves_the_live_stream_is_found(monkeypatch):
    class Wrong(MemoryProgress):
        def seek(self, stream, offsets, topic_id=None, *more, **how):
            super().seek(stream, offsets, topic_id, *more, **how)
            live = stream._replace(use_case=original(stream.use_case))
            if live != stream:
                self.data.put(live, offsets)

    only(monkeypatch, reruns=1.0)
    assert first_wrong(storing(progress=Wrong), seeds=300, how="broken chain")


def test_a_rerun_that_ends_too_early_is_found(monkeypatch):
    def some(held):
        ends = (held.deployment.until or {}).items()
        return any(held.lanes[at].position >= end for at, end in ends if at in held.lanes)

    only(monkeypatch, reruns=1.0)
    monkeypatch.setattr(HeldStream, "finished", property(some))
    assert first_wrong(seeds=900, how="is ended at")


def test_a_rerun_that_nobody_ends_is_found(monkeypatch):
    only(monkeypatch, reruns=1.0)
    monkeypatch.setattr(Reruns, "poll", lambda self: None)
    assert first_wrong(seeds=300, how="nobody has ended it")


def test_a_failed_slice_of_a_dataframe_that_counts_as_reached_is_found(monkeypatch):
    monkeypatch.setattr(
        frame_calls, "_failed", lambda receipt, error: replace(receipt, error=error)
    )
    only(monkeypatch, raises=0.02)
    assert first_wrong(seeds=300, how="lost: ")


def test_a_dataframe_that_is_called_before_its_claim_is_found(monkeypatch):
    def late(self, receipts):
        return [replace(receipt, committed=self.use_case.claims) for receipt in receipts]

    only(monkeypatch, seeks=1.0)
    monkeypatch.setattr(frame_calls.FrameCalls, "_claim", late)
    assert first_wrong(seeds=300)


def test_a_dataframe_that_is_read_again_and_is_another_by_then_is_found(monkeypatch):
    only(monkeypatch, read_again=0.5)
    monkeypatch.setattr(reading_again, "compare", lambda before, receipt: None)
    assert first_wrong(seeds=300, how="lost: ")
    assert first_wrong(seeds=300, how="twice: ")


def test_a_handler_that_never_comes_back_and_is_never_ended_is_found(monkeypatch):
    only(monkeypatch, sticks=0.01)
    monkeypatch.setattr(driver, "end_overdue", lambda *known: None)
    assert first_wrong(how="does not come to rest")


def test_a_handler_that_kills_and_is_never_narrowed_is_found(monkeypatch):
    only(monkeypatch, kills=0.01)
    monkeypatch.setattr(quarantine, "narrowed", lambda records: records)
    assert first_wrong(seeds=300)


def test_narrowing_that_forgets_an_error_is_found(monkeypatch):
    narrow = BinRun.narrow

    def forgetful(self, portion):
        narrow(self, replace(portion, error=None))

    only(monkeypatch, raises=0.1, refused=0.3)
    monkeypatch.setattr(BinRun, "narrow", forgetful)
    assert first_wrong(how="where its lane stood", known=188)


def _takes_what_is_before(monkeypatch):
    up_to_culprit = handling._up_to_culprit

    def nothing(call, records, raised):
        found = up_to_culprit(call, records, raised)
        return replace(found, output=None, rows=0) if call.use_case.claims else found

    monkeypatch.setattr(handling, "_up_to_culprit", nothing)


def _takes_what_is_behind(monkeypatch):
    call_rules = calling.call_rules

    def stopping(use_case, patience_s, *, shared):
        rules = call_rules(use_case, patience_s, shared=shared)
        return replace(rules, set_aside=frozenset()) if use_case.claims else rules

    monkeypatch.setattr(task, "call_rules", stopping)


@pytest.mark.parametrize("plant", [_takes_what_is_before, _takes_what_is_behind])
def test_at_most_once_that_loses_more_than_the_bad_record_is_found(monkeypatch, plant):
    only(monkeypatch, bad=0.1)
    plant(monkeypatch)
    assert first_wrong(how="lost")


def test_at_most_once_that_is_written_again_after_a_lost_answer_is_found(monkeypatch):
    write = TableWriter.write

    def again(self, effects):
        try:
            return write(self, effects)
        except SinkUnavailable as error:
            if isinstance(error.__cause__, OutcomeUnknown):
                return write(self, effects)
            raise

    only(monkeypatch, store_after=0.05)
    monkeypatch.setattr(TableWriter, "write", again)
    assert first_wrong(seeds=600, how="at-most-once: ")


def test_tokens_that_are_given_back_twice_are_found(monkeypatch):
    only(monkeypatch, lost_after=0.2, yields=0.5)
    monkeypatch.setattr(accounts, "_undone", lambda *_: 1.0)
    assert first_wrong(seeds=600, how="were allowed")


def test_a_cut_that_is_not_looked_at_where_a_lane_is_stopped_is_found(monkeypatch):
    of_ranges = losses.Losses._of_ranges

    def passing(self, held, edges):
        found = of_ranges(self, held, edges)
        waits = held.deployment.data_loss is DataLossPolicy.SKIP
        return {
            name: lost for name, lost in found.items() if not (waits and held.lanes[name].failure)
        }

    also(monkeypatch, {"cuts": 0.9, "raises": 0.1, "bad": 0.1})
    monkeypatch.setattr(losses.Losses, "_of_ranges", passing)
    assert first_wrong(how="behind the end of its log, unseen", known=10)


def test_a_cut_right_at_what_a_lane_is_stopped_at_that_nobody_notices_is_found(monkeypatch):
    also(monkeypatch, {"cuts": 0.9, "raises": 0.1, "bad": 0.1, "kills": 0.05})
    monkeypatch.setattr(losses, "_had", lambda lane: UNKNOWN)
    assert first_wrong(how="behind the end of its log, unseen", known=88)


def test_bytes_that_are_paid_as_they_were_guessed_are_found(monkeypatch):
    def guess(_receipt, undone, guessed):
        return (1.0 - undone) * guessed

    monkeypatch.setattr(accounts, "_bytes_of", guess)
    assert first_wrong(how="bytes since", known=100)


def test_a_seek_that_keeps_the_epoch_is_found(monkeypatch):
    class Keeping(MemoryProgress):
        def seek(self, stream, offsets, topic_id=None, *more, **how):
            epoch = self.data.stream(stream).epoch
            super().seek(stream, offsets, topic_id, *more, **how)
            self._turn_to(stream, self.data.stream(stream).topic_id, epoch)

    only(monkeypatch, seeks=1.0, task_paused=0.03, driver_paused=0.004)
    assert first_wrong(storing(progress=Keeping), seeds=300)


def test_settings_of_tasks_are_as_before():
    before = (task.BATCH_RECORDS, task.GROUP_RECORDS, task.GROUP_S)
    simulate(0)
    assert before == (task.BATCH_RECORDS, task.GROUP_RECORDS, task.GROUP_S)


def test_a_failing_seed_is_replayed_by_one_command(monkeypatch):
    monkeypatch.setattr(MemoryReader, "read", lambda self, slices, batch_records: iter(()))
    outcome = next(played for played in map(simulate, range(ENOUGH)) if played.wrong)
    assert outcome.command == (
        f"python -m headrace.testing.simulation --seed {outcome.seed} --trace"
    )
    assert outcome.command in str(outcome)


def test_slices_after_a_skip_are_as_deep_as_the_store_has_made_their_lanes():
    odds = read_odds("splits=0.3,drops=0.15,lists_late=0.4")
    for seed in (40052, 40604, 40705):
        outcome = simulate(seed, odds=odds)
        assert not outcome.wrong, str(outcome)


def test_odds_that_were_given_are_part_of_the_command_and_of_what_was_counted(tmp_path):
    odds = "hides=1,reads_less=0.25"
    assert simulate(5, odds=read_odds(odds)).command == (
        f"python -m headrace.testing.simulation --seed 5 --odds {odds} --trace"
    )
    told = tmp_path / "results.json"
    for words in ([], ["--odds", odds], ["--odds", odds]):
        main(["--seeds", "1", "--jobs", "1", "--results", f"{told}", "--add", *words])
    results = json.loads(told.read_text())
    assert (results["seeds"], results["failed"], results["odds"]) == (3, 0, {odds: 2})
    assert results["counts"]["seeds passed"] == 3


def test_the_command_says_how_much_happens_and_on_which_store():
    hides = read_odds("hides=1")
    ends = [
        (RunOptions(), ""),
        (RunOptions(actions=7), " --actions 7"),
        (RunOptions(sqlite=True, actions=7), " --actions 7 --store sqlite"),
        (RunOptions(sqlite=True, odds=hides), " --odds hides=1 --store sqlite"),
    ]
    for asked, told in ends:
        command = f"python -m headrace.testing.simulation --seed 5{told} --trace"
        assert asked.one(5).command == command


def test_what_a_log_lists_anew_after_the_end_is_waited_for():
    # With fewer rounds a lane that came back to the list was still to be looked at.
    odds = "divided=1,by_place=0,splits=0.4,drops=0.3,lists_late=0.8,log_partial=0.05,expires=0.5"
    given = read_odds(f"{odds},other_terms=1,lost_after=0.1")
    assert not simulate(8100222, actions=200, odds=given).wrong


def test_the_command_says_how_many_use_cases_have_buckets(monkeypatch):
    made = []

    def noted(self, name):
        made.append(self.use_cases[name])
        return true(self, name)

    true = Deployed.deploy
    monkeypatch.setattr(Deployed, "deploy", noted)
    counts = {}
    for odds in ("divided=0,by_place=1", "divided=1,by_place=0", "divided=1,by_place=1"):
        made.clear()
        played = [simulate(seed, odds=read_odds(f"hides=0,{odds}")) for seed in range(6)]
        assert all(f"--odds hides=0,{odds} --trace" in one.command for one in played)
        counts[odds] = Counter(case.order.value for case in made if case.divides_by > 1)
    assert [*map(set, counts.values())] == [set(), {"key"}, {"none"}]


def test_a_seed_without_odds_of_buckets_has_those_that_it_always_had():
    usual = simulate(3, odds={"hides": 0.0})
    told = simulate(3, odds={"hides": 0.0, "divided": 0.4, "by_place": 0.3})
    assert (usual.counts, usual.wrong) == (told.counts, told.wrong)


@pytest.mark.parametrize("text", ["hides", "hides=2", "hide=0.1", "hides=0.1;bad=1"])
def test_odds_of_no_fault_are_refused(text):
    with pytest.raises(ValueError, match=r"fault|float"):
        read_odds(text)


def test_a_seed_plays_the_same_run_in_every_process():
    def trace(hash_seed):
        command = [sys.executable, "-m", "headrace.testing.simulation", "--seed", "3", "--trace"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout

    assert trace("1") == trace("2") != b""


# brokers that have not heard of a change

UNHEARD = {"unheard": 0.2, "deletes": 1.0, "seeks": 0.5}


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_nothing_is_wrong_where_brokers_have_not_heard_of_a_change(first):
    for seed in range(first, first + 20):
        outcome = played(seed, **UNHEARD)
        assert not outcome.wrong, str(outcome)


def test_brokers_that_have_not_heard_are_played():
    counts = sum((played(seed, **UNHEARD).counts for seed in range(60)), start=Counter())
    for what in ("topics told of before", "lists without a lane"):
        assert counts[what] > 0, what


def test_a_driver_that_believes_one_answer_of_another_topic_is_found(monkeypatch):
    only(monkeypatch, unheard=0.5, deletes=1.0)
    monkeypatch.setattr(topics, "doubted_id", lambda *_: None)
    assert first_wrong(seeds=300, how=" it left")


def test_a_seek_by_one_list_without_a_lane_is_found(monkeypatch):
    only(monkeypatch, unheard=0.2, seeks=1.0)
    monkeypatch.setattr(seeking, "check_listed", lambda *_: None)
    monkeypatch.setattr(seeking, "_check_gone", lambda *_: None)
    assert first_wrong(seeds=300, how="a seek forgot")


def test_a_seek_that_forgets_a_lane_that_one_list_is_without_is_found(monkeypatch):
    only_lineage(monkeypatch, unheard=0.2, seeks=1.0, drops=0.1)
    monkeypatch.setattr(seeking, "_check_gone", lambda *_: None)
    assert first_wrong(seeds=600, how="a seek forgot")


def test_a_lane_that_one_list_is_without_and_that_counts_as_gone_is_found(monkeypatch):
    only(monkeypatch, unheard=0.3)
    monkeypatch.setattr(topics, "lanes_go", lambda *_: True)
    assert first_wrong()
