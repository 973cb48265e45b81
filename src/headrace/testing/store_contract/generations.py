"""What every store must do with tenants of one name after each other, as tests; for ``Registry``.

A name is given to another customer once its tenant was removed. Nothing of the earlier one may come
to the later one, not even what a driver that has yet to hear of it still keeps.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.errors import UnknownName
from headrace.model.credentials import Change
from headrace.model.records import Failure, FailureState, LaneStart
from headrace.model.statistics import Point, Spread
from headrace.model.streams import State, StreamId, Tenant
from headrace.ports import Store
from headrace.testing.store_contract.begun import (
    ACME,
    BOLT,
    SCORE,
    by_lane,
    failed,
    offsets,
    started,
)

SOME = StreamId("some", "acme")


def _of(failure: Failure, epoch: int) -> Failure:
    return replace(failure, slice=replace(failure.slice, epoch=epoch))


def _acme(store: Store) -> Tenant:
    return next(tenant for tenant in store.registry.tenants() if tenant.name == "acme")


def _epoch(store: Store, stream: StreamId = ACME) -> int:
    return next(known.epoch for known in store.registry.streams() if known.id == stream)


def _added_again(store: Store, at_s: float = 50.5) -> Tenant:
    store.registry.set_tenant_state("acme", State.REMOVED)
    store.registry.add_tenant(Tenant("acme"), at_s=at_s)
    return _acme(store)


class TestGenerations:
    """The promises about generations."""

    def test_the_first_tenant_of_a_name_is_of_generation_0(self, store: Store) -> None:
        started(store, 0)
        assert (_acme(store).generation, _acme(store).added_again_s) == (0, None)
        assert store.keys.added_again_s("acme") is None
        assert store.keys.added_again_s("nobody") is None

    def test_history_is_the_earlier_tenants_also_if_the_clock_was_set_back(
        self, store: Store
    ) -> None:
        started(store, 0)
        store.statistics.keep([Point(ACME, 3600.0, 60.0, 4, 2.0, 8, 120, 1.0, Spread())])
        store.statistics.keep([Point(BOLT, 7200.0, 60.0, 4, 2.0, 8, 120, 1.0, Spread())])
        assert _added_again(store, 60.0).added_again_s == 3601.0
        assert store.keys.added_again_s("acme") == 3601.0

    def test_a_tenant_added_again_has_a_generation_above_all_epochs_of_its_name(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 0)
        again = _added_again(store)
        assert again.generation > epoch
        assert again.added_again_s == 50.5
        assert _epoch(store) >= again.generation
        third = _added_again(store, at_s=70.25)
        assert third.generation > again.generation
        other = open_again()
        assert other.registry.tenants() == store.registry.tenants()
        assert other.keys.added_again_s("acme") == 70.25
        other.close()

    @pytest.mark.parametrize("names", [["acme", "new", "bolt"], ["bolt", "new", "acme"]])
    def test_of_many_added_again_each_begins_as_if_it_were_alone(
        self, store: Store, names: list[str]
    ) -> None:
        epoch = started(store, 0)
        store.registry.deploy(replace(SCORE, use_case="some", all_tenants=False))
        store.registry.add_stream(SOME)
        store.membership.hold([SOME])
        store.membership.hold([SOME])
        store.statistics.keep([Point(BOLT, 3600.0, 60.0, 4, 2.0, 8, 120, 1.0, Spread())])
        store.failures.keep([_of(failed(), epoch)])[0]
        epochs = _epoch(store), _epoch(store, BOLT), _epoch(store, SOME)
        store.registry.set_tenant_states(
            [tenant for tenant in store.registry.tenants() if tenant.name in names], State.REMOVED
        )
        store.registry.deploy(replace(SCORE, use_case="late"))
        wanted = [Tenant(name, weight=float(place + 1)) for place, name in enumerate(names)]
        assert store.registry.add_tenants(wanted, at_s=60.0) == names
        tenants = {tenant.name: tenant for tenant in store.registry.tenants()}
        weights = {name: float(place + 1) for place, name in enumerate(names)}
        assert {name: tenant.weight for name, tenant in tenants.items()} == weights
        assert tenants["acme"].generation > max(epochs[0], epochs[2])
        assert tenants["bolt"].generation > epochs[1]
        assert {name: tenant.added_again_s for name, tenant in tenants.items()} == {
            "acme": 60.0,
            "bolt": 3601.0,
            "new": None,
        }
        streams = {known.id: known for known in store.registry.streams()}
        assert {stream for stream, known in streams.items() if known.state is State.ACTIVE} == {
            StreamId(use_case, name) for use_case in ("late", "score") for name in names
        }
        assert all(
            known.epoch == tenants[stream.tenant].generation and known.holder is None
            for stream, known in streams.items()
            if known.state is State.ACTIVE
        )
        assert streams[SOME].state is State.REMOVED
        assert [failure.state for failure in store.failures.every()] == [FailureState.RETRIED]
        assert offsets(store) == {}

    def test_when_it_was_added_again_is_now_if_nobody_says(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.set_tenant_state("acme", State.REMOVED)
        before_s = time.time()
        store.registry.add_tenant(Tenant("acme"))
        assert before_s <= (_acme(store).added_again_s or 0.0) <= time.time()

    def test_a_stream_that_begins_later_has_no_epoch_of_an_earlier_tenant(
        self, store: Store
    ) -> None:
        started(store, 0)
        store.registry.deploy(replace(SCORE, use_case="some", all_tenants=False))
        store.registry.add_stream(SOME)
        generation = _added_again(store).generation
        store.registry.add_stream(SOME)
        store.registry.deploy(replace(SCORE, use_case="late"))
        assert _epoch(store, SOME) >= generation
        assert _epoch(store, StreamId("late", "acme")) >= generation

    def test_a_stream_added_again_is_of_the_same_tenant(self, store: Store) -> None:
        started(store, 0)
        number = store.failures.keep([failed()])[0]
        store.registry.set_stream_state(ACME, State.REMOVED)
        store.registry.add_stream(ACME)
        assert _acme(store).generation == 0
        assert [failure.id for failure in store.failures.every(ACME, current=True)] == [number]

    def test_failures_of_an_earlier_tenant_are_not_the_later_ones(self, store: Store) -> None:
        epoch = started(store, 0)
        number, other = store.failures.keep([failed(), failed(stream=BOLT)])
        _added_again(store)
        assert [failure.id for failure in store.failures.every()] == [number, other], (
            "operators see them all"
        )
        assert store.failures.one(number).slice.epoch == epoch
        assert [failure.id for failure in store.failures.every(current=True)] == [other]
        assert store.failures.every(ACME, current=True) == []
        with pytest.raises(UnknownName, match=f"no failure {number}"):
            store.failures.one(number, "acme")
        own = store.failures.keep([_of(failed(), _epoch(store))])[0]
        assert [failure.id for failure in store.failures.every(ACME, current=True)] == [own]
        assert store.failures.one(own, "acme").id == own

    @pytest.mark.parametrize("stop_use_case", [False, True])
    def test_what_a_driver_still_keeps_of_an_earlier_tenant_stops_nothing(
        self, store: Store, stop_use_case: bool
    ) -> None:
        epoch = started(store, 0)
        _added_again(store)
        number = store.failures.keep([_of(failed(), epoch)], stop_use_case=stop_use_case)[0]
        assert store.failures.one(number).state is FailureState.RETRIED
        assert store.failures.every(only_open=True) == []
        assert {stream.state for stream in store.registry.streams()} == {State.ACTIVE}
        assert store.failures.every(ACME, current=True) == []
        with pytest.raises(UnknownName, match=r"no stream acme/none; .*streams list"):
            store.failures.keep([_of(failed(stream=StreamId("none", "acme")), epoch)])[0]

    def test_a_stream_that_does_not_begin_anew_tells_nothing_either(self, store: Store) -> None:
        started(store, 0)
        store.registry.deploy(replace(SCORE, use_case="some", all_tenants=False))
        store.registry.add_stream(SOME)
        store.progress.start_lanes([LaneStart(SOME, "id", by_lane({0: 7}, SOME))])
        store.failures.keep([failed(stream=SOME)])[0]
        store.registry.set_stream_state(SOME, State.SUSPENDED, "acme sent rubbish")
        _added_again(store)
        (left,) = (stream for stream in store.registry.streams() if stream.id == SOME)
        assert (left.state, left.reason) == (State.REMOVED, None)
        assert offsets(store, SOME) == {}
        assert store.failures.every(only_open=True) == []

    def test_lines_of_the_audit_log_have_the_generation_of_their_tenant(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        generations = []
        for tenant in ("acme", "nobody", "\x00", None):
            store.audit.note(Change(1.0, "key:1", "PUT /", tenant, 200))
            generations.append(store.audit.changes(limit=1)[0].generation)
        assert generations == [0, None, None, None]
        generation = _added_again(store).generation
        store.audit.note(Change(2.0, "key:1", "PUT /", "acme", 200))
        found = [change.generation for change in store.audit.changes(tenant="acme")]
        assert found == [generation, 0]
