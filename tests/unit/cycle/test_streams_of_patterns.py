"""A pattern is one stream of each tenant, and of topics that come later as well."""

import json
import re
from dataclasses import replace

import pytest
from test_streams_of_lists import ACME, at, looked, made_again, sent, stream

from headrace.cycle import newcomers
from headrace.cycle.gone_topics import GONE_FOR_S
from headrace.cycle.newcomers import LOOK_EVERY_S
from headrace.cycle.topics import LIST_EVERY_S, WAITING_EVERY_S
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.streams import DataLossPolicy, State, StreamId, Tenant
from headrace.model.topic_patterns import pattern_text
from headrace.operating.seeking import seek

PATTERN = re.compile(r"(?P<tenant>[a-z0-9_-]+)\.(visits|clicks)")
ANY = re.compile(r"(?P<tenant>[A-Za-z0-9_-]+)\.[a-z]+")


@pytest.fixture
def begins(world):
    """A use case that reads by a pattern; with topics that are there, of three records each."""

    def begin(*there, topic=PATTERN, tenants=("acme",), order="lane", **options):
        world.use_cases = [world.make(topic=topic, order=order)]
        world.deploy(**options)
        for name in there:
            world.log.create_topic(name)
            sent(world, name, 3)
        for tenant in tenants:
            world.store.registry.add_tenant(Tenant(tenant))
        world.start()
        world.turns()
        return world

    return begin


def tenants(world):
    found = world.store.registry.tenants()
    return {tenant.name for tenant in found if tenant.state is not State.REMOVED}


@pytest.mark.parametrize("order", ["lane", "key", "stream"])
def test_a_stream_reads_its_own_and_what_comes_while_it_runs(begins, order):
    world = begins("acme.visits", "bolt.visits", "acme.visits.dlq", order=order)
    assert {name.partition("[")[0] for name in at(world)} == {"acme.visits"}
    assert world.seen == [("acme", offset) for offset in range(3)]
    world.log.create_topic("acme.clicks", 2)
    sent(world, "acme.clicks", 2, partition=1)
    world.turns(40, seconds=1.0)
    assert len(world.seen) == 5
    assert set(json.loads(stream(world).topic_id)) == {"acme.visits", "acme.clicks"}
    assert (world.row("acme").state, world.row("acme").note) == ("active", "")


def test_where_nothing_matches_the_stream_waits_and_says_what_for(begins):
    world = begins("bolt.visits")
    assert world.row("acme").state == "waiting"
    told = f"no topic is told yet that matches {PATTERN.pattern} with acme as its tenant; "
    assert world.row("acme").note.startswith(told)
    assert "dead letters (*.dlq) and parked records (*.parked) are never" in world.row("acme").note
    world.log.create_topic("acme.visits")
    sent(world, "acme.visits", 2)
    looked(world, 7)
    assert at(world) == {"acme.visits[0]": 2}


def test_without_a_group_it_is_one_stream_of_all(begins):
    world = begins("clicks-1", "clicks-2", "other", topic=re.compile(r"clicks-\d"), tenants=())
    assert world.seen == [("everyone", offset) for offset in range(3)] * 2


def test_a_topic_that_vanishes_is_named_and_of_one_that_is_made_again_its_lanes_begin(begins):
    world = begins("acme.visits", "acme.clicks", data_loss=DataLossPolicy.SKIP)
    world.log.delete_topic("acme.clicks")
    world.turns(40, seconds=1.0)
    assert world.row("acme").note == "topic acme.clicks is not there any more"
    assert world.row("acme").state == "waiting"
    sent(world, "acme.visits", 1)
    world.turns()
    assert at(world) == {"acme.visits[0]": 4, "acme.clicks[0]": 3}
    world.log.create_topic("acme.clicks")
    made_again(world, "acme.clicks", 2)
    assert at(world) == {"acme.visits[0]": 4, "acme.clicks[0]": 2}
    assert world.row("acme").state == "active"


@pytest.mark.parametrize("starting", ["latest", '{"acme.visits": {"0": 2}}'])
def test_what_is_said_of_the_beginning_is_said_of_what_is_there_then(begins, starting):
    world = begins("acme.visits", starting_offsets=starting)
    assert len(world.seen) == (0 if starting == "latest" else 1)
    world.log.create_topic("acme.clicks")
    sent(world, "acme.clicks", 2)
    world.turns(40, seconds=1.0)
    assert at(world)["acme.clicks[0]"] == 2
    assert len(world.seen) == (2 if starting == "latest" else 3)


