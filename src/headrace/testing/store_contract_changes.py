"""What every store must do when a tenant is changed as a whole; a part of ``store_contract``.

Two operators who look at the same tenant must not undo each other's change without knowing, so a
change says what it was made from.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headrace.errors import ConfigError, UnknownName
from headrace.model.streams import State, Stopper, Tenant, Throttle
from headrace.ports import Store
from headrace.testing.store_contract_positions import started

_BEFORE = Tenant("acme", weight=1.5)
_STOPPED = frozenset({Stopper.OPERATOR})
_AFTER = Tenant("acme", State.SUSPENDED, 0.1, Throttle(0.3, None, 0.7), _STOPPED)


class ChangesContract:
    """The promises about ``change_tenant``; ``StoreContract`` has them all."""

    def test_a_change_sets_everything_or_nothing(self, store: Store) -> None:
        store.add_tenant(_BEFORE)
        store.add_tenant(Tenant("bolt"))
        assert store.change_tenant(_BEFORE, _AFTER)
        assert store.tenants() == [_AFTER, Tenant("bolt")]
        assert not store.change_tenant(_BEFORE, replace(_BEFORE, weight=9.0))
        assert not store.change_tenant(
            replace(_AFTER, throttle=Throttle()), replace(_AFTER, weight=9.0)
        )
        assert not store.change_tenant(replace(_AFTER, state=State.ACTIVE), _BEFORE)
        assert store.tenants() == [_AFTER, Tenant("bolt")]
        assert store.change_tenant(_AFTER, _BEFORE)
        assert store.tenants()[0] == _BEFORE

    def test_of_changes_made_from_the_same_one_is_done(self, store: Store) -> None:
        store.add_tenant(_BEFORE)
        wanted = [replace(_BEFORE, weight=float(each)) for each in range(2, 8)]
        with ThreadPoolExecutor(len(wanted)) as pool:
            done = [*pool.map(lambda after: store.change_tenant(_BEFORE, after), wanted)]
        assert done.count(True) == 1
        assert store.tenants() == [wanted[done.index(True)]]

    def test_to_remove_by_a_change_removes_the_streams_and_stays(self, store: Store) -> None:
        started(store, 0)
        removed = Tenant("acme", State.REMOVED, 2.0)
        assert store.change_tenant(Tenant("acme"), removed)
        assert store.tenants()[0] == removed
        assert {each.id.tenant: each.state for each in store.streams()} == {
            "acme": State.REMOVED,
            "bolt": State.ACTIVE,
        }
        with pytest.raises(ConfigError, match="acme was removed"):
            store.change_tenant(removed, Tenant("acme"))
        assert store.tenants()[0] == removed

    def test_a_change_to_what_cannot_be_is_refused(self, store: Store) -> None:
        store.add_tenant(_BEFORE)
        for wrong in (
            replace(_BEFORE, weight=0.0),
            replace(_BEFORE, throttle=Throttle(records_per_s=-1.0)),
        ):
            with pytest.raises(ConfigError, match="above 0"):
                store.change_tenant(_BEFORE, wrong)
        with pytest.raises(UnknownName, match="no tenant nobody"):
            store.change_tenant(Tenant("nobody"), Tenant("nobody", weight=2.0))
        assert store.tenants() == [_BEFORE]

    def test_a_change_raises_the_revision(self, store: Store) -> None:
        store.add_tenant(_BEFORE)
        before = store.revision()
        store.change_tenant(_BEFORE, _AFTER)
        assert store.revision() > before
