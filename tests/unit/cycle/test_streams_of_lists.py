"""A list of topics is one stream, and what befalls one of its topics is no other's."""

import json
import re
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from test_late_looks import Late
from test_reruns import rerun
from test_restarts import passes

from headrace.cycle.lags import lags
from headrace.cycle.topics import TOPICS_EVERY_S, WAITING_EVERY_S
from headrace.errors import ConfigError, Temporary
from headrace.model.places import number_at
from headrace.model.records import FailureState
from headrace.model.restarts import Restart
from headrace.model.streams import DataLossPolicy, State, StreamId, Tenant
from headrace.model.topic_lists import listed
from headrace.operating.again import consequences
from headrace.operating.seeking import carry_out, planned, planned_again, seek
from headrace.policies.data_loss import LIST_PATIENCE_S
from headrace.testing.at_once import at_once
from headrace.testing.log_fake import Row

ACME = StreamId("keep", "acme")
BOTH = ["{tenant}.visits", "{tenant}.clicks"]
FAIL, SKIP = DataLossPolicy.FAIL, DataLossPolicy.SKIP


def sent(world, topic, records, partition=0):
    rows = [Row(b"x", timestamp_ms=int(world.clock.wall_s * 1000)) for _ in range(records)]
    world.log.append(topic, partition, rows)


def at(world):
    positions = world.store.progress.load_positions([ACME])
    return {one.lane.name: number_at(one.next_offset) for one in positions}


def stream(world):
    return next(found for found in world.store.registry.streams() if found.id == ACME)


@pytest.fixture
def begins(world):
    """A use case that reads a list; with topics of acme that are there, and how many records."""

    def begin(topic=BOTH, there=("acme.visits", "acme.clicks"), records=3, **options):
        world.use_cases = [world.make(topic=topic, order=options.pop("order", "lane"))]
        world.deploy(**options)
        for name in there:
            world.log.create_topic(name)
            sent(world, name, records)
        world.store.registry.add_tenant(Tenant("acme"))
        world.start()
        world.turns()
        return world

    return begin


def looked(world, count=4):
    world.turns(count, seconds=WAITING_EVERY_S)


def made_again(world, topic, records):
    world.log.delete_topic(topic)
    world.log.create_topic(topic)
    sent(world, topic, records)
    world.turns(round(TOPICS_EVERY_S + LIST_PATIENCE_S) + 8, seconds=1.0)


@pytest.mark.parametrize("order", ["lane", "key", "stream"])
def test_the_lanes_of_all_topics_are_one_stream(begins, order):
    world = begins(order=order)
    assert len(world.seen) == 6
    assert {lane.partition("#")[0] for lane in at(world)} == {"acme.visits[0]", "acme.clicks[0]"}
    sent(world, "acme.clicks", 2)
    world.turns()
    world.start()
    world.turns()
    assert len(world.seen) == 8
    assert stream(world).topic == "acme.clicks,acme.visits"
    assert set(json.loads(stream(world).topic_id)) == {"acme.visits", "acme.clicks"}


def test_only_partitions_that_are_named_are_read(begins):
    world = begins(topic=["{tenant}.visits[1]", "{tenant}.clicks"], there=["acme.clicks"])
    assert "partition 1 of acme.visits is not there yet" in world.row("acme").note
    world.log.create_topic("acme.visits", 3)
    for partition in range(3):
        sent(world, "acme.visits", 4, partition)
    looked(world)
    assert at(world) == {"acme.visits[1]": 4, "acme.clicks[0]": 3}
    assert world.row("acme").state == "active"


def test_a_topic_that_is_not_there_yet_is_named_and_the_others_are_read(begins):
    world = begins(there=["acme.visits"])
    assert at(world) == {"acme.visits[0]": 3}
    row = world.row("acme")
    assert row.state == "waiting"
    assert "topic acme.clicks is not there yet" in row.note
    assert "acme.visits is not there" not in row.note
    world.log.create_topic("acme.clicks")
    sent(world, "acme.clicks", 5)
    looked(world)
    assert at(world) == {"acme.visits[0]": 3, "acme.clicks[0]": 5}
    assert (world.row("acme").state, world.row("acme").note) == ("active", "")
    assert world.store.failures.every(ACME) == []


