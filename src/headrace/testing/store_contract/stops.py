"""What every store must do with who has stopped what, as tests; for ``Registry``.

A tenant may let go on what it stopped itself, and nothing else, whatever it does in between.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import NotAllowed
from headrace.model.records import FailureState
from headrace.model.streams import State, Stopper, Stream, Tenant
from headrace.ports import Store
from headrace.testing.store_contract.begun import ACME, BOLT, by_lane, failed, started

OPERATOR, TENANT, FAILURE = Stopper.OPERATOR, Stopper.TENANT, Stopper.FAILURE


def _stream(store: Store) -> Stream:
    return next(stream for stream in store.registry.streams() if stream.id == ACME)


def _acme(store: Store) -> Tenant:
    return next(tenant for tenant in store.registry.tenants() if tenant.name == "acme")


class TestStops:
    """The promises about stops."""

    def test_what_a_tenant_stopped_it_resumes_itself(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        started(store, 0)
        store.registry.set_stream_state(ACME, State.SUSPENDED, by=TENANT)
        store.registry.set_tenant_state("acme", State.SUSPENDED, by=TENANT)
        again = open_again()
        assert _stream(again).stopped_by == _acme(again).stopped_by == {TENANT}
        again.close()
        store.registry.set_stream_state(ACME, State.ACTIVE, by=TENANT)
        store.registry.set_tenant_state("acme", State.ACTIVE, by=TENANT)
        assert (_stream(store).state, _acme(store).state) == (State.ACTIVE, State.ACTIVE)
        assert _stream(store).stopped_by == _acme(store).stopped_by == frozenset()

    def test_what_an_operator_stopped_no_tenant_resumes(self, store: Store) -> None:
        started(store, 0)
        number = store.failures.keep([failed()])[0]
        store.registry.set_stream_state(ACME, State.SUSPENDED)
        store.registry.set_tenant_state("acme", State.SUSPENDED)
        for _ in range(2):
            with pytest.raises(NotAllowed, match="stream acme/score stays suspended: an operator"):
                store.registry.set_stream_state(ACME, State.ACTIVE, by=TENANT)
            with pytest.raises(NotAllowed, match="tenant acme stays suspended: an operator"):
                store.registry.set_tenant_state("acme", State.ACTIVE, by=TENANT)
            assert (_stream(store).state, _acme(store).state) == (State.SUSPENDED,) * 2
            assert store.failures.one(number).state is FailureState.OPEN
            # To stop it again gains nothing.
            store.registry.set_stream_state(ACME, State.SUSPENDED, by=TENANT)
            store.registry.set_tenant_state("acme", State.SUSPENDED, by=TENANT)
        store.registry.set_stream_state(ACME, State.ACTIVE)
        store.registry.set_tenant_state("acme", State.ACTIVE)
        assert (_stream(store).state, _acme(store).state) == (State.ACTIVE, State.ACTIVE)

    def test_an_operators_stop_counts_beside_that_of_the_tenant(self, store: Store) -> None:
        started(store, 0)
        store.registry.set_stream_state(ACME, State.SUSPENDED, by=TENANT)
        store.registry.set_stream_state(ACME, State.SUSPENDED)
        store.registry.set_tenant_state("acme", State.SUSPENDED, by=TENANT)
        store.registry.set_tenant_state("acme", State.SUSPENDED)
        assert _stream(store).stopped_by == _acme(store).stopped_by == {OPERATOR, TENANT}
        with pytest.raises(NotAllowed):
            store.registry.set_stream_state(ACME, State.ACTIVE, by=TENANT)
        with pytest.raises(NotAllowed):
            store.registry.set_tenant_state("acme", State.ACTIVE, by=TENANT)

    def test_what_a_failure_stopped_no_tenant_resumes(self, store: Store) -> None:
        started(store, 0)
        store.failures.keep([failed()], stop_use_case=True)[0]
        why = _stream(store).reason
        assert _stream(store).stopped_by == {FAILURE}
        store.registry.set_stream_state(ACME, State.SUSPENDED, by=TENANT)
        assert _stream(store).stopped_by == {FAILURE, TENANT}
        assert _stream(store).reason == why
        with pytest.raises(NotAllowed, match="a failure stopped it"):
            store.registry.set_stream_state(ACME, State.ACTIVE, by=TENANT)
        store.registry.set_stream_state(ACME, State.ACTIVE)
        assert (_stream(store).state, _stream(store).reason) == (State.ACTIVE, None)

    def test_who_stops_its_stream_first_does_not_escape_a_stop_for_all(self, store: Store) -> None:
        started(store, 0)
        store.registry.set_stream_state(ACME, State.SUSPENDED, by=TENANT)
        store.failures.keep([failed(stream=BOLT)], stop_use_case=True)[0]
        assert _stream(store).stopped_by == {FAILURE, TENANT}
        assert _stream(store).reason == "use case stopped by a failure of another tenant"
        with pytest.raises(NotAllowed, match="a failure stopped it"):
            store.registry.set_stream_state(ACME, State.ACTIVE, by=TENANT)

    def test_when_a_use_case_goes_on_who_stopped_its_stream_itself_stays_stopped(
        self, store: Store
    ) -> None:
        started(store, 0)
        store.registry.set_stream_state(ACME, State.SUSPENDED, by=TENANT)
        store.failures.keep([failed(stream=BOLT)], stop_use_case=True)[0]
        for stream in (ACME, BOLT):
            store.registry.set_stream_state(stream, State.ACTIVE, by=FAILURE)
        states = {
            stream.id: (stream.state, stream.stopped_by, stream.reason)
            for stream in store.registry.streams()
        }
        assert states == {
            ACME: (State.SUSPENDED, {TENANT}, None),
            BOLT: (State.ACTIVE, frozenset(), None),
        }
        store.registry.set_stream_state(ACME, State.ACTIVE, by=TENANT)
        assert _stream(store).state is State.ACTIVE

    def test_what_an_operator_stopped_is_left_to_the_operator(self, store: Store) -> None:
        started(store, 0)
        store.registry.set_stream_state(ACME, State.SUSPENDED, "by phone")
        store.failures.keep([failed(stream=BOLT)], stop_use_case=True)[0]
        assert _stream(store).stopped_by == {OPERATOR}
        assert _stream(store).reason == "by phone"

    def test_a_tenant_that_is_added_as_suspended_is_so_by_an_operator(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme", State.SUSPENDED))
        assert _acme(store).stopped_by == {OPERATOR}
        with pytest.raises(NotAllowed):
            store.registry.set_tenant_state("acme", State.ACTIVE, by=TENANT)

    def test_what_is_removed_or_begins_anew_is_stopped_by_nobody(self, store: Store) -> None:
        started(store, 0)
        store.registry.set_stream_state(ACME, State.SUSPENDED)
        store.registry.set_tenant_state("acme", State.SUSPENDED)
        store.registry.set_tenant_state("acme", State.REMOVED)
        assert _stream(store).stopped_by == _acme(store).stopped_by == frozenset()
        store.registry.add_tenant(Tenant("acme"))
        assert _stream(store).stopped_by == _acme(store).stopped_by == frozenset()

    def test_who_decides_for_an_earlier_epoch_changes_nothing(self, store: Store) -> None:
        epoch = started(store, 0)
        assert store.registry.set_stream_state(ACME, State.SUSPENDED, "lost", epoch=epoch)
        store.progress.seek(ACME, by_lane({0: 5}))
        assert not store.registry.set_stream_state(ACME, State.REMOVED, "done", epoch=epoch)
        assert _stream(store).state is State.SUSPENDED
