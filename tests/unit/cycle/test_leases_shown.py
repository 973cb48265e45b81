"""Where a driver is in a stream that splits shows in a table of leases, and can be gone on from."""

from contextlib import closing

import pytest

from headrace.connectors.dynamodb.servers import Service, address_of
from headrace.connectors.lease_mirror import LeaseMirror
from headrace.model.streams import State, StreamId
from headrace.operating.leases import lease_places
from headrace.operating.seeking import seek
from headrace.ports import Connections
from kinesis_world import STREAM, KinesisWorld

NOTHING = (set(), set(), set())
ACME = StreamId("keep", "acme")


class Shown(KinesisWorld):
    """Its topic counts as one of a connection, where names say which log has it."""

    def __init__(self, folder, dynamodb, prefix):
        super().__init__(folder)
        service = Service("entities", address_of(dynamodb.server, "entities"))
        self.lease_mirror = LeaseMirror(service, self.log.listed, prefix)
        self.dynamodb, self.table = dynamodb, f"{prefix}keep"

    def leases(self):
        """What each shard's row says."""
        return {int(row["shardId"][8:]): row for row in self.dynamodb.items(self.table)}

    def numbers(self, shard):
        return [one.number for one in self.kinesis.streams[STREAM].shards[shard].records]


@pytest.fixture
def world(tmp_path, dynamodb, monkeypatch):
    for module in ("cycle.mirror", "operating.leases"):
        monkeypatch.setattr(f"headrace.{module}.connection_of", lambda topic: "clicks")
    made = Shown(tmp_path, dynamodb, f"{tmp_path.name}.")
    with closing(made.store), closing(made.log), closing(made.lease_mirror):
        yield made


def split_and_done(world):
    """All is handled that was written before and after a split."""
    world.begin()
    world.put("a", 5)
    world.settle()
    world.split(0)
    world.put("a", 3)
    world.settle()
    world.turns(20, 0.5)
    world.driver.close()


def test_a_parent_shows_its_end_and_what_follows_it_its_last_record(world):
    split_and_done(world)
    leases, child = world.leases(), world.shard_of("a")
    assert leases.keys() == {0, 1, 2}
    assert leases[0]["checkpoint"] == "SHARD_END"
    assert leases[child]["checkpoint"] == str(world.numbers(child)[-1])
    assert leases[3 - child]["checkpoint"] == "TRIM_HORIZON"
    assert all(leases[one]["parentShardId"] == ["shardId-000000000000"] for one in (1, 2))


def test_a_quiet_stream_costs_no_write(world):
    split_and_done(world)
    world.start()
    world.turns(40, 0.5)
    writes = [operation for operation, _ in world.dynamodb.asked if operation == "UpdateItem"]
    places = {lane.lane.name: lane.next_offset for lane in world.store.progress.load_positions()}
    world.turns(200, 10.0)
    later = {lane.lane.name: lane.next_offset for lane in world.store.progress.load_positions()}
    assert later != places, "no place moved on in time"
    again = [operation for operation, _ in world.dynamodb.asked if operation == "UpdateItem"]
    assert again == writes


def test_who_goes_on_by_such_a_table_leaves_nothing_out_and_reads_nothing_twice(world):
    split_and_done(world)
    connections = Connections({}, "", servers={"entities": world.dynamodb.server})
    to = f"LEASES entities:{world.table}"
    places = lease_places(world.store, world.log, connections, ACME, to)
    world.store.registry.set_stream_state(ACME, State.SUSPENDED)
    world.start()
    world.turns(2)
    seek(world.store, world.log, ACME, places, wait=world.clock.move)
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.put("a", 2)
    world.settle()
    world.turns(40, 0.5)
    assert world.judge() == NOTHING
    assert len(world.kept()) == 10
