"""Shards split and merge under a driver: nothing is lost, nothing twice, no key out of order."""

import random

import pytest

from kinesis_world import DAY_S, STREAM, KinesisWorld

NOTHING = (set(), set(), set())
KEYS = [f"k{number}" for number in range(12)]


@pytest.fixture
def world(tmp_path):
    made = KinesisWorld(tmp_path)
    yield made
    made.log.close()
    made.store.close()


def test_what_is_there_and_what_comes_is_read(world):
    world.begin(2)
    for key in KEYS:
        world.put(key, 5)
    world.settle()
    for key in KEYS:
        world.put(key)
    world.settle()
    assert world.judge() == NOTHING
    assert world.is_well()


def test_children_wait_for_their_parents_and_start_when_these_are_done(world):
    world.begin()
    world.put("a", 20)
    world.split(0)
    world.put("a", 20)
    world.settle()
    assert world.judge() == NOTHING
    assert [int(value) for _, value in world.seen] == list(range(1, 41))


def test_a_merge_waits_for_both(world):
    world.begin(2)
    for key in KEYS:
        world.put(key, 3)
    world.service.merge(STREAM, 0, 1)
    for key in KEYS:
        world.put(key, 3)
    world.settle()
    assert world.judge() == NOTHING


def test_children_that_are_listed_late_are_read_from_their_beginning(world):
    world.begin()
    world.put("a", 5)
    world.settle()
    world.kinesis.listed_after_s = 90
    world.split(0)
    world.put("a", 5)
    world.settle()
    assert world.judge() == NOTHING


def test_parents_that_expire_are_forgotten_and_nothing_is_lost(world):
    world.begin()
    world.put("a", 5)
    world.split(0)
    world.put("a", 5)
    world.settle()
    days(world)
    world.put("a", 5)
    world.settle()
    assert world.judge() == NOTHING
    assert world.is_well()
    world.turns(60, 1.0)  # so that no list that is not whole is believed
    lanes = {found.lane.name for found in world.store.progress.load_positions()}
    assert f"{STREAM}[{world.shard_of('a')}]" in lanes
    assert f"{STREAM}[0]" not in lanes


def test_what_retention_took_while_nobody_ran_stops_the_stream(world):
    world.begin()
    world.put("a", 5)
    world.settle()
    world.put("a", 5)
    world.clock.move(3 * DAY_S)
    world.put("a", 1)
    world.turns(200, 1.0)
    (stream,) = world.store.registry.streams()
    assert "to retention before they were read" in stream.reason
    assert len(world.kept()) == 5


def test_what_children_lost_before_anybody_saw_them_stops_the_stream(world):
    world.begin()
    world.put("a", 5)
    world.settle()
    world.kinesis.listed_after_s = 90
    world.split(0)
    world.put("a", 5)
    world.turns(60, 1.0)
    world.clock.move(2 * DAY_S)
    world.put("a", 1)
    world.turns(200, 1.0)
    (stream,) = world.store.registry.streams()
    lane = f"{STREAM}[{world.shard_of('a')}]"
    assert f"{lane} lost offsets" in stream.reason
    assert len(world.kept()) == 5


def days(world):
    """A day and some hours pass, while a driver looks every few minutes."""
    for _ in range(27 * 6):
        world.clock.move(600)
        world.turns(2, 0.3)


class Schedule:
    """What happens to a stream and its driver, by chance."""

    def __init__(self, world, seed):
        self.world, self.chance = world, random.Random(seed)
        self.deeds = [
            (30, self.write),
            (30, self.turn),
            (6, self.split),
            (5, self.merge),
            (4, self.kill),
            (4, self.kill_after_writing),
            (4, self.lose_a_wave),
            (4, self.others_read),
            (3, self.iterators_expire),
            (2, self.list_late),
        ]

    def play(self, steps=60):
        """Play it to its end."""
        self.world.begin(self.chance.choice([1, 2, 3]))
        weights = [weight for weight, _ in self.deeds]
        for _ in range(steps):
            ((_, deed),) = self.chance.choices(self.deeds, weights)
            deed()
        self.world.settle()

    def write(self):
        for _ in range(self.chance.randint(1, 8)):
            self.world.put(self.chance.choice(KEYS), self.chance.randint(1, 4))

    def turn(self):
        self.world.turns(self.chance.randint(1, 6), self.chance.choice([0.0, 0.1, 0.3, 2.0]))

    def split(self):
        if 0 < len(self.world.shards) < 8:
            self.world.split(self.chance.choice(self.world.shards).number)

    def merge(self):
        shards = self.world.shards
        place = self.chance.randrange(8)
        pair = shards[place : place + 2]
        if len(pair) == 2 and pair[0].keys.last + 1 == pair[1].keys.first:
            self.world.service.merge(STREAM, *(one.number for one in pair))

    def kill(self):
        self.world.start()

    def kill_after_writing(self):
        self.world.killed_after_writing()
        self.world.start()

    def lose_a_wave(self):
        self.world.engine.accidents.append(self.chance.choice(["before", "after"]))

    def others_read(self):
        stream = self.world.kinesis.streams[STREAM]
        shard = self.chance.choice(list(stream.shards.values()))
        for _ in range(5):
            shard.spend(self.world.clock.now_s(), self.chance.choice([0, 10**6, 10**7]))

    def iterators_expire(self):
        self.world.clock.move(301)

    def list_late(self):
        self.world.kinesis.listed_after_s = self.chance.choice([0, 0, 5, 60])


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_nothing_is_lost_or_twice_or_out_of_order(world, seed):
    Schedule(world, seed).play()
    assert world.judge() == NOTHING
    assert world.is_well()


def test_shards_that_wait_for_nobody_are_found_by_a_schedule(world, monkeypatch):
    monkeypatch.setattr("headrace.connectors.kinesis.log.lineage_of", lambda _stream, _shards: {})
    Schedule(world, 3).play()
    lost, twice, inverted = world.judge()
    assert (lost, twice) == (set(), set())
    assert inverted
