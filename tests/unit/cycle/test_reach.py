"""A driver that is without its store or Kafka says so, and since when."""

import pytest

from headrace.cycle.reach import MISSING_AFTER_S
from headrace.errors import ConfigError, StoreUnavailable

#: turns of a second until a server that does not answer counts as missing
WHILE = int(MISSING_AFTER_S) + 1


@pytest.fixture
def world(world):
    world.deploy()
    world.tenant("acme", 2)
    return world


def down(world, monkeypatch, error=StoreUnavailable):
    def away():
        raise error("nobody there")

    monkeypatch.setattr(world.store, "revision", away, raising=False)


def missing(world):
    return {server.what: server.since_s for server in world.driver.missing}


def test_one_that_has_both_is_ready_and_lacks_nothing(world):
    world.start()
    assert not world.driver.ready
    world.turns(3)
    assert (world.driver.ready, missing(world)) == (True, {})


def test_without_its_store_it_is_not_ready_after_a_while_until_it_has_it_again(world, monkeypatch):
    world.start()
    world.turns(3)
    began_s = world.clock.now_s()
    down(world, monkeypatch)
    world.turns(5, seconds=1.0)
    assert (world.driver.ready, missing(world)) == (True, {})
    world.turns(200, seconds=1.0)
    assert (world.driver.ready, missing(world)) == (False, {"store": began_s})
    monkeypatch.undo()
    world.turns(1)
    assert (world.driver.ready, missing(world)) == (True, {})


def test_without_kafka_it_is_not_ready_after_a_while_until_it_has_it_again(world):
    world.start()
    world.turns(3)
    began_s = world.clock.now_s()
    world.log.down = True
    world.turns(200, seconds=1.0)
    (since_s,) = missing(world).values()
    assert (world.driver.ready, list(missing(world))) == (False, ["kafka"])
    # an idle lane is not asked in every turn
    assert 0.0 <= since_s - began_s <= 2.0
    world.log.down = False
    world.turns(2)
    assert (world.driver.ready, missing(world)) == (True, {})


def test_one_that_never_had_kafka_says_what_it_starts_without(world):
    world.log.down = True
    world.start()
    world.turns(WHILE, seconds=1.0)
    assert (world.driver.ready, list(missing(world))) == (False, ["kafka"])


def test_both_are_told_and_each_goes_by_itself(world, monkeypatch):
    world.start()
    world.turns(3)
    world.log.down = True
    world.turns(WHILE + 1, seconds=1.0)
    down(world, monkeypatch)
    world.turns(WHILE, seconds=1.0)
    assert list(missing(world)) == ["kafka", "store"]
    monkeypatch.undo()
    world.turns(2, seconds=1.0)
    assert list(missing(world)) == ["kafka"]


def test_a_server_that_refuses_is_missing_as_well(world, monkeypatch):
    world.start()
    world.turns(3)
    down(world, monkeypatch, ConfigError)
    world.turns(WHILE, seconds=1.0)
    assert list(missing(world)) == ["store"]
    monkeypatch.undo()
    monkeypatch.setattr(
        world.log, "end_offsets", lambda _: (_ for _ in ()).throw(ConfigError("a wrong token"))
    )
    world.turns(WHILE + 2, seconds=1.0)
    assert list(missing(world)) == ["kafka"]


def test_a_store_that_is_read_and_takes_nothing_is_missing(world, monkeypatch):
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    world.start()
    world.turns(3)

    def away(*_):
        raise StoreUnavailable("read-only")

    monkeypatch.setattr(world.store.progress, "record_intent", away, raising=False)
    monkeypatch.setattr(world.store.progress, "finish_intent", away, raising=False)
    world.send("acme", 1)
    world.turns(WHILE + 2, seconds=1.0)
    assert list(missing(world)) == ["store"]
