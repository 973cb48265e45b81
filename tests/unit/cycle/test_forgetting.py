"""What a driver counted of streams goes with them, when all of it was told."""

from dataclasses import replace

import pytest

from headrace.cycle.reruns import begin, range_of
from headrace.model.streams import State, StreamId, Tenant
from headrace.testing.statistics_fake import MemoryStatistics

MANY = 12


@pytest.fixture
def world(world):
    world.statistics = MemoryStatistics()
    world.deploy()
    return world


def kept(driver):
    """Everything that is kept by stream or by use case."""
    reporter, figures = driver.reporter, driver.publisher._figures
    counted = {*reporter.meters, *reporter._generations, *figures._tracks, *figures._due}
    return counted | driver.board.streams.keys(), set(reporter.use_cases)


def told(world):
    """Records in the history, once the driver has ended."""
    world.driver.close()
    points = world.statistics.history(None, 0.0, world.clock.wall_s + 60.0)
    return sum(point.records_out for point in points)


def test_of_many_streams_that_were_removed_nothing_is_kept_and_all_was_told(world):
    world.tenant("acme", 3)
    world.start()
    for number in range(MANY):
        world.tenant(f"t{number}", 2)
        world.turns(4)
        world.store.registry.set_tenant_state(f"t{number}", State.REMOVED)
        world.turns(2, seconds=10.0)
    world.turns(130, seconds=1.0)
    assert kept(world.driver) == ({StreamId("keep", "acme")}, {"keep"})
    assert told(world) == 3 + 2 * MANY


def test_of_tenants_that_were_added_again_and_removed_nothing_is_kept(world):
    world.tenant("acme", 3)
    world.start()
    for number in range(MANY):
        world.tenant(f"t{number}", 2)
        world.turns(4)
        world.store.registry.set_tenant_state(f"t{number}", State.REMOVED)
        world.turns(4)
        world.store.registry.add_tenant(Tenant(f"t{number}"))
        world.turns(4, seconds=2.0)
        world.store.registry.set_tenant_state(f"t{number}", State.REMOVED)
        world.turns(4)
    world.turns(130, seconds=1.0)
    assert kept(world.driver) == ({StreamId("keep", "acme")}, {"keep"})


def test_one_that_is_removed_while_it_runs_goes_when_that_has_ended(world):
    world.tenant("acme", 3)
    world.start()
    world.turns(1)
    world.engine.paused = True
    world.send("acme", 2)
    world.turns(3)
    assert world.driver.board.flights
    world.store.registry.set_tenant_state("acme", State.REMOVED)
    world.turns(5)
    world.engine.paused = False
    world.turns(5)
    world.tenant("bolt", 1)
    world.turns(130, seconds=1.0)
    assert kept(world.driver) == ({StreamId("keep", "bolt")}, {"keep"})
    assert told(world) == len(world.seen) == 4


def test_of_streams_that_were_handed_over_nothing_is_kept_and_all_was_told(world):
    for number in range(MANY):
        world.tenant(f"t{number}", 2)
    first = world.start(name="a")
    world.turns(5)
    second = world.start(name="b")
    for _ in range(130):
        for driver in (first, second):
            driver.turn()
        world.clock.move(1.0)
    held = [set(driver.board.streams) for driver in (first, second)]
    assert [len(driver) for driver in held] == [MANY // 2, MANY // 2]
    assert [kept(driver)[0] for driver in (first, second)] == held
    first.close()
    assert told(world) == 2 * MANY


def test_of_many_reruns_nothing_is_kept(world):
    acme = StreamId("keep", "acme")
    world.tenant("acme", 4)
    world.start()
    world.turns(4)
    for _ in range(MANY):
        begin(world.store, range_of(world.store, world.log, acme, "earliest", None), 0.2)
        for deployment in world.store.registry.deployments():
            if deployment.until:
                rerun = replace(world.use_cases[0], name=deployment.use_case)
                world.engine.take(rerun, deployment)
                world.driver.take(rerun, deployment)
        world.turns(10)
    done = [stream for stream in world.store.registry.streams() if stream.state is State.REMOVED]
    assert len(done) == MANY
    world.turns(130, seconds=1.0)
    assert kept(world.driver) == ({acme}, {"keep"})
    assert told(world) == 4 * (MANY + 1)
