"""Who is a tenant, as tasks ask it."""

from __future__ import annotations

import pytest

from headrace.model.everyone import EVERYONE
from headrace.model.records import Deployment
from headrace.model.streams import State, Tenant
from headrace.ports import Connections, NoTenants
from headrace.store import SqlTenants, SqlTenantsFactory, known_tenants
from headrace.store.known_tenants import KEPT_S, STRANGE_S
from headrace.testing.clock import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def known(store, clock):
    for name in ("acme", "bolt", "corp"):
        store.registry.add_tenant(Tenant(name))
    return SqlTenants(store._database, clock.monotonic_s)


def looks_of(known, monkeypatch):
    """What the store is asked for, from now on: names, or None for all."""
    asked, read = [], SqlTenants._read

    def looked(self, names):
        asked.append(names)
        return read(self, names)

    monkeypatch.setattr(SqlTenants, "_read", looked)
    return asked


def test_active_and_suspended_ones_are_there_and_removed_ones_are_not(store, known):
    store.registry.set_tenant_state("bolt", State.SUSPENDED)
    store.registry.set_tenant_state("corp", State.REMOVED)
    assert known.there(["acme", "bolt", "corp", "../x", ""]) == {"acme", "bolt"}


def test_who_stands_for_all_customers_is_none_of_them(store, known):
    store.registry.deploy(Deployment("ads", "m.py", "0" * 64, "impressions"))
    assert EVERYONE in {tenant.name for tenant in store.registry.tenants()}
    assert known.there([EVERYONE, "acme"]) == {"acme"}


def test_one_that_was_added_is_known_at_once(store, known):
    assert known.there(["acme"]) == {"acme"}
    store.registry.add_tenant(Tenant("dune"))
    assert known.there(["acme", "dune"]) == {"acme", "dune"}


def test_one_that_was_asked_for_before_it_was_added_is_known_within_a_second(store, known, clock):
    assert known.there(["acme", "dune"]) == {"acme"}
    store.registry.add_tenant(Tenant("dune"))
    for _ in range(7):
        clock.move(STRANGE_S / 8)
        assert known.there(["acme", "dune"]) == {"acme"}, "it was asked for"
    clock.move(STRANGE_S / 8)
    assert known.there(["acme", "dune"]) == {"acme", "dune"}, "asking put off what was remembered"


@pytest.mark.parametrize("strangers", [1, 150, 1000])
def test_strangers_in_each_slice_are_asked_for_once_a_second(known, clock, monkeypatch, strangers):
    asked = looks_of(known, monkeypatch)
    names = ["acme", *(f"stranger-{number}" for number in range(strangers))]
    for _ in range(50):
        assert known.there(names) == {"acme"}
        clock.move(STRANGE_S / 25)
    assert len(asked) == 3, "all once, and the strangers twice"


def test_few_strangers_that_are_new_each_time_are_asked_for_without_reading_all(
    known, clock, monkeypatch
):
    asked = looks_of(known, monkeypatch)
    for number in range(20):
        assert known.there(["acme", f"stranger-{number}"]) == {"acme"}
    assert asked == [None, *([f"stranger-{number}"] for number in range(20))]


def test_what_cannot_be_a_name_is_not_asked_for(known, monkeypatch):
    known.there(["acme"])
    asked = looks_of(known, monkeypatch)
    assert known.there(["acme", "../x", "", "a\0b", "ä", "x" * 64, "A"]) == {"acme"}
    assert asked == []


def test_strangers_that_are_remembered_are_bounded(known, monkeypatch):
    monkeypatch.setattr(known_tenants, "_MOST_STRANGE", 30)
    for first in range(0, 100, 10):
        known.there([f"stranger-{first + number}" for number in range(10)])
    assert sorted(known._strange) == [f"stranger-{number}" for number in range(70, 100)]


def test_one_that_was_removed_is_forgotten_in_some_seconds(store, known, clock):
    assert known.there(["acme"]) == {"acme"}
    store.registry.set_tenant_state("acme", State.REMOVED)
    clock.move(KEPT_S + 1)
    assert known.there(["acme"]) == frozenset()


def test_names_that_are_known_are_not_asked_for_each_time(store, known):
    assert known.there(["acme", "bolt"]) == {"acme", "bolt"}
    store.registry.set_tenant_state("bolt", State.REMOVED)
    assert known.there(["bolt"]) == {"bolt"}, "it was asked for"


def test_a_worker_opens_them_by_the_address_of_the_store(store):
    store.registry.add_tenant(Tenant("acme"))
    url = store._database.address.url.render_as_string(hide_password=False)
    assert SqlTenantsFactory().open(Connections({}, url)).there(["acme"]) == {"acme"}


def test_where_nobody_can_be_asked_no_name_is_a_tenant():
    assert NoTenants().open(Connections({}, "")).there(["acme"]) == frozenset()
