"""What is told of a stream that does not go on: for as long as that lasts, and no longer."""

import pytest

from headrace.errors import SinkUnavailable
from headrace.model.streams import State, StreamId, Tenant
from headrace.telemetry.conditions import condition
from headrace.telemetry.newest_reports import newest
from headrace.testing.statistics_fake import MemoryStatistics

ACME = StreamId("keep", "acme")


class Handler:
    """Takes nothing as long as it is broken."""

    error = SinkUnavailable("nobody there")

    def __call__(self, table, context):
        if self.error is not None:
            raise self.error
        return table.select(["offset"])


@pytest.fixture
def handler():
    return Handler()


@pytest.fixture
def world(world, handler):
    world.statistics = MemoryStatistics()
    world.use_cases = [world.make(handler)]
    world.deploy(retries=0)
    return world


def figures(world):
    """What is told now."""
    looked = world.driver.publisher._figures.describe(
        world.clock.now_s(), world.clock.monotonic_s()
    )
    return next(standing for standing in looked if standing.stream == ACME)


def test_what_waits_after_trouble_says_why_and_when_it_is_tried_again(world, handler):
    world.tenant("acme", 2)
    world.start()
    world.turns(4)
    found, lane = figures(world), world.driver.board.streams[ACME].lanes["acme.visits[0]"]
    assert found.state == "retrying"
    assert "SinkUnavailable: nobody there" in found.note
    wait_s = lane.not_before_s - world.clock.monotonic_s()
    assert wait_s > 0
    assert found.retry_at_s == pytest.approx(world.clock.now_s() + wait_s)
    handler.error = None
    world.turns(4, seconds=1.0)
    found = figures(world)
    assert (found.state, found.note, found.retry_at_s) == ("active", "", None)


def test_the_next_try_is_told_anew_each_time(world):
    world.tenant("acme", 2)
    world.start()
    tries = set()
    for _ in range(40):
        world.turns(1)
        found = figures(world)
        assert found.retry_at_s is None or found.retry_at_s >= world.clock.now_s()
        tries.add(found.retry_at_s)
    assert len(tries) > 3


@pytest.mark.parametrize("mended", ["retry", "resume", "seek"])
def test_what_stopped_a_lane_is_told_until_it_is_mended(world, handler, mended):
    handler.error = ValueError("no wheels")
    world.tenant("acme", 2)
    world.start()
    world.turns(6)
    assert "HandlerError" in figures(world).note
    assert "no wheels" in figures(world).note
    handler.error = None
    (failure,) = world.store.failures.every(only_open=True)
    if mended == "retry":
        world.store.failures.retry(failure.id)
    elif mended == "resume":
        world.store.registry.set_stream_state(ACME, State.ACTIVE)
    else:
        world.store.progress.seek(ACME, {"acme.visits[0]": 1})
    world.turns(2)
    found = figures(world)
    assert (found.state, found.note) == ("active", "")


def test_a_driver_that_starts_tells_what_stopped_lanes_before(world, handler):
    handler.error = ValueError("no wheels")
    world.tenant("acme", 2, partitions=3)
    world.send("acme", 2, partition=1)
    world.start()
    world.turns(6)
    assert len(world.store.failures.every(only_open=True)) == 2
    world.start()
    world.turns(3)
    found = figures(world)
    assert found.state == "suspended 2/3"
    assert "partition 0: HandlerError" in found.note
    assert "no wheels" in found.note
    assert found.note.endswith("(and 1 more partition)")


def test_a_record_that_was_set_aside_is_told_for_a_minute(world, handler):
    handler.error = None
    world.use_cases = [world.make(handler, bad_record="dead-letter")]
    world.deploy(retries=0)
    world.tenant("acme")
    world.start()
    world.turns(2)
    handler.error = ValueError("no wheels")
    world.send("acme", 1)
    world.turns(6)
    handler.error = None
    found = figures(world)
    assert (found.state, found.dead_letters_total) == ("active", 1)
    assert "no wheels" in found.note
    world.turns(7, seconds=10.0)
    assert figures(world).note == ""


def how(world):
    """How acme's stream stands for somebody who asks the store."""
    (stream,), (tenant,) = world.store.registry.streams(), world.store.registry.tenants()
    told = newest(world.statistics.reports()).get(ACME)
    stopped = world.store.failures.every(only_open=True)
    return condition(stream, tenant, told, stopped, world.clock.now_s())


def test_whoever_asks_the_store_is_told_of_a_topic_that_is_missing(world, handler):
    handler.error = None
    world.store.registry.add_tenant(Tenant("acme"))
    assert how(world).state == "not held"
    world.start()
    world.turns(3)
    world.driver.close()
    assert (how(world).state, how(world).reason) == (
        "waiting",
        (
            "topic acme.visits is not there yet; "
            "'headrace topics create keep --inputs --tenant acme' makes it"
        ),
    )
    world.clock.move(60.0)
    assert how(world).state == "unknown"


def test_what_a_driver_that_left_held_is_held_by_nobody(world, handler):
    handler.error = None
    world.tenant("acme", 1)
    world.start()
    world.turns(5)
    world.driver.drain()
    world.turns(1)
    world.driver.leave()
    world.driver.close()
    assert how(world).state == "not held"
