"""What every store must do when lanes are sent somewhere by decision, as tests; for ``Progress``.

To go on behind what Kafka lost moves several lanes and says so, and both or neither must be there
after.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.errors import ConfigError, Temporary, UnknownName
from headrace.model.buckets import divided
from headrace.model.places import place_at
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, LaneStart, Move
from headrace.model.streams import Position, Slice, State, Stream, StreamId, Tenant
from headrace.ports import Store
from headrace.testing.store_contract.begun import (
    ACME,
    BOLT,
    by_lane,
    failed,
    lane,
    offsets,
    started,
)


def _of(store: Store, stream: StreamId) -> Stream:
    return next(one for one in store.registry.streams() if one.id == stream)


def _note(partition: int, from_offset: int, until_offset: int, epoch: int = 1) -> Failure:
    bounds = place_at(from_offset), place_at(until_offset)
    piece = Slice(lane(partition), "acme.visits", *bounds, epoch)
    error = SliceError(False, "OffsetOutOfRange", f"lost {from_offset} to {until_offset - 1}")
    return Failure(piece, error, 7.5, attempts=0, state=FailureState.SKIPPED)


class TestProgress:
    """The promises about where lanes begin and go on."""

    def test_lanes_start_once_under_the_streams_epoch(self, store: Store) -> None:
        epoch = started(store, 7)
        store.progress.start_lanes([LaneStart(ACME, "id-1", by_lane({0: 0, 1: 4}))])
        assert store.progress.load_positions() == [
            Position(lane(0), place_at(7), epoch),
            Position(lane(1), place_at(4), epoch),
        ]
        assert store.registry.streams()[0].topic_id == "id-1"

    def test_a_stream_begins_once_be_it_without_its_topic(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store)
        (stream,) = [one for one in store.registry.streams() if one.id == BOLT]
        assert (stream.topic_id, stream.begun_without_topic) == (None, False)
        for late in (epoch + 1, epoch + 2):
            store.progress.start_lanes([LaneStart(BOLT, None, {}, epoch=late, begins=True)])
        assert not _of(store, BOLT).begun_without_topic
        epoch = store.membership.hold([BOLT])[BOLT]
        store.progress.start_lanes([LaneStart(BOLT, None, {}, epoch=epoch, begins=True)])
        again = open_again()
        assert _of(again, BOLT).begun_without_topic
        assert _of(again, BOLT).topic_id is None
        again.close()
        at_end = LaneStart(BOLT, "id-1", by_lane({0: 9}, BOLT), None, {}, epoch, begins=True)
        store.progress.start_lanes([at_end])
        assert (offsets(store, BOLT), _of(store, BOLT).topic_id) == ({}, None)
        store.progress.start_lanes([replace(at_end, offsets=by_lane({0: 0}, BOLT), begins=False)])
        assert (offsets(store, BOLT), _of(store, BOLT).topic_id) == ({0: 0}, "id-1")

    def test_who_chose_first_places_later_than_another_starts_nothing(self, store: Store) -> None:
        epoch = started(store, 5)
        late = LaneStart(ACME, "id-1", by_lane({0: 9, 1: 9}), None, {}, epoch, begins=True)
        store.progress.start_lanes([late])
        assert offsets(store) == {0: 5}
        store.progress.start_lanes([replace(late, begins=False)])
        assert offsets(store) == {0: 5, 1: 9}

    def test_one_that_is_added_again_has_not_begun(self, store: Store) -> None:
        started(store)
        store.progress.start_lanes([LaneStart(BOLT, None, {}, begins=True)])
        store.registry.set_stream_state(BOLT, State.REMOVED)
        store.registry.add_stream(BOLT)
        assert not _of(store, BOLT).begun_without_topic
        store.progress.start_lanes([LaneStart(BOLT, None, {}, begins=True)])
        store.registry.set_tenant_state("bolt", State.REMOVED)
        store.registry.add_tenant(Tenant("bolt"))
        assert not _of(store, BOLT).begun_without_topic

    def test_lanes_of_a_topic_that_is_no_more_are_not_started(self, store: Store) -> None:
        epoch = started(store, 7) + 1  # a seek raises it
        store.progress.seek(ACME, by_lane({0: 2}), "id-2")
        store.progress.start_lanes([LaneStart(ACME, "id-1", by_lane({0: 0, 1: 4}))])
        assert store.progress.load_positions() == [Position(lane(0), place_at(2), epoch, depth=1)]
        assert store.registry.streams()[0].topic_id == "id-2"
        store.progress.start_lanes([LaneStart(ACME, "id-3", by_lane({1: 4}), known_id="id-2")])
        assert store.progress.load_positions()[1:] == [
            Position(lane(1), place_at(4), epoch, depth=1)
        ]
        assert store.registry.streams()[0].topic_id == "id-3"

    def test_a_seek_sets_any_lane_under_a_new_epoch(self, store: Store) -> None:
        epoch = started(store, 7)
        store.progress.seek(ACME, by_lane({0: 2, 3: 11}))
        raised = store.registry.streams()[0].epoch
        assert raised > epoch
        assert store.progress.load_positions() == [
            Position(lane(0), place_at(2), raised, depth=1),
            Position(lane(3), place_at(11), raised, depth=1),
        ]

    @pytest.mark.parametrize("to", [2, 7])
    def test_after_a_seek_what_was_in_flight_does_not_commit_wherever_it_begins(
        self, store: Store, to: int
    ) -> None:
        epoch = started(store, 7, 7)
        store.progress.seek(ACME, by_lane({0: to}))
        moves = [
            Move(lane(p), place_at(begin), place_at(9), epoch)
            for p, begin in ((0, 7), (0, to), (1, 7))
        ]
        assert store.positions.advance(moves) == [False] * 3
        assert offsets(store) == {0: to, 1: 7}

    def test_who_held_a_stream_that_was_sought_takes_it_anew(self, store: Store) -> None:
        started(store, 7)
        store.membership.hold([ACME], "d1")
        store.progress.seek(ACME, by_lane({0: 2}))
        assert store.registry.streams()[0].holder == "d1"
        assert store.membership.hold([ACME], "d2") == {}
        epoch = store.membership.hold([ACME], "d1")[ACME]
        assert store.positions.advance([Move(lane(0), place_at(2), place_at(9), epoch)]) == [True]

    def test_a_seek_is_the_decision_that_a_topic_made_again_asks_for(self, store: Store) -> None:
        started(store, 7)
        store.progress.seek(ACME, by_lane({0: 0}))
        assert store.registry.streams()[0].topic_id is None
        store.progress.start_lanes([LaneStart(ACME, "id-2", by_lane({}))])
        assert store.registry.streams()[0].topic_id == "id-2"

    def test_a_seek_by_a_topic_keeps_its_id(self, store: Store) -> None:
        started(store, 7)
        store.progress.seek(ACME, by_lane({0: 0}), "id-2")
        assert store.registry.streams()[0].topic_id == "id-2"

    def test_topics_that_a_stream_left_are_remembered(self, store: Store) -> None:
        def left() -> tuple[str, ...]:
            return store.registry.streams()[0].left_ids

        started(store, 7)
        assert left() == ()
        store.progress.seek(ACME, by_lane({0: 0}), "id-2")
        assert left() == ("id-1",)
        (at,) = store.progress.load_positions([ACME])
        moves = [Move(lane(0), at.next_offset, place_at(0), at.epoch)]
        store.progress.skip_lost(ACME, moves, [], "id-3")
        assert left() == ("id-1", "id-2")
        store.progress.start_lanes([LaneStart(ACME, "id-4", by_lane({}), known_id="id-3")])
        store.progress.start_lanes([LaneStart(ACME, "id-4", by_lane({1: 4}), known_id="id-4")])
        assert left() == ("id-1", "id-2", "id-3")
        store.progress.seek(ACME, by_lane({0: 0}), "id-2")
        assert left() == ("id-1", "id-3", "id-4")

    @pytest.mark.parametrize("whole", [False, True])
    def test_topics_that_were_left_are_remembered_of_what_is_added_again(
        self, store: Store, *, whole: bool
    ) -> None:
        def added_again() -> Stream:
            if whole:
                store.registry.set_tenant_state("acme", State.REMOVED)
                store.registry.add_tenant(Tenant("acme"))
            else:
                store.registry.set_stream_state(ACME, State.REMOVED)
                store.registry.add_stream(ACME)
            return store.registry.streams()[0]

        started(store, 7)
        store.progress.seek(ACME, by_lane({0: 0}), "id-2")
        # The youngest is the one that it had, and may have again.
        assert (added_again().topic_id, added_again().left_ids) == (None, ("id-1", "id-2"))
        store.progress.start_lanes([LaneStart(ACME, "id-2", by_lane({0: 0}))])
        assert store.registry.streams()[0].left_ids == ("id-1",)
        assert added_again().left_ids == ("id-1", "id-2")
        store.progress.start_lanes([LaneStart(ACME, "id-3", by_lane({0: 0}))])
        assert store.registry.streams()[0].left_ids == ("id-1", "id-2")

    def test_a_seek_gives_a_bucket_its_place_among_its_own_and_among_no_others(
        self, store: Store
    ) -> None:
        started(store, 7)
        first, second = divided(lane(1).name, 2)
        places = {first: place_at(40)}
        store.progress.start_lanes([LaneStart(ACME, "id-1", places, "id-1")])
        other = divided(lane(1).name, 4)[3]
        for name in (other, lane(1).name):
            with pytest.raises(Temporary, match="other buckets"):
                store.progress.seek(ACME, {name: place_at(30)}, "id-1")
        store.progress.seek(ACME, {second: place_at(30)}, "id-1")
        found = {one.lane.name: one for one in store.progress.load_positions([ACME])}
        assert {name: at.next_offset for name, at in found.items()} == {
            lane(0).name: place_at(7),
            first: place_at(40),
            second: place_at(30),
        }
        assert len({at.epoch for at in found.values()}) == 1

    def test_a_removed_stream_cannot_be_sought(self, store: Store) -> None:
        started(store, 7)
        store.registry.set_stream_state(ACME, State.REMOVED)
        with pytest.raises(ConfigError, match="starts it afresh"):
            store.progress.seek(ACME, by_lane({0: 0}))

    def test_lanes_go_on_behind_what_is_lost_and_a_note_stays_that_stops_nothing(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 3, 4, 5)
        notes = [_note(0, 3, 9), _note(1, 4, 7)]
        moves = [
            Move(lane(0), place_at(3), place_at(9), epoch),
            Move(lane(1), place_at(4), place_at(7), epoch),
        ]
        assert store.progress.skip_lost(ACME, moves, notes, "id-2") == epoch + 1
        again = open_again()
        assert offsets(again) == {0: 9, 1: 7, 2: 5}
        kept = again.failures.every(ACME)
        assert [replace(failure, id=None) for failure in kept] == notes
        assert again.failures.every(only_open=True) == []
        acme = next(stream for stream in again.registry.streams() if stream.id == ACME)
        assert (acme.topic_id, acme.epoch, acme.state) == ("id-2", epoch + 1, State.ACTIVE)
        again.close()

    def test_what_still_runs_of_the_old_log_is_refused_also_where_a_lane_stays(
        self, store: Store
    ) -> None:
        epoch = started(store, 0, 5)
        bolt = store.membership.hold([BOLT])[BOLT]
        new = store.progress.skip_lost(
            ACME, [Move(lane(0), place_at(0), place_at(0), epoch)], [_note(0, 0, 0)], "id-2"
        )
        assert new == epoch + 1
        old = [
            Move(lane(0), place_at(0), place_at(2), epoch),
            Move(lane(1), place_at(5), place_at(6), epoch),
        ]
        assert store.positions.advance(old) == [False, False]
        assert store.positions.advance([replace(move, epoch=new) for move in old]) == [True, True]
        assert {stream.id: stream.epoch for stream in store.registry.streams()}[BOLT] == bolt

    @pytest.mark.parametrize(("partition", "at", "late"), [(1, 5, 0), (1, 4, -1), (2, 4, 0)])
    def test_one_lane_that_is_not_as_thought_keeps_all_where_they_are(
        self, store: Store, partition: int, at: int, late: int
    ) -> None:
        epoch = started(store, 3, 4)
        moves = [
            Move(lane(0), place_at(3), place_at(9), epoch + late),
            Move(lane(partition), place_at(at), place_at(9), epoch + late),
        ]
        assert store.progress.skip_lost(ACME, moves, [_note(0, 3, 9)], "id-2") is None
        assert store.progress.load_positions([ACME]) == [
            Position(lane(0), place_at(3), epoch),
            Position(lane(1), place_at(4), epoch),
        ]
        assert store.failures.every() == []
        assert store.registry.streams()[0].topic_id == "id-1"

    def test_who_was_replaced_passes_over_nothing_though_no_lane_moves(self, store: Store) -> None:
        late = started(store, 3)
        epoch = store.membership.hold([ACME])[ACME]
        assert store.progress.skip_lost(ACME, [], [_note(1, 0, 0, late)], "id-2") is None
        assert store.progress.skip_lost(ACME, [], [], "id-2") is None
        assert store.registry.streams()[0].topic_id == "id-1"
        assert store.failures.every() == []
        assert store.progress.load_positions([ACME]) == [Position(lane(0), place_at(3), epoch)]
        assert store.progress.skip_lost(ACME, [], [_note(1, 0, 0, epoch)], "id-1") == epoch + 1

    def test_lanes_that_are_moved_are_stopped_by_no_failure_and_others_still_are(
        self, store: Store
    ) -> None:
        epoch = started(store, 3, 3)
        moved, left = (store.failures.keep([failed(number)])[0] for number in (0, 1))
        store.progress.skip_lost(
            ACME, [Move(lane(0), place_at(3), place_at(9), epoch)], [_note(0, 3, 9)], "id-1"
        )
        assert store.failures.one(moved).state is FailureState.SKIPPED
        assert [failure.id for failure in store.failures.every(only_open=True)] == [left]
        # What fails at that offset is another record.
        again = store.failures.keep([failed(0)])[0]
        assert (again == moved, store.failures.one(again).times) == (False, 1)

    def test_what_is_only_noted_is_kept_and_stops_nothing(self, store: Store) -> None:
        epoch = started(store, 3)
        notes = [_note(0, 3, 9), _note(1, 4, 7)]
        store.failures.note(notes)
        assert [replace(failure, id=None) for failure in store.failures.every(ACME)] == notes
        assert store.failures.every(only_open=True) == []
        assert store.progress.load_positions([ACME]) == [Position(lane(0), place_at(3), epoch)]

    def test_a_removed_stream_goes_nowhere_and_an_unknown_one_is_told(self, store: Store) -> None:
        epoch = started(store, 3)
        store.registry.set_stream_state(ACME, State.REMOVED)
        assert (
            store.progress.skip_lost(
                ACME, [Move(lane(0), place_at(3), place_at(9), epoch)], [], "id-2"
            )
            is None
        )
        assert offsets(store) == {0: 3}
        with pytest.raises(UnknownName, match=r"no stream nobody/score; .*streams list"):
            store.progress.skip_lost(StreamId("score", "nobody"), [], [], "id-2")

    def test_to_go_on_behind_what_is_lost_raises_the_revision(self, store: Store) -> None:
        epoch = started(store, 3)
        before = store.revision()
        store.progress.skip_lost(
            ACME, [Move(lane(0), place_at(3), place_at(9), epoch)], [_note(0, 3, 9)], "id-1"
        )
        assert store.revision() > before
