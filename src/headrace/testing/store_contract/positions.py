"""What every store must do with positions, as tests; for ``Positions``.

Positions decide whether a record is lost or done twice, so besides the plain rules there are a
race of several holders and a search for any sequence of moves, takings and seeks that a dict would
answer otherwise.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from headrace.model.places import place_at
from headrace.model.records import LaneStart, Move
from headrace.model.streams import Position, State, StreamId, Tenant
from headrace.ports import HostPositions, Store
from headrace.testing.store_contract.begun import (
    ACME,
    BOLT,
    SCORE,
    by_lane,
    lane,
    offsets,
    ordinals,
    started,
)


def hosting(store: Store) -> HostPositions[object]:
    """The positions of a store, as those have them who are guests in its transactions."""
    return cast("HostPositions[object]", store.positions)


#: as wide as the places of logs are
WIDE = 49590338271490256608559692538361571095921575989136588898


class TestPositions:
    """The promises of positions."""

    def test_a_move_starts_exactly_where_the_lane_is_and_under_its_epoch(
        self, store: Store
    ) -> None:
        epoch = started(store, 7)
        for wrong in (
            Move(lane(0), place_at(6), place_at(9), epoch),
            Move(lane(0), place_at(8), place_at(9), epoch),
            Move(lane(0), place_at(7), place_at(9), epoch - 1),
            Move(lane(0), place_at(7), place_at(9), epoch + 1),
            Move(lane(1), place_at(7), place_at(9), epoch),
            Move(lane(0, BOLT), place_at(7), place_at(9), epoch),
        ):
            assert store.positions.advance([wrong]) == [False]
        assert store.progress.load_positions() == [Position(lane(0), place_at(7), epoch)]
        assert store.positions.advance([Move(lane(0), place_at(7), place_at(9), epoch)]) == [True]
        assert store.progress.load_positions() == [Position(lane(0), place_at(9), epoch)]

    def test_of_many_moves_those_that_match_are_made_and_answered_in_order(
        self, store: Store
    ) -> None:
        epoch = started(store, *range(1000))
        moves = [
            Move(lane(p), place_at(p if p % 3 else p + 1), place_at(5000), epoch)
            for p in range(999, -1, -1)
        ]
        assert store.positions.advance(moves) == [p % 3 != 0 for p in range(999, -1, -1)]
        assert offsets(store) == {p: 5000 if p % 3 else p for p in range(1000)}

    def test_two_moves_of_one_lane_follow_each_other(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        moves = [
            Move(lane(0), place_at(0), place_at(5), epoch),
            Move(lane(1), place_at(0), place_at(1), epoch),
            Move(lane(0), place_at(0), place_at(6), epoch),
            Move(lane(0), place_at(5), place_at(9), epoch),
        ]
        assert store.positions.advance(moves) == [True, True, False, True]
        assert offsets(store) == {0: 9, 1: 1}

    def test_no_moves_are_no_answers(self, store: Store) -> None:
        assert store.positions.advance([]) == []
        with hosting(store).begin() as transaction:
            assert hosting(store).advance_in(transaction, []) == []
        assert store.positions.advance_groups([]) == []

    def test_moves_in_the_callers_transaction_share_its_fate(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        there = [
            Move(lane(0), place_at(0), place_at(5), epoch),
            Move(lane(1), place_at(0), place_at(5), epoch),
        ]

        def fail_after_moving() -> None:
            with hosting(store).begin() as transaction:
                assert hosting(store).advance_in(transaction, there) == [True, True]
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_after_moving()
        assert offsets(store) == {0: 0, 1: 0}
        with hosting(store).begin() as transaction:
            assert hosting(store).advance_in(transaction, there[:1]) == [True]
        assert offsets(store) == {0: 5, 1: 0}

    def test_the_moves_of_a_group_are_all_made_or_none(self, store: Store) -> None:
        epoch = started(store, 0, 0, 0, 0)
        groups = [
            [
                Move(lane(0), place_at(0), place_at(5), epoch),
                Move(lane(1), place_at(0), place_at(5), epoch),
            ],
            [
                Move(lane(2), place_at(0), place_at(5), epoch),
                Move(lane(3), place_at(1), place_at(5), epoch),
            ],
            [Move(lane(3), place_at(0), place_at(9), epoch)],
        ]
        assert store.positions.advance_groups(groups) == [True, False, True]
        assert offsets(store) == {0: 5, 1: 5, 2: 0, 3: 9}

    def test_a_move_to_where_it_is_tells_whether_a_lane_is_there_and_changes_nothing(
        self, store: Store
    ) -> None:
        epoch = started(store, 7)
        asked = [
            Move(lane(0), place_at(7), place_at(7), epoch),
            Move(lane(0), place_at(6), place_at(6), epoch),
            Move(lane(0), place_at(7), place_at(7), 99),
        ]
        assert store.positions.advance(asked) == [True, False, False]
        assert offsets(store)[0] == 7

    def test_who_takes_a_stream_fences_whoever_held_it(self, store: Store) -> None:
        old = started(store, 7)
        taken = store.membership.hold([ACME, BOLT])
        assert taken[ACME] > old
        assert {stream.id: stream.epoch for stream in store.registry.streams()} == taken
        assert store.positions.advance([Move(lane(0), place_at(7), place_at(8), old)]) == [False]
        assert store.positions.advance([Move(lane(0), place_at(7), place_at(8), taken[ACME])]) == [
            True
        ]
        assert store.membership.hold([]) == {}

    def test_a_move_counts_the_records_that_it_passed_and_a_refused_one_none(
        self, store: Store
    ) -> None:
        epoch = started(store, 0, 0, 0)
        one = Move(lane(0), place_at(0), place_at(WIDE), epoch, passed=7)
        two = Move(lane(0), place_at(WIDE), place_at(WIDE + 1), epoch, passed=1)
        other = Move(lane(1), place_at(0), place_at(9), epoch, passed=2**40)
        # Alone a move takes another way than with others.
        assert store.positions.advance([one]) == [True]
        assert store.positions.advance([one, two, other, two]) == [False, True, True, False]
        broken = [
            Move(lane(2), place_at(0), place_at(5), epoch, passed=5),
            Move(lane(0), place_at(0), place_at(5), epoch, passed=5),
        ]
        assert store.positions.advance_groups([broken]) == [False]
        assert store.positions.advance([two.stay(), other.stay()]) == [False, False]
        assert ordinals(store) == {0: 8, 1: 2**40, 2: 0}

    def test_a_look_at_what_would_be_made_moves_nothing(self, store: Store) -> None:
        epoch = started(store, 0, WIDE)
        one = Move(lane(0), place_at(0), place_at(7), epoch, passed=7)
        two = Move(lane(1), place_at(WIDE), place_at(WIDE + 1), epoch, passed=1)
        wrong = [
            Move(lane(0), place_at(1), place_at(7), epoch),
            Move(lane(0), place_at(0), place_at(7), epoch - 1),
            Move(lane(0), place_at(0), place_at(7), epoch + 1),
            Move(lane(2), place_at(0), place_at(7), epoch),
        ]
        asked = [one, *wrong, two, one]
        assert store.positions.stand(asked) == [True, *[False] * len(wrong), True, True]
        assert store.positions.stand([]) == []
        assert ordinals(store) == {0: 0, 1: 0}
        assert store.positions.advance([one]) == [True]
        assert store.positions.stand([one, two]) == [False, True]
        taken = store.membership.hold([ACME])[ACME]
        assert store.positions.stand([two]) == [False]
        there = Move(lane(1), place_at(WIDE), place_at(WIDE + 1), taken)
        assert store.positions.stand([there]) == [True]

    def test_with_another_depth_records_are_counted_anew(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        moves = [Move(lane(p), place_at(0), place_at(9), epoch, passed=9) for p in (0, 1)]
        assert store.positions.advance(moves) == [True, True]
        store.membership.hold([ACME])
        assert ordinals(store) == {0: 9, 1: 9}
        store.progress.seek(ACME, {lane(0).name: place_at(3)})
        assert ordinals(store) == {0: 0, 1: 0}

    def test_positions_outlive_the_process_at_places_of_any_width(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 2**62, WIDE)
        ends = [place_at(2**64), place_at(WIDE + 1)]
        starts = [place_at(2**62), place_at(WIDE)]
        # Alone a move takes another way than with others.
        assert store.positions.advance([Move(lane(1), ends[1], ends[1], epoch)]) == [False]
        moves = [Move(lane(p), starts[p], ends[p], epoch) for p in (0, 1)]
        assert store.positions.advance(moves) == [True, True]
        again = open_again()
        there = [Position(lane(p), ends[p], epoch) for p in (0, 1)]
        assert again.progress.load_positions() == there
        assert again.membership.hold([ACME])[ACME] == epoch + 1
        again.close()

    def test_of_many_holders_moving_one_lane_exactly_one_wins_each_time(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 0, 0)
        won: list[tuple[int, int]] = []
        rivals = [open_again() for _ in range(3)]

        def race(rival: Store, name: int) -> None:
            for offset in range(20):
                order = (0, 1) if name % 2 else (1, 0)
                moves = [
                    Move(lane(p), place_at(offset), place_at(offset + 1), epoch) for p in order
                ]
                answers = rival.positions.advance(moves)
                won.extend((p, offset) for p, yes in zip(order, answers, strict=True) if yes)

        threads = [threading.Thread(target=race, args=(r, n)) for n, r in enumerate(rivals)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for rival in rivals:
            rival.close()
        assert sorted(won) == [(p, offset) for p in (0, 1) for offset in range(20)]
        assert offsets(store) == {0: 20, 1: 20}

    def test_positions_move_only_from_where_they_are_by_the_last_holder(self, store: Store) -> None:
        store.registry.deploy(SCORE)
        run_state_machine_as_test(
            lambda: _Holders(store),  # type: ignore[arg-type]
            settings=settings(
                max_examples=25,
                stateful_step_count=20,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


class _Holders(RuleBasedStateMachine):
    """Two holders of one stream, one of which may be a zombie, against a dict."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        tenant = f"t{len(store.registry.tenants())}"
        store.registry.add_tenant(Tenant(tenant))
        self.stream = StreamId("score", tenant)
        self.offsets: dict[int, int] = {}
        self.epoch = 0
        self.believed = [0, 0]

    @rule(offsets=some.dictionaries(some.integers(0, 2), some.integers(0, 3)))
    def start(self, offsets: dict[int, int]) -> None:
        self.store.progress.start_lanes(
            [LaneStart(self.stream, "id", by_lane(offsets, self.stream))]
        )
        self.offsets = offsets | self.offsets

    @rule(holder=some.integers(0, 1))
    def hold(self, holder: int) -> None:
        taken = self.store.membership.hold([self.stream])[self.stream]
        assert taken > self.epoch, "an epoch never comes twice"
        self.epoch = self.believed[holder] = taken

    @rule(offsets=some.dictionaries(some.integers(0, 2), some.integers(0, 3)))
    def seek(self, offsets: dict[int, int]) -> None:
        self.store.progress.seek(self.stream, by_lane(offsets, self.stream))
        self.offsets |= offsets
        self.epoch = next(e.epoch for e in self.store.registry.streams() if e.id == self.stream)

    @rule()
    def remove_and_add_again(self) -> None:
        self.store.registry.set_stream_state(self.stream, State.REMOVED)
        self.store.registry.add_stream(self.stream)
        self.offsets = {}
        self.epoch = next(e.epoch for e in self.store.registry.streams() if e.id == self.stream)

    @rule(
        holder=some.integers(0, 1),
        steps=some.lists(some.tuples(*[some.integers(0, 2), *[some.integers(0, 3)] * 2])),
    )
    def move(self, holder: int, steps: list[tuple[int, int, int]]) -> None:
        believed = self.believed[holder]
        moves = [
            Move(lane(p, self.stream), place_at(at), place_at(to), believed) for p, at, to in steps
        ]
        expected = []
        for partition, at, to in steps:
            right = believed == self.epoch and self.offsets.get(partition) == at
            expected.append(right)
            if right:
                self.offsets[partition] = to
        assert self.store.positions.advance(moves) == expected
        assert offsets(self.store, self.stream) == self.offsets