def test_where_none_is_there_the_stream_waits(begins):
    world = begins(there=[])
    assert world.row("acme").state == "waiting"
    assert "acme.clicks,acme.visits is not there yet" in world.row("acme").note


def test_a_topic_that_vanishes_holds_up_no_other_and_loses_nothing_that_comes_again(begins):
    world = begins()
    sent(world, "acme.clicks", 2)
    world.log.delete_topic("acme.clicks")
    sent(world, "acme.visits", 2)
    world.turns(round(TOPICS_EVERY_S) + 4, seconds=1.0)
    assert at(world)["acme.visits[0]"] == 5
    assert world.row("acme").state == "waiting"
    assert "topic acme.clicks is not there yet" in world.row("acme").note
    sent(world, "acme.visits", 1)
    world.turns()
    assert at(world) == {"acme.visits[0]": 6, "acme.clicks[0]": 3}
    assert world.store.failures.every(ACME) == []


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_where_lanes_become_others_a_topic_that_vanishes_is_no_loss_either(begins, policy):
    world = begins(data_loss=policy)
    world.log.split("acme.visits", 0)
    sent(world, "acme.visits", 1, partition=1)
    looked(world, round(TOPICS_EVERY_S))
    before = at(world)
    world.log.delete_topic("acme.clicks")
    world.turns(round(TOPICS_EVERY_S + 2 * LIST_PATIENCE_S) + 8, seconds=1.0)
    sent(world, "acme.visits", 2, partition=2)
    looked(world)
    assert at(world) == before | {"acme.visits[2]": 2}
    assert (stream(world).state, world.store.failures.every(ACME)) == (State.ACTIVE, [])
    assert "topic acme.clicks is not there yet" in world.row("acme").note


@pytest.mark.parametrize("order", ["lane", "key"])
def test_of_a_topic_that_is_made_again_its_lanes_alone_begin_anew(begins, order):
    world = begins(data_loss=SKIP, order=order)
    before = world.driver.board.streams[ACME].stream.topic_id
    made_again(world, "acme.clicks", 2)
    world.turns()
    now = at(world)
    assert {name for name, place in now.items() if place == 3} == {
        name for name in now if name.startswith("acme.visits")
    }
    assert {name for name, place in now.items() if place == 2} == {
        name for name in now if name.startswith("acme.clicks")
    }
    assert len(world.seen) == 6 + 2
    was, is_now = json.loads(before), json.loads(stream(world).topic_id)
    assert was["acme.visits"] == is_now["acme.visits"]
    assert was["acme.clicks"] != is_now["acme.clicks"]
    notes = world.store.failures.every(ACME)
    assert {note.slice.lane.name.partition("[")[0] for note in notes} == {"acme.clicks"}
    assert all(note.state is FailureState.SKIPPED for note in notes)
    assert f"topic acme.clicks was deleted and made again (id {was['acme.clicks']}" in (
        notes[0].error.message
    )


def test_by_fail_the_stream_stops_and_a_seek_of_that_topic_alone_lets_it_go_on(begins):
    world = begins(data_loss=FAIL)
    made_again(world, "acme.clicks", 2)
    assert stream(world).state is State.SUSPENDED
    assert "topic acme.clicks was deleted and made again" in stream(world).reason
    with pytest.raises(ConfigError, match=r"acme\.clicks was deleted and made again; seek all"):
        planned(world.store, world.log, ACME, '{"acme.visits": {"0": 1}}')
    assert seek(world.store, world.log, ACME, '{"acme.clicks": {"0": -2}}')
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.turns()
    assert at(world) == {"acme.visits[0]": 3, "acme.clicks[0]": 2}
    assert len(world.seen) == 6 + 2


