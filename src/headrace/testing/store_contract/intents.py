"""What every store must do about waves that are written down, as tests; for ``Progress``."""

# The names of the tests are the promises.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from headrace.model.places import number_at, place_at
from headrace.model.records import LaneStart, Move
from headrace.model.streams import Guarantee, LaneId, Order, Slice, State, Tenant
from headrace.model.waves import Bin, Terms, Wave
from headrace.ports import Store
from headrace.testing.store_contract.begun import (
    ACME,
    BOLT,
    SCORE,
    by_lane,
    lane,
    offsets,
    started,
)


def _wave(name: str, *slices: Slice) -> Wave:
    """A wave with a bin for each slice."""
    return Wave(name, "score", tuple(Bin((piece,), 1.0, str(piece.lane)) for piece in slices), 1.0)


def _merged(name: str, *slices: Slice) -> Wave:
    """A wave in which the lanes of a stream are merged."""
    terms = Terms(Guarantee.EXACTLY_ONCE, Order.STREAM, "slice", "", intends=True)
    return Wave(name, "score", (Bin(slices, 1.0, "fence"),), 1.0, terms)


def _slice(of: LaneId, epoch: int, begin: int = 0) -> Slice:
    return Slice(of, f"{of.tenant}.visits", place_at(begin), place_at(begin + 5), epoch)


def _both(store: Store, driver: str) -> tuple[Slice, Slice]:
    """A slice of acme and one of bolt, both held by a driver."""
    started(store, 0)
    store.progress.start_lanes([LaneStart(BOLT, "id-1", by_lane({0: 0}, BOLT))])
    epochs = store.membership.hold([ACME, BOLT], driver)
    return _slice(lane(0), epochs[ACME]), _slice(lane(0, BOLT), epochs[BOLT])


def _done(piece: Slice) -> Move:
    return Move(piece.lane, piece.from_offset, piece.until_offset, piece.epoch)


