"""What every store must do with lanes that follow others, as tests; for ``Progress``.

That such a lane is not read too early is the driver's matter. The store has to keep what it follows
from the moment in which the lane is there, through everything that happens to its stream, and to
forget it only with a decision.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from headrace.model.lineage import Parent
from headrace.model.records import LaneStart, Move
from headrace.model.streams import State, Tenant
from headrace.ports import Store
from headrace.testing.store_contract.begun import ACME, by_lane, lane, started

OLD, LEFT, RIGHT = lane(0).name, lane(1).name, lane(2).name
#: an end as wide as any
FAR = 10**55 + 1


def _split(store: Store, end: int | None = 9) -> int:
    """A lane with two that follow it; the epoch of their stream."""
    epoch = started(store, 7)
    parents = {LEFT: (Parent(OLD, end),), RIGHT: (Parent(OLD, end),)}
    first = LaneStart(ACME, "id-1", by_lane({0: 0, 1: 0, 2: 3}), "id-1", parents)
    store.progress.start_lanes([first])
    return epoch


def parents_of(store: Store) -> dict[str, tuple[Parent, ...]]:
    """What each lane of a stream follows."""
    positions = store.progress.load_positions([ACME])
    return {position.lane.name: position.parents for position in positions}


class TestParents:
    """The promises about lanes that follow others."""

    def test_a_lane_is_there_with_its_parents(self, store: Store) -> None:
        _split(store, FAR)
        assert parents_of(store) == {
            OLD: (),
            LEFT: (Parent(OLD, FAR),),
            RIGHT: (Parent(OLD, FAR),),
        }

    def test_they_are_kept_in_the_store(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        _split(store)
        with closing(open_again()) as again:
            assert parents_of(again) == parents_of(store)

    def test_a_lane_can_follow_two(self, store: Store) -> None:
        _split(store)
        merged = lane(3).name
        parents = {merged: (Parent(LEFT, 4), Parent(RIGHT, 5))}
        store.progress.start_lanes([LaneStart(ACME, "id-1", {merged: 0}, "id-1", parents)])
        assert parents_of(store)[merged] == parents[merged]

    def test_a_lane_that_is_there_keeps_what_it_follows(self, store: Store) -> None:
        _split(store)
        other = {LEFT: (Parent(OLD, 99),), OLD: (Parent(RIGHT, 1),)}
        store.progress.start_lanes([LaneStart(ACME, "id-1", by_lane({0: 0, 1: 0}), "id-1", other)])
        assert parents_of(store)[LEFT] == (Parent(OLD, 9),)
        assert parents_of(store)[OLD] == ()

    def test_a_lane_that_is_not_there_is_not_waited_for(self, store: Store) -> None:
        started(store, 7)
        parents = {LEFT: (Parent(OLD, 9), Parent("before[0]", 3)), RIGHT: (Parent(LEFT, 5),)}
        first = LaneStart(ACME, "id-1", by_lane({1: 0, 2: 0}), "id-1", parents)
        store.progress.start_lanes([first])
        assert parents_of(store)[LEFT] == (Parent(OLD, 9), Parent("before[0]", None))
        assert parents_of(store)[RIGHT] == (Parent(LEFT, 5),)

    def test_a_lane_waits_for_a_decision_about_one_that_has_no_end(self, store: Store) -> None:
        started(store, 7)
        parents = {LEFT: (Parent(OLD, None),)}
        first = LaneStart(ACME, "id-1", by_lane({1: 0, 2: 0}), "id-1", parents)
        store.progress.start_lanes([first])
        assert parents_of(store) == {OLD: (), RIGHT: ()}

    def test_they_stay_whatever_moves_or_holds_the_lane(self, store: Store) -> None:
        epoch = _split(store)
        followed = parents_of(store)
        assert store.positions.advance(
            [Move(lane(0), 7, 9, epoch), Move(lane(1), 0, 1, epoch)]
        ) == [
            True,
            True,
        ]
        assert parents_of(store) == followed
        store.membership.hold([ACME])
        assert parents_of(store) == followed

    def test_a_seek_leaves_them_unless_it_says_otherwise(self, store: Store) -> None:
        _split(store)
        followed = parents_of(store)
        store.progress.seek(ACME, by_lane({0: 2, 1: 0, 2: 0}), "id-1")
        assert parents_of(store) == followed
        store.progress.seek(ACME, by_lane({0: 2}), "id-1", {LEFT: (Parent(OLD, 5),)})
        assert parents_of(store) == {OLD: (), LEFT: (Parent(OLD, 5),), RIGHT: ()}

    def test_a_seek_gives_new_lanes_their_parents(self, store: Store) -> None:
        started(store, 7)
        store.progress.seek(ACME, by_lane({0: 2, 1: 0}), "id-1", {LEFT: (Parent(OLD, 9),)})
        assert parents_of(store) == {OLD: (), LEFT: (Parent(OLD, 9),)}

    def test_a_seek_can_give_lanes_up(self, store: Store) -> None:
        _split(store)
        store.progress.seek(ACME, by_lane({1: 0}), "id-1", gone=[OLD])
        assert parents_of(store) == {LEFT: (Parent(OLD, None),), RIGHT: (Parent(OLD, None),)}

    def test_lanes_that_are_lost_are_given_up_with_the_note_of_it(self, store: Store) -> None:
        epoch = _split(store)
        stays = Move(lane(0), 7, 7, epoch)
        assert store.progress.skip_lost(ACME, [stays], [], "id-1", gone=[OLD]) == epoch + 1
        assert parents_of(store) == {LEFT: (Parent(OLD, None),), RIGHT: (Parent(OLD, None),)}

    def test_lanes_that_moved_meanwhile_are_not_given_up(self, store: Store) -> None:
        epoch = _split(store)
        stale = Move(lane(0), 6, 6, epoch)
        assert store.progress.skip_lost(ACME, [stale], [], "id-1", gone=[OLD]) is None
        assert parents_of(store)[LEFT] == (Parent(OLD, 9),)

    def test_lanes_that_are_done_are_forgotten_under_their_epoch_alone(self, store: Store) -> None:
        epoch = _split(store)
        assert not store.progress.forget_lanes(ACME, [OLD], epoch - 1)
        assert OLD in parents_of(store)
        assert store.progress.forget_lanes(ACME, [OLD], epoch)
        assert parents_of(store) == {LEFT: (Parent(OLD, None),), RIGHT: (Parent(OLD, None),)}
        assert {position.epoch for position in store.progress.load_positions([ACME])} == {epoch}

    def test_a_stream_that_begins_anew_follows_nothing(self, store: Store) -> None:
        _split(store)
        store.registry.set_stream_state(ACME, State.REMOVED)
        store.registry.add_stream(ACME)
        assert parents_of(store) == {}
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme"))
        assert parents_of(store) == {}
