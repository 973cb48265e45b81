"""Where a log's numbers have gaps, a loss is what readers find, and nothing else is one."""

import pytest
from lanes_of_acme import ACME, TOPIC, at, believed, look, stream

from headrace.cycle.lags import lags
from headrace.model.records import FailureState
from headrace.model.streams import DataLossPolicy, State, StreamId
from headrace.operating.seeking import seek
from headrace.testing.wide_log import WideLog

BOLT = StreamId("keep", "bolt")


@pytest.fixture
def begun(world):
    """Acme and bolt of a log that does not tell what retention took; nothing left to do."""

    def begin(policy=DataLossPolicy.FAIL):
        world.log = WideLog()
        world.log.tells_starts = False
        world.use_cases = [world.make()]
        world.deploy(data_loss=policy)
        world.tenant("acme", 5)
        world.tenant("bolt", 3)
        for tenant in ("acme", "bolt"):
            world.log.hide_end(f"{tenant}.visits", 0)
        world.start()
        world.turns(8)
        return world

    return begin


def overtaken(world):
    """Retention takes three records of acme that nobody read."""
    world.store.registry.set_tenant_state("acme", State.SUSPENDED)
    world.turns(2)
    world.send("acme", 5)
    world.log.expire(TOPIC, 0, 8)
    world.store.registry.set_tenant_state("acme", State.ACTIVE)
    world.turns(4)
    look(world, 8)


def test_what_is_left_begins_behind_a_place_and_nothing_is_lost(begun, monkeypatch):
    """As where the last record that was read is gone, and another one came since."""
    world = begun()
    monkeypatch.setattr(type(world.log), "start_offsets", lambda log, lanes: log.end_offsets(lanes))
    look(world, 8)
    assert stream(world).state is State.ACTIVE
    (found,) = [lag for lag in lags(world.store, world.log) if lag.stream.id == ACME]
    assert found.faults() == []


def test_a_loss_stops_its_stream_alone_and_is_told(begun):
    world = begun()
    overtaken(world)
    assert stream(world).state is State.SUSPENDED
    assert "to retention before they were read" in stream(world).reason
    assert at(world) == {"0": 5}
    assert stream(world, BOLT).state is State.ACTIVE
    seek(world.store, world.log, ACME, "earliest")
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    look(world, 8)
    assert at(world) == {"0": 10}


def test_or_is_passed_over_and_stays_on_record(begun):
    world = begun(DataLossPolicy.SKIP)
    overtaken(world)
    assert at(world) == {"0": 10}
    (kept,) = world.store.failures.every(ACME)
    assert kept.state is FailureState.SKIPPED
    assert "to retention before they were read" in kept.error.message
    assert len([tenant for tenant, _ in world.seen if tenant == "acme"]) == 7


def test_a_topic_that_is_made_again_is_read_from_its_beginning(begun):
    world = begun(DataLossPolicy.SKIP)
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC)
    world.log.hide_end(TOPIC, 0)
    world.send("acme", 2)
    look(world)
    believed(world)
    look(world, 8)
    assert at(world) == {"0": 2}


def test_parents_are_forgotten_when_what_follows_them_was_read(begun):
    world = begun()
    first, second = world.log.split(TOPIC, 0)
    look(world, 8)
    world.send("acme", 1, first)
    world.send("acme", 1, second)
    look(world, 8)
    world.log.drop_lane(TOPIC, 0)
    look(world)
    believed(world)
    assert stream(world).state is State.ACTIVE
    assert sorted(at(world)) == ["1", "2"]
