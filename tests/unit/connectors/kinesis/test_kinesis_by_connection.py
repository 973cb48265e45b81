"""Streams of several connections behind one client, and what is not answered in time."""

import threading
from contextlib import closing
from dataclasses import replace

import pytest

from headrace.connectors.kinesis import KinesisLog
from headrace.connectors.kinesis.by_connection import KinesisByConnection
from headrace.connectors.kinesis.client import Spent
from headrace.connectors.kinesis.reader import KinesisReader
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.places import OPEN
from headrace.model.streams import LaneId, Slice
from headrace.ports import STILL_TO_COME, Connections, Server
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.contract import Service
from headrace.testing.kinesis.service import FakeKinesis


class World:
    """Two regions with a stream of one name each, and all that reads them."""

    def __init__(self):
        self.clock = FakeClock()
        self.client = KinesisByConnection(Connections({}, ""))
        self.services = {}
        for region in ("here", "there"):
            kinesis = (
                FakeKinesis(self.clock, page=1) if region == "there" else FakeKinesis(self.clock)
            )
            kinesis.create_stream(StreamName="visits", ShardCount=2)
            self.client._clients[region] = kinesis
            self.services[region] = Service(kinesis, self.clock.move)
            self.services[region].settle("visits")
        self.log = KinesisLog(self.client, self.clock)
        self.reader = KinesisReader(self.client, self.clock, self.clock.move)

    def put(self, region, value):
        first = self.services[region].shards("visits")[0].keys.first
        self.services[region].put("visits", value, hash_key=first)

    def values(self, lane, begin):
        piece = Slice(
            LaneId("keep", "acme", lane),
            lane.partition("[")[0],
            begin,
            OPEN,
            1,
            records=100,
            most_bytes=10**6,
        )
        found = []
        for _ in range(3):
            for batch in self.reader.read([piece], 100):
                assert batch.error is None
                found += batch.records["value"].to_pylist()
                piece = replace(piece, from_offset=batch.reached)
            self.clock.move(1)
        return found


@pytest.fixture
def world():
    made = World()
    with closing(made.log):
        yield made


def test_streams_of_one_name_are_told_apart_by_their_connections(world):
    world.put("here", b"1")
    world.put("there", b"2")
    found = world.log.topics(["here:visits", "there:visits", "here:nothing"])
    assert {topic: info.lanes for topic, info in found.items()} == {
        "here:visits": ("here:visits[0]", "here:visits[1]"),
        "there:visits": ("there:visits[0]", "there:visits[1]"),
    }
    begin = world.log.start_offsets(["here:visits[0]", "there:visits[0]"])
    assert world.values("here:visits[0]", begin["here:visits[0]"]) == [b"1"]
    assert world.values("there:visits[0]", begin["there:visits[0]"]) == [b"2"]
    assert set(world.log.absent(["here:nothing", "there:visits"])) == {"here:nothing"}


def test_a_connection_that_is_none_is_left_out_and_others_are_not(world):
    assert world.log.topics(["nowhere:visits", "here:visits"]).keys() == {"here:visits"}
    with pytest.raises(ConfigError, match="names no connection"):
        world.client.describe_stream_summary(StreamName="visits")


def test_nothing_of_connections_shows():
    servers = {"clicks": Server("kinesis://eu-central-1", "AKIA", "wJalr")}
    shown = repr(KinesisByConnection(Connections({}, "", servers=servers)))
    assert "AKIA" not in shown
    assert "wJalr" not in shown


def test_the_latest_is_what_comes_from_now_on(world):
    world.put("here", b"1")
    world.clock.move(60)
    (at,) = (
        world.log.offsets_at(["here:visits[0]"], STILL_TO_COME).values()
        if (world.log.topics(["here:visits"]))
        else ()
    )
    world.put("here", b"2")
    assert world.values("here:visits[0]", at) == [b"2"]


def test_a_moment_behind_the_last_record_is_a_place_to_begin_at(world):
    world.log.topics(["here:visits"])
    world.put("here", b"1")
    world.clock.move(3600)
    then_s = world.clock.now_s()
    world.clock.move(3600)
    # Answers are empty for a while; each question goes on where the last one came to.
    found = {}
    while not found:
        world.clock.move(1)
        found = world.log.offsets_at(["here:visits[0]"], then_s)
    at = found["here:visits[0]"]
    assert at != OPEN
    world.put("here", b"2")
    assert world.values("here:visits[0]", at) == [b"2"]


class Silent:
    """A region that does not answer before it is told to."""

    def __init__(self, kinesis):
        self.kinesis, self.answers, self.asked = kinesis, threading.Event(), 0

    def __getattr__(self, name):
        call = getattr(self.kinesis, name)

        def later(**request):
            self.asked += 1
            self.answers.wait()
            return call(**request)

        return later


