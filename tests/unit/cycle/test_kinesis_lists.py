"""A list of streams of Kinesis is one stream here, and what befalls one of them is no other's."""

import json
from dataclasses import dataclass

import pytest

from headrace.connectors.kinesis.spots import END
from headrace.model.streams import DataLossPolicy, StreamId, Tenant
from headrace.operating.seeking import seek
from kinesis_world import DAY_S, KinesisWorld

ACME = StreamId("keep", "acme")
VISITS, CLICKS = "acme.visits", "acme.clicks"
KEYS = [f"k{number}" for number in range(6)]
NOTHING = (set(), set(), set())


@dataclass
class Listed(KinesisWorld):
    """Acme has two streams, and a use case reads both; the keys of one are not those of the other.

    Key ``a`` is ``visits-a`` and ``clicks-a``, so that both are told apart in the sink.
    """

    def __post_init__(self):
        super().__post_init__()
        topics = ["{tenant}.visits", "{tenant}.clicks"]
        self.use_cases = [self.make(self._keep, topic=topics, guarantee=self.guarantee)]
        self.deploy()
        self.topics = set()

    def deploy(self, **options):
        if len(self.use_cases[0].topic.split(",")) == 2:
            super().deploy(**options)

    def _keep(self, table, context):
        told = zip(table["topic"].to_pylist(), table["key"].to_pylist(), strict=True)
        self.topics |= {(topic, key.decode().split("-")[0]) for topic, key in told}
        return super()._keep(table, context)

    def begin(self, shards=1, there=(VISITS, CLICKS)):
        for name in there:
            self.make_stream(name, shards)
        self.store.registry.add_tenant(Tenant("acme"))
        self.start()

    def make_stream(self, name, shards=1):
        self.kinesis.create_stream(StreamName=name, ShardCount=shards)
        self.service.settle(name)

    def put(self, name, key, records=1):
        key = f"{name.partition('.')[2]}-{key}"
        for _ in range(records):
            number = self.written[key] = self.written.get(key, 0) + 1
            self.kinesis.put_record(StreamName=name, Data=b"%d" % number, PartitionKey=key)

    def halve(self, name, number):
        keys = next(one.keys for one in self.service.shards(name) if one.number == number)
        self.service.split(name, number, (keys.first + keys.last + 1) // 2)

    def places(self):
        return {one.lane.name: one.next_offset for one in self.store.progress.load_positions()}


@pytest.fixture
def world(tmp_path):
    made = Listed(tmp_path)
    yield made
    made.log.close()
    made.store.close()


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_shards_of_both_streams_split_and_merge_in_order_under_kills(tmp_path, guarantee):
    world = Listed(tmp_path, guarantee=guarantee)
    world.begin(2)
    for name in (VISITS, CLICKS):
        for key in KEYS:
            world.put(name, key, 5)
    world.killed_after_writing()
    world.halve(VISITS, 0)
    world.service.merge(CLICKS, 0, 1)
    for name in (VISITS, CLICKS):
        for key in KEYS:
            world.put(name, key, 5)
    world.start()
    world.turns(4)
    world.start()
    world.settle()
    lost, twice, inverted = world.judge()
    assert (lost, inverted) == (set(), set())
    assert guarantee == "at-least-once" or not twice
    assert world.topics == {(VISITS, "visits"), (CLICKS, "clicks")}
    done = {lane for lane, place in world.places().items() if place == END}
    assert done == {f"{VISITS}[0]", f"{CLICKS}[0]", f"{CLICKS}[1]"}
    world.log.close()
    world.store.close()


def test_one_that_is_not_there_yet_is_named_and_the_other_is_read(world):
    world.begin(there=[VISITS])
    world.put(VISITS, "a", 3)
    world.settle()
    assert len(world.kept()) == 3
    row = world.row("acme")
    assert (row.state, f"{CLICKS} is not there yet" in row.note) == ("waiting", True)
    world.make_stream(CLICKS)
    world.put(CLICKS, "a", 4)
    world.settle()
    assert world.judge() == NOTHING
    assert (world.row("acme").state, world.row("acme").note) == ("active", "")
    (stream,) = world.store.registry.streams()
    assert set(json.loads(stream.topic_id)) == {VISITS, CLICKS}


def test_what_retention_took_before_anybody_read_it_is_told_of_its_stream_alone(world):
    """That a shard began before what is left, its list alone says: nobody has a place in it."""
    world.deploy(data_loss=DataLossPolicy.SKIP)
    world.begin(there=[VISITS])
    world.turns(4)
    world.kinesis.streams[VISITS].retention_s = 7 * DAY_S
    world.make_stream(CLICKS)
    world.put(CLICKS, "a", 3)
    world.clock.move(1.25 * DAY_S)
    world.put(VISITS, "a", 2)
    world.put(CLICKS, "a", 2)
    world.turns(200, 0.5)
    (failure,) = world.store.failures.every(ACME)
    assert failure.slice.lane.name == f"{CLICKS}[0]"
    assert "to retention before they were read" in failure.error.message
    assert sorted(world.kept()) == [
        *(("clicks-a", number) for number in (4, 5)),
        *(("visits-a", number) for number in (1, 2)),
    ]


def test_a_seek_sends_back_all_of_them(world):
    world.begin()
    for name in (VISITS, CLICKS):
        world.put(name, "a", 3)
    world.settle()
    seek(world.store, world.log, ACME, "TRIM_HORIZON", wait=world.clock.move)
    world.turns(60, 0.5)
    assert sorted(world.kept()) == sorted(
        2 * [(f"{of}-a", one) for of in ("visits", "clicks") for one in (1, 2, 3)]
    )


def test_streams_of_a_list_count_among_those_that_read_each_of_its_topics(world):
    other = world.make(world._keep, "others", topic="{tenant}.clicks", guarantee="at-least-once")
    world.use_cases.append(other)
    world.deploy()
    world.begin()
    world.turns(4)
    readers = {
        held.stream.id.use_case: held.readers for held in world.driver.board.streams.values()
    }
    assert readers == {"keep": 2, "others": 2}