class TestIntents:
    """The promises of recorded waves."""

    def test_an_intent_comes_back_equal_and_oldest_first(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        slices = (
            Slice(lane(0), "acme.visits", place_at(2**40), place_at(2**40 + 3), 4, more=True),
            Slice(lane(1), "ü\0", place_at(0), place_at(0), 0, depth=3, ordinal=2**46),
        )
        bins = (Bin(slices, 0.1 + 0.2), Bin((), float("inf")))
        terms = Terms(Guarantee.EXACTLY_ONCE, Order.STREAM, "slice", "Files('ü')", True)
        waves = [Wave("w2", "score", bins, 1 / 3, terms), Wave("w1", "score", (), 0.0)]
        for wave in waves:
            store.progress.record_intent(wave)
        again = open_again()
        assert again.progress.pending_intents() == waves
        again.close()

    def test_writing_an_intent_down_twice_is_once(self, store: Store) -> None:
        wave = _wave("w1")
        store.progress.record_intent(wave)
        store.progress.record_intent(wave)
        assert store.progress.pending_intents() == [wave]

    def test_only_who_holds_the_streams_of_a_wave_can_write_it_down(self, store: Store) -> None:
        old = started(store, 0)
        epoch = store.membership.hold([ACME], "d1")[ACME]
        assert not store.progress.record_intent(_wave("w1", _slice(lane(0), epoch)), "d2")
        assert not store.progress.record_intent(_wave("w2", _slice(lane(0), old)), "d1")
        assert store.progress.pending_intents() == []
        wave = _wave("w3", _slice(lane(0), epoch))
        assert store.progress.record_intent(wave, "d1")
        assert store.progress.pending_intents("d1") == [wave]

    def test_nothing_is_written_down_of_a_stream_that_was_removed(self, store: Store) -> None:
        acme, bolt = _both(store, "d1")
        before = _wave("w1", acme)
        assert store.progress.record_intent(before, "d1")
        store.registry.set_stream_state(ACME, State.REMOVED)
        assert not store.progress.record_intent(_wave("w2", acme, bolt), "d1")
        assert store.progress.pending_intents() == [before]
        # What was, runs again, and says whose turn it is.
        assert store.progress.take_turn(before, ["acme"], "d1")
        assert store.progress.record_intent(_wave("w2", bolt), "d1")

    def test_whose_turn_it_is_stays_written_down_with_what_is_left(self, store: Store) -> None:
        acme, bolt = _both(store, "d1")
        wave = _wave("w1", acme, bolt)
        store.progress.record_intent(wave, "d1")
        assert store.progress.take_turn(_wave("w1", acme), ["acme"], "d1")
        assert store.progress.pending_intents("d1") == [replace(wave, turn=("acme",))]
        left = [replace(_wave("w1", bolt), turn=("acme",), taken=True)]
        assert store.progress.finish_intent("w1", [_done(acme)], "d1").left == left
        assert store.progress.take_turn(left[0], [], "d1")
        assert store.progress.pending_intents("d1") == [replace(left[0], turn=())]

    def test_whose_turn_it_is_says_nobody_but_the_driver_in_whose_name_the_wave_is(
        self, store: Store
    ) -> None:
        acme, bolt = _both(store, "d1")
        wave = _wave("w1", acme, bolt)
        store.progress.record_intent(wave, "d1")
        assert not store.progress.take_turn(wave, ["acme"], "d2")
        assert not store.progress.take_turn(replace(wave, id="w2"), ["acme"], "d1")
        assert store.progress.pending_intents("d1") == [wave]

    def test_whose_turn_it_is_says_nobody_whose_name_another_process_has(
        self, store: Store
    ) -> None:
        acme, bolt = _both(store, "d1")
        wave = _wave("w1", acme, bolt)
        store.progress.record_intent(wave, "d1")
        epochs = store.membership.hold([piece.lane.stream for piece in wave.slices], "d1")
        assert not store.progress.take_turn(_wave("w1", acme), ["acme"], "d1")
        (left,) = store.progress.pending_intents("d1")
        assert left.turn == ()
        again = [replace(piece, epoch=epochs[piece.lane.stream]) for piece in wave.slices]
        assert store.progress.take_turn(_wave("w1", *again), ["acme"], "d1")

    def test_what_is_left_of_a_wave_that_writes_by_its_id_says_that_somebody_has_that(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        acme, bolt = _both(store, "d1")
        terms = Terms(Guarantee.EXACTLY_ONCE, Order.LANE, "wave", "", intends=True)
        wave, rest = (replace(_wave("w1", *of), terms=terms) for of in ([acme, bolt], [bolt]))
        store.progress.record_intent(wave, "d1")
        refused = [_done(replace(acme, epoch=acme.epoch - 1))]
        assert store.progress.finish_intent("w1", refused, "d1") == ([False], [wave])
        # Who has the stream by now is not the one that names the part.
        store.membership.hold([BOLT], "d1")
        part, taken = replace(rest, id="w1.b"), replace(rest, taken=True)
        for moved in ([True], [False]):
            told = store.progress.finish_intent("w1", [_done(acme)], "d1", parts=[part])
            assert told == (moved, [taken])
        again = open_again()
        assert again.progress.pending_intents("d1") == [taken]
        again.close()

    @pytest.mark.parametrize(("form", "writes_by_id"), [("wave", True), ("slice", False)])
    def test_an_id_is_taken_by_who_came_through_before_its_heir_took_the_streams(
        self, store: Store, form: Literal["wave", "slice"], writes_by_id: bool
    ) -> None:
        acme, bolt = _both(store, "d1")
        terms = Terms(Guarantee.EXACTLY_ONCE, Order.LANE, form, "", intends=True)
        wave = replace(_wave("w1", acme, bolt), terms=terms)
        store.progress.record_intent(wave, "d1")
        late = _done(replace(bolt, epoch=bolt.epoch - 1))
        assert store.progress.finish_intent("w1", [late], "d2") == ([False], [])
        assert store.progress.pending_intents() == [wave]
        assert store.progress.finish_intent("w1", [_done(acme)], "d2") == ([True], [])
        assert store.progress.pending_intents() == [replace(wave, taken=writes_by_id)]

    def test_finishing_moves_what_matches_and_forgets_the_intent(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        slices = [_slice(lane(number), epoch) for number in (0, 1)]
        store.progress.record_intent(_wave("w1", *slices))
        assert store.progress.finish_intent("w1", [_done(piece) for piece in slices]) == (
            [True, True],
            [],
        )
        assert store.progress.pending_intents() == []
        assert store.progress.finish_intent(
            "w1", [Move(lane(1), place_at(5), place_at(6), epoch)]
        ) == ([True], [])
        assert offsets(store) == {0: 5, 1: 6}

    def test_what_did_not_move_stays_written_down(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        first, second = (_slice(lane(number), epoch) for number in (0, 1))
        store.progress.record_intent(_wave("w1", first, second))
        left = [replace(_wave("w1", second), taken=True)]
        assert store.progress.finish_intent("w1", [_done(first)]) == ([True], left)
        assert store.progress.pending_intents() == left
        refused = [Move(lane(1), place_at(3), place_at(5), epoch)]
        assert store.progress.finish_intent("w1", refused) == ([False], left)
        assert store.progress.pending_intents() == left

    def test_a_lane_that_somebody_moved_is_done_with(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        first, second = (_slice(lane(number), epoch) for number in (0, 1))
        store.progress.record_intent(_wave("w1", first, second))
        store.progress.seek(ACME, by_lane({0: 3, 1: 0}))
        assert store.progress.finish_intent("w1", [_done(first)]) == (
            [False],
            [_wave("w1", second)],
        )

    def test_the_same_call_again_moves_nothing_and_tells_the_same(self, store: Store) -> None:
        acme, bolt = _both(store, "d1")
        store.progress.record_intent(_wave("w1", acme, bolt), "d1")
        part = _wave("w1.a", bolt)
        for moved in ([True], [False]):
            told = store.progress.finish_intent("w1", [_done(acme)], "d1", parts=[part])
            assert told == (moved, [part])
            assert store.progress.pending_intents("d1") == [part]

    def test_the_same_division_again_tells_the_same_also_if_something_is_left(
        self, store: Store
    ) -> None:
        acme, bolt = _both(store, "d1")
        store.progress.record_intent(_wave("w1", acme, bolt), "d1")
        part = _wave("w1.a", bolt)
        for _ in range(2):
            left = [_wave("w1", acme), part]
            assert store.progress.finish_intent("w1", [], "d1", parts=[part]) == ([], left)
            assert store.progress.pending_intents("d1") == left

    def test_a_stream_that_begins_anew_owes_nothing_of_what_was_recorded_before(
        self, store: Store
    ) -> None:
        acme, bolt = _both(store, "d1")
        store.progress.record_intent(_wave("w1", acme), "d1")
        store.progress.record_intent(_wave("w2", acme, bolt), "d1")
        store.registry.set_tenant_state("acme", State.REMOVED)
        assert len(store.progress.pending_intents()) == 2
        store.registry.add_tenant(Tenant("acme"))
        assert store.progress.pending_intents("d1") == [_wave("w2", bolt)]
        store.registry.set_stream_state(BOLT, State.REMOVED)
        store.registry.add_stream(BOLT)
        assert store.progress.pending_intents() == []

    @pytest.mark.parametrize("way", ["skip", "seek"])
    def test_a_stream_in_another_topic_owes_nothing_of_what_was_recorded_before(
        self, store: Store, way: str
    ) -> None:
        first, other = _both(store, "d1")
        store.progress.record_intent(_wave("w1", first, other), "d1")
        if way == "skip":
            stays = Move(first.lane, first.from_offset, first.from_offset, first.epoch)
            assert store.progress.skip_lost(ACME, [stays], [], "id-2") is not None
        else:
            store.progress.seek(ACME, by_lane({0: number_at(first.from_offset)}), "id-2")
        (left,) = store.progress.pending_intents("d1")
        assert list(left.slices) == [other]

    @pytest.mark.parametrize("way", ["skip", "seek"])
    def test_a_stream_that_is_sent_elsewhere_never_owes_again_what_was_recorded_there(
        self, store: Store, way: str
    ) -> None:
        first, other = _both(store, "d1")
        store.progress.record_intent(_wave("w1", first), "d1")
        store.progress.record_intent(_wave("w2", first, other), "d1")
        if way == "skip":
            ahead = Move(first.lane, first.from_offset, place_at(3), first.epoch)
            assert store.progress.skip_lost(ACME, [ahead], [], "id-1") is not None
        else:
            store.progress.seek(ACME, by_lane({0: 3}), "id-1")
        assert store.progress.pending_intents("d1") == [_wave("w2", other)]
        store.progress.seek(ACME, by_lane({0: number_at(first.from_offset)}), "id-1")
        assert store.progress.pending_intents("d1") == [_wave("w2", other)]

    def test_what_is_given_up_is_found_whatever_its_use_case_is_called(self, store: Store) -> None:
        started(store, 0)
        odd = ACME._replace(use_case='ü_%\\/"1')
        store.registry.deploy(replace(SCORE, use_case=odd.use_case))
        store.progress.start_lanes([LaneStart(odd, "id-1", by_lane({0: 0}, odd))])
        first, second = _slice(lane(0, odd), 0), _slice(lane(0), 0)
        store.progress.record_intent(_wave("w1", first, second))
        store.progress.seek(odd, by_lane({0: 3}, odd), "id-1")
        assert store.progress.pending_intents() == [_wave("w1", second)]

    def test_what_is_recorded_where_a_stream_goes_on_is_still_to_do(self, store: Store) -> None:
        epoch = started(store, 0, 0, 0)
        sought, stays, gone = (_slice(lane(number), epoch) for number in range(3))
        store.progress.record_intent(_wave("w1", sought, stays, gone))
        there, away = number_at(sought.from_offset), [gone.lane.name]
        store.progress.seek(ACME, by_lane({0: there}), "id-1", {}, away)
        assert store.progress.pending_intents() == [_wave("w1", sought, stays)]

    def test_a_lane_is_given_up_with_what_is_recorded_of_it_and_nothing_is_sent_elsewhere(
        self, store: Store
    ) -> None:
        epoch = started(store, 0, 0)
        stays, gone = (_slice(lane(number), epoch) for number in range(2))
        store.progress.record_intent(_wave("w1", stays, gone))
        store.progress.seek(ACME, {}, "id-1", None, [gone.lane.name])
        assert store.progress.pending_intents() == [_wave("w1", stays)]
        found = {at.lane.name: at.next_offset for at in store.progress.load_positions([ACME])}
        assert found == {stays.lane.name: stays.from_offset}

    @pytest.mark.parametrize(
        ("to", "kept"), [({1: 0}, True), ({1: 3}, False), ({2: 3}, False), ({3: 0}, False)]
    )
    def test_of_merged_lanes_a_seek_of_one_gives_up_what_is_recorded_of_all(
        self, store: Store, to: dict[int, int], kept: bool
    ) -> None:
        epoch = started(store, 0, 0, 9)
        first, second = (_slice(lane(number), epoch) for number in (0, 1))
        store.progress.record_intent(_merged("w1", first, second))
        store.progress.seek(ACME, by_lane(to), "id-1")
        left = [_merged("w1", first, second)] if kept else []
        assert store.progress.pending_intents() == left

    @pytest.mark.parametrize(("to", "kept"), [(9, True), (11, True), (3, False)])
    def test_of_merged_lanes_one_that_a_cut_log_sends_back_does_so_too(
        self, store: Store, to: int, kept: bool
    ) -> None:
        epoch = started(store, 0, 0, 9)
        first, second = (_slice(lane(number), epoch) for number in (0, 1))
        store.progress.record_intent(_merged("w1", first, second))
        move = Move(lane(2), place_at(9), place_at(to), epoch)
        assert store.progress.skip_lost(ACME, [move], [], "id-1") is not None
        left = [_merged("w1", first, second)] if kept else []
        assert store.progress.pending_intents() == left

    @pytest.mark.parametrize(("to", "kept"), [(2, False), (5, True), (9, True)])
    def test_of_merged_lanes_one_that_a_log_cuts_in_its_slice_gives_up_all(
        self, store: Store, to: int, kept: bool
    ) -> None:
        """What is left of it is cut anew, and belongs among the records of the others."""
        epoch = started(store, 0, 0)
        first, second = (_slice(lane(number), epoch) for number in (0, 1))
        store.progress.record_intent(_merged("w1", first, second))
        move = Move(lane(0), place_at(0), place_at(to), epoch)
        assert store.progress.skip_lost(ACME, [move], [], "id-1") is not None
        left = [_merged("w1", second)] if kept else []
        assert store.progress.pending_intents() == left

    def test_what_came_to_nothing_is_forgotten_by_who_has_the_stream(self, store: Store) -> None:
        acme, bolt = _both(store, "d1")
        wave = _wave("w1", acme, bolt)
        store.progress.record_intent(wave, "d1")
        # The first one was replaced: its successor has the streams, under the same name.
        store.membership.hold([ACME], "d1")
        assert store.progress.finish_intent("w1", [], "d1", over=[acme]) == ([], [wave])
        assert store.progress.finish_intent("w1", [], "d1", over=[bolt]) == (
            [],
            [_wave("w1", acme)],
        )

    def test_a_wave_is_divided_by_who_has_the_streams(self, store: Store) -> None:
        acme, bolt = _both(store, "d1")
        wave = _wave("w1", acme, bolt)
        store.progress.record_intent(wave, "d1")
        store.membership.hold([ACME], "d1")
        assert store.progress.finish_intent("w1", [], "d1", parts=[_wave("w1.a", acme)]) == (
            [],
            [wave],
        )
        part, rest = _wave("w1.b", bolt), _wave("w1", acme)
        assert store.progress.finish_intent("w1", [], "d1", parts=[part]) == ([], [rest, part])

    @pytest.mark.parametrize("way", ["another topic", "added again"])
    def test_parts_bring_nothing_back_that_was_forgotten(self, store: Store, way: str) -> None:
        acme, bolt = _both(store, "d1")
        store.progress.record_intent(_wave("w1", acme, bolt), "d1")
        if way == "another topic":
            store.progress.seek(ACME, by_lane({0: number_at(acme.from_offset)}), "id-2")
        else:
            store.registry.set_stream_state(ACME, State.REMOVED)
            store.registry.add_stream(ACME)
        left = _wave("w1.b", bolt)
        for parts in ([_wave("w1.a", acme), left], [_wave("w1.b", acme, bolt)]):
            assert store.progress.finish_intent("w1", [], "d1", parts=parts) == ([], [left])
            assert store.progress.pending_intents() == [left]

    def test_parts_take_over_what_they_have_and_no_more(self, store: Store) -> None:
        acme, bolt = _both(store, "d1")
        store.progress.record_intent(_wave("w1", acme, bolt), "d1")
        part, rest = _wave("w1.a", acme), _wave("w1", bolt)
        assert store.progress.finish_intent("w1", [], "d1", parts=[part]) == ([], [rest, part])
        assert store.progress.pending_intents("d1") == [rest, part]
        assert store.progress.finish_intent("w1.a", [_done(acme)], "d1") == ([True], [])
        assert store.progress.pending_intents("d1") == [rest]

    @pytest.mark.parametrize("many", [False, True])
    def test_what_is_left_of_a_stream_that_began_afresh_is_forgotten(
        self, store: Store, many: bool
    ) -> None:
        acme, bolt = _both(store, "d1")
        store.progress.record_intent(_wave("w1", acme, bolt), "d1")
        store.registry.set_tenant_state("acme", State.REMOVED)
        if many:
            store.registry.add_tenants([Tenant("corp"), Tenant("acme")])
        else:
            store.registry.add_tenant(Tenant("acme"))
        assert store.progress.pending_intents() == [_wave("w1", bolt)]
        assert store.progress.finish_intent("w1", [], "d1") == ([], [_wave("w1", bolt)])

    def test_an_intent_is_finished_by_its_driver_alone(self, store: Store) -> None:
        acme, bolt = _both(store, "d1")
        wave = _wave("w1", acme, bolt)
        store.progress.record_intent(wave, "d1")
        part = _wave("w1.a", bolt)
        told = store.progress.finish_intent("w1", [], "d2", over=[acme], parts=[part])
        assert told == ([], [])
        assert store.progress.pending_intents() == [wave]
        store.progress.finish_intent("w1", [], "d1", over=[acme, bolt])
        assert store.progress.pending_intents() == []
