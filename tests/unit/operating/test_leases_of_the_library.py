"""A stream goes on where an application of the Kinesis Client Library stopped, by its table."""

import pytest

from dynamodb_server import a_name
from headrace.connectors.kinesis.aggregated import Part, put_together
from headrace.errors import ConfigError, SinkUnavailable, Temporary, UnknownName
from headrace.model.streams import State, StreamId, Tenant
from headrace.operating.leases import asks_for_leases, lease_places
from headrace.operating.seeking import seek
from headrace.ports import Connections
from kinesis_world import STREAM, KinesisWorld

KEYS = [f"k{number}" for number in range(6)]
ACME = StreamId("keep", "acme")


class Application:
    """It handled some records of each shard, and keeps a table as the library does."""

    def __init__(self, dynamodb):
        self.dynamodb, self.table = dynamodb, a_name()
        dynamodb.client.create_table(
            TableName=self.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        )

    def checkpoint(self, number, checkpoint, part=0):
        item = {
            "leaseKey": {"S": f"shardId-{number:012}"},
            "leaseOwner": {"S": "worker"},
            "leaseCounter": {"N": "12"},
            "ownerSwitchesSinceCheckpoint": {"N": "0"},
            "checkpoint": {"S": str(checkpoint)},
            "checkpointSubSequenceNumber": {"N": str(part)},
            "childShardIds": {"SS": ["shardId-000000000009"]},
        }
        self.dynamodb.client.put_item(TableName=self.table, Item=item)


@pytest.fixture
def application(dynamodb):
    return Application(dynamodb)


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = KinesisWorld(tmp_path)
    monkeypatch.setattr("headrace.operating.leases.connection_of", lambda topic: "clicks")
    yield made
    made.log.close()
    made.store.close()


def sought(world, application):
    connections = Connections({}, "", servers={"entities": application.dynamodb.server})
    to = f"LEASES entities:{application.table}"
    assert asks_for_leases(to)
    return lease_places(world.store, world.log, connections, ACME, to)


def begin(world, shards=1):
    """Acme has a stream, which nobody reads yet."""
    world.begin(shards)
    world.turns(1)
    world.store.registry.set_stream_state(ACME, State.SUSPENDED)
    world.turns(1)


def go_on(world, application):
    seek(world.store, world.log, ACME, sought(world, application), wait=world.clock.move)
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.turns(100, 0.5)


def kept(world, number):
    return world.kinesis.streams[STREAM].shards[number].records


def test_what_was_checkpointed_is_done_and_all_else_comes_in_order(world, application):
    begin(world, 2)
    for key in KEYS:
        world.put(key, 5)
    done = set()
    for number in range(2):
        records = [*kept(world, number)]
        application.checkpoint(number, records[6].number)
        done |= {(one.key, int(one.data)) for one in records[:7]}
    go_on(world, application)
    expected = {(key, number) for key in KEYS for number in range(1, 6)} - done
    assert sorted(world.kept()) == sorted(expected)
    assert world.judge()[2] == set()


def test_a_stream_that_no_driver_has_seen_goes_on_there_as_well(world, application):
    world.kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    world.store.registry.add_tenant(Tenant("acme"))
    world.put("a", 5)
    application.checkpoint(0, kept(world, 0)[2].number)
    seek(world.store, world.log, ACME, sought(world, application), wait=world.clock.move)
    world.start()
    world.turns(60, 0.5)
    assert world.kept() == [("a", 4), ("a", 5)]


def test_of_an_aggregated_record_the_parts_behind_the_checkpoint_come(world, application):
    begin(world)
    parts = tuple(Part("k", b"%d" % number) for number in range(5))
    world.kinesis.put_record(StreamName=STREAM, Data=put_together(parts), PartitionKey="k")
    application.checkpoint(0, kept(world, 0)[0].number, 2)
    go_on(world, application)
    assert sorted(world.kept()) == [("k", 3), ("k", 4)]


def test_over_reshards_parents_that_are_done_stay_so_and_children_begin(world, application):
    begin(world)
    world.put("a", 3)
    world.split(0)
    world.put("a", 3)
    (child,) = {world.shard_of("a")}
    world.split(child)
    world.put("a", 3)
    application.checkpoint(0, "SHARD_END")
    application.checkpoint(child, kept(world, child)[0].number)
    go_on(world, application)
    assert world.kept() == [("a", number) for number in range(5, 10)]
    assert [int(value) for _, value in world.seen] == list(range(5, 10))


def test_leases_of_a_stream_that_was_deleted_and_made_again_are_not_believed(world, application):
    """Its shards had these numbers, and were done: all records of the new ones were passed over."""
    begin(world, 2)
    for number in range(2):
        application.checkpoint(number, "SHARD_END")
    for key in KEYS:
        world.put(key, 2)
    with pytest.raises(ConfigError, match=r"shards \[0, 1\] are at SHARD_END there, and take"):
        sought(world, application)


def test_a_shard_whose_beginning_does_not_show_yet_is_not_left_out(world, application):
    """It would have no place, and its records come again from where the use case begins."""
    begin(world, 2)
    for key in KEYS:
        world.put(key, 2)
    records = [kept(world, number)[-1].number for number in range(2)]
    for number in range(2):
        application.checkpoint(number, records[number])
    quiet = world.shards[0].number
    world.kinesis.streams[STREAM].shards[quiet].records.clear()
    world.clock.move(20 * 3600)
    world.kinesis.span_s = 10.0
    with pytest.raises(Temporary, match=rf"{STREAM}\[{quiet}\] begins did not show yet"):
        sought(world, application)


def test_what_is_no_table_of_leases_is_told(world, application, dynamodb):
    begin(world)
    with pytest.raises(ConfigError, match="has no lease"):
        sought(world, application)
    application.table = "nobodys"
    with pytest.raises(ConfigError, match="there is no such table"):
        sought(world, application)
    dynamodb.away = True
    try:
        with pytest.raises(SinkUnavailable):
            sought(world, application)
    finally:
        dynamodb.away = False
    with pytest.raises(ConfigError, match="write it as"):
        lease_places(world.store, world.log, Connections({}, ""), ACME, "LEASES my-app")
    nobody = StreamId("keep", "nobody")
    with pytest.raises(UnknownName):
        lease_places(world.store, world.log, Connections({}, ""), nobody, "LEASES a:b")


def test_a_topic_of_kafka_has_none(world, monkeypatch):
    begin(world)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="is a topic of Kafka"):
        lease_places(world.store, world.log, Connections({}, ""), ACME, "LEASES a:b")
