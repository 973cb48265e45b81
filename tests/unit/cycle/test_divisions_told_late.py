"""A list that is without a partition says nothing of its buckets, also while they become others."""

import json
from dataclasses import replace

import pytest
from lanes_of_acme import ACME, TOPIC, divide_by_key, places

from headrace.cycle.reruns import range_of
from headrace.cycle.topics import TOPICS_EVERY_S
from headrace.errors import Temporary
from headrace.model.buckets import divided, parts_of, whole_lane
from headrace.model.streams import DataLossPolicy, State
from headrace.operating.seeking import begun_again, seek
from headrace.policies.data_loss import LIST_PATIENCE_S
from headrace.spark.key_hash import bucket_of_key
from headrace.testing.log_fake import MemoryLog, Row

LANES = [f"{TOPIC}[0]", f"{TOPIC}[1]"]
POLICIES = [DataLossPolicy.FAIL, DataLossPolicy.SKIP]
KEYS = [b"k%d" % number for number in range(5)]
LATE = f"{LANES[1]}#{bucket_of_key(KEYS[0], 4)}/4"


def fill(world, records):
    """So many more into each partition."""
    for partition in range(2):
        for at in range(records):
            world.log.append(TOPIC, partition, [Row(b"x", key=KEYS[at % len(KEYS)])])


@pytest.fixture
def keyed(world):
    """Acme by key, in four buckets of each of two partitions, all of it read."""

    def begin(policy=DataLossPolicy.FAIL, records=20, **options):
        world.use_cases = [world.make(order="key", buckets=4)]
        world.deploy(data_loss=policy, **options)
        world.tenant("acme", 0, partitions=2)
        fill(world, records)
        world.start()
        world.turns()
        return world

    return begin


def all_at(buckets, at):
    return {name: at for lane in LANES for name in divided(lane, buckets)}


def become_others(world, policy=DataLossPolicy.FAIL):
    """Three buckets, of which those of the second partition wait for one that is late."""
    fill(world, 10)
    late = world.driver.board.streams[ACME].lanes[LATE]
    late.not_before_s = float("inf")
    world.turns(4)
    divide_by_key(world, 3, data_loss=policy)
    world.turns(4, seconds=1.0)
    assert {at for name, at in places(world).items() if parts_of(name) == 3} == {30}
    assert late.position < 30
    return late


def stays_without(world):
    """The second partition is in no list for much longer than it takes to believe that."""
    world.log.set_listed(TOPIC, 1, False)
    world.clock.move(TOPICS_EVERY_S + 2)
    world.turns(round(3 * LIST_PATIENCE_S), seconds=1.0)
    world.clock.move(TOPICS_EVERY_S + 2)
    world.turns(4)


def comes_again(world):
    world.log.set_listed(TOPIC, 1, True)
    world.clock.move(TOPICS_EVERY_S + 2)
    world.turns(60, seconds=1.0)


def is_untouched(world):
    (stream,) = world.store.registry.streams()
    return stream.state is State.ACTIVE and world.store.failures.every() == []


@pytest.mark.parametrize("policy", POLICIES)
def test_buckets_of_a_partition_that_lists_are_without_are_read_on(keyed, policy):
    world = keyed(policy)
    before = places(world)
    stays_without(world)
    assert places(world) == before
    fill(world, 10)
    comes_again(world)
    assert is_untouched(world)
    assert (places(world), len(world.seen)) == (all_at(4, 30), 60)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("is_new", [False, True])
def test_buckets_that_become_others_are_not_lost_with_a_list(keyed, policy, is_new):
    """Neither the old one that is late, nor the new ones; whoever has the stream."""
    world = keyed(policy)
    late = become_others(world, policy)
    if is_new:
        world.start()
    stays_without(world)
    there = {name for name in places(world) if whole_lane(name) == LANES[1]}
    assert there >= {*divided(LANES[1], 3)}
    assert is_new or LATE in there
    assert not any(lane.gone for lane in world.driver.board.streams[ACME].lanes.values())
    late.not_before_s = float("-inf")
    fill(world, 10)
    comes_again(world)
    assert is_untouched(world)
    assert (places(world), len(world.seen)) == (all_at(3, 40), 80)


def test_a_partition_is_divided_otherwise_while_lists_are_without_it(keyed):
    world = keyed()
    world.log.set_listed(TOPIC, 1, False)
    divide_by_key(world, 3)
    world.clock.move(TOPICS_EVERY_S + 2)
    fill(world, 10)
    world.turns(60, seconds=1.0)
    comes_again(world)
    assert is_untouched(world)
    assert (places(world), len(world.seen)) == (all_at(3, 30), 60)


@pytest.mark.parametrize("starts", ["earliest", "latest"])
def test_a_partition_that_the_first_list_is_without_is_not_added_later(keyed, monkeypatch, starts):
    whole, answers = MemoryLog.topics, [1]

    def topics(log, names):
        found = whole(log, names)
        if not answers:
            return found
        lanes = found[TOPIC].lanes[: answers.pop()]
        return found | {TOPIC: replace(found[TOPIC], lanes=lanes)}

    monkeypatch.setattr(MemoryLog, "topics", topics)
    world = keyed(starting_offsets=starts)
    world.turns(60, seconds=1.0)
    assert places(world) == all_at(4, 20)
    assert len(world.seen) == (40 if starts == "earliest" else 0)


WHOLE = r"acme.visits\[1\]: read before.*not whole.*try again"


@pytest.mark.parametrize("to", ["earliest", "latest", json.dumps({TOPIC: {"0": 5}})])
@pytest.mark.parametrize("becoming", [False, True])
def test_a_seek_by_a_list_without_a_partition_of_buckets_is_refused_by_its_name(
    keyed, to, becoming
):
    world = keyed()
    if becoming:
        become_others(world)
    world.log.set_listed(TOPIC, 1, False)
    before = places(world)
    with pytest.raises(Temporary, match=WHOLE):
        seek(world.store, world.log, ACME, to, wait=pytest.fail)
    assert places(world) == before


def test_so_is_a_rerun_and_what_comes_again_when_it_is_added(keyed):
    world = keyed()
    divide_by_key(world, 3)
    world.turns(60, seconds=1.0)
    world.log.set_listed(TOPIC, 1, False)
    with pytest.raises(Temporary, match=WHOLE):
        range_of(world.store, world.log, ACME, "earliest", None)
    world.store.registry.set_stream_state(ACME, State.REMOVED)
    with pytest.raises(Temporary, match=WHOLE):
        begun_again(world.store, world.log, [ACME])


@pytest.mark.parametrize("before", [1, 4])
def test_a_seek_of_all_does_not_wait_for_what_is_divided_otherwise_by_now(keyed, before):
    """No list says that a bucket is gone; and the partition is listed, whose name it may have."""
    world = keyed()
    divide_by_key(world, before)
    world.turns(60, seconds=1.0)
    divide_by_key(world, 3)
    world.turns(4, seconds=1.0)
    assert places(world).keys() > all_at(3, 0).keys()
    seek(world.store, world.log, ACME, "earliest", wait=pytest.fail)
    assert places(world) == all_at(3, 0)
    world.turns(12, seconds=1.0)
    assert (places(world), len(world.seen)) == (all_at(3, 20), 80)
