"""A use case from a stream into another: nothing is lost, no key out of order, kills or not."""

import random
from collections import defaultdict
from types import SimpleNamespace

import pytest

from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.kinesis import put
from headrace.connectors.kinesis import sink as sinks
from headrace.ports import Server
from headrace.sinks import KinesisStream
from kinesis_world import KinesisWorld

KEYS = [f"k{number}" for number in range(6)]
SLOW = "ProvisionedThroughputExceededException"


class Service(AmazonService):
    """The fake, as the sink comes to it."""

    def __init__(self, kinesis):
        super().__init__("connection there", lambda: kinesis)

    def _client(self):
        return self._new()


class Copied(KinesisWorld):
    """Every record is written to the stream ``copied``."""

    def __post_init__(self):
        self.guarantee = "at-least-once"
        super().__post_init__()
        self.connections.servers["there"] = Server("")
        self.kinesis.create_stream(StreamName="copied", ShardCount=2)

    def make(self, handler=None, name="keep", sink=None, **options):
        return super().make(handler, name, KinesisStream("copied", at="there"), **options)

    def copied(self):
        """Numbers of each key as they came, each when it came first."""
        found = defaultdict(dict)
        for shard in self.kinesis.streams["copied"].shards.values():
            for kept in shard.records:
                found[kept.key].setdefault(int(kept.data))
        return {key: [*numbers] for key, numbers in found.items()}


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = Copied(tmp_path)
    monkeypatch.setattr(sinks, "service_of", lambda *_, **__: Service(made.kinesis))
    monkeypatch.setattr(put, "time", SimpleNamespace(sleep=made.clock.move))
    yield made
    made.log.close()
    made.store.close()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_refused_all_of_each_key_comes_in_its_order(world, seed):
    chance = random.Random(seed)
    world.begin(2)
    world.kinesis.fate_of = lambda *_: SLOW if chance.random() < 0.3 else None
    for deed in range(12):
        for key in KEYS:
            world.put(key, chance.randint(0, 4))
        world.turns(3, 0.5)
        if deed % 4 == 3:
            world.killed_after_writing()
            world.start()
    world.kinesis.fate_of = lambda *_: None
    world.turns(200, 0.5)
    expected = {key: [*range(1, last + 1)] for key, last in world.written.items() if last}
    assert world.copied() == expected
    assert world.is_well()


def test_a_shard_that_takes_less_lowers_the_pace_and_all_comes_in_the_end(world):
    world.begin(1)
    slow = set(KEYS[3:])
    world.kinesis.fate_of = lambda key, _: SLOW if key in slow else None
    for key in KEYS:
        world.put(key, 5)
    world.turns(60, 0.5)
    assert world.copied() == {key: [*range(1, 6)] for key in KEYS[:3]}
    paces = world.driver.capacity.pacing.paces.values()
    assert any(pace.rate_per_s is not None for pace in paces)
    slow.clear()
    world.turns(200, 0.5)
    assert world.copied() == {key: [*range(1, 6)] for key in KEYS}
