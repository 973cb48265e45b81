"""What every store must do about records that Kafka lost, as tests; a part of ``store_contract``.

To go on behind them moves several lanes and says so, and both or neither must be there after.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.errors import UnknownName
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, Move
from headrace.model.streams import Position, Slice, State, StreamId
from headrace.ports import Store
from headrace.testing.store_contract_decisions import failed
from headrace.testing.store_contract_positions import ACME, BOLT, lane, offsets, started


def _note(partition: int, from_offset: int, until_offset: int) -> Failure:
    piece = Slice(lane(partition), "acme.visits", from_offset, until_offset, 1)
    error = SliceError(False, "OffsetOutOfRange", f"lost {from_offset} to {until_offset - 1}")
    return Failure(piece, error, 7.5, attempts=0, state=FailureState.SKIPPED)


class LostContract:
    """The promises about what Kafka lost; ``StoreContract`` has them all."""

    def test_lanes_go_on_behind_what_is_lost_and_a_note_stays_that_stops_nothing(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 3, 4, 5)
        notes = [_note(0, 3, 9), _note(1, 4, 7)]
        moves = [Move(lane(0), 3, 9, epoch), Move(lane(1), 4, 7, epoch)]
        assert store.skip_lost(ACME, moves, notes, "id-2") == epoch + 1
        again = open_again()
        assert offsets(again) == {0: 9, 1: 7, 2: 5}
        kept = again.failures(ACME)
        assert [replace(each, id=None) for each in kept] == notes
        assert again.failures(only_open=True) == []
        acme = next(each for each in again.streams() if each.id == ACME)
        assert (acme.topic_id, acme.epoch, acme.state) == ("id-2", epoch + 1, State.ACTIVE)
        again.close()

    def test_what_still_runs_of_the_old_log_is_refused_also_where_a_lane_stays(
        self, store: Store
    ) -> None:
        epoch = started(store, 0, 5)
        bolt = store.hold([BOLT])[BOLT]
        new = store.skip_lost(ACME, [Move(lane(0), 0, 0, epoch)], [_note(0, 0, 0)], "id-2")
        assert new == epoch + 1
        old = [Move(lane(0), 0, 2, epoch), Move(lane(1), 5, 6, epoch)]
        assert store.positions.advance(old) == [False, False]
        assert store.positions.advance([replace(each, epoch=new) for each in old]) == [True, True]
        assert {each.id: each.epoch for each in store.streams()}[BOLT] == bolt

    @pytest.mark.parametrize(("partition", "at", "late"), [(1, 5, 0), (1, 4, -1), (2, 4, 0)])
    def test_one_lane_that_is_not_as_thought_keeps_all_where_they_are(
        self, store: Store, partition: int, at: int, late: int
    ) -> None:
        epoch = started(store, 3, 4)
        moves = [Move(lane(0), 3, 9, epoch + late), Move(lane(partition), at, 9, epoch + late)]
        assert store.skip_lost(ACME, moves, [_note(0, 3, 9)], "id-2") is None
        assert store.load_positions([ACME]) == [
            Position(lane(0), 3, epoch),
            Position(lane(1), 4, epoch),
        ]
        assert store.failures() == []
        assert store.streams()[0].topic_id == "id-1"

    def test_lanes_that_are_moved_are_stopped_by_no_failure_and_others_still_are(
        self, store: Store
    ) -> None:
        epoch = started(store, 3, 3)
        moved, left = (store.keep_failure(failed(each)) for each in (0, 1))
        store.skip_lost(ACME, [Move(lane(0), 3, 9, epoch)], [_note(0, 3, 9)], "id-1")
        assert store.failure(moved).state is FailureState.RETRIED
        assert [each.id for each in store.failures(only_open=True)] == [left]

    def test_what_is_only_noted_is_kept_and_stops_nothing(self, store: Store) -> None:
        epoch = started(store, 3)
        notes = [_note(0, 3, 9), _note(1, 4, 7)]
        store.note_failures(notes)
        assert [replace(each, id=None) for each in store.failures(ACME)] == notes
        assert store.failures(only_open=True) == []
        assert store.load_positions([ACME]) == [Position(lane(0), 3, epoch)]

    def test_a_removed_stream_goes_nowhere_and_an_unknown_one_is_told(self, store: Store) -> None:
        epoch = started(store, 3)
        store.set_stream_state(ACME, State.REMOVED)
        assert store.skip_lost(ACME, [Move(lane(0), 3, 9, epoch)], [], "id-2") is None
        assert offsets(store) == {0: 3}
        with pytest.raises(UnknownName, match=r"no stream nobody/score; .*streams list"):
            store.skip_lost(StreamId("score", "nobody"), [], [], "id-2")

    def test_to_go_on_behind_what_is_lost_raises_the_revision(self, store: Store) -> None:
        epoch = started(store, 3)
        before = store.revision()
        store.skip_lost(ACME, [Move(lane(0), 3, 9, epoch)], [_note(0, 3, 9)], "id-1")
        assert store.revision() > before
