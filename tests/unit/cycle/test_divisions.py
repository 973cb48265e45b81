"""A partition is divided by keys, otherwise, and back: nothing is lost, done twice or overtaken."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from lanes_of_acme import ACME, LANE, divide_by_key, places
from structlog.testing import capture_logs

from headrace.cycle import apply
from headrace.cycle.lags import lags
from headrace.cycle.reruns import begin, range_of
from headrace.errors import ConfigError
from headrace.model.buckets import bucket_of, divided, parts_of
from headrace.model.records import LaneStart
from headrace.model.statistics import LagIs
from headrace.model.streams import BadRecordPolicy, DataLossPolicy, LaneId, State
from headrace.operating.seeking import planned, seek
from headrace.policies.cost import learn_guessed
from headrace.spark.key_hash import bucket_of_key
from headrace.testing.log_fake import Row
from headrace.testing.mirror_fake import MemoryMirror

KEYS = 7


def key_of(at):
    return b"k%d" % (at % KEYS)


def fill(world, records, partition=0):
    for _ in range(records):
        at = world.log.edges("acme.visits", partition).stop
        world.log.append("acme.visits", partition, [Row(b"x", key=key_of(at))])


@pytest.fixture
def keyed(world):
    """Acme by key, in four buckets, with 40 records that are done."""
    world.use_cases = [world.make(order="key", buckets=4, bad_record="suspend")]
    world.deploy()
    world.tenant("acme")
    fill(world, 40)
    world.start()
    world.turns()
    return world


def rest(world):
    """Long enough for topics to be looked at, and lanes that are done to be forgotten."""
    world.turns(60, seconds=1.0)


def is_right(world, records):
    """Each record has its effect once, and those of a key in their order."""
    seen = [at for _, at in world.seen]
    of_keys = {key: [at for at in seen if key_of(at) == key] for key in map(key_of, range(KEYS))}
    return sorted(seen) == list(range(records)) and all(
        found == sorted(found) for found in of_keys.values()
    )


def test_each_bucket_is_a_lane(keyed):
    assert places(keyed) == dict.fromkeys(divided(LANE, 4), 40)
    assert is_right(keyed, 40)


@pytest.mark.parametrize("buckets", [1, 2, 3, 16])
def test_another_number_of_buckets(keyed, buckets):
    divide_by_key(keyed, buckets)
    fill(keyed, 30)
    keyed.turns(12, seconds=1.0)
    fill(keyed, 30)
    rest(keyed)
    assert is_right(keyed, 100)
    assert places(keyed) == dict.fromkeys(divided(LANE, buckets), 100)


def test_from_lane_to_key_and_back_again(world):
    world.deploy()
    world.tenant("acme")
    fill(world, 20)
    world.start()
    world.turns()
    for buckets in (4, 2, 1, 3):
        divide_by_key(world, buckets)
        fill(world, 20)
        rest(world)
    assert is_right(world, 100)
    assert places(world) == dict.fromkeys(divided(LANE, 3), 100)


def test_the_new_buckets_wait_for_all_that_may_run(keyed):
    """What was planned, and may come back as a zombie's, ends before they begin."""
    fill(keyed, 10)
    keyed.driver.turn()  # it is under way
    divide_by_key(keyed, 2)
    keyed.driver.turn()
    begun = [at for name, at in places(keyed).items() if parts_of(name) == 2]
    assert begun == [50, 50]
    keyed.turns(12, seconds=1.0)
    assert is_right(keyed, 50)


def test_nothing_is_forgotten_before_what_it_follows(keyed):
    """Else nobody would know any more where the last of the old buckets ends."""
    divide_by_key(keyed, 3)
    held = keyed.driver.board.streams[ACME]
    late = held.lanes[f"{LANE}#3/4"]
    late.not_before_s = float("inf")
    fill(keyed, 20)
    keyed.turns(4)
    late.not_before_s = float("-inf")
    for _ in range(60):
        keyed.turns(1, seconds=1.0)
        there = places(keyed)
        olds = [name for name in there if parts_of(name) == 4]
        assert not olds or LANE in there or not any(parts_of(name) == 3 for name in there)
    fill(keyed, 20)
    rest(keyed)
    assert is_right(keyed, 80)
    assert places(keyed) == dict.fromkeys(divided(LANE, 3), 80)