def test_nobody_becomes_a_tenant_by_a_topic_unless_that_was_said(begins, capsys):
    world = begins("acme.visits", "bolt.visits", "Odd_name.visits", "odd_name.visits")
    world.turns(40, seconds=1.0)
    assert tenants(world) == {"acme"}
    told = capsys.readouterr().out
    assert told.count("'headrace tenants add bolt' adds it") == 1
    assert told.count("no tenant can be called so; give the topic another name") == 1
    assert "odd_name" in told
    (known,) = world.store.registry.deployments()
    world.store.registry.deploy(replace(known, creates_tenants=True))
    world.take()
    world.turns(round(LOOK_EVERY_S) + 5, seconds=1.0)
    assert tenants(world) == {"acme", "bolt"}
    assert world.positions()["bolt", 0] == 3


def test_names_that_cannot_be_added_hold_up_nobody(begins, monkeypatch):
    """The first fifty by name were tried at each look, and nobody else."""
    monkeypatch.setattr(newcomers, "_MOST", 2)
    there = ["Old_1.visits", "Old_2.visits", "a-eu.visits", "b-eu.visits", "c-eu.visits"]
    world = begins(tenants=(), topic=ANY, creates_tenants=True)
    whole = world.store.registry.add_tenants

    def add(named, **how):
        if any(tenant.name.endswith("-eu") for tenant in named):
            raise ConfigError("its topic is another tenant's")
        return whole(named, **how)

    monkeypatch.setattr(world.store.registry, "add_tenants", add)
    for name in (*there, "zoe.visits"):
        world.log.create_topic(name)
    world.turns(6, seconds=LOOK_EVERY_S)
    assert tenants(world) == {"zoe"}
    monkeypatch.setattr(world.store.registry, "add_tenants", whole)
    world.clock.move(600.0)
    world.turns(6, seconds=LOOK_EVERY_S)
    assert tenants(world) == {"a-eu", "b-eu", "c-eu", "zoe"}


def test_however_many_names_are_refused_a_turn_makes_a_few_changes_for_them(begins, monkeypatch):
    tried, most = [], 0

    def refuse(named, **_):
        tried.append(len(named))
        raise ConfigError("its topic is another tenant's")

    world = begins(tenants=(), topic=ANY, creates_tenants=True)
    monkeypatch.setattr(world.store.registry, "add_tenants", refuse)
    for number in range(40):
        world.log.create_topic(f"t{number}.visits")
    for _ in range(8):
        before = len(tried)
        world.turns(1, seconds=LOOK_EVERY_S)
        most = max(most, len(tried) - before)
    assert most == 8
    assert tried.count(1) == 40, "each is told by its name"


def test_who_was_removed_is_not_added_again_by_a_topic(begins):
    world = begins("acme.visits", "bolt.visits", creates_tenants=True, tenants=())
    world.turns(round(LOOK_EVERY_S) + 5, seconds=1.0)
    assert tenants(world) == {"acme", "bolt"}
    world.store.registry.set_tenant_state("bolt", State.REMOVED)
    world.turns(round(LOOK_EVERY_S) + 5, seconds=1.0)
    assert tenants(world) == {"acme"}


def test_a_topic_of_two_tenants_is_read_for_neither_of_a_pattern(begins):
    odd = re.compile(r"(?P<tenant>[a-z]+(-eu)?)\.visits")
    world = begins(topic=odd, tenants=("acme", "acme-eu"))
    (known,) = world.store.registry.deployments()
    other = replace(known, use_case="other", topic="{tenant}-eu.visits")
    with pytest.raises(ConfigError, match="would be of two tenants"):
        world.store.registry.deploy(other)
    world.store.registry.set_tenant_state("acme-eu", State.REMOVED)
    world.store.registry.deploy(other)
    other = StreamId("keep", "acme-eu")
    wanted = {other: ["acme-eu.visits"], ACME: ["acme.visits"]}
    assert world.store.registry.why_shared(wanted).keys() == {other}


