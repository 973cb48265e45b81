"""State of keys under a driver: kept over kills, takeovers and other buckets, and sent nowhere."""

import json
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from lanes_of_acme import ACME, LANE, divide_by_key, places

from headrace import StateTable
from headrace.cycle.reruns import begin, range_of
from headrace.errors import ConfigError
from headrace.model.buckets import divided
from headrace.operating.seeking import carry_out, planned
from headrace.testing.log_fake import Row

KEYS = 7
SEEN = StateTable(
    "seen",
    pa.schema([("key", pa.binary()), ("count", pa.int64()), ("last", pa.int64())]),
    key="key",
)


def key_of(at):
    return b"k%d" % (at % KEYS)


def fill(world, records):
    for _ in range(records):
        at = world.log.edges("acme.visits", 0).stop
        world.log.append("acme.visits", 0, [Row(b"x", key=key_of(at))])


def counting(table, context):
    seen = context.state["seen"]
    known = {row["key"]: row for row in seen.load(table["key"]).to_pylist()}
    for record in table.select(["key", "offset"]).to_pylist():
        row = known.setdefault(record["key"], {"key": record["key"], "count": 0})
        row["count"] += 1
        row["last"] = record["offset"]
    seen.save(pa.Table.from_pylist(list(known.values()), schema=SEEN.columns))
    return table.select(["offset"])


def kept(world):
    with world.store.positions.begin() as connection:
        rows = connection.exec_driver_sql("SELECT part, key, value FROM headrace_state").all()
    assert {row[0] for row in rows} <= {LANE}
    return {key: json.loads(value)["count"] for _, key, value in rows}


def oracle(offsets):
    return dict(Counter(map(key_of, offsets)))


@pytest.fixture
def counted(world):
    """Acme by key, in four buckets, with 40 records that are counted."""
    world.use_cases = [world.make(counting, order="key", buckets=4, state=[SEEN])]
    world.deploy()
    world.tenant("acme")
    fill(world, 40)
    world.start()
    world.turns()
    return world


def test_each_record_is_counted_once(counted):
    assert kept(counted) == oracle(range(40))
    assert places(counted) == dict.fromkeys(divided(LANE, 4), 40)
    fill(counted, 25)
    counted.turns()
    assert kept(counted) == oracle(range(65))


@pytest.mark.parametrize("accident", ["before", "after"])
def test_a_wave_that_is_lost_before_or_after_it_ran_is_counted_once(counted, accident):
    fill(counted, 30)
    counted.engine.accidents = [accident]
    counted.turns(20)
    assert kept(counted) == oracle(range(70))
    assert set(places(counted).values()) == {70}


def test_a_driver_that_did_not_live_to_hear_of_its_wave_left_state_and_positions(counted):
    fill(counted, 30)
    counted.killed_after_writing()
    assert kept(counted) == oracle(range(70))
    counted.start()
    counted.turns(20)
    assert kept(counted) == oracle(range(70))


@pytest.mark.parametrize("buckets", [2, 3, 16])
def test_state_follows_its_key_into_other_buckets(counted, buckets):
    divide_by_key(counted, buckets)
    fill(counted, 30)
    counted.turns(12, seconds=1.0)
    fill(counted, 30)
    counted.turns(60, seconds=1.0)
    assert places(counted) == dict.fromkeys(divided(LANE, buckets), 100)
    assert kept(counted) == oracle(range(100))


def test_a_seek_back_is_refused_and_with_forget_state_begins_anew(counted):
    back = planned(counted.store, counted.log, ACME, "earliest")
    with pytest.raises(ConfigError, match=r"keeps state.*--forget-state"):
        carry_out(counted.store.progress, back)
    counted.turns()
    assert kept(counted) == oracle(range(40))
    carry_out(counted.store.progress, back, forget_state=True)
    assert kept(counted) == {}
    fill(counted, 9)
    counted.turns(12)
    assert kept(counted) == oracle(range(49))


def test_a_bad_record_that_is_set_aside_is_not_counted(world):
    def refuses(table, context):
        offsets = table["offset"].to_pylist()
        answer = counting(table, context)
        if 13 in offsets:
            raise context.bad_record(offsets.index(13), "thirteen")
        return answer

    world.use_cases = [
        world.make(refuses, order="key", buckets=4, state=[SEEN], bad_record="dead-letter")
    ]
    world.deploy()
    world.tenant("acme")
    fill(world, 40)
    world.start()
    world.turns(20)
    assert kept(world) == oracle(offset for offset in range(40) if offset != 13)
    assert [letter.error.offset for letter in world.dead_letters.letters] == [13]


def test_a_misspelt_column_of_state_stops_the_lane_after_three_letters(world):
    def misspells(table, context):
        context.state["seen"].put({"key": table["key"][0].as_py(), "cuont": 1, "last": 0})
        return table.select(["offset"])

    world.use_cases = [
        world.make(misspells, order="key", buckets=2, state=[SEEN], bad_record="dead-letter")
    ]
    world.deploy()
    world.tenant("acme")
    fill(world, 40)
    world.start()
    world.turns(30, seconds=1.0)
    letters = Counter(letter.slice.lane.name for letter in world.dead_letters.letters)
    assert letters == dict.fromkeys(divided(LANE, 2), 3)
    assert world.row("acme").state == "suspended"
    assert {failure.error.code for failure in world.store.failures.every(only_open=True)} == {
        "WrongSchema"
    }


def test_a_rerun_stops_and_says_why(counted):
    rerun = begin(counted.store, range_of(counted.store, counted.log, ACME, "earliest", None), 0.5)
    (case,) = counted.use_cases
    deployed = {known.use_case: known for known in counted.store.registry.deployments()}
    again = replace(case, name=rerun.use_case)
    counted.engine.take(again, deployed[rerun.use_case])
    counted.driver.take(again, deployed[rerun.use_case])
    counted.turns(20)
    told = {failure.error.message for failure in counted.store.failures.every(only_open=True)}
    assert told
    assert all("a rerun is for use cases without state" in message for message in told)
    assert kept(counted) == oracle(range(40))
