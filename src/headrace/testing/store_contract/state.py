"""What every store must do about state of keys, as tests; for ``Positions``.

State is that of exactly the records before the positions, whoever was killed, asleep or replaced.
"""

# The names of the tests are the promises.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from headrace.errors import ConfigError
from headrace.model.places import place_at
from headrace.model.records import LaneStart, Move
from headrace.model.state import StateChanges, StateKey, StateLoaded, StateRow, StateSize
from headrace.model.streams import LaneId, State, StreamId, Tenant
from headrace.ports import HostPositions, Store
from headrace.testing.store_contract.begun import ACME, BOLT, by_lane, lane, started

_Rows = Mapping[bytes, bytes | None]


def changed(of: LaneId, rows: _Rows, grows: tuple[int, int] = (0, 0)) -> StateChanges:
    """What becomes of rows of the table ``seen``."""
    kept = {StateKey("seen", key): row for key, row in rows.items()}
    return StateChanges(of, kept, StateSize(*grows))


def move(epoch: int, begin: int, end: int, of: LaneId | None = None) -> Move:
    """The move of a lane, acme's first unless said otherwise."""
    return Move(of or lane(0), place_at(begin), place_at(end), epoch)


def loaded(store: Store, at: Move, *keys: bytes, table: str = "seen") -> StateLoaded | None:
    """What a slice from there finds."""
    return store.positions.load_state(at.stay(), table, keys)


def kept(store: Store, at: Move, *keys: bytes) -> dict[bytes, bytes]:
    """The same, of a lane that stands there."""
    found = loaded(store, at, *keys)
    assert found is not None
    return dict(found.rows)


