"""How far a tenant's throttle holds: over hand-overs, over several drivers, over its name."""

import pytest

from headrace.model.streams import State, StreamId, Tenant, Throttle

RATE, BURST_S, LEASE_S = 10.0, 2.0, 15.0
BURST = RATE * BURST_S


@pytest.fixture
def throttled(world):
    """A tenant with two use cases, each with much to do, and two drivers."""
    world.use_cases = [world.make(name="keep"), world.make(name="other")]
    world.deploy()
    world.tenant("t", 10_000)
    world.tenant("u")
    world.store.registry.set_throttle("t", Throttle(RATE, burst_s=BURST_S))
    world.drivers = {}
    return world


def starts(world, *names):
    for name in names:
        world.drivers[name] = world.start(name=name, lease_s=LEASE_S)


def turns(world, names, seconds):
    began_s, before = world.clock.monotonic_s(), passed(world)
    for _ in range(round(seconds / 0.25)):
        for name in names:
            world.drivers[name].turn()
        world.clock.move(0.25)
    assert world.clock.monotonic_s() - began_s == pytest.approx(seconds)
    return passed(world) - before


def passed(world):
    return sum(world.positions(name).get(("t", 0), 0) for name in ("keep", "other"))


def holders(world):
    return {stream.holder for stream in world.store.registry.streams() if stream.id.tenant == "t"}


def test_a_throttle_holds_for_all_streams_of_a_tenant_that_a_driver_holds(throttled):
    starts(throttled, "a")
    assert turns(throttled, "a", 20.0) == pytest.approx(BURST + 20.0 * RATE, abs=RATE)


def test_each_driver_that_holds_a_stream_of_the_tenant_lets_the_whole_rate_through(throttled):
    for use_case, tenant in (("keep", "u"), ("other", "t")):
        throttled.store.registry.set_stream_state(StreamId(use_case, tenant), State.REMOVED)
    starts(throttled, "a", "b")
    turns(throttled, "ab", 10.0)
    throttled.store.registry.add_stream(StreamId("other", "t"))
    turns(throttled, "ab", 10.0)
    assert holders(throttled) == {"a", "b"}
    assert turns(throttled, "ab", 20.0) == pytest.approx(2 * 20.0 * RATE, abs=2 * RATE)


@pytest.mark.parametrize("how", ["leaves", "dies"])
def test_a_hand_over_lets_no_more_than_one_burst_through(throttled, how):
    starts(throttled, "a")
    first = turns(throttled, "a", 5.0)
    if how == "leaves":
        throttled.drivers["a"].drain()
        first += turns(throttled, "a", 1.0)
        throttled.drivers["a"].leave()
    starts(throttled, "b")
    seconds = 6.0 if how == "leaves" else 5.0
    second = turns(throttled, "b", 40.0)
    assert holders(throttled) == {"b"}
    assert first + second <= 2 * BURST + (seconds + 40.0) * RATE
    assert turns(throttled, "b", 10.0) == pytest.approx(10.0 * RATE, abs=1.0)


def test_the_next_tenant_of_a_name_has_no_debt_of_the_one_before(throttled):
    starts(throttled, "a")
    turns(throttled, "a", 5.0)
    registry = throttled.store.registry
    registry.set_tenant_state("t", State.REMOVED)
    turns(throttled, "a", 0.25)
    registry.add_tenant(Tenant("t", throttle=Throttle(RATE, burst_s=BURST_S)))
    assert passed(throttled) == 0
    turns(throttled, "a", 1.0)
    assert passed(throttled) >= BURST
