"""A seek is looked at before the store is told."""

import pytest

from headrace.errors import ConfigError, UnknownName
from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import StreamId, Tenant
from headrace.operating.seeking import seek
from headrace.testing.log_twin import LogTwin, Row
from headrace.testing.store_twin import StoreTwin

ACME = StreamId("score", "acme")


@pytest.fixture
def store():
    store = StoreTwin()
    store.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
    store.add_tenant(Tenant("acme"))
    store.start_lanes([LaneStart(ACME, "topic-1", {0: 3, 1: 3})])
    return store


@pytest.fixture
def log():
    log = LogTwin()
    log.create_topic("acme.visits", 2)
    assert topic_id(log) == "topic-1"
    for partition in (0, 1):
        log.append("acme.visits", partition, [Row(b"{}")] * 9)
    return log


def topic_id(log):
    return log.topics(["acme.visits"])["acme.visits"].topic_id


def offsets(store):
    return {each.lane.partition: each.next_offset for each in store.load_positions([ACME])}


@pytest.mark.parametrize(
    ("to", "there"),
    [("earliest", {0: 0, 1: 0}), ("latest", {0: 9, 1: 9}), ({1: 5}, {0: 3, 1: 5}), ({}, None)],
)
def test_a_stream_reads_next_where_it_was_sent(store, log, to, there):
    if there is None:
        with pytest.raises(ConfigError, match="no partition"):
            seek(store, log, ACME, to)
        there = {0: 3, 1: 3}
    else:
        seek(store, log, ACME, to)
    assert offsets(store) == there


@pytest.mark.parametrize("to", ["10", {0: 10}, {2: 0}, {0: 1, 1: -1}, '{"acme.visits":{"0":99}}'])
def test_nothing_is_moved_if_one_lane_cannot_be(store, log, to):
    with pytest.raises(ConfigError, match="holds offsets"):
        seek(store, log, ACME, to)
    assert offsets(store) == {0: 3, 1: 3}


def test_a_stream_that_nobody_added_or_without_a_topic_is_refused(store, log):
    with pytest.raises(UnknownName):
        seek(store, log, StreamId("other", "acme"), "earliest")
    log.delete_topic("acme.visits")
    with pytest.raises(ConfigError, match="is its topic there"):
        seek(store, log, ACME, "earliest")


def made_again(log, partitions):
    log.delete_topic("acme.visits")
    log.create_topic("acme.visits", partitions)
    for partition in range(partitions):
        log.append("acme.visits", partition, [Row(b"{}")] * 9)


def test_the_store_is_told_in_which_topic_the_offsets_are(store, log):
    made_again(log, 2)
    seek(store, log, ACME, "earliest")
    assert store.streams()[0].topic_id == topic_id(log) != "topic-1"


def test_of_a_topic_that_was_made_again_no_lane_keeps_an_offset_of_the_old_one(store, log):
    made_again(log, 2)
    with pytest.raises(ConfigError, match="made again; seek all of its partitions, also 1"):
        seek(store, log, ACME, {0: 5})
    assert offsets(store) == {0: 3, 1: 3}


def test_lanes_of_partitions_that_are_gone_would_begin_at_the_beginning(store, log):
    made_again(log, 1)
    assert seek(store, log, ACME, "5") == {0: 5}
    assert offsets(store) == {0: 5, 1: 0}