def test_a_seek_names_each_topic_and_what_is_none_of_the_list_is_refused(begins):
    world = begins()
    to = {"acme.visits": {"0": 1}, "acme.clicks": {"0": -1}}
    plan = planned(world.store, world.log, ACME, json.dumps(to))
    assert {name: number_at(place) for name, place in plan.offsets.items()} == {
        "acme.visits[0]": 1,
        "acme.clicks[0]": 3,
    }
    with pytest.raises(ConfigError, match="has no partition 0 of other"):
        planned(world.store, world.log, ACME, '{"other": {"0": 1}}')
    assert planned(world.store, world.log, ACME, "earliest").again == 6


def test_a_seek_of_all_that_is_there_forgets_nothing_of_a_topic_that_is_away(begins):
    world = begins()
    world.log.delete_topic("acme.clicks")
    plan = planned(world.store, world.log, ACME, "earliest")
    assert (set(plan.offsets), plan.gone) == ({"acme.visits[0]"}, frozenset())


@pytest.mark.parametrize("starting", ["latest", "2000-01-01T00:00:00Z"])
def test_what_is_said_of_the_beginning_waits_for_all_topics(begins, starting):
    world = begins(there=["acme.visits"], starting_offsets=starting)
    assert (at(world), world.seen) == ({}, [])
    assert "startingOffsets wait for all that it reads: topic acme.clicks" in world.row("acme").note
    world.log.create_topic("acme.clicks")
    sent(world, "acme.clicks", 3)
    looked(world)
    sent(world, "acme.clicks", 1)
    sent(world, "acme.visits", 1)
    looked(world)
    assert len(world.seen) == (2 if starting == "latest" else 8)


def test_offsets_are_said_of_each_topic(begins):
    said = {"{tenant}.visits": {"0": 1}, "acme.clicks": {"0": -1}}
    world = begins(starting_offsets=json.dumps(said))
    assert world.seen == [("acme", 1), ("acme", 2)]
    sent(world, "acme.clicks", 1)
    world.turns()
    assert world.seen[2:] == [("acme", 3)]


def test_effects_of_two_topics_have_two_names_where_places_are_the_same(begins):
    world = begins()
    files = {path.name.partition("-000")[0] for path in world.folder.rglob("*.parquet")}
    assert files == {"keep@acme.clicks-0", "keep@acme.visits-0"}


def test_dead_letters_are_kept_for_the_topic_that_they_are_of(world):
    def bad(table, context):
        raise context.bad_record(0, "no")

    world.use_cases = [world.make(bad, topic=BOTH, bad_record="dead-letter")]
    world.deploy()
    world.log.create_topic("acme.clicks")
    world.tenant("acme", 0)
    sent(world, "acme.clicks", 1)
    world.start()
    world.turns()
    assert [letter.slice.lane_topic for letter in world.dead_letters.letters] == ["acme.clicks"]


def test_lags_count_all_topics_and_tell_what_is_not_there(begins):
    world = begins()
    sent(world, "acme.clicks", 2)
    sent(world, "acme.visits", 1)
    (lag,) = lags(world.store, world.log)
    assert (lag.lag_records, lag.faults()) == (3, [])
    world.log.delete_topic("acme.clicks")
    (lag,) = lags(world.store, world.log)
    assert lag.faults() == ["topic acme.clicks is not there"]


def longer_by_clicks(world):
    (known,) = world.store.registry.deployments()
    world.store.registry.deploy(replace(known, topic=listed(BOTH)))


@pytest.mark.parametrize("one", [["{tenant}.visits"], "{tenant}.visits"])
def test_a_list_of_one_becomes_longer_and_what_was_read_of_it_goes_on(begins, one):
    """It was no list, and another topic."""
    world = begins(one)
    longer_by_clicks(world)
    looked(world)
    assert (len(world.seen), world.row("acme").state) == (3, "active")
    world.take()
    sent(world, "acme.visits", 1)
    looked(world)
    assert at(world) == {"acme.visits[0]": 4, "acme.clicks[0]": 3}
    assert set(json.loads(stream(world).topic_id)) == {"acme.visits", "acme.clicks"}


