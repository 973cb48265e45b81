"""A stream of which a bucket's row is gone from the store is not read, and others go on."""

import re
from dataclasses import replace

import pytest
from lanes_of_acme import ACME, LANE, divide_by_key, lose, places
from sqlalchemy import create_engine
from structlog.testing import capture_logs
from test_failing import raises_at

from headrace.cycle.lags import lags
from headrace.cycle.reruns import begin, range_of
from headrace.errors import ConfigError, Temporary
from headrace.model.buckets import divided, heirs_of
from headrace.model.places import place_at
from headrace.model.records import LaneStart
from headrace.model.statistics import LagIs
from headrace.model.streams import Order
from headrace.operating.seeking import carry_out, planned, seek
from headrace.spark.key_hash import bucket_of_key
from headrace.store.schema import positions
from headrace.testing.log_fake import Row

FOUR = divided(LANE, 4)
KEYS = 40


def key_of(at):
    return b"k%d" % (at % KEYS)


def fill(world, records, tenant="acme"):
    rows = [Row(b"x", key=key_of(at)) for at in range(records)]
    world.log.append(f"{tenant}.visits", 0, rows)


def of_bucket(number, until, begin=0):
    return [at for at in range(begin, until) if bucket_of_key(key_of(at), 4) == number]


def handled(world, tenant="acme"):
    return sorted(at for name, at in world.seen if name == tenant)


@pytest.fixture
def keyed(world):
    """Acme and Bolt by key in four buckets, with 40 records each that are done."""
    world.use_cases = [world.make(order="key", buckets=4)]
    world.deploy()
    for tenant in ("acme", "bolt"):
        world.tenant(tenant)
        fill(world, 40, tenant)
    world.start()
    world.turns(20, seconds=1.0)
    assert places(world) == dict.fromkeys(FOUR, 40)
    world.seen.clear()
    return world


@pytest.fixture
def lacking(keyed):
    """A row of Acme is gone when its driver starts again, and records have come."""
    lose(keyed, FOUR[2])
    keyed.start()
    for tenant in ("acme", "bolt"):
        fill(keyed, 40, tenant)
    keyed.turns(20, seconds=1.0)
    return keyed


def test_it_stands_and_says_why_while_others_go_on(lacking):
    assert handled(lacking) == []
    assert handled(lacking, "bolt") == list(range(40, 80))
    row = lacking.row("acme")
    assert row.state == "waiting"
    assert "partition 0 is without some of its buckets" in row.note
    assert "0#2/4" in row.note
    assert row.lag_is == "unknown"


def test_what_it_says_to_do_mends_it(lacking):
    (to,) = re.findall("headrace streams seek acme/keep --to '(.*?)'", lacking.row("acme").note)
    plan = planned(lacking.store, lacking.log, ACME, to)
    assert list(plan.offsets) == [FOUR[2]]
    carry_out(lacking.store.progress, plan)
    lacking.turns(30, seconds=1.0)
    assert places(lacking) == dict.fromkeys(FOUR, 80)
    assert lacking.row("acme").state == "active"
    assert handled(lacking) == sorted([*range(40, 80), *of_bucket(2, 40)])


def test_a_place_in_its_stead_passes_over_what_is_before_it_and_is_told_so(lacking):
    plan = planned(lacking.store, lacking.log, ACME, '{"acme.visits": {"0#2/4": 40}}')
    assert (plan.again, plan.passed) == (0, 40)
    carry_out(lacking.store.progress, plan)
    lacking.turns(30, seconds=1.0)
    assert handled(lacking) == list(range(40, 80))


@pytest.mark.parametrize("to", ["30", '{"acme.visits": {"0": 30}}'])
def test_a_seek_of_the_partition_mends_it_as_well(lacking, to):
    seek(lacking.store, lacking.log, ACME, to)
    lacking.turns(30, seconds=1.0)
    assert handled(lacking) == list(range(30, 80))


def test_a_bucket_of_another_division_is_still_refused(lacking):
    plan = planned(lacking.store, lacking.log, ACME, '{"acme.visits": {"0#2/4": 0}}')
    seek(lacking.store, lacking.log, ACME, "40")
    divide_by_key(lacking, 2)
    lacking.turns(60, seconds=1.0)
    assert places(lacking) == dict.fromkeys(divided(LANE, 2), 80)
    with pytest.raises(Temporary, match="try again"):
        carry_out(lacking.store.progress, plan)


def test_it_is_not_divided_otherwise_before_somebody_decided(lacking):
    divide_by_key(lacking, 2)
    lacking.turns(60, seconds=1.0)
    assert places(lacking).keys() == set(FOUR) - {FOUR[2]}
    seek(lacking.store, lacking.log, ACME, '{"acme.visits": {"0#2/4": -2}}')
    lacking.turns(90, seconds=1.0)
    assert places(lacking) == dict.fromkeys(divided(LANE, 2), 80)
    assert handled(lacking) == sorted([*range(40, 80), *of_bucket(2, 40)])


def test_a_rerun_of_it_is_refused(lacking):
    with pytest.raises(ConfigError, match="without some of its buckets"):
        range_of(lacking.store, lacking.log, ACME, "earliest", None)


def test_who_asks_the_store_is_told(lacking):
    acme, bolt = lags(lacking.store, lacking.log)
    (fault,) = acme.faults()
    assert "0#2/4" in fault
    assert acme.lag_records is None
    assert (bolt.faults(), bolt.lag_records) == ([], 0)


