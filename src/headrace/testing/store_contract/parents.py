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
from dataclasses import replace

import pytest

from headrace.model.lineage import Parent
from headrace.model.places import place_at
from headrace.model.records import LaneStart, Move
from headrace.model.streams import RERUN_MARK, LaneId, Slice, State, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.ports import Store
from headrace.testing.store_contract.begun import ACME, SCORE, by_lane, lane, started

OLD, LEFT, RIGHT = lane(0).name, lane(1).name, lane(2).name
#: an end as wide as any
FAR = 10**55 + 1


def _merge(store: Store) -> tuple[str, tuple[Parent, ...]]:
    """Make one lane of the two; its name, and what it follows."""
    merged, parents = lane(3).name, (Parent(LEFT, place_at(4)), Parent(RIGHT, place_at(5)))
    start = LaneStart(ACME, "id-1", {merged: place_at(0)}, "id-1", {merged: parents})
    store.progress.start_lanes([start])
    return merged, parents


def _split(store: Store, end: int | None = 9) -> int:
    """A lane with two that follow it; the epoch of their stream."""
    epoch = started(store, 7)
    at = None if end is None else place_at(end)
    parents = {LEFT: (Parent(OLD, at),), RIGHT: (Parent(OLD, at),)}
    first = LaneStart(ACME, "id-1", by_lane({0: 0, 1: 0, 2: 3}), "id-1", parents)
    store.progress.start_lanes([first])
    return epoch


def parents_of(store: Store) -> dict[str, tuple[Parent, ...]]:
    """What each lane of a stream follows."""
    positions = store.progress.load_positions([ACME])
    return {position.lane.name: position.parents for position in positions}