def test_what_is_recorded_of_one_topic_is_done_once_though_its_list_became_longer(world):
    world.use_cases = [world.make(topic="{tenant}.visits", guarantee="exactly-once")]
    world.deploy()
    for name in ("acme.clicks", "acme.visits"):
        world.log.create_topic(name)
        sent(world, name, 3)
    world.store.registry.add_tenant(Tenant("acme"))
    world.killed_after_writing()
    assert len(world.store.progress.pending_intents()) == 1
    longer_by_clicks(world)
    sent(world, "acme.visits", 2)
    world.start()
    looked(world)
    assert at(world) == {"acme.visits[0]": 5, "acme.clicks[0]": 3}
    rows = {path.name: pq.read_table(path).num_rows for path in world.folder.rglob("*.parquet")}
    assert sorted(count for name, count in rows.items() if "acme.visits" in name) == [2, 3]
    assert sum(rows.values()) == 8


def test_a_topic_that_is_made_again_while_its_list_becomes_longer_is_another_one(begins):
    world = begins("{tenant}.visits", data_loss=SKIP)
    world.log.delete_topic("acme.visits")
    world.log.create_topic("acme.visits")
    sent(world, "acme.visits", 2)
    longer_by_clicks(world)
    world.take()
    world.turns(round(TOPICS_EVERY_S + LIST_PATIENCE_S) + 8, seconds=1.0)
    assert at(world) == {"acme.visits[0]": 2, "acme.clicks[0]": 3}
    assert len(world.seen) == 3 + 3 + 2


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_topic_that_comes_to_a_list_is_read_from_its_beginning_by_the_version_that_names_it(
    begins, starting
):
    world = begins(starting_offsets=starting)
    seen = len(world.seen)
    (known,) = world.store.registry.deployments()
    world.log.create_topic("acme.mails", 2)
    sent(world, "acme.mails", 2)
    longer = listed([*BOTH, "{tenant}.mails"])
    world.store.registry.deploy(replace(known, topic=longer))
    looked(world)
    assert (len(world.seen), world.row("acme").state) == (seen, "active")
    world.take()
    looked(world)
    assert len(world.seen) == seen + 2
    sent(world, "acme.visits", 1)
    looked(world)
    assert at(world)["acme.visits[0]"] == 4
    assert at(world)["acme.mails[0]"] == 2
    assert set(json.loads(stream(world).topic_id)) == {"acme.visits", "acme.clicks", "acme.mails"}


def test_what_is_recorded_of_a_topic_that_stays_is_done_once_and_that_of_the_other_is_not(world):
    world.use_cases = [world.make(topic=BOTH, guarantee="exactly-once")]
    world.deploy(data_loss=SKIP)
    for name in ("acme.clicks", "acme.visits"):
        world.log.create_topic(name)
        sent(world, name, 3)
    world.store.registry.add_tenant(Tenant("acme"))
    world.killed_after_writing()
    assert len(world.store.progress.pending_intents()) == 1
    sent(world, "acme.visits", 2)
    world.start()
    made_again(world, "acme.clicks", 2)
    world.turns()
    assert at(world) == {"acme.visits[0]": 5, "acme.clicks[0]": 2}
    assert world.store.progress.pending_intents() == []
    rows = {path.name: pq.read_table(path).num_rows for path in world.folder.rglob("*.parquet")}
    of_visits = {name: count for name, count in rows.items() if "acme.visits" in name}
    # What ran before the kill is where it was, and what came since is beside it.
    assert sorted(of_visits.values()) == [2, 3]


