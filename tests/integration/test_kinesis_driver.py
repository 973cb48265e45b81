"""A driver reads streams of a server that plays Kinesis, through Amazon's client, over reshards."""

import pytest

from kinesis_world import STREAM, KinesisWorld

NOTHING = (set(), set(), set())
KEYS = [f"k{number}" for number in range(8)]


@pytest.fixture
def world(tmp_path, kinesis):
    made = KinesisWorld(tmp_path, server=kinesis)
    yield made
    kinesis.client.delete_stream(StreamName=STREAM)
    made.log.close()
    made.store.close()


def test_a_stream_that_is_split_and_merged_is_read_once_and_in_order(world):
    world.begin()
    written(world)
    world.split(0)
    written(world)
    world.killed_after_writing()
    world.start()
    world.turns(4, 0.5)
    written(world)
    world.service.merge(STREAM, 1, 2)
    written(world)
    world.split(3)
    written(world)
    world.settle()
    assert world.judge() == NOTHING
    assert world.is_well()
    assert len(world.kept()) == 5 * 3 * len(KEYS)


def written(world):
    for key in KEYS:
        world.put(key, 3)