def test_of_a_pattern_a_topic_that_is_another_tenants_is_left_out(begins, monkeypatch, capsys):
    world = begins("acme.visits")
    world.log.create_topic("acme.clicks")
    monkeypatch.setattr(
        type(world.store.registry),
        "why_shared",
        lambda self, wanted: {
            stream: {topic: f"{topic} would be of two tenants" for topic in topics}
            for stream, topics in wanted.items()
        },
    )
    sent(world, "acme.visits", 1)
    world.turns(40, seconds=1.0)
    assert world.row("acme").note.startswith("a topic that its pattern matches is read for another")
    assert "acme.clicks would be of two tenants" in capsys.readouterr().out
    assert (world.row("acme").state, at(world)) == ("waiting", {"acme.visits[0]": 4})
    with pytest.raises(ConfigError, match=r"acme\.clicks would be of two tenants"):
        seek(world.store, world.log, ACME, "earliest", wait=lambda _: None)
    monkeypatch.undo()
    world.turns(40, seconds=1.0)
    assert at(world) == {"acme.visits[0]": 4, "acme.clicks[0]": 0}
    assert world.row("acme").state == "active"


def test_that_a_topic_is_another_tenants_is_told_once_though_lists_fail(
    begins, monkeypatch, capsys
):
    """It was told again after each list that did not come."""
    world = begins()
    monkeypatch.setattr(
        type(world.store.registry),
        "why_shared",
        lambda self, wanted: {one: dict.fromkeys(of, "of two") for one, of in wanted.items()},
    )
    world.log.create_topic("acme.clicks")
    world.turns(20, seconds=1.0)
    for _ in range(2):
        with monkeypatch.context() as away:
            away.setattr(world.log, "all_topics", unlisted)
            world.turns(15, seconds=1.0)
        world.turns(15, seconds=1.0)
    assert capsys.readouterr().out.count("a topic is another tenant's as well") == 1
    assert world.row("acme").note.startswith("a topic that its pattern matches is read for another")
    world.log.delete_topic("acme.clicks")
    world.turns(15, seconds=1.0)
    assert "no topic is told yet" in world.row("acme").note


def test_another_pattern_is_another_topic(begins):
    world = begins("acme.visits")
    (known,) = world.store.registry.deployments()
    own = pattern_text(PATTERN.pattern, "{tenant}.marks")
    for topic in ("{tenant} of (?P<tenant>.*)", "{tenant}.visits", own):
        with pytest.raises(ConfigError, match="deploy it under another name"):
            world.store.registry.deploy(replace(known, topic=topic))


def test_a_topic_that_is_read_stays_its_streams_also_with_a_partition_more(begins, monkeypatch):
    world = begins("acme.visits")
    monkeypatch.setattr(
        type(world.store.registry),
        "why_shared",
        lambda self, wanted: {one: dict.fromkeys(of, "shared") for one, of in wanted.items()},
    )
    world.log.widen("acme.visits")
    sent(world, "acme.visits", 2, partition=1)
    world.turns(40, seconds=1.0)
    assert at(world) == {"acme.visits[0]": 3, "acme.visits[1]": 2}


def test_topics_that_come_again_and_again_hold_up_no_topic_that_was_made_again(begins):
    """Each made the answer another one, and the patience with it began anew."""
    world = begins("acme.clicks", "acme.visits", topic=ANY, data_loss=DataLossPolicy.SKIP)
    world.log.delete_topic("acme.clicks")
    world.log.create_topic("acme.clicks")
    sent(world, "acme.clicks", 5)
    for number in range(10):
        world.turns(10, seconds=1.0)
        world.log.create_topic(f"acme.more{'x' * number}")
    assert at(world)["acme.clicks[0]"] == 5


def test_a_topic_of_a_pattern_that_is_gone_lets_nobody_describe_all_of_them_all_the_time(
    begins, monkeypatch
):
    world = begins("acme.clicks", "acme.visits")
    world.log.delete_topic("acme.clicks")
    world.turns(40, seconds=1.0)
    assert world.row("acme").note == "topic acme.clicks is not there any more"
    asked, topics = [], world.log.topics
    monkeypatch.setattr(world.log, "topics", lambda names: asked.append(names) or topics(names))
    world.turns(90, seconds=1.0)
    assert len(asked) <= 4


