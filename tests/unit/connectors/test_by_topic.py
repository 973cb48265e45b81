"""One log made of several: each is asked for its own, and one that is away delays no other."""

from contextlib import closing

import pytest

from headrace.connectors.by_topic import (
    LogByTopic,
    open_lease_mirror,
    open_log,
    require_log,
)
from headrace.connectors.kafka import OFFSETS
from headrace.connectors.kinesis.spots import PLACES, before
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.places import OPEN, place_at
from headrace.ports import Connections, Server
from headrace.testing.log_fake import MemoryLog, Row
from headrace.testing.wide_log import WIDE_PLACES, WideLog, wide

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}
VISITS, CLICKS = "acme.visits", "clicks:acme.visits"
HERE, THERE = f"{VISITS}[0]", f"{CLICKS}[0]"


class Both(LogByTopic):
    """Two logs in memory."""

    def __init__(self):
        super().__init__(Connections({}, ""), MemoryLog(), _kinesis=WideLog())
        self.kafka.create_topic(VISITS)
        self._kinesis.create_topic(CLICKS)
        self.kafka.append(VISITS, 0, [Row(b"1"), Row(b"2")])
        self._kinesis.append(CLICKS, 0, [Row(b"1")])
        self._kinesis.hide_end(CLICKS, 0)


@pytest.fixture
def both():
    return Both()


def test_each_is_asked_for_its_own(both):
    found = both.topics([VISITS, CLICKS, "nowhere", "clicks:nowhere"])
    assert {topic: info.lanes for topic, info in found.items()} == {
        VISITS: (HERE,),
        CLICKS: (THERE,),
    }
    assert both.end_offsets([HERE, THERE]) == {HERE: place_at(2), THERE: OPEN}
    assert both.start_offsets([HERE, THERE]) == {HERE: place_at(0), THERE: wide(0)}
    assert both.offsets_at([HERE], 0.0).keys() == {HERE}
    assert set(both.absent([VISITS, "nowhere", "clicks:nowhere"])) == {"nowhere", "clicks:nowhere"}


def test_what_is_said_of_a_topic_is_what_its_log_says(both):
    assert both.of(VISITS).tells_ends
    assert both.of(VISITS).places is OFFSETS
    assert not both.of(CLICKS).tells_ends
    assert not both.of(THERE).tells_ends
    assert both.of(CLICKS).places is WIDE_PLACES
    assert not both.tells_ends


def test_places_of_both_are_told_apart(both):
    assert both.places.after(place_at(7), 3) == place_at(10)
    assert both.places.after(wide(7), 3) == wide(10)
    assert both.places.between(wide(7), place_at(0)) == 7
    at = before(49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898)
    both._kinesis = None
    kinesis = both.of(CLICKS)
    assert kinesis.places is PLACES
    assert both.places.after(at, 1) == OPEN
    assert both.places.behind(at) == PLACES.behind(at)
    kinesis.close()


@pytest.mark.parametrize(("down", "there"), [("kafka", THERE), ("_kinesis", HERE)])
def test_one_that_is_away_leaves_out_its_own_lanes(both, down, there):
    getattr(both, down).down = True
    assert both.start_offsets([HERE, THERE]).keys() == {there}
    getattr(both, "kafka" if down == "_kinesis" else "_kinesis").down = True
    with pytest.raises(BrokerUnavailable):
        both.start_offsets([HERE, THERE])


@pytest.mark.parametrize("down", ["kafka", "_kinesis"])
def test_who_asks_once_is_told_that_one_is_away(both, down):
    both.asks_once = True
    getattr(both, down).down = True
    with pytest.raises(BrokerUnavailable):
        both.topics([VISITS, CLICKS])


def test_nothing_is_made_before_a_topic_names_a_connection():
    with closing(open_log(Connections(KAFKA, ""))) as log:
        assert log.of(VISITS) is log.kafka
        assert log._kinesis is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://db/clicks", "connection clicks is no Kinesis"),
        (None, "there is no connection 'clicks': 'connections:' in the YAML file names other"),
    ],
)
def test_a_topic_of_a_connection_that_is_none_is_refused(url, why):
    servers = {"other": Server("kinesis://eu-central-1")}
    if url is not None:
        servers["clicks"] = Server(url)
    with pytest.raises(ConfigError, match=why):
        require_log(CLICKS, Connections({}, "", servers=servers))


def test_where_each_tenant_has_its_own_connection_the_name_of_a_stream_says_whose_it_is():
    url = "kinesis://eu-central-1?role=arn:aws:iam::123456789012:role/headrace-{tenant}"
    connections = Connections({}, "", servers={"clicks": Server(url)})
    require_log("clicks:{tenant}.visits", connections)
    for topic in ("clicks:visits", "clicks:visits.{tenant}", "clicks:{tenant}-visits"):
        with pytest.raises(ConfigError, match=r"begins with \{tenant\} and a dot"):
            require_log(topic, connections)


def test_each_connection_that_a_list_names_has_to_be_there():
    given = Connections({}, "", servers={"clicks": Server("kinesis://eu-central-1")})
    require_log("clicks:acme.orders,clicks:acme.visits", given)
    with pytest.raises(ConfigError, match="no connection 'nowhere'"):
        require_log("clicks:acme.visits,nowhere:acme.visits", given)


def test_one_of_kinesis_is_taken_and_kafkas_topics_need_none():
    require_log(CLICKS, Connections({}, "", servers={"clicks": Server("kinesis://eu-central-1")}))
    require_log(VISITS, Connections({}, ""))


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("nowhere", r"there is no connection 'nowhere': .* names clicks, entities, own"),
        ("clicks", "connection clicks is no DynamoDB"),
        ("own", "is another one for each tenant"),
    ],
)
def test_tables_of_leases_are_at_one_dynamodb(at, why):
    servers = {
        "entities": Server("dynamodb://eu-central-1", "me", "not-a-secret"),
        "clicks": Server("kinesis://eu-central-1"),
        "own": Server("dynamodb://eu-central-1?endpoint=https://{tenant}.db"),
    }
    connections = Connections(KAFKA, "", servers=servers)
    with closing(open_log(connections)) as log:
        with pytest.raises(ConfigError, match=why):
            open_lease_mirror(log, connections, at, "headrace.")
        with closing(open_lease_mirror(log, connections, "entities", "headrace.")) as mirror:
            assert repr(mirror) == "LeaseMirror(connection entities)"


def test_a_stream_is_as_it_was_listed_last_and_nothing_is_asked_for_it():
    with closing(open_log(Connections(KAFKA, ""))) as log:
        assert log.listed(CLICKS) is None
        told = object()
        log._kinesis = Telling({CLICKS: told})
        assert (log.listed(CLICKS), log.listed("clicks:bolt.visits")) == (told, None)


class Telling(WideLog):
    """It has listed these."""

    def __init__(self, streams):
        super().__init__()
        self.listed = streams.get