def test_a_bad_record_stops_its_bucket_alone(world):
    def picky(table, context):
        for row, at in enumerate(table["offset"].to_pylist()):
            if at == 5 and world.stops:
                raise context.bad_record(row, "five")
            world.seen.append((context.tenant, at))
        return pa.table({"offset": table["offset"]})

    world.stops = True
    world.use_cases = [world.make(picky, order="key", buckets=4)]
    world.deploy()
    world.tenant("acme")
    fill(world, 40)
    world.start()
    world.turns(12, seconds=1.0)
    (stopped,) = [name for name, at in places(world).items() if at < 40]
    assert bucket_of(stopped).number == bucket_of_key(key_of(5), 4)
    assert places(world)[stopped] == 5
    # What it holds up is divided otherwise when somebody has decided, and not before.
    divide_by_key(world, 2)
    fill(world, 20)
    world.turns(12, seconds=1.0)
    assert {at for name, at in places(world).items() if parts_of(name) == 2} == {40}
    with pytest.raises(ConfigError, match="gets other buckets as soon as"):
        planned(world.store, world.log, ACME, json.dumps({"acme.visits": {"0#0/2": 3}}))
    with pytest.raises(ConfigError, match="gets other buckets as soon as"):
        range_of(world.store, world.log, ACME, "earliest", None)
    world.stops = False
    (failure,) = world.store.failures.every(only_open=True)
    world.store.failures.retry(failure.id)
    rest(world)
    assert places(world) == dict.fromkeys(divided(LANE, 2), 60)
    seen = [at for _, at in world.seen]
    assert sorted(set(seen)) == list(range(60))
    for key in map(key_of, range(KEYS)):
        first = list(dict.fromkeys(at for at in seen if key_of(at) == key))
        assert first == sorted(first)


def test_a_stream_that_is_sought_as_a_whole_has_the_new_buckets_alone(keyed):
    keyed.store.registry.set_stream_state(ACME, State.SUSPENDED)
    divide_by_key(keyed, 2)
    keyed.turns(2)
    keyed.store.registry.set_stream_state(ACME, State.ACTIVE)
    keyed.driver.turn()
    keyed.clock.move(1.0)
    keyed.driver.turn()
    seek(keyed.store, keyed.log, ACME, "earliest")
    keyed.seen.clear()
    keyed.turns(12, seconds=1.0)
    assert is_right(keyed, 40)
    assert places(keyed) == dict.fromkeys(divided(LANE, 2), 40)


def test_a_partition_is_sought_by_its_number_and_a_bucket_by_its_name(keyed):
    plan = planned(keyed.store, keyed.log, ACME, json.dumps({"acme.visits": {"0": 30}}))
    assert (plan.again, plan.passed) == (10, 0)
    seek(keyed.store, keyed.log, ACME, json.dumps({"acme.visits": {"0": 30}}))
    assert places(keyed) == dict.fromkeys(divided(LANE, 4), 30)
    seek(keyed.store, keyed.log, ACME, json.dumps({"acme.visits": {"0#2/4": 20}}))
    assert places(keyed) == dict.fromkeys(divided(LANE, 4), 30) | {f"{LANE}#2/4": 20}
    keyed.seen.clear()
    keyed.turns(12, seconds=1.0)
    again = sorted(at for _, at in keyed.seen)
    assert again == [at for at in range(20, 40) if at >= 30 or bucket_of_key(key_of(at), 4) == 2]


def test_a_driver_that_lost_the_stream_divides_nothing(keyed):
    names = divided(LANE, 2)
    stale = LaneStart(ACME, "topic-1", dict.fromkeys(names, 7), "topic-1", {}, epoch=0)
    keyed.store.progress.start_lanes([stale])
    assert places(keyed) == dict.fromkeys(divided(LANE, 4), 40)


def test_a_driver_that_dies_leaves_the_rest_to_the_next_one(keyed):
    divide_by_key(keyed, 3)
    fill(keyed, 20)
    for _ in range(5):
        keyed.driver.turn()
        keyed.clock.move(1.0)
        keyed.start()
    keyed.turns(12, seconds=1.0)
    fill(keyed, 20)
    rest(keyed)
    assert places(keyed) == dict.fromkeys(divided(LANE, 3), 80)
    assert sorted({at for _, at in keyed.seen}) == list(range(80))


def test_a_partition_that_is_added_has_buckets_from_its_beginning(keyed):
    keyed.log.widen("acme.visits")
    fill(keyed, 8, partition=1)
    rest(keyed)
    added = {name: at for name, at in places(keyed).items() if "[1]" in name}
    assert added == dict.fromkeys(divided("acme.visits[1]", 4), 8)