class TestState:
    """The promises of state."""

    def test_it_goes_with_the_position_and_is_found_from_there(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 0, 0)
        of = lane(0)
        rows = {b"ada": b"1", b"bo\x00\xff": b"", b"": b"3"}
        first = changed(of, rows, (3, 9))
        assert loaded(store, move(epoch, 0, 0), b"ada") == StateLoaded({}, StateSize())
        assert store.positions.advance_groups([[move(epoch, 0, 5)]], [first]) == [True]
        again = open_again()
        found = loaded(again, move(epoch, 5, 5), b"ada", b"nobody", b"", b"bo\x00\xff")
        assert found == StateLoaded(cast("Any", rows), StateSize(3, 9))
        again.close()
        more = changed(of, {b"ada": None, b"bo\x00\xff": b"2", b"new": b"4"}, (0, 1))
        assert store.positions.advance_groups([[move(epoch, 5, 6)]], [more]) == [True]
        found = loaded(store, move(epoch, 6, 6), b"ada", b"bo\x00\xff", b"", b"new")
        left = {b"bo\x00\xff": b"2", b"": b"3", b"new": b"4"}
        assert found == StateLoaded(left, StateSize(3, 10))
        assert loaded(store, move(epoch, 6, 6)) == StateLoaded({}, StateSize(3, 10))

    def test_a_position_that_does_not_move_leaves_state_as_it_is(self, store: Store) -> None:
        old = started(store, 0, 0)
        epoch = store.membership.hold([ACME])[ACME]
        a, b = lane(0), lane(1)
        moves = [[move(old, 0, 5)], [move(epoch, 3, 5, b)], [move(epoch, 0, 2)]]
        states = [
            changed(a, {b"k": b"zombie"}),
            changed(b, {b"k": b"no"}),
            changed(a, {b"k": b"1"}),
        ]
        assert store.positions.advance_groups(moves, states) == [False, False, True]
        assert kept(store, move(epoch, 2, 2), b"k") == {b"k": b"1"}
        assert kept(store, move(epoch, 0, 0, b), b"k") == {}

    def test_a_group_of_which_one_does_not_move_changes_nothing(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        moves = [[move(epoch, 0, 5), move(epoch, 7, 9, lane(1))]]
        assert store.positions.advance_groups(moves, [changed(lane(0), {b"k": b"1"})]) == [False]
        assert kept(store, move(epoch, 0, 0), b"k") == {}

    def test_who_is_elsewhere_is_told_nothing(self, store: Store) -> None:
        old = started(store, 0)
        store.positions.advance_groups([[move(old, 0, 5)]], [changed(lane(0), {b"k": b"1"})])
        assert loaded(store, move(old, 0, 0), b"k") is None
        epoch = store.membership.hold([ACME])[ACME]
        assert loaded(store, move(old, 5, 5), b"k") is None
        assert kept(store, move(epoch, 5, 5), b"k") == {b"k": b"1"}
        assert loaded(store, move(epoch, 5, 5, lane(7)), b"k") is None

    def test_lanes_streams_and_tables_are_told_apart(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        store.progress.start_lanes([LaneStart(BOLT, "id-2", by_lane({0: 0}, BOLT))])
        bolt = store.membership.hold([BOLT])[BOLT]
        theirs = lane(0, BOLT)
        moves = [[move(epoch, 0, 1)], [move(epoch, 0, 1, lane(1))], [move(bolt, 0, 1, theirs)]]
        states = [changed(of, {b"k": of.name.encode()}) for of in (lane(0), lane(1), theirs)]
        assert all(store.positions.advance_groups(moves, states))
        for at in (move(epoch, 1, 1), move(epoch, 1, 1, lane(1)), move(bolt, 1, 1, theirs)):
            assert kept(store, at, b"k") == {b"k": at.lane.name.encode()}
            other = loaded(store, at, b"k", table="other")
            assert other is not None
            assert other.rows == {}

    def test_buckets_of_a_lane_share_its_part_also_when_it_is_divided_otherwise(
        self, store: Store
    ) -> None:
        epoch = started(store)
        whole = lane(0).name
        names = [f"{whole}#{number}/2" for number in range(2)]
        store.progress.start_lanes(
            [LaneStart(ACME, "id-1", dict.fromkeys(names, place_at(0)), "id-1")]
        )
        for name in names:
            of = LaneId(*ACME, name)
            state = changed(of, {name.encode(): b"1"}, (1, 9))
            assert store.positions.advance_groups([[move(epoch, 0, 4, of)]], [state]) == [True]
        store.progress.start_lanes([LaneStart(ACME, "id-1", {whole: place_at(4)}, "id-1")])
        assert store.progress.forget_lanes(ACME, names, epoch)
        found = loaded(store, move(epoch, 4, 4), *(name.encode() for name in names))
        assert found == StateLoaded({name.encode(): b"1" for name in names}, StateSize(2, 18))
        assert store.progress.forget_lanes(ACME, [whole], epoch)
        store.progress.start_lanes([LaneStart(ACME, "id-1", {whole: place_at(4)}, "id-1")])
        assert loaded(store, move(epoch, 4, 4), names[0].encode()) == StateLoaded({}, StateSize())

    def test_many_keys_at_once(self, store: Store) -> None:
        epoch = started(store, 0)
        keys = [f"key-{number}".encode() for number in range(3_000)]
        rows = {key: key * 2 for key in keys}
        states = [changed(lane(0), rows, (3_000, 1))]
        assert store.positions.advance_groups([[move(epoch, 0, 1)]], states) == [True]
        assert kept(store, move(epoch, 1, 1), *keys, b"none") == rows
        gone = [changed(lane(0), dict.fromkeys(keys[1:]), (-2_999, 0))]
        assert store.positions.advance_groups([[move(epoch, 1, 2)]], gone) == [True]
        assert kept(store, move(epoch, 2, 2), *keys) == {keys[0]: rows[keys[0]]}

    def test_rows_that_are_too_many_bytes_for_one_statement(self, store: Store) -> None:
        epoch = started(store, 0)
        rows = {b"%d" % number: b"%d" % number * 700_000 for number in range(10)}
        states = [changed(lane(0), rows, (10, 1))]
        assert store.positions.advance_groups([[move(epoch, 0, 1)]], states) == [True]
        assert kept(store, move(epoch, 1, 1), *rows) == rows

    def test_a_row_of_a_table_is_shown_to_who_deploys_another_version(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        assert store.positions.sample_state(ACME.use_case, "seen") is None
        states = [changed(lane(1), {b"k": b"1"}, (1, 2))]
        assert store.positions.advance_groups([[move(epoch, 0, 1, lane(1))]], states) == [True]
        assert store.positions.sample_state(ACME.use_case, "seen") == (b"k", b"1")
        assert store.positions.sample_state(ACME.use_case, "other") is None
        assert store.positions.sample_state("other", "seen") is None

    def test_a_guest_that_fails_leaves_state_as_it_was(self, store: Store) -> None:
        epoch = started(store, 0)
        host = cast("HostPositions[Any]", store.positions)

        def broken() -> None:
            with host.begin() as connection:
                host.advance_in(connection, [move(epoch, 0, 5)])
                host.save_state_in(connection, [changed(lane(0), {b"k": b"1"})])
                raise RuntimeError("the guest's own trouble")

        with pytest.raises(RuntimeError, match="own trouble"):
            broken()
        assert kept(store, move(epoch, 0, 0), b"k") == {}

    def test_a_seek_back_is_refused_unless_state_is_forgotten(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        states = [changed(lane(number), {b"k": b"1"}, (1, 2)) for number in range(2)]
        moves = [[move(epoch, 0, 5)], [move(epoch, 0, 5, lane(1))]]
        assert all(store.positions.advance_groups(moves, states))
        with pytest.raises(ConfigError, match="state"):
            store.progress.seek(ACME, by_lane({0: 4}))
        assert kept(store, move(epoch, 5, 5), b"k") == {b"k": b"1"}, "a refusal changes nothing"
        store.progress.seek(ACME, by_lane({0: 5, 1: 9}))
        epoch = store.membership.hold([ACME])[ACME]
        for at in (move(epoch, 5, 5), move(epoch, 9, 9, lane(1))):
            assert kept(store, at, b"k") == {b"k": b"1"}, "where it stands, or later, it stays"
        store.progress.seek(ACME, by_lane({0: 0}), forget_state=True)
        epoch = store.membership.hold([ACME])[ACME]
        assert loaded(store, move(epoch, 0, 0), b"k") == StateLoaded({}, StateSize(1, 2))
        assert kept(store, move(epoch, 9, 9, lane(1)), b"k") == {b"k": b"1"}

    def test_a_bucket_is_not_sent_back_without_those_that_share_its_state(
        self, store: Store
    ) -> None:
        epoch = started(store)
        names = [f"{lane(0).name}#{number}/2" for number in range(2)]
        store.progress.start_lanes(
            [LaneStart(ACME, "id-1", dict.fromkeys(names, place_at(0)), "id-1")]
        )
        of = LaneId(*ACME, names[0])
        states = [changed(of, {b"k": b"1"}, (1, 2))]
        assert store.positions.advance_groups([[move(epoch, 0, 5, of)]], states) == [True]
        with pytest.raises(ConfigError, match="state is forgotten for all buckets of a lane"):
            store.progress.seek(ACME, {names[0]: place_at(0)}, forget_state=True)
        both = dict.fromkeys(names, place_at(0))
        store.progress.seek(ACME, both, forget_state=True)
        epoch = store.membership.hold([ACME])[ACME]
        assert kept(store, move(epoch, 0, 0, of), b"k") == {}

    def test_who_begins_anew_finds_none(self, store: Store) -> None:
        epoch = started(store, 0)
        states = [changed(lane(0), {b"k": b"1"}, (1, 2))]
        assert store.positions.advance_groups([[move(epoch, 0, 5)]], states) == [True]
        store.registry.set_stream_state(ACME, State.REMOVED)
        store.registry.add_stream(ACME)
        self._finds_none(store, ACME)
        epoch = store.membership.hold([ACME])[ACME]
        assert store.positions.advance_groups([[move(epoch, 0, 5)]], states) == [True]
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme"))
        self._finds_none(store, ACME)

    def _finds_none(self, store: Store, stream: StreamId) -> None:
        store.progress.start_lanes([LaneStart(stream, "id-1", by_lane({0: 0}))])
        epoch = store.membership.hold([stream])[stream]
        assert loaded(store, move(epoch, 0, 0), b"k") == StateLoaded({}, StateSize())


class TestKeptState:
    """The promises of what people see of it."""

    @pytest.fixture
    def seen(self, store: Store) -> Store:
        """A store in which acme has rows in two lanes, and bolt has one."""
        epoch = started(store, 0, 0)
        store.progress.start_lanes([LaneStart(BOLT, "id-2", by_lane({0: 0}, BOLT))])
        bolt = store.membership.hold([BOLT])[BOLT]
        a, b, theirs = lane(0), lane(1), lane(0, BOLT)
        kept = {StateKey("seen", b"ada"): b"12", StateKey("other", b"ada"): b"345"}
        states = [
            StateChanges(a, kept, StateSize(2, 11)),
            changed(b, {b"ada": b"6", b"\xff": b"7", b"": b"8"}, (3, 7)),
            changed(theirs, {b"ada": b"9"}, (1, 4)),
        ]
        moves = [[move(epoch, 0, 1)], [move(epoch, 0, 1, b)], [move(bolt, 0, 1, theirs)]]
        assert all(store.positions.advance_groups(moves, states))
        return store

    def test_how_much_there_is_by_stream_and_table(self, seen: Store) -> None:
        sizes = {ACME: StateSize(5, 18), BOLT: StateSize(1, 4)}
        assert list(seen.kept_state.sizes().items()) == list(sizes.items())
        assert seen.kept_state.sizes("bolt") == {BOLT: StateSize(1, 4)}
        assert seen.kept_state.sizes("nobody") == {}
        tables = {"other": StateSize(1, 6), "seen": StateSize(4, 12)}
        assert list(seen.kept_state.tables(ACME).items()) == list(tables.items())

    def test_which_lanes_had_state_is_told_also_where_no_row_is_left(self, seen: Store) -> None:
        theirs = {lane(0, BOLT).name}
        assert seen.kept_state.parts(ACME) == {lane(0).name, lane(1).name}
        assert seen.kept_state.parts(BOLT) == theirs
        epoch = seen.membership.hold([BOLT])[BOLT]
        gone = changed(lane(0, BOLT), {b"ada": None}, (-1, -4))
        moves = [[move(epoch, 1, 2, lane(0, BOLT))]]
        assert seen.positions.advance_groups(moves, [gone]) == [True]
        assert seen.kept_state.parts(BOLT) == theirs
        seen.progress.seek(ACME, by_lane({0: 0}), forget_state=True)
        assert seen.kept_state.parts(ACME) == {lane(1).name}

    def test_rows_come_by_part_and_key_and_in_pages(self, seen: Store) -> None:
        a, b = lane(0).name, lane(1).name
        rows = [
            StateRow(a, b"ada", b"12"),
            StateRow(b, b"", b"8"),
            StateRow(b, b"ada", b"6"),
            StateRow(b, b"\xff", b"7"),
        ]
        show = seen.kept_state.rows
        assert show(ACME, "seen") == rows
        assert show(ACME, "seen", most=2) == rows[:2]
        for number, row in enumerate(rows):
            assert show(ACME, "seen", after=(row.part, row.key)) == rows[number + 1 :]
        assert show(ACME, "nothing") == []

    def test_rows_of_some_keys(self, seen: Store) -> None:
        show = seen.kept_state.rows
        many = [b"none-%d" % number for number in range(1_200)]
        keys = [*many, b"ada", b"\xff"]
        assert [row.value for row in show(ACME, "seen", keys)] == [b"12", b"6", b"7"]
        assert [row.value for row in show(ACME, "seen", keys, most=1)] == [b"12"]
        assert show(ACME, "seen", []) == []

    def test_what_has_no_rows_any_more_is_not_listed(self, seen: Store) -> None:
        epoch = seen.membership.hold([BOLT])[BOLT]
        gone = changed(lane(0, BOLT), {b"ada": None}, (-1, -4))
        moves = [[move(epoch, 1, 2, lane(0, BOLT))]]
        assert seen.positions.advance_groups(moves, [gone]) == [True]
        assert list(seen.kept_state.sizes()) == [ACME]
        assert seen.kept_state.tables(BOLT) == {}
