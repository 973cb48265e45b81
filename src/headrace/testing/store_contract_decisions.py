"""A search for what failures and decisions a store gets wrong; a part of ``store_contract``.

Single rules do not show what a retry after a seek after a commit does. So here every sequence is
allowed (failures, commits, skips, retries, seeks, resuming, starting afresh), and a dict that
follows the port's words says what must be there after each step. The rules one by one are in
``store_contract_failures``.
"""

# The rules of a state machine are named for what they do.
# ruff: noqa: D102

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, rule

from headrace.errors import ConfigError
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, LaneStart, Move
from headrace.model.streams import LaneId, Slice, State, StreamId, Tenant
from headrace.ports import Store
from headrace.testing.store_contract_positions import ACME, lane, offsets


def failed(
    partition: int = 0,
    at: int = 3,
    until: int = 9,
    *,
    stream: StreamId = ACME,
    names_record: bool = True,
) -> Failure:
    """A failure at ``at``: its lane stopped there, or with a record named at most one before."""
    begins = max(0, at - 1) if names_record else at
    piece = Slice(lane(partition, stream), "t", begins, until, 1)
    error = SliceError(False, "HandlerError", "no JSON", offset=at if names_record else None)
    return Failure(piece, error, 1.0)


_partitions = some.integers(0, 1)
_small = some.integers(0, 4)


class Decisions(RuleBasedStateMachine):
    """One stream of two lanes, its failures and what is decided about them, against a dict."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        tenant = f"t{len(store.tenants())}"
        store.add_tenant(Tenant(tenant))
        self.stream = StreamId("score", tenant)
        self.known: dict[int, Failure] = {}
        self._begin()

    def _begin(self) -> None:
        self.store.start_lanes([LaneStart(self.stream, "id", {0: 0, 1: 0})])
        self.epoch = self.store.hold([self.stream])[self.stream]
        self.offsets = {0: 0, 1: 0}

    def _release(self, partitions: set[int]) -> None:
        for number, each in self.known.items():
            if each.state is FailureState.OPEN and each.slice.lane.partition in partitions:
                self.known[number] = replace(each, state=FailureState.RETRIED)

    def _agree(self) -> None:
        kept = self.store.failures(self.stream)
        assert {each.id: each for each in kept} == self.known
        still = [each for each in kept if each.state is FailureState.OPEN]
        assert self.store.failures(self.stream, only_open=True) == still
        assert len({each.slice.lane for each in still}) == len(still), "two stops of one lane"
        assert offsets(self.store, self.stream) == self.offsets

    @rule(partition=_partitions, at=_small, named=some.booleans())
    def fail(self, partition: int, at: int, named: bool) -> None:
        failure = failed(partition, at, at + 2, stream=self.stream, names_record=named)
        number = self.store.keep_failure(failure)
        stops = [
            each.id
            for each in self.known.values()
            if each.state is FailureState.OPEN and each.slice.lane.partition == partition
        ]
        again = [
            each.times
            for each in self.known.values()
            if each.state is FailureState.RETRIED and each.place == failure.place
        ]
        if stops:
            assert [number] == stops
        else:
            assert (number in self.known) == bool(again)
            self.known[number] = replace(failure, id=number, times=1 + sum(again))
        self._agree()

    @rule(partition=_partitions, at=_small, to=_small)
    def commit(self, partition: int, at: int, to: int) -> None:
        place = LaneId(*self.stream, partition)
        right = self.offsets[partition] == at
        assert self.store.positions.advance([Move(place, at, to, self.epoch)]) == [right]
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
        each = self.known[number]
        partition, offset = each.slice.lane.partition, each.error.offset
        stands = {each.slice.from_offset, each.slice.from_offset if offset is None else offset}
        to = each.slice.until_offset if offset is None else offset + 1
        decide = self.store.skip_failure if skip else self.store.retry_failure
        if each.state is FailureState.OPEN and (not skip or self.offsets[partition] in stands):
            decide(number)
            state = FailureState.SKIPPED if skip else FailureState.RETRIED
            self.known[number] = replace(each, state=state)
            if skip:
                self.offsets[partition] = to
        else:
            with pytest.raises(ConfigError):
                decide(number)
        self._agree()

    @rule(offsets=some.dictionaries(_partitions, _small))
    def seek(self, offsets: dict[int, int]) -> None:
        self.store.seek(self.stream, offsets)
        self.epoch = next(e.epoch for e in self.store.streams() if e.id == self.stream)
        self.offsets |= offsets
        self._release(set(offsets))
        self._agree()

    @rule()
    def suspend_and_resume(self) -> None:
        self.store.set_stream_state(self.stream, State.SUSPENDED)
        self._agree()
        self.store.set_stream_state(self.stream, State.ACTIVE)
        self._release({0, 1})
        self._agree()

    @rule()
    def remove_and_add_again(self) -> None:
        self.store.set_stream_state(self.stream, State.REMOVED)
        self.store.add_stream(self.stream)
        self._begin()
        self._release({0, 1})
        self._agree()
