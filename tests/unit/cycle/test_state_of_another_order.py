"""State beside what is left of another order: buckets that have keys together, recorded waves."""

import json

import pyarrow as pa
import pytest
from lanes_of_acme import places

from headrace import StateTable
from headrace.testing.log_fake import Row

OF_LANE = StateTable(
    "all", pa.schema([("name", pa.string()), ("count", pa.int64())]), key="name", scope="lane"
)
OF_KEY = StateTable("all", pa.schema([("name", pa.binary()), ("count", pa.int64())]), key="name")


def together(table, context):
    """Counts all records of a lane under one name."""
    return counted(table, context, ["all"] * table.num_rows)


def by_key(table, context):
    return counted(table, context, table["key"].to_pylist())


def counted(table, context, names):
    state = context.state["all"]
    for name in names:
        row = state.get(name) or {"name": name, "count": 0}
        state.put({**row, "count": row["count"] + 1})
    return table.select(["offset"])


def kept(world):
    with world.store.positions.begin() as connection:
        rows = connection.exec_driver_sql("SELECT part, value FROM headrace_state").all()
    found = dict.fromkeys({part for part, _ in rows}, 0)
    for part, value in rows:
        found[part] += json.loads(value)["count"]
    return found


def fill(world, partition, records):
    for _ in range(records):
        at = world.log.edges("acme.visits", partition).stop
        world.log.append("acme.visits", partition, [Row(b"x", key=b"k%d" % (at % 7))])


def deploy(world, **options):
    world.use_cases = [world.make(**options)]
    world.deploy()
    world.take()


def planned_and_lost(world, **before):
    """40 records of each of two partitions are planned, and their wave is lost."""
    world.use_cases = [world.make(**before)]
    world.deploy()
    world.tenant("acme", partitions=2)
    for partition in (0, 1):
        fill(world, partition, 40)
    world.start()
    world.engine.accidents = ["before"]
    world.turns(2, seconds=0.0)
    assert set(places(world).values()) == {0}


LANES = {"handler": together, "order": "lane", "state": [OF_LANE]}
KEYS = {"handler": by_key, "order": "key", "buckets": 4, "state": [OF_KEY]}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"order": "key", "buckets": 4}, LANES),
        ({"order": "none", "buckets": 4}, LANES),
        ({"order": "none", "buckets": 4}, KEYS | {"bad_record": "dead-letter"}),
    ],
)
def test_buckets_that_have_keys_together_wait_for_a_version_without_state(world, before, now):
    planned_and_lost(world, **before)
    deploy(world, **now)
    world.turns(30, seconds=1.0)
    assert (kept(world), world.dead_letters.letters) == ({}, [])
    row = world.row("acme")
    assert (row.state, "of an order before, which has no state" in row.note) == ("retrying", True)
    without = {name: said for name, said in now.items() if name not in ("handler", "state")}
    deploy(world, **without)
    world.turns(60, seconds=1.0)
    assert set(places(world).values()) == {40}
    deploy(world, **now)
    fill(world, 1, 9)
    world.turns(12)
    assert kept(world) == {"acme.visits[1]": 9}
    assert world.dead_letters.letters == []


@pytest.mark.parametrize(
    ("before", "behind"),
    [({"order": "stream"}, {}), ({"order": "key", "buckets": 4}, {0: 15, 1: 15})],
)
def test_what_was_recorded_under_an_order_that_state_does_not_fit_has_none(world, before, behind):
    planned_and_lost(world, guarantee="exactly-once", **before)
    deploy(world, **LANES)
    world.turns(60, seconds=1.0)
    assert set(places(world).values()) == {40}
    assert kept(world) == {f"acme.visits[{number}]": count for number, count in behind.items()}


def test_a_driver_that_has_no_other_version_leaves_it_and_says_so(world):
    planned_and_lost(world, guarantee="exactly-once", order="stream")
    world.use_cases = [world.make(**LANES)]
    world.deploy()
    world.start()
    world.turns(12)
    row = world.row("acme")
    assert (row.state, set(places(world).values()), kept(world)) == ("waiting", {0}, {})
    assert "deploy keep again as it was" in row.note