def test_a_lane_in_two_divisions_is_a_fault_too(keyed):
    engine = create_engine(f"sqlite:///{keyed.folder}/store.db")
    with engine.begin() as connection:
        row = connection.execute(positions.select().where(positions.c.lane == FOUR[0])).one()
        connection.execute(positions.insert().values(**{**row._asdict(), "lane": LANE}))
    engine.dispose()
    found = lags(keyed.store, keyed.log)[0].faults()
    assert ["in two divisions at once" in fault for fault in found] == [True]


def test_a_row_that_goes_while_its_driver_runs_is_missed_when_a_slice_comes_back(keyed):
    lose(keyed, FOUR[2])
    fill(keyed, 40)
    keyed.turns(60, seconds=1.0)
    # What was in flight has its effect, under at-least-once, and is not tried for ever.
    assert handled(keyed) == list(range(40, 80))
    assert "0#2/4" in keyed.row("acme").note


@pytest.mark.parametrize(("lost", "said"), [(FOUR[2], "0#2/4"), (f"{LANE}#1/2", "0#1/2")])
def test_a_bucket_that_others_wait_for_or_that_waits_is_missed(keyed, lost, said):
    (case,) = keyed.use_cases
    keyed.use_cases = [replace(case, buckets=2)]
    keyed.deploy()
    fill(keyed, 40)
    (topic_id,) = {one.topic_id for one in keyed.store.registry.streams() if one.id == ACME}
    made = heirs_of(LANE, FOUR, 2, place_at(60))
    begun = LaneStart(ACME, topic_id, made.places, topic_id, made.parents)
    keyed.store.progress.start_lanes([begun])
    lose(keyed, lost)
    keyed.start()
    keyed.turns(60, seconds=1.0)
    note = keyed.row("acme").note
    assert said in note
    assert "a place mends it, of the whole topic" in note
    assert handled(keyed) == []
    seek(keyed.store, keyed.log, ACME, "40")
    keyed.turns(60, seconds=1.0)
    assert places(keyed) == dict.fromkeys(divided(LANE, 2), 80)
    assert handled(keyed) == list(range(40, 80))


@pytest.mark.parametrize("lost", [FOUR[1:2], FOUR])
def test_a_rerun_whose_buckets_are_gone_stands_and_says_so(keyed, lost):
    wanted = range_of(keyed.store, keyed.log, ACME, "earliest", None)
    rerun = begin(keyed.store, wanted, 0.2)
    for name in lost:
        lose(keyed, name, rerun)
    (made,) = [one for one in keyed.store.registry.deployments() if one.until]
    case = replace(keyed.use_cases[0], name=made.use_case)
    keyed.engine.take(case, made)
    keyed.driver.take(case, made)
    keyed.turns(20, seconds=1.0)
    held = keyed.driver.board.streams[rerun]
    assert "0#1/4" in (held.waits or "")
    assert held.told_lag[1] is LagIs.UNKNOWN
    assert handled(keyed) == []
    told = next(one for one in lags(keyed.store, keyed.log) if one.stream.id == rerun)
    assert told.faults() == [held.waits]
    assert told.lag_records is None
    (to,) = re.findall("--to '(.*?)'", held.waits)
    seek(keyed.store, keyed.log, rerun, to)
    keyed.turns(20, seconds=1.0)
    assert handled(keyed) == list(range(40))
    assert rerun not in keyed.driver.board.streams


def test_a_rerun_of_whole_partitions_that_goes_on_by_key_begins_as_any_whose_place_is_gone(world):
    world.deploy()
    world.tenant("acme")
    fill(world, 40)
    world.start()
    world.turns(20, seconds=1.0)
    rerun = begin(world.store, range_of(world.store, world.log, ACME, "earliest", None), 0.2)
    divide_by_key(world, 4)
    lose(world, LANE, rerun)
    world.seen.clear()
    (made,) = [one for one in world.store.registry.deployments() if one.until]
    made = replace(made, order=Order.KEY, buckets=4)
    case = replace(world.use_cases[0], name=made.use_case)
    world.engine.take(case, made)
    world.driver.take(case, made)
    world.turns(40, seconds=1.0)
    assert handled(world) == list(range(40))
    assert rerun not in world.driver.board.streams


@pytest.fixture
def setting_aside(world):
    """Acme by partitions; its handler cannot take record 5, which is set aside at once."""
    world.use_cases = [world.make(raises_at(5), bad_record="dead-letter")]
    world.deploy(retries=0)
    world.tenant("acme")
    fill(world, 5)
    world.start()
    world.turns(20, seconds=1.0)
    fill(world, 5)
    return world


def test_a_row_that_goes_is_missed_where_the_next_record_is_bad(setting_aside):
    lose(setting_aside, LANE)
    with capture_logs() as logs:
        setting_aside.turns(40, seconds=1.0)
    assert "lanes are not in the store any more" in {line["event"] for line in logs}
    # It begins as one that is new.
    assert places(setting_aside) == {LANE: 10}
    assert [letter.error.offset for letter in setting_aside.dead_letters.letters] == [5]
    assert setting_aside.store.failures.every() == []


def test_a_row_that_goes_while_a_letter_of_it_is_kept_is_missed(setting_aside, monkeypatch):
    def keep(letters, new):
        lose(setting_aside, LANE)
        monkeypatch.undo()
        letters.keep(new)

    monkeypatch.setattr(type(setting_aside.dead_letters), "keep", keep)
    with capture_logs() as logs:
        setting_aside.turns(40, seconds=1.0)
    assert "lanes are not in the store any more" in {line["event"] for line in logs}
    assert places(setting_aside) == {LANE: 10}
    assert [letter.error.offset for letter in setting_aside.dead_letters.letters] == [5, 5]
    assert setting_aside.store.failures.every() == []
