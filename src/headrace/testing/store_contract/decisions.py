"""What every store must do when somebody decides about a failure, as tests; for ``Failures``.

A failure stops a lane, and a decision about it moves the lane: the two must never come apart, not
between two operators who decide at once and not against a commit that is still on its way. So
besides the plain rules there are races, and a search: single rules do not show what a retry after a
seek after a commit does. There every sequence is allowed (failures, commits, skips, retries, seeks,
resuming, starting afresh), and a dict that follows the port's words says what must be there after
each step.
"""

# The names of tests, and of rules of a state machine, are sentences.
# ruff: noqa: D102

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from headrace.errors import ConfigError, UnknownName
from headrace.model.lane_names import number_of
from headrace.model.places import number_at, place_at
from headrace.model.records import Failure, FailureState, LaneStart, Move
from headrace.model.streams import State, StreamId, Tenant
from headrace.ports import Store
from headrace.testing.store_contract.begun import (
    ACME,
    BOLT,
    LATEST,
    SCORE,
    by_lane,
    failed,
    lane,
    offsets,
    ordinals,
    started,
    state_of,
    still_open,
)

_partitions = some.integers(0, 1)
_small = some.integers(0, 4)


class Decisions(RuleBasedStateMachine):
    """One stream of two lanes, its failures and what is decided about them, against a dict."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        tenant = f"t{len(store.registry.tenants())}"
        store.registry.add_tenant(Tenant(tenant))
        self.stream = StreamId("score", tenant)
        self.known: dict[int, Failure] = {}
        self._begin()

    def _begin(self) -> None:
        self.store.progress.start_lanes(
            [LaneStart(self.stream, "id", by_lane({0: 0, 1: 0}, self.stream))]
        )
        self.epoch = self.store.membership.hold([self.stream])[self.stream]
        self.offsets = {0: 0, 1: 0}

    def _release(self, partitions: set[int]) -> None:
        for number, failure in self.known.items():
            if (
                failure.state is FailureState.OPEN
                and number_of(failure.slice.lane.name) in partitions
            ):
                self.known[number] = replace(failure, state=FailureState.RETRIED)

    def _agree(self) -> None:
        kept = self.store.failures.every(self.stream)
        assert {failure.id: failure for failure in kept} == self.known
        still = [failure for failure in kept if failure.state is FailureState.OPEN]
        assert self.store.failures.every(self.stream, only_open=True) == still
        assert len({failure.slice.lane for failure in still}) == len(still), "two stops of one lane"
        assert offsets(self.store, self.stream) == self.offsets

    @rule(partition=_partitions, at=_small, named=some.booleans())
    def fail(self, partition: int, at: int, named: bool) -> None:
        failure = failed(
            partition, at, at + 2, stream=self.stream, names_record=named, epoch=LATEST
        )
        number = self.store.failures.keep([failure])[0]
        stops = [
            failure.id
            for failure in self.known.values()
            if failure.state is FailureState.OPEN
            and number_of(failure.slice.lane.name) == partition
        ]
        again = [
            other.times
            for other in self.known.values()
            if other.state is FailureState.RETRIED and other.place == failure.place
        ]
        if stops:
            assert [number] == stops
        else:
            assert (number in self.known) == bool(again)
            self.known[number] = replace(failure, id=number, times=1 + sum(again))
        self._agree()

    @rule(partition=_partitions, at=_small, to=_small)
    def commit(self, partition: int, at: int, to: int) -> None:
        place = lane(partition, self.stream)
        right = self.offsets[partition] == at
        assert self.store.positions.advance(
            [Move(place, place_at(at), place_at(to), self.epoch)]
        ) == [right]
        if right:
            self.offsets[partition] = to

    @rule(pick=some.integers(0, 7))
    def retry(self, pick: int) -> None:
        self._decide(pick, skip=False)

    @rule(pick=some.integers(0, 7))
    def skip(self, pick: int) -> None:
        self._decide(pick, skip=True)

    def _decide(self, pick: int, *, skip: bool) -> None:
        if pick >= len(self.known):
            return
        number = sorted(self.known)[-1 - pick]
        failure = self.known[number]
        partition, offset = number_of(failure.slice.lane.name), failure.error.offset
        to = number_at(failure.skipped_to)
        stands = {
            failure.slice.from_offset,
            failure.slice.from_offset if offset is None else offset,
        }
        decide = self.store.failures.skip if skip else self.store.failures.retry
        if failure.state is FailureState.OPEN and (not skip or self.offsets[partition] in stands):
            decide(number)
            state = FailureState.SKIPPED if skip else FailureState.RETRIED
            self.known[number] = replace(failure, state=state)
            if skip:
                self.offsets[partition] = to
        else:
            with pytest.raises(ConfigError):
                decide(number)
        self._agree()

    @rule(offsets=some.dictionaries(_partitions, _small))
    def seek(self, offsets: dict[int, int]) -> None:
        self.store.progress.seek(self.stream, by_lane(offsets, self.stream))
        self.epoch = next(e.epoch for e in self.store.registry.streams() if e.id == self.stream)
        self.offsets |= offsets
        self._release(set(offsets))
        self._agree()

    @rule()
    def suspend_and_resume(self) -> None:
        self.store.registry.set_stream_state(self.stream, State.SUSPENDED)
        self._agree()
        self.store.registry.set_stream_state(self.stream, State.ACTIVE)
        self._release({0, 1})
        self._agree()

    @rule()
    def remove_and_add_again(self) -> None:
        self.store.registry.set_stream_state(self.stream, State.REMOVED)
        self.store.registry.add_stream(self.stream)
        self._begin()
        self._release({0, 1})
        self._agree()


class TestDecisions:
    """The promises about what ends a failure."""

    def test_a_retried_failure_leaves_the_position_where_it_is(self, store: Store) -> None:
        epoch = started(store, 3)
        number = store.failures.keep([failed(at=3)])[0]
        store.failures.retry(number)
        assert state_of(store, number) is FailureState.RETRIED
        assert store.positions.advance([Move(lane(0), place_at(3), place_at(4), epoch)]) == [True]

    @pytest.mark.parametrize(("names_record", "behind"), [(True, 4), (False, 9)])
    def test_to_skip_moves_behind_the_record_or_the_slice_and_keeps_the_epoch(
        self, store: Store, names_record: bool, behind: int
    ) -> None:
        epoch = started(store, 3, 3)
        number = store.failures.keep([failed(at=3, until=9, names_record=names_record)])[0]
        store.failures.skip(number)
        assert state_of(store, number) is FailureState.SKIPPED
        assert offsets(store) == {0: behind, 1: 3}
        assert 1 <= ordinals(store)[0] <= behind - 3
        assert store.positions.advance([Move(lane(0), place_at(behind), place_at(11), epoch)]) == [
            True
        ]

    def test_to_skip_also_passes_a_gap_before_the_record(self, store: Store) -> None:
        started(store, 2)
        failure = failed(at=5)
        store.failures.skip(
            store.failures.keep(
                [replace(failure, slice=replace(failure.slice, from_offset=place_at(2)))]
            )[0]
        )
        assert offsets(store) == {0: 6}

    def test_a_record_outside_the_slice_is_not_skipped(self, store: Store) -> None:
        started(store, 3)
        number = store.failures.keep([failed(at=9, until=9)])[0]
        with pytest.raises(ConfigError, match="the record at offset 9 cannot be skipped"):
            store.failures.skip(number)
        assert (offsets(store), still_open(store)) == ({0: 3}, [number])

    @pytest.mark.parametrize("names_record", [True, False])
    @pytest.mark.parametrize("position", [1, 4])
    def test_a_failure_that_the_lane_does_not_stand_at_is_not_skipped(
        self, store: Store, position: int, names_record: bool
    ) -> None:
        started(store, position)
        number = store.failures.keep([failed(at=3, names_record=names_record)])[0]
        with pytest.raises(ConfigError, match=f"reads next at {position}, from where"):
            store.failures.skip(number)
        assert state_of(store, number) is FailureState.OPEN
        assert offsets(store) == {0: position}

    def test_what_a_removed_stream_owes_and_cannot_do_is_skipped(self, store: Store) -> None:
        started(store, 3)
        number = store.failures.keep([failed(at=3)])[0]
        store.registry.set_stream_state(ACME, State.REMOVED)
        store.failures.skip(number)
        assert (offsets(store), still_open(store)) == ({0: 4}, [])

    def test_what_is_decided_is_decided(self, store: Store) -> None:
        started(store, 3, 3)
        retried, skipped = (store.failures.keep([failed(p, at=3)])[0] for p in (0, 1))
        store.failures.retry(retried)
        store.failures.skip(skipped)
        for number, said in ((retried, "retried"), (skipped, "skipped")):
            for decide in (store.failures.retry, store.failures.skip):
                with pytest.raises(ConfigError, match=f"not open any more: it was {said}"):
                    decide(number)
        assert offsets(store) == {0: 3, 1: 4}

    def test_a_number_that_nobody_gave_is_told(self, store: Store) -> None:
        started(store, 3)
        for ask in (store.failures.one, store.failures.retry, store.failures.skip):
            with pytest.raises(UnknownName, match="no failure 7"):
                ask(7)

    def test_a_resumed_stream_retries_whatfailed(self, store: Store) -> None:
        started(store, 3, 3)
        ours = [store.failures.keep([failed(p)])[0] for p in (0, 1)]
        other = store.failures.keep([failed(stream=BOLT)])[0]
        store.registry.set_stream_state(ACME, State.SUSPENDED)
        assert still_open(store) == [*ours, other]
        store.registry.set_stream_state(ACME, State.ACTIVE)
        assert still_open(store) == [other]
        assert {state_of(store, number) for number in ours} == {FailureState.RETRIED}
        assert offsets(store) == {0: 3, 1: 3}

    def test_a_seek_retries_what_failed_in_the_lanes_sought(self, store: Store) -> None:
        started(store, 3, 3)
        sought, left = (store.failures.keep([failed(p)])[0] for p in (0, 1))
        other = store.failures.keep([failed(stream=BOLT)])[0]
        store.progress.seek(ACME, by_lane({0: 8}))
        assert still_open(store) == [left, other]
        assert state_of(store, sought) is FailureState.RETRIED

    def test_a_skipped_failure_stays_skipped_when_its_stream_is_resumed_or_sought(
        self, store: Store
    ) -> None:
        started(store, 3)
        number = store.failures.keep([failed()])[0]
        store.failures.skip(number)
        store.progress.seek(ACME, by_lane({0: 3}))
        store.registry.set_stream_state(ACME, State.ACTIVE)
        assert state_of(store, number) is FailureState.SKIPPED

    @pytest.mark.parametrize("tenant_too", [False, True])
    def test_a_stream_added_anew_has_no_open_failure_left(
        self, store: Store, tenant_too: bool
    ) -> None:
        started(store, 3)
        number = store.failures.keep([failed()])[0]
        if tenant_too:
            store.registry.set_tenant_state("acme", State.REMOVED)
            store.registry.add_tenant(Tenant("acme"))
        else:
            store.registry.set_stream_state(ACME, State.REMOVED)
            store.registry.add_stream(ACME)
        assert still_open(store) == []
        assert state_of(store, number) is FailureState.RETRIED

    def test_each_decision_raises_the_revision(self, store: Store) -> None:
        started(store, 3)
        for decide in (
            lambda: store.failures.keep([failed()])[0],
            lambda: store.failures.retry(store.failures.every(only_open=True)[0].id or 0),
            lambda: store.failures.keep([failed()], stop_use_case=True)[0],
            lambda: store.failures.skip(store.failures.every(only_open=True)[0].id or 0),
        ):
            before = store.revision()
            decide()
            assert store.revision() > before

    def test_of_many_who_decide_at_once_exactly_one_does(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        started(store, 0)
        rivals = [open_again() for _ in range(3)]
        for at in range(8):
            number = store.failures.keep([failed(at=at)])[0]
            decided = _raced([partial(rival.failures.skip, number) for rival in rivals])
            assert sorted(decided) == [False, False, True]
            assert offsets(store) == {0: at + 1}
        for rival in rivals:
            rival.close()

    def test_of_many_who_keep_a_failure_of_a_lane_at_once_exactly_one_does(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        started(store, 0)
        rivals = [open_again() for _ in range(3)]
        assert all(_raced([partial(rival.failures.keep, [failed()]) for rival in rivals]))
        assert len(store.failures.every()) == 1
        for rival in rivals:
            rival.close()

    def test_a_commit_and_a_skip_at_once_move_the_lane_once(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 0)
        other = open_again()
        for at in range(8):
            number = store.failures.keep([failed(at=at)])[0]
            commit = partial(
                other.positions.advance, [Move(lane(0), place_at(at), place_at(at + 1), epoch)]
            )
            skipped, committed = _raced([partial(store.failures.skip, number), commit])
            assert skipped is not committed
            assert offsets(store) == {0: at + 1}
            assert still_open(store) == ([] if skipped else [number])
            store.registry.set_stream_state(ACME, State.ACTIVE)
        other.close()

    def test_failures_and_positions_never_come_apart(self, store: Store) -> None:
        store.registry.deploy(SCORE)
        run_state_machine_as_test(
            lambda: Decisions(store),  # type: ignore[arg-type]
            settings=settings(
                max_examples=25,
                stateful_step_count=20,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


def _raced(calls: list[Callable[[], object]]) -> list[bool]:
    """Make the calls at once; whether each did its work."""
    answers = [False] * len(calls)
    gate = threading.Barrier(len(calls))

    def run(place: int, call: Callable[[], object]) -> None:
        gate.wait()
        with suppress(ConfigError):
            answers[place] = call() != [False]

    threads = [threading.Thread(target=run, args=call) for call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
