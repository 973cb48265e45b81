"""Shards split and merge under a driver: nothing is lost, nothing twice, no key out of order."""

import json
from pathlib import Path

import pytest

from headrace.telemetry.figures import BoardFigures
from kinesis_schedules import KEYS, Schedule, outcome
from kinesis_world import DAY_S, STREAM, KinesisWorld

NOTHING = (set(), set(), set())
ROOT = Path(__file__).parents[3]


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


def test_hash_keys_that_no_shard_takes_are_told_at_the_stream_for_as_long_as_that_lasts(world):
    world.begin()
    world.put("a", 5)
    world.settle()
    world.kinesis.listed_after_s = 150
    world.split(0)
    world.turns(200, 0.5)
    row = world.row("acme")
    assert row.state == "active"
    wrong = f"do not have each key once: no open shard has the hash keys 0 to {2**128 - 1}"
    assert row.note == f"the shards of {STREAM} {wrong}"
    figures = BoardFigures(world.driver.board, world.driver.reporter)
    (told,) = figures.describe(world.clock.now_s(), world.clock.monotonic_s())
    assert told.topic_trouble == row.note
    world.turns(300, 0.5)
    assert world.row("acme").note == ""
    (told,) = figures.describe(world.clock.now_s(), world.clock.monotonic_s())
    assert told.topic_trouble == ""


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


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_nothing_is_lost_or_twice_or_out_of_order(world, seed):
    Schedule(world, seed).play()
    assert world.judge() == NOTHING
    assert world.is_well()


def test_a_day_that_passes_loses_nothing_and_what_expired_unread_is_told(world):
    schedule = Schedule(world, 20)
    schedule.play(20)
    schedule.a_day_passes()
    schedule.write()
    world.settle()
    assert world.judge() == NOTHING
    assert world.is_well()
    assert schedule.expire_unread()


def test_a_schedule_of_a_seed_is_judged_and_counted(tmp_path, monkeypatch):
    found = outcome(1000, tmp_path / "one")
    assert (found.lost, found.twice, found.inverted, found.wrong) == (0, 0, 0, [])
    assert found.counts["records"] > 0
    monkeypatch.setattr("headrace.connectors.kinesis.log.lineage_of", lambda _stream, _shards: {})
    planted = outcome(3, tmp_path / "planted")
    assert planted.inverted
    assert planted.wrong[0].startswith("out of order")


def test_the_results_are_of_as_many_schedules_as_the_page_says():
    told = json.loads((ROOT / "docs" / "kinesis-schedules.json").read_text())
    page = " ".join((ROOT / "docs" / "kinesis.md").read_text().split())
    assert f"{told['schedules']:,} random schedules" in page
    assert told["failed"] == []
    assert (told["lost"], told["twice"], told["out of order"]) == (0, 0, 0)


def test_shards_that_wait_for_nobody_are_found_by_a_schedule(world, monkeypatch):
    monkeypatch.setattr("headrace.connectors.kinesis.log.lineage_of", lambda _stream, _shards: {})
    Schedule(world, 3).play()
    lost, twice, inverted = world.judge()
    assert (lost, twice) == (set(), set())
    assert inverted