def test_a_rerun_reads_the_buckets_that_there_are(keyed):
    wanted = range_of(keyed.store, keyed.log, ACME, "earliest", None)
    assert (wanted.most, set(wanted.places.values())) == (40, {40})  # at most, each
    rerun = begin(keyed.store, wanted, 0.5)
    keyed.seen.clear()
    (case,) = keyed.use_cases
    deployed = {known.use_case: known for known in keyed.store.registry.deployments()}
    again = replace(case, name=rerun.use_case)
    keyed.engine.take(again, deployed[rerun.use_case])
    keyed.driver.take(again, deployed[rerun.use_case])
    keyed.turns(12, seconds=1.0)
    assert is_right(keyed, 40)
    assert places(keyed, rerun) == dict.fromkeys(divided(LANE, 4), 40)


@pytest.mark.parametrize("key", [b"one", None])
def test_a_rerun_of_one_bucket_reads_no_more_than_was_told(world, key):
    """All may be in it."""
    world.use_cases = [world.make(order="key", buckets=16)]
    world.deploy()
    world.tenant("acme")
    world.log.append("acme.visits", 0, [Row(b"x", key=key)] * 160)
    world.start()
    world.turns(20, seconds=1.0)
    bucket = f"0#{bucket_of_key(key, 16)}/16"
    first, last = (json.dumps({"acme.visits": {bucket: at}}) for at in (0, 150))
    wanted = range_of(world.store, world.log, ACME, first, last)
    assert (wanted.most, [*wanted.places.values()]) == (150, [150])
    whole = range_of(world.store, world.log, ACME, "earliest", None)
    assert (whole.most, set(whole.places.values())) == (160, {160})


def test_a_rerun_is_told_that_what_its_buckets_were_of_is_gone(keyed):
    """As where lanes are whole; it stood for ever, and nobody was told why."""
    rerun = begin(keyed.store, range_of(keyed.store, keyed.log, ACME, "earliest", None), 0.5)
    deployed = {one.use_case: one for one in keyed.store.registry.deployments()}
    again = replace(keyed.use_cases[0], name=rerun.use_case)
    keyed.log.split("acme.visits", 0)
    keyed.log.drop_lane("acme.visits", 0)
    keyed.engine.take(again, deployed[rerun.use_case])
    keyed.driver.take(again, deployed[rerun.use_case])
    rest(keyed)
    (stream,) = [one for one in keyed.store.registry.streams() if one.id == rerun]
    assert stream.state is State.SUSPENDED
    assert "acme.visits[0]" in stream.reason


def test_a_rerun_ends_where_one_of_its_buckets_ends_far_before_the_others(keyed, monkeypatch):
    """As after a seek of that one: what has come to its end holds nobody up."""
    monkeypatch.setattr("headrace.board.streams.SPREAD", 10)
    seek(keyed.store, keyed.log, ACME, json.dumps({"acme.visits": {"0#2/4": 5}}))
    rerun = begin(keyed.store, range_of(keyed.store, keyed.log, ACME, "earliest", None), 0.5)
    (case,) = keyed.use_cases
    deployed = {known.use_case: known for known in keyed.store.registry.deployments()}
    again = replace(case, name=rerun.use_case)
    keyed.engine.take(again, deployed[rerun.use_case])
    keyed.driver.take(again, deployed[rerun.use_case])
    rest(keyed)
    assert places(keyed, rerun) == dict.fromkeys(divided(LANE, 4), 40) | {f"{LANE}#2/4": 5}


@pytest.mark.parametrize("cut", [50, 30, 0])
def test_a_log_that_is_cut_while_it_is_divided_otherwise(keyed, cut):
    """What is written behind the cut is read by the new buckets alone."""
    skips = {"data_loss": DataLossPolicy.SKIP}
    divide_by_key(keyed, 4, **skips)
    keyed.turns(2)
    held = keyed.driver.board.streams[ACME]
    late = held.lanes[f"{LANE}#{bucket_of_key(key_of(44), 4)}/4"]
    late.not_before_s = float("inf")
    fill(keyed, 20)
    keyed.turns(4)
    divide_by_key(keyed, 3, **skips)
    keyed.turns(4)
    begun = {at for name, at in places(keyed).items() if parts_of(name) == 3}
    assert (begun, late.position) == ({60}, 40)
    keyed.log.truncate("acme.visits", 0, cut)
    keyed.turns(40, seconds=1.0)
    before = [at for _, at in keyed.seen]
    keyed.seen.clear()
    fill(keyed, 30)
    late.not_before_s = 0.0
    rest(keyed)
    end = cut + 30
    assert places(keyed) == dict.fromkeys(divided(LANE, 3), end)
    again = [at for _, at in keyed.seen]
    assert sorted(at for at in again if at >= cut) == list(range(cut, end))
    assert {*before, *again} >= set(range(end))
    for key in map(key_of, range(KEYS)):
        of_key = [at for at in again if key_of(at) == key]
        assert of_key == sorted(of_key)


