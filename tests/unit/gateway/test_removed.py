"""A removed tenant is known within seconds, and a store that is away stops nobody."""

import asyncio
import gc
import threading

import pytest
from structlog.testing import capture_logs

from headrace.errors import ConfigError, StoreTooNew, StoreUnavailable
from headrace.gateway import removed
from headrace.gateway.removed import RemovedTenants
from headrace.model.everyone import EVERYONE
from headrace.model.records import Deployment
from headrace.model.streams import State, Tenant
from headrace.testing.memory_store import MemoryStore


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(removed.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def store():
    made = MemoryStore()
    made.registry.add_tenant(Tenant("acme"))
    return made


async def looked(is_removed):
    """Ask, and let the look that this begins come to its end."""
    await is_removed("acme")
    while is_removed._task is not None:
        await asyncio.sleep(0)
    return await is_removed("acme")


def test_a_removed_tenant_is_known_within_seconds(store, clock):
    async def play():
        is_removed = RemovedTenants(store)
        store.registry.set_tenant_state("acme", State.REMOVED)
        assert not await looked(is_removed)
        clock[0] += 5
        assert await looked(is_removed)
        store.registry.add_tenant(Tenant("acme"))
        clock[0] += 5
        assert not await looked(is_removed)

    asyncio.run(play())


def test_a_removed_tenant_is_known_at_once_after_a_pause(store, clock):
    async def play():
        is_removed = RemovedTenants(store)
        store.registry.set_tenant_state("acme", State.REMOVED)
        clock[0] += 300
        return await is_removed("acme")

    assert asyncio.run(play())


def test_nobody_waits_for_the_store_while_events_come(store, clock, monkeypatch):
    async def never(_):
        raise AssertionError("waited")

    async def play():
        is_removed = RemovedTenants(store)
        monkeypatch.setattr(removed.asyncio, "wait", never)
        clock[0] += 6
        return await is_removed("acme")

    assert not asyncio.run(play())


def test_a_name_that_was_given_again_is_known_at_once_after_a_pause(store, clock):
    async def play():
        tenants = RemovedTenants(store)
        before = await tenants.generation("acme")
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme"))
        clock[0] += 300
        return before, await tenants.generation("acme")

    before, after = asyncio.run(play())
    assert before == 0 < after


def test_a_store_that_hangs_is_waited_for_once_and_not_for_long(store, monkeypatch):
    tenants, end, looks = RemovedTenants(store), threading.Event(), []

    def hang():
        looks.append(1)
        end.wait(120)
        return 0

    monkeypatch.setattr(store, "revision", hang)
    monkeypatch.setattr(removed, "_PATIENCE_S", 0.01)

    async def play():
        tenants._looked_s -= 300
        for _ in range(3):
            assert await tenants.generation("acme") == 0
            assert not await tenants("acme")
        end.set()

    asyncio.run(asyncio.wait_for(play(), 60))
    assert len(looks) == 1


def test_who_asks_anew_is_told_what_is_so_now_by_one_look_for_many(store, monkeypatch):
    tenants, looks, look = RemovedTenants(store), [], store.registry.tenants

    def counted():
        looks.append(1)
        return look()

    monkeypatch.setattr(store.registry, "tenants", counted)

    async def play():
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme"))
        return await asyncio.gather(*(tenants.generation("acme", anew=True) for _ in range(20)))

    assert asyncio.run(play()) == [1] * 20
    assert len(looks) == 1


def test_a_look_that_began_too_early_tells_nothing_anew(store, monkeypatch):
    tenants, read, go_on = RemovedTenants(store), store.registry.tenants, threading.Event()

    def slow():
        found = read()
        assert go_on.wait(60)
        return found

    monkeypatch.setattr(store.registry, "tenants", slow)

    async def play():
        store.registry.add_tenant(Tenant("bolt"))
        tenants._looked_s -= 300
        early = asyncio.ensure_future(tenants.generation("acme"))
        while tenants._task is None:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme"))
        late = asyncio.ensure_future(tenants.generation("acme", anew=True))
        await asyncio.sleep(0)
        go_on.set()
        return await early, await late

    assert asyncio.run(play()) == (0, 1)


def test_while_nothing_changes_tenants_are_not_read_again(store, monkeypatch):
    tenants = RemovedTenants(store)
    monkeypatch.setattr(store.registry, "tenants", lambda: pytest.fail("nothing has changed"))
    assert asyncio.run(tenants.generation("acme", anew=True)) == 0


def test_one_that_is_suspended_may_send(store):
    store.registry.set_tenant_state("acme", State.SUSPENDED)
    assert not asyncio.run(looked(RemovedTenants(store)))


def test_without_the_store_what_it_said_last_holds(store, clock, monkeypatch):
    store.registry.set_tenant_state("acme", State.REMOVED)
    is_removed = RemovedTenants(store)

    def away():
        raise StoreUnavailable

    monkeypatch.setattr(store, "revision", away)
    clock[0] += 5
    assert asyncio.run(looked(is_removed))


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreTooNew, ConfigError])
def test_an_outage_of_the_store_is_told_once_and_so_is_its_end(store, clock, monkeypatch, kind):
    is_removed = RemovedTenants(store)

    def away():
        raise kind("gone")

    async def play():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, unheard: nobody_heard.append(unheard))
        with monkeypatch.context() as patch:
            patch.setattr(store, "revision", away)
            for _ in range(3):
                clock[0] += 5
                await looked(is_removed)
        for _ in range(2):
            clock[0] += 5
            await looked(is_removed)
        gc.collect()

    nobody_heard = []
    with capture_logs() as logs:
        asyncio.run(play())
    told = [line["event"] for line in logs]
    assert told == ["tenants are not known anew", "tenants are known anew"]
    assert nobody_heard == []


def test_nobody_sends_as_all_customers_but_one_whom_an_earlier_version_let_have_that_name(
    store, clock
):
    async def play():
        is_removed = RemovedTenants(store)
        found = [await is_removed(EVERYONE)]
        store.registry.deploy(Deployment("count", "m.py", "00", "impressions"))
        clock[0] += 300
        found.append(await is_removed(EVERYONE))
        store.data.tenants[EVERYONE] = Tenant(EVERYONE)
        store.data.changed()
        clock[0] += 300
        return [*found, await is_removed(EVERYONE)]

    assert asyncio.run(play()) == [True, True, False]