class TestParents:
    """The promises about lanes that follow others."""

    def test_lanes_begin_at_a_place_that_was_chosen_under_its_epoch_alone(
        self, store: Store
    ) -> None:
        """Who has not the stream any more does not know how far it came since."""
        epoch = started(store, 7)
        part = f"{OLD}#0/2"
        parents = {part: (Parent(OLD, place_at(9)),)}
        chosen = LaneStart(ACME, "id-1", {part: place_at(9)}, "id-1", parents, epoch=epoch - 1)
        store.progress.start_lanes([chosen])
        assert part not in parents_of(store)
        store.progress.start_lanes([replace(chosen, epoch=epoch)])
        assert parents_of(store)[part] == parents[part]

    def test_a_lane_is_there_with_its_parents(self, store: Store) -> None:
        _split(store, FAR)
        assert parents_of(store) == {
            OLD: (),
            LEFT: (Parent(OLD, place_at(FAR)),),
            RIGHT: (Parent(OLD, place_at(FAR)),),
        }

    def test_they_are_kept_in_the_store(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        _split(store)
        with closing(open_again()) as again:
            assert parents_of(again) == parents_of(store)

    def test_a_lane_can_follow_two(self, store: Store) -> None:
        _split(store)
        merged, parents = _merge(store)
        assert parents_of(store)[merged] == parents

    def test_a_lane_that_is_there_keeps_what_it_follows(self, store: Store) -> None:
        _split(store)
        other = {LEFT: (Parent(OLD, place_at(99)),), OLD: (Parent(RIGHT, place_at(1)),)}
        store.progress.start_lanes([LaneStart(ACME, "id-1", by_lane({0: 0, 1: 0}), "id-1", other)])
        assert parents_of(store)[LEFT] == (Parent(OLD, place_at(9)),)
        assert parents_of(store)[OLD] == ()

    def test_a_lane_that_is_not_there_is_not_waited_for(self, store: Store) -> None:
        started(store, 7)
        parents = {
            LEFT: (Parent(OLD, place_at(9)), Parent("before[0]", place_at(3))),
            RIGHT: (Parent(LEFT, place_at(5)),),
        }
        first = LaneStart(ACME, "id-1", by_lane({1: 0, 2: 0}), "id-1", parents)
        store.progress.start_lanes([first])
        assert parents_of(store)[LEFT] == (Parent(OLD, place_at(9)), Parent("before[0]", None))
        assert parents_of(store)[RIGHT] == (Parent(LEFT, place_at(5)),)

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
            [
                Move(lane(0), place_at(7), place_at(9), epoch),
                Move(lane(1), place_at(0), place_at(1), epoch),
            ]
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
        said = {LEFT: (Parent(OLD, place_at(5)),), RIGHT: ()}
        store.progress.seek(ACME, by_lane({0: 2}), "id-1", said)
        assert parents_of(store) == {OLD: (), **said}

    def test_a_seek_says_nothing_of_lanes_that_came_after_it_was_planned(
        self, store: Store
    ) -> None:
        _split(store)
        lineage = {LEFT: (Parent(OLD, place_at(9)),), RIGHT: (Parent(OLD, place_at(9)),)}
        merged, parents = _merge(store)
        store.progress.seek(ACME, by_lane({0: 0, 1: 0, 2: 0}), "id-1", lineage)
        assert parents_of(store) == {OLD: (), **lineage, merged: parents}
        found = depths_of(store)
        assert found[OLD] < found[LEFT] == found[RIGHT] < found[merged]

    def test_a_seek_gives_new_lanes_their_parents(self, store: Store) -> None:
        started(store, 7)
        store.progress.seek(
            ACME, by_lane({0: 2, 1: 0}), "id-1", {LEFT: (Parent(OLD, place_at(9)),)}
        )
        assert parents_of(store) == {OLD: (), LEFT: (Parent(OLD, place_at(9)),)}

    def test_a_seek_can_give_lanes_up(self, store: Store) -> None:
        _split(store)
        store.progress.seek(ACME, by_lane({1: 0}), "id-1", gone=[OLD])
        assert parents_of(store) == {LEFT: (Parent(OLD, None),), RIGHT: (Parent(OLD, None),)}

    def test_lanes_that_are_lost_are_given_up_with_the_note_of_it(self, store: Store) -> None:
        epoch = _split(store)
        stays = Move(lane(0), place_at(7), place_at(7), epoch)
        assert store.progress.skip_lost(ACME, [stays], [], "id-1", gone=[OLD]) == epoch + 1
        assert parents_of(store) == {LEFT: (Parent(OLD, None),), RIGHT: (Parent(OLD, None),)}

    def test_lanes_that_moved_meanwhile_are_not_given_up(self, store: Store) -> None:
        epoch = _split(store)
        stale = Move(lane(0), place_at(6), place_at(6), epoch)
        assert store.progress.skip_lost(ACME, [stale], [], "id-1", gone=[OLD]) is None
        assert parents_of(store)[LEFT] == (Parent(OLD, place_at(9)),)

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


def depths_of(store: Store, stream: StreamId = ACME) -> dict[str, int]:
    """How deep each lane of a stream is."""
    positions = store.progress.load_positions([stream])
    return {position.lane.name: position.depth for position in positions}


def _rerun(store: Store) -> StreamId:
    """Read two lanes again."""
    rerun = ACME._replace(use_case=f"{ACME.use_case}{RERUN_MARK}1")
    store.registry.deploy(replace(SCORE, use_case=rerun.use_case, all_tenants=False))
    store.registry.add_stream(rerun)
    lineage = {LEFT: (Parent(OLD, place_at(1)),)}
    store.progress.seek(rerun, by_lane({0: 0, 1: 0}), "id-1", lineage)
    return rerun


class TestDepths:
    """The promises about what comes above in the versions of records."""

    def test_a_lane_is_deeper_than_what_it_follows(self, store: Store) -> None:
        _split(store)
        merged, _ = _merge(store)
        found = depths_of(store)
        assert found[OLD] < found[LEFT] == found[RIGHT] < found[merged]

    def test_a_lane_that_follows_one_nobody_knows_is_deeper_than_all(self, store: Store) -> None:
        _split(store)
        youngest = lane(9).name
        parents = {youngest: (Parent(lane(8).name, None),)}
        store.progress.start_lanes(
            [LaneStart(ACME, "id-1", {youngest: place_at(0)}, "id-1", parents)]
        )
        found = depths_of(store)
        assert found.pop(youngest) > max(found.values())

    def test_a_lane_that_needs_not_be_deeper_is_as_deep_as_the_deepest_it_follows(
        self, store: Store
    ) -> None:
        _split(store)
        before, youngest = depths_of(store), lane(9).name
        parents = {youngest: (Parent(OLD, place_at(9)), Parent(LEFT, place_at(9)))}
        first = LaneStart(ACME, "id-1", {youngest: place_at(9)}, "id-1", parents, deeper=False)
        store.progress.start_lanes([first])
        assert depths_of(store) == before | {youngest: before[LEFT]}

    def test_lanes_come_together_in_any_order(self, store: Store) -> None:
        started(store)
        parents = {OLD: (Parent(LEFT, place_at(1)),), LEFT: (Parent(RIGHT, place_at(1)),)}
        first = LaneStart(ACME, "id-1", by_lane({0: 0, 1: 0, 2: 0}), "id-1", parents)
        store.progress.start_lanes([first])
        found = depths_of(store)
        assert found[RIGHT] < found[LEFT] < found[OLD]

    def test_a_seek_makes_all_lanes_deeper_than_any_was(self, store: Store) -> None:
        _split(store)
        before = depths_of(store)
        store.progress.seek(ACME, by_lane({0: 2}), "id-1")
        after = depths_of(store)
        assert min(after.values()) > max(before.values())
        assert after[OLD] < after[LEFT] == after[RIGHT]

    def test_a_seek_that_says_what_lanes_follow_orders_them_by_that(self, store: Store) -> None:
        _split(store)
        before = depths_of(store)
        above = {OLD: (Parent(RIGHT, place_at(1)),), RIGHT: (Parent(LEFT, place_at(5)),)}
        lineage = {**above, LEFT: ()}
        store.progress.seek(ACME, by_lane({0: 2}), "id-1", lineage)
        after = depths_of(store)
        assert max(before.values()) < after[LEFT] < after[RIGHT] < after[OLD]

    def test_what_is_passed_over_makes_nothing_deeper_and_what_goes_back_does(
        self, store: Store
    ) -> None:
        epoch = _split(store)
        before = depths_of(store)
        ahead = store.progress.skip_lost(
            ACME, [Move(lane(0), place_at(7), place_at(8), epoch)], [], "id-1"
        )
        assert ahead is not None
        assert depths_of(store) == before
        assert store.progress.skip_lost(
            ACME, [Move(lane(0), place_at(8), place_at(3), ahead)], [], "id-1"
        )
        assert min(depths_of(store).values()) > max(before.values())

    def test_another_topic_makes_all_lanes_deeper(self, store: Store) -> None:
        epoch = _split(store)
        before = depths_of(store)
        assert store.progress.skip_lost(
            ACME, [Move(lane(0), place_at(7), place_at(7), epoch)], [], "id-2"
        )
        assert min(depths_of(store).values()) > max(before.values())

    def test_lanes_that_are_given_up_leave_nobody_at_their_depth(self, store: Store) -> None:
        epoch = _split(store)
        deepest = max(depths_of(store).values())
        gone = [OLD, LEFT, RIGHT]
        assert store.progress.skip_lost(
            ACME, [Move(lane(0), place_at(7), place_at(7), epoch)], [], "id-1", gone=gone
        )
        youngest = lane(9).name
        parents = {youngest: (Parent(LEFT, None),)}
        store.progress.start_lanes(
            [LaneStart(ACME, "id-1", {youngest: place_at(0)}, "id-1", parents)]
        )
        assert depths_of(store)[youngest] > deepest

    def test_work_and_holders_change_no_depth(self, store: Store) -> None:
        epoch = _split(store)
        before = depths_of(store)
        store.positions.advance([Move(lane(0), place_at(7), place_at(9), epoch)])
        store.membership.hold([ACME])
        assert depths_of(store) == before

    def test_a_stream_that_begins_anew_is_deeper_than_it_ever_was(self, store: Store) -> None:
        _split(store)
        seen = max(depths_of(store).values())
        store.registry.set_stream_state(ACME, State.REMOVED)
        store.registry.add_stream(ACME)
        store.progress.start_lanes([LaneStart(ACME, "id-1", by_lane({0: 0}))])
        assert depths_of(store)[OLD] > seen
        seen = depths_of(store)[OLD]
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme"))
        store.progress.start_lanes([LaneStart(ACME, "id-1", by_lane({0: 0}))])
        assert depths_of(store)[OLD] > seen

    def test_a_rerun_is_as_deep_as_what_it_reads_again(self, store: Store) -> None:
        _split(store)
        store.progress.seek(ACME, by_lane({0: 2}), "id-1")
        rerun = _rerun(store)
        live = depths_of(store)
        assert depths_of(store, rerun) == {OLD: live[OLD], LEFT: live[LEFT]}

    @pytest.mark.parametrize("way", ["seek", "skip", "seek with parents"])
    def test_a_rerun_that_is_sent_back_gets_no_deeper(self, store: Store, way: str) -> None:
        _split(store)
        rerun = _rerun(store)
        before = depths_of(store, rerun)
        if way == "skip":
            epoch = store.membership.hold([rerun])[rerun]
            at = LaneId(*rerun, OLD)
            for here, there in ((0, 3), (3, 1)):
                move = Move(at, place_at(here), place_at(there), epoch)
                moved = store.progress.skip_lost(rerun, [move], [], "id-1")
                assert moved is not None
                epoch = moved
        else:
            lineage = None if way == "seek" else {LEFT: (Parent(OLD, place_at(1)),)}
            store.progress.seek(rerun, by_lane({0: 1}), "id-1", lineage)
        assert depths_of(store, rerun) == before
        assert depths_of(store) == before | {RIGHT: before[LEFT]}

    def test_the_depth_of_recorded_slices_is_kept(self, store: Store) -> None:
        epoch = _split(store)
        pieces = tuple(
            Slice(lane(0), "acme.visits", place_at(at), place_at(at + 5), epoch, depth=depth)
            for at, depth in ((0, 3), (5, 0))
        )
        wave = Wave("w", "score", (Bin(pieces, 1.0),), 1.0)
        assert store.progress.record_intent(wave)
        assert store.progress.pending_intents() == [wave]