def test_where_topics_are_not_listed_only_streams_of_patterns_wait(world, monkeypatch):
    """The look at all topics ended with it, and no turn planned anything."""
    world.use_cases = [world.make(), world.make(topic=PATTERN, name="other")]
    world.deploy(creates_tenants=True)
    monkeypatch.setattr(world.log, "all_topics", unlisted)
    world.tenant("acme", 3)
    world.start()
    world.turns(5, seconds=1.0)
    sent(world, "acme.visits", 2)
    world.tenant("bolt", 3)
    world.turns(20, seconds=1.0)
    assert (world.positions()["acme", 0], world.positions()["bolt", 0]) == (5, 3)
    monkeypatch.undo()
    world.turns(40, seconds=1.0)
    assert len(world.positions("other")) == 2


def unlisted():
    raise BrokerUnavailable("the list did not come in time")


def test_the_store_is_asked_once_whose_topics_of_many_streams_are(world, monkeypatch):
    """Of a thousand new streams it was asked a thousand times, in one turn."""
    many = [f"t{number}" for number in range(40)]
    asked, why = [], type(world.store.registry).why_shared
    monkeypatch.setattr(
        type(world.store.registry),
        "why_shared",
        lambda self, wanted: asked.append(len(wanted)) or why(self, wanted),
    )
    world.use_cases = [world.make(topic=PATTERN)]
    world.deploy()
    for name in many:
        world.log.create_topic(f"{name}.visits")
        world.store.registry.add_tenant(Tenant(name))
    world.start()
    world.turns(4)
    assert len(world.positions()) == 40
    assert (len(asked), sum(asked)) == (1, 40)


@pytest.mark.parametrize("waiting", [0, 1, 8])
def test_all_topics_are_listed_now_and_then_however_many_streams_look(world, monkeypatch, waiting):
    """They were listed for each who looked, and every 2 s where a tenant had no topic yet."""
    world.use_cases = [world.make(topic=PATTERN)]
    world.deploy()
    listed, all_topics = [], world.log.all_topics
    monkeypatch.setattr(world.log, "all_topics", lambda: listed.append(0) or all_topics())
    for number in range(200):
        world.log.create_topic(f"t{number}.visits")
        world.store.registry.add_tenant(Tenant(f"t{number}"))
    for number in range(waiting):
        world.store.registry.add_tenant(Tenant(f"new{number}"))
    world.start()
    world.turns(10, seconds=1.0)
    assert len(world.positions()) == 200
    listed.clear()
    world.turns(60, seconds=1.0)
    assert 4 <= len(listed) <= 6
    world.log.create_topic("t7.clicks")
    world.turns(41, seconds=1.0)
    found = next(one for one in world.store.registry.streams() if one.id.tenant == "t7")
    assert set(json.loads(found.topic_id)) == {"t7.visits", "t7.clicks"}
    world.log.create_topic("early.visits")
    world.store.registry.add_tenant(Tenant("early"))
    world.turns(2, seconds=1.0)
    assert ("early", 0) in world.positions(), "it is looked for at once, once"
    world.store.registry.add_tenant(Tenant("late"))
    world.turns(10, seconds=1.0)
    world.log.create_topic("late.visits")
    world.turns(round(LIST_EVERY_S + WAITING_EVERY_S) + 1, seconds=1.0)
    assert ("late", 0) in world.positions()


@pytest.mark.parametrize("starting", ["latest", "earliest"])
def test_for_the_first_look_of_a_stream_all_topics_are_listed_once(begins, monkeypatch, starting):
    """It was listed again to be sure that none is there, and with where its lanes begin."""
    world = begins("acme.visits", starting_offsets=starting)
    listed, all_topics = [], world.log.all_topics
    monkeypatch.setattr(world.log, "all_topics", lambda: listed.append(0) or all_topics())
    world.store.registry.add_tenant(Tenant("bolt"))
    world.turns(3)
    assert world.row("bolt").state == "waiting"
    assert len(listed) == 1
    world.log.create_topic("corp.visits")
    world.store.registry.add_tenant(Tenant("corp"))
    world.turns(3)
    assert ("corp", 0) in world.positions()
    assert len(listed) == 2