def test_a_slice_of_a_topic_that_vanishes_meanwhile_waits_with_it(begins):
    world = begins()
    world.engine.paused = True
    sent(world, "acme.clicks", 1)
    sent(world, "acme.visits", 1)
    world.turns(3)
    world.log.delete_topic("acme.clicks")
    world.engine.paused = False
    looked(world)
    sent(world, "acme.visits", 1)
    looked(world)
    assert at(world) == {"acme.visits[0]": 5, "acme.clicks[0]": 3}
    assert world.store.failures.every(ACME) == []
    assert "topic acme.clicks is not there yet" in world.row("acme").note
    started = len(world.engine.started)
    world.turns(20, seconds=1.0)
    assert len(world.engine.started) == started


def test_a_rerun_reads_all_topics_again(begins):
    world = begins()
    rerun(world, "earliest")
    world.turns()
    assert len(world.seen) == 12


def test_a_stream_that_was_left_alone_passes_over_what_is_old_beside_a_topic_that_is_gone(begins):
    world = begins(restart=Restart(300.0))
    world.log.delete_topic("acme.clicks")
    sent(world, "acme.visits", 4)
    passes(world, 400.0)
    world.start()
    looked(world)
    assert at(world) == {"acme.visits[0]": 7, "acme.clicks[0]": 3}
    assert len(world.seen) == 6
    (note,) = world.store.failures.every(ACME)
    seek = """headrace streams seek acme/keep --to '{"acme.visits": {"0": 3}}' reads them"""
    assert seek in note.error.message


def test_nobody_asks_where_a_topic_ends_that_is_not_there(begins, monkeypatch):
    world = begins()
    world.log.delete_topic("acme.clicks")
    world.turns(round(TOPICS_EVERY_S) + 4, seconds=1.0)
    asked, ask = set(), type(world.log).end_offsets

    def ends(log, lanes):
        asked.update(lanes)
        return ask(log, lanes)

    monkeypatch.setattr(type(world.log), "end_offsets", ends)
    world.turns(round(TOPICS_EVERY_S) + 4, seconds=1.0)
    assert asked == {"acme.visits[0]"}


def test_a_recorded_wave_with_a_slice_of_a_topic_that_is_gone_waits_for_it(world):
    world.use_cases = [world.make(topic=BOTH, guarantee="exactly-once")]
    world.deploy()
    for name in ("acme.clicks", "acme.visits"):
        world.log.create_topic(name)
        sent(world, name, 3)
    world.store.registry.add_tenant(Tenant("acme"))
    world.killed_after_writing()
    world.log.delete_topic("acme.clicks")
    world.start()
    world.turns(20, seconds=1.0)
    assert world.engine.started == []
    assert "topic acme.clicks is not there yet" in world.row("acme").note
    assert world.store.failures.every(ACME) == []


@pytest.mark.parametrize("turn", range(6))
def test_a_longer_list_that_is_deployed_while_topics_are_looked_at_ends_no_driver(world, turn):
    """Its name was looked up in an answer about the shorter one, and the turn raised."""
    thread = Late()
    thread.hangs = False
    world.use_cases = [world.make(topic=BOTH)]
    world.deploy()
    for name in ("acme.visits", "acme.clicks", "acme.mails"):
        world.log.create_topic(name)
        sent(world, name, 3)
    world.store.registry.add_tenant(Tenant("acme"))
    world.start(threads=lambda name: thread if name == "log" else at_once(name))
    world.turns(4)
    thread.hangs = True
    world.clock.move(TOPICS_EVERY_S + 10.0)
    (known,) = world.store.registry.deployments()
    world.use_cases = [world.make(topic=[*BOTH, "{tenant}.mails"])]
    for number in range(12):
        if number == turn:
            longer = replace(known, topic=world.use_cases[0].topic)
            world.store.registry.deploy(longer)
        world.turns(1)
        thread.answer(min(1, len(thread.calls)))
    thread.goes_on()
    world.take()
    looked(world)
    assert at(world) == {"acme.visits[0]": 3, "acme.clicks[0]": 3, "acme.mails[0]": 3}
    assert world.row("acme").state == "active"