def test_a_lag_is_told_as_a_guess(keyed):
    keyed.store.registry.set_stream_state(ACME, State.SUSPENDED)
    keyed.driver.turn()
    fill(keyed, 20)
    keyed.turns(12, seconds=1.0)
    (found,) = lags(keyed.store, keyed.log)
    assert (found.lag_records, found.is_guess, found.faults()) == (20, True, [])
    row = keyed.row("acme")
    assert (row.lag_records, row.lag_is) == (20, LagIs.ABOUT)


def test_other_tools_see_how_far_the_least_bucket_came(world):
    world.mirror = MemoryMirror()
    world.use_cases = [world.make(order="key", buckets=4)]
    world.deploy()
    world.tenant("acme")
    fill(world, 40)
    world.start()
    world.turns(12, seconds=1.0)
    held = world.driver.board.streams[ACME]
    held.lanes[f"{LANE}#1/4"].position = 33
    assert world.driver.mirror._news(held, world.clock.monotonic_s() + 9999) == {LANE: 33}


def test_no_bucket_goes_far_ahead_of_one_that_stands(keyed, monkeypatch):
    monkeypatch.setattr("headrace.board.streams.SPREAD", 10)
    held = keyed.driver.board.streams[ACME]
    stands, *others = divided(LANE, 4)
    fill(keyed, 100)
    held.lanes[stands].failure = 1
    keyed.turns(12, seconds=1.0)
    assert places(keyed) == {stands: 40} | dict.fromkeys(others, 50)
    assert not held.has_work
    held.lanes[stands].failure = None
    rest(keyed)
    assert is_right(keyed, 140)


def test_while_a_record_is_looked_for_nothing_is_guessed(keyed):
    fill(keyed, 200)
    held = keyed.driver.board.streams[ACME]
    for lane in held.lanes.values():
        lane.end, lane.every = 240, 4.0
    assert {lane.every for lane in held.view(0.0).lanes} == {4}
    held.most_records = 5
    assert {lane.every for lane in held.view(0.0).lanes} == {1}
    held.most_records = None
    held.lanes[f"{LANE}#0/4"].tries = 1
    assert sorted(lane.every for lane in held.view(0.0).lanes) == [1, 4, 4, 4]


def test_what_the_log_does_not_say_is_learned_of_what_was_read(keyed):
    fill(keyed, 4000)
    keyed.turns(30, seconds=1.0)
    every = [lane.every for lane in keyed.driver.board.streams[ACME].lanes.values()]
    own = [
        sum(bucket_of_key(key_of(key), 4) == number for key in range(KEYS)) for number in range(4)
    ]
    for found, keys in zip(every, own, strict=True):
        assert found == pytest.approx(KEYS / keys if keys else 16.0, rel=0.3)


def test_dead_letters_of_a_bucket_are_its_records(world):
    def picky(table, context):
        for row, at in enumerate(table["offset"].to_pylist()):
            if at == 5:
                raise context.bad_record(row, "five")
            world.seen.append((context.tenant, at))
        return pa.table({"offset": table["offset"]})

    bad_record = BadRecordPolicy.DEAD_LETTER.value
    world.use_cases = [world.make(picky, order="key", buckets=4, bad_record=bad_record)]
    world.deploy()
    world.tenant("acme")
    fill(world, 40)
    world.start()
    with capture_logs():
        world.turns(12, seconds=1.0)
    assert places(world) == dict.fromkeys(divided(LANE, 4), 40)
    (letter,) = world.dead_letters.letters
    own = f"{LANE}#{bucket_of_key(key_of(5), 4)}/4"
    assert (letter.slice.lane, letter.error.offset) == (LaneId("keep", "acme", own), 5)


def test_what_reading_for_a_bucket_costs_is_learned_also_if_nothing_is_in_it(world, monkeypatch):
    told = []

    def learned(cost, records, bytes_, seconds, guessed):
        told.append((records, guessed))
        return learn_guessed(cost, records, bytes_, seconds, guessed)

    monkeypatch.setattr(apply, "learn_guessed", learned)
    world.use_cases = [world.make(order="key", buckets=4)]
    world.deploy()
    world.tenant("acme")
    for _ in range(40):
        world.log.append("acme.visits", 0, [Row(b"x", key=b"hot")])
    world.start()
    world.turns()
    assert sorted(told) == [(0, 40)] * 3 + [(40, 40)]
    assert world.driver.board.streams[ACME].cost.samples == 1