def test_one_that_does_not_answer_is_left_out_and_its_answer_taken_later(world, monkeypatch):
    monkeypatch.setattr("headrace.connectors.kinesis.log._PATIENCE_S", 0.05)
    silent = Silent(world.client._clients["there"])
    world.client._clients["there"] = silent
    there = [f"there:visits-{number}" for number in range(20)]
    for _ in range(3):
        assert world.log.topics([*there, "here:visits"]).keys() == {"here:visits"}
    assert 0 < silent.asked < len(there)
    silent.answers.set()
    monkeypatch.setattr("headrace.connectors.kinesis.log._PATIENCE_S", 5.0)
    assert world.log.topics(["there:visits"]).keys() == {"there:visits"}
    assert set(world.log.absent([*there, "there:visits"])) == set(there)


def test_a_tenant_whose_service_is_silent_holds_up_no_other_of_the_connection(world, monkeypatch):
    """As where each assumes a role of its own, and the token service of one does not answer."""
    monkeypatch.setattr("headrace.connectors.kinesis.log._PATIENCE_S", 0.05)
    kinesis = world.services["here"].client
    kinesis.create_stream(StreamName="bolt.visits", ShardCount=1)
    world.services["here"].settle("bolt.visits")
    silent = Silent(kinesis)

    class OfTenants:
        """Each tenant's own, by the name of its stream."""

        def describe_stream_summary(self, **request):
            is_acmes = request["StreamName"].startswith("acme.")
            return (silent if is_acmes else kinesis).describe_stream_summary(**request)

        list_shards = staticmethod(kinesis.list_shards)

    world.client._clients["here"] = OfTenants()
    acme = [f"here:acme.visits-{number}" for number in range(20)]
    with closing(KinesisLog(world.client, world.clock, of_tenants=frozenset({"here"}))) as log:
        looks = [set(log.topics([*acme, "here:bolt.visits"])) for _ in range(3)]
        assert looks[1:] == [{"here:bolt.visits"}] * 2
        assert silent.asked < len(acme)
        silent.answers.set()
        monkeypatch.setattr("headrace.connectors.kinesis.log._PATIENCE_S", 5.0)
        assert set(log.absent(acme)) == set(acme)
        assert log._held_up == set()


def test_who_asks_once_waits_for_an_answer(world, monkeypatch):
    monkeypatch.setattr("headrace.connectors.kinesis.log._PATIENCE_S", 0.01)
    silent = Silent(world.client._clients["there"])
    world.client._clients["there"] = silent
    assert world.log.topics(["there:visits"]) == {}
    threading.Timer(0.2, silent.answers.set).start()
    with closing(KinesisLog(world.client, world.clock, asks_once=True)) as log:
        assert log.topics(["there:visits"]).keys() == {"there:visits"}


class Refusing:
    """A region that refuses a few requests before it answers."""

    def __init__(self, kinesis, error, times):
        self.kinesis, self.error, self.times = kinesis, error, times

    def describe_stream_summary(self, **request):
        self.times -= 1
        if self.times >= 0:
            raise self.error
        return self.kinesis.describe_stream_summary(**request)

    def list_shards(self, **request):
        return self.kinesis.list_shards(**request)


def test_who_asks_once_waits_for_what_an_account_is_given(world):
    spent = Refusing(world.client._clients["there"], Spent("not now"), 3)
    world.client._clients["there"] = spent
    paused = []
    with closing(KinesisLog(world.client, world.clock, True, paused.append)) as log:
        found = log.topics(["here:visits", "there:visits"])
    assert found.keys() == {"here:visits", "there:visits"}
    assert len(paused) == 3


@pytest.mark.parametrize(
    ("asks_once", "told"), [(False, {"here:visits"}), (True, BrokerUnavailable)]
)
def test_a_region_that_is_away_is_told_to_who_asks_once(world, asks_once, told):
    away = Refusing(None, BrokerUnavailable("there is away"), 100)
    world.client._clients["there"] = away
    with closing(KinesisLog(world.client, world.clock, asks_once)) as log:
        if isinstance(told, set):
            assert log.topics(["here:visits", "there:visits", "here:nothing"]).keys() == told
            return
        with pytest.raises(told, match="there is away"):
            log.topics(["here:visits", "there:visits"])
        assert log.topics(["here:visits", "here:nothing"]).keys() == {"here:visits"}


def test_a_search_of_who_asks_once_goes_on_to_its_end(world):
    then_s = world.clock.now_s()
    world.clock.move(3600)
    world.put("here", b"1")
    world.clock.move(60)
    lane = "here:visits[0]"
    with closing(KinesisLog(world.client, world.clock, True, world.clock.move)) as log:
        at = log.offsets_at([lane], then_s)[lane]
        assert world.values(lane, at) == [b"1"]
