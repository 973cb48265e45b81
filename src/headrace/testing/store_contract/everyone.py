"""What every store must do with topics that name no tenant, as tests; for ``Registry``.

Their streams are of one reserved tenant, who is there with the first such use case, and is nobody's
to add. What an operator did to it has to stay, or a restart would undo it.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.errors import ConfigError
from headrace.model.credentials import Key, Role
from headrace.model.everyone import EVERYONE
from headrace.model.places import place_at
from headrace.model.records import LaneStart
from headrace.model.streams import State, Stream, StreamId, Tenant, Throttle
from headrace.ports import Store
from headrace.testing.store_contract.begun import SCORE, by_lane, offsets

COUNT = replace(SCORE, use_case="count", topic="impressions")
OTHER = replace(COUNT, use_case="other", topic="clicks")
OF_ALL = StreamId("count", EVERYONE)


def _tenants(store: Store) -> dict[str, Tenant]:
    return {tenant.name: tenant for tenant in store.registry.tenants()}


def _streams(store: Store, state: State = State.ACTIVE) -> dict[StreamId, str]:
    found: list[Stream] = [one for one in store.registry.streams() if one.state is state]
    return {stream.id: stream.topic for stream in found}


class TestEveryone:
    """The promises about the tenant of topics for all."""

    def test_it_is_there_with_the_first_use_case_that_reads_a_topic_for_all(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.deploy(SCORE)
        assert EVERYONE not in _tenants(store)
        store.registry.deploy_together([COUNT, OTHER])
        again = open_again()
        assert _tenants(again)[EVERYONE] == Tenant(EVERYONE, reserved=True)
        assert not _tenants(again)["acme"].reserved
        again.close()
        assert _streams(store) == {
            StreamId("score", "acme"): "acme.visits",
            OF_ALL: "impressions",
            StreamId("other", EVERYONE): "clicks",
        }

    def test_it_has_no_streams_of_customers_topics_and_they_none_of_its_own(
        self, store: Store
    ) -> None:
        store.registry.deploy_together([COUNT, SCORE])
        store.registry.add_tenant(Tenant("acme"))
        store.registry.add_tenants([Tenant("bolt")])
        store.registry.deploy(replace(SCORE, use_case="late"))
        assert {stream.use_case for stream in _streams(store) if stream.tenant == EVERYONE} == {
            "count"
        }
        assert {stream.tenant for stream in _streams(store) if stream.use_case == "count"} == {
            EVERYONE
        }
        with pytest.raises(ConfigError, match="reads topic impressions, of which everyone alone"):
            store.registry.add_stream(StreamId("count", "acme"))
        with pytest.raises(ConfigError, match="each customer has one; tenant everyone has no"):
            store.registry.add_stream(StreamId("score", EVERYONE))

    def test_a_use_case_that_is_not_for_all_gets_its_stream_by_hand(self, store: Store) -> None:
        store.registry.deploy(replace(COUNT, all_tenants=False))
        assert (list(_tenants(store)), _streams(store)) == ([EVERYONE], {})
        store.registry.add_stream(OF_ALL)
        assert _streams(store) == {OF_ALL: "impressions"}

    def test_nobody_adds_it_before(self, store: Store) -> None:
        for add in (
            lambda: store.registry.add_tenant(Tenant(EVERYONE)),
            lambda: store.registry.add_tenants([Tenant("acme"), Tenant(EVERYONE)]),
        ):
            with pytest.raises(ConfigError, match="tenant everyone: the name is reserved"):
                add()
        assert _tenants(store) == {}

    def test_nor_while_it_is_there(self, store: Store) -> None:
        store.registry.deploy(COUNT)
        with pytest.raises(ConfigError, match="there already"):
            store.registry.add_tenant(Tenant(EVERYONE))
        added = store.registry.add_tenants([Tenant(EVERYONE), Tenant("acme")], skip_there=True)
        assert added == ["acme"]
        assert _tenants(store)[EVERYONE].reserved

    def test_it_is_weighed_throttled_and_suspended_as_others_are(self, store: Store) -> None:
        store.registry.deploy(COUNT)
        store.registry.set_weight(EVERYONE, 20.0)
        store.registry.set_throttle(EVERYONE, Throttle(5.0))
        before = _tenants(store)[EVERYONE]
        assert store.registry.change_tenant(before, replace(before, state=State.SUSPENDED))
        after = _tenants(store)[EVERYONE]
        assert (after.weight, after.throttle, after.state) == (20.0, Throttle(5.0), State.SUSPENDED)
        store.registry.deploy(replace(COUNT, digest="cd34"))
        store.registry.deploy(OTHER)
        assert _tenants(store)[EVERYONE] == after

    def test_removed_it_stays_so_until_somebody_adds_it(self, store: Store) -> None:
        store.registry.deploy_together([COUNT, SCORE])
        store.progress.start_lanes([LaneStart(OF_ALL, "id-1", by_lane({0: 7}, OF_ALL))])
        store.registry.set_tenant_states([_tenants(store)[EVERYONE]], State.REMOVED)
        store.registry.deploy(replace(COUNT, digest="cd34"))
        assert _streams(store) == {}
        with pytest.raises(ConfigError, match=r"everyone, and that was removed; .*tenants add"):
            store.registry.deploy(OTHER)
        with pytest.raises(ConfigError, match="everyone was removed"):
            store.registry.add_stream(OF_ALL)
        assert {known.use_case for known in store.registry.deployments()} == {"count", "score"}
        store.registry.add_tenant(Tenant(EVERYONE, weight=3.0))
        again = _tenants(store)[EVERYONE]
        assert (again.weight, again.reserved, again.generation > 0) == (3.0, True, True)
        assert (_streams(store), offsets(store, OF_ALL)) == ({OF_ALL: "impressions"}, {})
        store.registry.deploy(OTHER)
        assert len(_streams(store)) == 2

    def test_no_topic_is_of_it_and_of_a_customer(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.deploy(SCORE)
        shared = replace(COUNT, topic="acme.visits")
        with pytest.raises(ConfigError, match=r"acme.visits .*two tenants: of everyone .*of acme"):
            store.registry.deploy(shared)
        assert (list(_tenants(store)), len(store.registry.deployments())) == (["acme"], 1)
        store.registry.deploy(replace(COUNT, topic="bolt.visits"))
        with pytest.raises(ConfigError, match=r"bolt.visits .*of bolt .*of everyone as count"):
            store.registry.add_tenant(Tenant("bolt"))
        store.registry.deploy(replace(COUNT, use_case="twice", topic="bolt.visits"))
        assert len(_streams(store)) == 3

    def test_nobody_has_a_key_of_it(self, store: Store) -> None:
        key = Key("everyon1", b"digest", Role.TENANT, EVERYONE, "of all", 1.0)
        for deploys in (False, True):
            if deploys:
                store.registry.deploy(COUNT)
            with pytest.raises(ConfigError, match="no credential is of it"):
                store.keys.add(key)
        assert store.keys.every() == []

    def test_no_credential_is_of_its_name_be_it_there_or_not(self, store: Store) -> None:
        assert not store.keys.may_be_customer(EVERYONE)
        store.registry.deploy(COUNT)
        assert not store.keys.may_be_customer(EVERYONE)
        assert store.keys.may_be_customer("acme")
        assert store.keys.may_be_customer("a\x00b")


def a_customer_called_everyone(store: Store) -> None:
    """What has to hold where an earlier version let a customer have the name; it is added there."""
    sender = Key("sender01", b"digest", Role.SENDER, EVERYONE, "of a customer", 1.0)
    store.registry.deploy(SCORE)
    assert _streams(store) == {StreamId("score", EVERYONE): "everyone.visits"}
    store.keys.add(sender)
    assert store.keys.may_be_customer(EVERYONE)
    with pytest.raises(ConfigError, match="let a customer have that name"):
        store.registry.deploy(COUNT)
    assert [known.use_case for known in store.registry.deployments()] == ["score"]
    begun = LaneStart(StreamId("score", EVERYONE), "id-1", {"everyone.visits[0]": place_at(7)})
    store.progress.start_lanes([begun])
    epoch = store.membership.hold([begun.stream])[begun.stream]
    store.registry.set_tenant_state(EVERYONE, State.REMOVED)
    with pytest.raises(ConfigError, match="the name is reserved"):
        store.registry.add_tenant(Tenant(EVERYONE))
    store.registry.deploy(COUNT)
    reserved = _tenants(store)[EVERYONE]
    assert (reserved.reserved, reserved.state, reserved.weight) == (True, State.ACTIVE, 1.0)
    assert reserved.generation > epoch
    assert _streams(store) == {OF_ALL: "impressions"}
    assert list(_streams(store, State.REMOVED)) == [begun.stream]
    assert offsets(store, begun.stream) == {}
    assert (store.keys.every(), store.keys.may_be_customer(EVERYONE)) == ([], False)
