"""What every store must do with the state of many tenants at once, as tests; for ``Registry``.

Many together are what each would be alone, and all or none. Who was read, and not whoever has the
name by now, is who is meant.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.errors import ConfigError, UnknownName
from headrace.model.credentials import Key, Role
from headrace.model.streams import State, Stopper, Stream, Tenant
from headrace.ports import Store
from headrace.testing.store_contract.begun import started

#: more than fit in one statement of any store
_MANY = [Tenant(f"t{number}") for number in range(1_234)]
_KEY = Key("sender01", b"\x01" * 32, Role.SENDER, "acme", "shop", 10.0)


def _read(store: Store, *names: str) -> list[Tenant]:
    known = {tenant.name: tenant for tenant in store.registry.tenants()}
    return [known[name] for name in names]


def _stands(store: Store) -> tuple[list[Tenant], list[Stream], list[Key]]:
    return store.registry.tenants(), store.registry.streams(), store.keys.every()


class TestTenantStates:
    """The promises about the state of many tenants."""

    @pytest.mark.parametrize("state", State)
    def test_many_are_what_each_would_be_alone(self, store: Store, state: State) -> None:
        started(store, 7)
        for name in ("twin", "zeta"):
            store.registry.add_tenant(Tenant(name))
        for name, by in (("bolt", Stopper.TENANT), ("twin", Stopper.TENANT)):
            store.registry.set_tenant_state(name, State.SUSPENDED, by=by)
        for name in ("acme", "bolt", "twin", "zeta"):
            store.keys.add(replace(_KEY, prefix=f"{name}0000", tenant=name))
        store.registry.set_tenant_state("zeta", state)
        together = _read(store, "bolt", "acme")
        changed = ["bolt", "acme"] if state is State.REMOVED else []
        changed = ["acme"] if state is State.SUSPENDED else changed or ["bolt"]
        assert store.registry.set_tenant_states(together, state) == changed
        store.registry.set_tenant_state("twin", state)
        acme, bolt, twin, zeta = store.registry.tenants()
        assert replace(acme, name="zeta") == zeta
        assert replace(bolt, name="twin") == twin
        streams = {stream.id.tenant: stream.state for stream in store.registry.streams()}
        assert set(streams.values()) == {state if state is State.REMOVED else State.ACTIVE}
        assert len(store.keys.every()) == (0 if state is State.REMOVED else 4)

    def test_very_many_are_changed_in_one_change(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        store.registry.add_tenants([*_MANY, Tenant("other")])
        before = store.revision()
        read = _read(store, *(tenant.name for tenant in _MANY))
        assert len(store.registry.set_tenant_states(read, State.SUSPENDED)) == len(_MANY)
        assert store.revision() > before
        again = open_again()
        found = {tenant.name: tenant.state for tenant in again.registry.tenants()}
        again.close()
        assert found.pop("other") is State.ACTIVE
        assert set(found.values()) == {State.SUSPENDED}
        assert len(store.registry.set_tenant_states(read, State.REMOVED)) == len(_MANY)
        assert store.registry.set_tenant_states(read, State.REMOVED) == []
        assert store.registry.set_tenant_states([], State.REMOVED) == []

    def test_all_are_changed_or_none(self, store: Store) -> None:
        started(store, 0)
        store.registry.add_tenants([Tenant("gone"), Tenant("twin")])
        store.registry.set_tenant_state("gone", State.REMOVED)
        acme, twin, gone = _read(store, "acme", "twin", "gone")
        before = _stands(store)
        with pytest.raises(ConfigError, match="gone was removed"):
            store.registry.set_tenant_states([acme, gone, twin], State.SUSPENDED)
        with pytest.raises(UnknownName, match="no tenant nobody"):
            store.registry.set_tenant_states([acme, Tenant("nobody"), twin], State.REMOVED)
        assert _stands(store) == before

    def test_one_that_was_added_again_since_it_was_read_is_not_who_was_meant(
        self, store: Store
    ) -> None:
        started(store, 5)
        acme, bolt = _read(store, "acme", "bolt")
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme"))
        before = _stands(store)
        for state in State:
            with pytest.raises(ConfigError, match="acme was removed and added again meanwhile"):
                store.registry.set_tenant_states([bolt, acme], state)
        assert _stands(store) == before