@pytest.mark.parametrize("topic", [BOTH, re.compile(r"(?P<tenant>[a-z]+)[.](visits|clicks)")])
def test_of_a_list_that_is_added_again_a_topic_that_is_told_later_goes_on(begins, topic):
    """It was held for one that had been deleted and made again, and the whole stream stood."""
    world = begins(topic)
    world.store.registry.set_tenant_state("acme", State.REMOVED)
    world.turns(40, seconds=1.0)
    known = world.log.topics
    world.log.topics = lambda names: {
        name: info for name, info in known(names).items() if name != "acme.clicks"
    }
    world.store.registry.add_tenant(Tenant("acme"))
    world.turns(5, seconds=1.0)
    assert at(world) == {"acme.visits[0]": 3}
    world.log.topics = known
    world.turns(40, seconds=1.0)
    assert at(world) == {"acme.visits[0]": 3, "acme.clicks[0]": 3}
    assert world.row("acme").state == "active"


def test_lanes_of_a_topic_that_is_away_are_divided_when_it_is_there(world):
    """New ones were read at once, from a topic that had been made again, as if it were the old."""

    def deployed(buckets):
        world.use_cases = [world.make(topic=BOTH, order="key", buckets=buckets)]
        world.deploy(data_loss=SKIP)

    deployed(2)
    for name in ("acme.visits", "acme.clicks"):
        world.log.create_topic(name)
        sent(world, name, 4)
    world.store.registry.add_tenant(Tenant("acme"))
    world.start()
    world.turns(10, seconds=1.0)
    known = world.log.topics
    world.log.topics = lambda names: {
        name: info for name, info in known(names).items() if name != "acme.clicks"
    }
    world.turns(45, seconds=1.0)
    world.log.delete_topic("acme.clicks")
    world.log.create_topic("acme.clicks")
    sent(world, "acme.clicks", 8)
    deployed(3)
    world.take()
    world.turns(10, seconds=1.0)
    assert sum(name.endswith("/3") for name in at(world)) == 3
    assert len(world.seen) == 8
    world.log.topics = known
    world.turns(90, seconds=1.0)
    assert len(world.seen) == 16
    assert sum(name.endswith("/3") for name in at(world)) == 6


@pytest.mark.parametrize("parts", [BOTH, ["{tenant}.visits", "{tenant}.clicks[0]"]])
def test_a_topic_of_which_partitions_are_read_is_away_as_any_other(begins, parts):
    """Its lanes counted as gone from a list that was not whole, and nothing could be sought."""
    world = begins(parts)
    sent(world, "acme.clicks", 2)
    world.log.delete_topic("acme.clicks")
    world.turns(40, seconds=1.0)
    assert world.driver.board.streams[ACME].lanes["acme.clicks[0]"].away
    seek(world.store, world.log, ACME, "latest", wait=lambda _: None)
    assert world.row("acme").state == "waiting"


GIVES_UP = '{"acme.clicks": null}'


def recorded_of_a_topic_that_is_gone(world, **options):
    """Its driver is dead, a wave of both topics is written down, and one topic is deleted."""
    world.use_cases = [world.make(topic=BOTH, guarantee="exactly-once")]
    world.deploy(**options)
    for name in ("acme.clicks", "acme.visits"):
        world.log.create_topic(name)
        sent(world, name, 3)
    world.store.registry.add_tenant(Tenant("acme"))
    world.killed_after_writing()
    world.log.delete_topic("acme.clicks")
    sent(world, "acme.visits", 4)
    passes(world, 400.0)
    world.start()
    world.turns(20, seconds=1.0)