@pytest.mark.parametrize("starting", ["latest", "earliest"])
def test_a_stream_that_began_with_nothing_says_that_it_reads_all_that_is_told_later(
    begins, monkeypatch, starting
):
    """Topics that drivers may not describe are in no list, and were read whole once they were."""
    world = begins("acme.visits", starting_offsets=starting)
    world.store.registry.set_tenant_state("acme", State.REMOVED)
    monkeypatch.setattr(world.log, "all_topics", list)
    world.store.registry.add_tenant(Tenant("bolt"))
    world.turns(4, seconds=1.0)
    note = world.row("bolt").note
    assert "topics that drivers may not describe are not told" in note
    begun = "It has begun with nothing, as startingOffsets say, so all of a topic is read"
    seek = "headrace streams seek bolt/keep --to latest passes over what is old"
    assert (begun in note, seek in note) == (
        (True, True) if starting == "latest" else (False, False)
    )


def an_hour_goes_by(world):
    world.turns(round(GONE_FOR_S / 30) + 3, seconds=30.0)


@pytest.mark.parametrize("order", ["lane", "stream"])
def test_a_topic_that_is_gone_and_was_read_to_its_end_is_forgotten(begins, order):
    """All that ever were stayed in the store, and the stream waited for them."""
    world = begins("acme.clicks", "acme.visits", order=order)
    world.log.delete_topic("acme.clicks")
    world.turns(40, seconds=30.0)
    assert at(world).keys() == {"acme.clicks[0]", "acme.visits[0]"}
    an_hour_goes_by(world)
    assert at(world) == {"acme.visits[0]": 3}
    assert set(json.loads(stream(world).topic_id)) == {"acme.visits"}
    assert (world.row("acme").state, world.row("acme").note) == ("active", "")
    sent(world, "acme.visits", 1)
    world.log.create_topic("acme.clicks")
    sent(world, "acme.clicks", 2)
    world.turns(50, seconds=1.0)
    assert at(world) == {"acme.visits[0]": 4, "acme.clicks[0]": 2}
    assert world.row("acme").state == "active"


def owe_records(world):
    world.engine.paused = True
    sent(world, "acme.clicks", 2)
    world.turns(4)
    world.engine.paused = False


def owe_a_decision(world):
    lane = world.driver.board.streams[ACME].lanes["acme.clicks[0]"]
    lane.failure = 7


def owe_an_end(world):
    world.log.delete_topic("acme.clicks")
    world.start()


@pytest.mark.parametrize("owe", [owe_records, owe_a_decision, owe_an_end])
def test_a_topic_that_something_is_owed_of_is_not_forgotten(begins, owe):
    world = begins("acme.clicks", "acme.visits")
    owe(world)
    if "acme.clicks" in world.log.all_topics():
        world.log.delete_topic("acme.clicks")
    an_hour_goes_by(world)
    an_hour_goes_by(world)
    assert at(world)["acme.clicks[0]"] == 3
    assert "acme.clicks" in json.loads(stream(world).topic_id)


def test_a_topic_that_brokers_do_not_say_to_be_gone_is_not_forgotten(begins, monkeypatch):
    """Drivers may have lost the right to describe it."""
    world = begins("acme.clicks", "acme.visits")
    known, listed = world.log.topics, world.log.all_topics
    names = lambda these: [name for name in these if name != "acme.clicks"]  # noqa: E731
    with monkeypatch.context() as hidden:
        hidden.setattr(world.log, "topics", lambda these: known(names(these)))
        hidden.setattr(world.log, "all_topics", lambda: names(listed()))
        an_hour_goes_by(world)
        an_hour_goes_by(world)
        assert "acme.clicks" in json.loads(stream(world).topic_id)
    sent(world, "acme.clicks", 1)
    world.turns(45, seconds=1.0)
    assert at(world)["acme.clicks[0]"] == 4


def test_a_topic_that_comes_back_within_the_hour_begins_it_anew(begins):
    world = begins("acme.clicks", "acme.visits", data_loss=DataLossPolicy.SKIP)
    world.log.delete_topic("acme.clicks")
    world.turns(100, seconds=30.0)
    world.log.create_topic("acme.clicks")
    world.turns(10, seconds=30.0)
    world.log.delete_topic("acme.clicks")
    world.turns(100, seconds=30.0)
    assert "acme.clicks" in json.loads(stream(world).topic_id)