@pytest.mark.parametrize("restart", [None, Restart(300.0)])
def test_what_is_recorded_of_a_topic_that_is_gone_waits_until_a_person_gives_it_up(world, restart):
    """With `restart: latest` it held the whole stream for ever, and no seek could let it go."""
    recorded_of_a_topic_that_is_gone(world, restart=restart)
    row = world.row("acme")
    assert (row.state, at(world)["acme.visits[0]"]) == ("waiting", 0)
    assert f"headrace streams seek acme/keep --to '{GIVES_UP}' gives that up" in row.note
    waits = "nothing more of the stream is read" if restart else "what runs with it waits"
    assert waits in row.note
    plan = planned(world.store, world.log, ACME, GIVES_UP, wait=lambda _: None)
    assert (plan.offsets, plan.gone, plan.does_something) == ({}, {"acme.clicks[0]"}, True)
    assert "acme.clicks is given up: what is not read of it never is" in consequences([plan])[1]
    assert planned(world.store, world.log, ACME, GIVES_UP, wait=None) == plan
    again = planned_again(world.store, world.log, GIVES_UP, plan, wait=lambda _: None)
    assert again == plan
    carry_out(world.store.progress, plan)
    world.turns(20, seconds=1.0)
    assert world.store.progress.pending_intents() == []
    assert at(world) == {"acme.visits[0]": 7}
    # The wave runs again without it, and what is too old is not read.
    assert sum(tenant == "acme" for tenant, _ in world.seen) == (9 if restart else 13)
    assert "acme.clicks is not there yet" in world.row("acme").note
    assert "gives that up" not in world.row("acme").note
    world.log.create_topic("acme.clicks")
    sent(world, "acme.clicks", 2)
    world.turns(20, seconds=1.0)
    assert at(world) == {"acme.visits[0]": 7, "acme.clicks[0]": 2}
    assert world.row("acme").state == "active"


def test_what_is_there_or_comes_meanwhile_is_not_given_up(begins):
    world = begins()
    with pytest.raises(ConfigError, match=r"acme\.clicks is given up by null, which is for"):
        planned(world.store, world.log, ACME, GIVES_UP)
    world.log.delete_topic("acme.clicks")
    with pytest.raises(ConfigError, match=r"other is given up .*; acme\.clicks is not there"):
        planned(world.store, world.log, ACME, '{"other": null}')
    known = world.log.topics

    def comes(_):
        world.log.topics = known
        world.log.create_topic("acme.clicks")

    with pytest.raises(Temporary, match="nothing was done, try again"):
        planned(world.store, world.log, ACME, GIVES_UP, wait=comes)


def test_a_partition_of_a_list_is_given_up_by_its_name(begins):
    world = begins(["{tenant}.visits", "{tenant}.clicks[0]"])
    world.log.delete_topic("acme.clicks")
    both = '{"acme.clicks[0]": null, "acme.visits": {"0": 1}}'
    plan = planned(world.store, world.log, ACME, both, wait=lambda _: None)
    assert (set(plan.offsets), plan.gone) == ({"acme.visits[0]"}, {"acme.clicks[0]"})
    carry_out(world.store.progress, plan)
    assert at(world) == {"acme.visits[0]": 1}
    assert set(json.loads(stream(world).topic_id)) == {"acme.visits"}


def test_of_a_topic_that_was_left_its_own_ids_are_told_and_no_others(begins):
    """All ids of the list were told, twice, and nobody saw which one was meant."""
    world = begins(data_loss=SKIP)
    before = world.log.topics(["acme.clicks"])["acme.clicks"]
    made_again(world, "acme.clicks", 2)
    after, known = world.log.topics(["acme.clicks"])["acme.clicks"], world.log.topics
    world.log.topics = lambda names: (
        known(names) | ({"acme.clicks": before} if "acme.clicks" in names else {})
    )
    world.turns(round(TOPICS_EVERY_S) + 4, seconds=1.0)
    told = (
        "topic acme.clicks is told to be one that was deleted and made again since "
        f"(id {before.topic_id}, now {after.topic_id}); a broker"
    )
    assert world.row("acme").note.startswith(told)
    with pytest.raises(ConfigError, match=re.escape(told)):
        seek(world.store, world.log, ACME, "latest", wait=lambda _: None)
