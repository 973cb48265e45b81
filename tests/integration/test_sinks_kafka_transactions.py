"""What readers of committed messages see when attempts at a wave die, sleep or are not answered.

Another process is played by its own producers: what it knows is in the module's caches alone.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headrace.connectors.kafka import sink_transaction_line
from headrace.model.lane_names import named
from headrace.model.streams import LaneId, Slice
from headrace.ports import RECORD_SCHEMA, Connections, Effect, Site
from headrace.sinks import KafkaTopic
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = pytest.mark.kafka


#: a place in a shard
WIDE = 10**72


class Killed(BaseException):
    """The process is no more."""


class Bent:
    """A producer one of whose calls is another."""

    def __init__(self, producer, **calls):
        self._producer, self._calls = producer, calls

    def __len__(self):
        return len(self._producer)

    def __getattr__(self, name):
        return self._calls.get(name) or getattr(self._producer, name)


class Positions:
    """Where lanes are, by tenant; 0 if nobody said."""

    def __init__(self):
        self.at = {}

    def advance(self, moves):
        return [self.at.get(move.lane.tenant, 0) == move.from_offset for move in moves]


class Service:
    """Topics of its own, and writers in several processes."""

    def __init__(self, kafka, make_topic):
        self.properties = {"bootstrap.servers": kafka.bootstrap_servers}
        self.topics = KafkaTopics(kafka.bootstrap_servers)
        self.source, self.output = make_topic(3, name="source"), make_topic(name="output")
        self.small = make_topic(name="small", config={"max.message.bytes": "2000"})
        self.positions = Positions()
        self.use_case = f"copy-{uuid.uuid4().hex[:8]}"

    def effect(self, *values, from_offset=0, topic=None, partition=0):
        lane = LaneId(self.use_case, "acme", named(self.source, partition))
        until = from_offset + 10
        columns = {"value": list(values)} | ({"topic": [topic] * len(values)} if topic else {})
        piece = Slice(lane, self.source, from_offset, until, epoch=1)
        return Effect((piece,), (until,), pa.table(columns))

    def of_a_shard(self, *values, shard=0, from_place=0):
        """An effect of a stream's lane, whose places no offset has room for."""
        stream = f"clicks:{self.source}"
        lane, begin = LaneId(self.use_case, "acme", named(stream, shard)), WIDE + from_place
        piece = Slice(lane, stream, begin, begin + 10, epoch=1)
        self.positions.at["acme"] = begin
        return Effect((piece,), (begin + 7,), pa.table({"value": list(values)}))

    def writer(self, wave_id="run-1-0", fence="a-0"):
        site = Site(Connections(self.properties, ""), self.positions, wave_id, fence)
        return KafkaTopic(self.output, transactional=True).open(site)

    @contextmanager
    def process(self):
        """Producers of a process of its own; they outlive the block, as a zombie's do."""
        mine, sink_transaction_line._lines = sink_transaction_line._lines, OrderedDict()
        try:
            yield
        finally:
            sink_transaction_line._lines = mine

    def bend(self, writer, **calls):
        """Let calls of the writer's producer be others; they are given the real producer."""
        line = sink_transaction_line.line_for(writer._settings({0: self.effect("x")}))
        real = line.producer
        line.sender.producer = Bent(
            real, **{name: lambda call=call: call(real) for name, call in calls.items()}
        )

    def seen(self, topic=None):
        return [message.value().decode() for message in self.topics.messages(topic or self.output)]


@pytest.fixture
def service(kafka, make_topic, monkeypatch):
    monkeypatch.setattr(sink_transaction_line, "_lines", OrderedDict())
    return Service(kafka, make_topic)


def _outcomes(written):
    return [
        "superseded" if outcome.superseded else outcome.error and outcome.error.code
        for outcome in written
    ]


def test_for_whom_a_record_was_sent_back_is_not_passed_on(service):
    headers = [[("trace", b"1"), ("headrace.redrive.use-case", b"copy")]]
    kind = RECORD_SCHEMA.field("headers").type
    output = pa.table({"value": ["a"], "headers": pa.array(headers, kind)})
    with service.process():
        written = service.writer().write([replace(service.effect("a"), output=output)])
    assert [outcome.error for outcome in written] == [None]
    (message,) = service.topics.messages(service.output)
    assert [name for name, _ in message.headers()] == ["trace", "headrace.slice"]


def test_a_task_killed_after_its_commit_sends_nothing_again(service):
    with service.process():
        service.writer().write([service.effect("a", "b")])
    with service.process():
        assert _outcomes(service.writer().write([service.effect("a", "b")])) == [None]
    assert service.seen() == ["a", "b"]


def test_what_was_sent_of_shards_is_told_in_a_topic_of_marks_which_grows(service):
    given = [service.of_a_shard("a", "b"), service.of_a_shard("c", shard=1)]
    with service.process():
        assert _outcomes(service.writer().write(given)) == [None, None]
    with service.process():
        again = service.writer().write(given)
        assert [outcome.reached for outcome in again] == [(WIDE + 7,), (WIDE + 7,)]
    later = [service.of_a_shard("d", from_place=7), service.of_a_shard("e", shard=6, from_place=7)]
    for _ in range(2):
        with service.process():
            assert _outcomes(service.writer("run-2-0", "a-1").write(later)) == [None, None]
    assert service.seen() == ["a", "b", "c", "d", "e"]
    marks = f"headrace.marks.6.clicks.{service.source}"
    found = AdminClient(service.properties).list_topics(timeout=10).topics
    assert len(found[marks].partitions) == 7
    assert service.seen(marks) == []


def test_of_a_task_killed_before_its_commit_nothing_is_seen(service):
    def dies(_producer):
        raise Killed

    with service.process():
        writer = service.writer()
        service.bend(writer, commit_transaction=dies)
        with pytest.raises(Killed):
            writer.write([service.effect("a", "b")])
    with service.process():
        assert _outcomes(service.writer().write([service.effect("a", "b")])) == [None]
    assert service.seen() == ["a", "b"]


def test_a_zombie_that_wakes_up_in_its_commit_is_shut_out(service):
    def sleeps(producer):
        with service.process():
            assert _outcomes(service.writer().write([service.effect("a", "b")])) == [None]
        producer.commit_transaction()

    writer = service.writer()
    service.bend(writer, commit_transaction=sleeps)
    assert _outcomes(writer.write([service.effect("a", "b")])) == [None]
    assert service.seen() == ["a", "b"]


def test_a_zombie_that_wakes_up_when_its_lane_has_moved_on_writes_nothing(service):
    service.writer().write([service.effect("a")])
    service.positions.at["acme"] = 10
    service.writer("run-2-0", "a-1").write([service.effect("b", from_offset=10)])
    with service.process():
        zombie = service.writer().write([service.effect("a")])
    assert _outcomes(zombie) == ["superseded"]
    assert service.seen() == ["a", "b"]


def test_a_zombie_whose_lane_was_sent_elsewhere_while_it_slept_writes_nothing(service):
    def sleeps(producer):
        service.positions.at["acme"] = 10
        producer.begin_transaction()

    writer = service.writer()
    service.bend(writer, begin_transaction=sleeps)
    assert _outcomes(writer.write([service.effect("a")])) == ["superseded"]
    assert service.seen() == []


def test_a_new_wave_waits_for_a_zombie_that_sleeps_in_its_commit(service, monkeypatch):
    """Under another transactional id it shuts nobody out."""
    monkeypatch.setattr(sink_transaction_line, "_OFFSETS_S", 0.5)
    later = []

    def sleeps(producer):
        with service.process():
            later.extend(service.writer("run-2-0", "b-0").write([service.effect("a")]))
        producer.commit_transaction()

    writer = service.writer()
    service.bend(writer, commit_transaction=sleeps)
    assert _outcomes(writer.write([service.effect("a")])) == [None]
    assert _outcomes(later) == ["SinkUnavailable"]
    assert service.seen() == ["a"]


def test_whom_a_zombie_shut_out_goes_on(service):
    service.writer().write([service.effect("a")])
    with service.process():
        service.writer().write([service.effect("a")])
    service.positions.at["acme"] = 10
    next_wave = service.writer("run-2-0").write([service.effect("b", from_offset=10)])
    assert _outcomes(next_wave) == [None]
    assert service.seen() == ["a", "b"]


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_a_commit_that_is_not_answered_is_settled_at_once(service, done):
    def unanswered(producer):
        if done:
            producer.commit_transaction()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))

    writer = service.writer()
    service.bend(writer, commit_transaction=unanswered)
    assert _outcomes(writer.write([service.effect("a", "b")])) == [None]
    assert service.seen() == ["a", "b"]


def test_what_the_broker_refuses_shows_nothing_of_its_effect_and_all_of_the_others(service):
    service.properties["compression.type"] = "none"
    large = service.effect("fits", "x" * 5_000, topic=service.small, partition=1)
    good = [service.effect("a"), service.effect("b", partition=2)]
    written = service.writer().write([good[0], large, good[1]])
    assert _outcomes(written) == [None, "SinkRefused", None]
    assert service.seen() == ["a", "b"]
    assert service.seen(service.small) == []


def test_a_lane_that_was_sent_back_is_sent_again_by_a_new_wave(service):
    service.writer().write([service.effect("a")])
    assert _outcomes(service.writer("run-2-0").write([service.effect("a")])) == [None]
    assert service.seen() == ["a", "a"]


def test_no_broker_leaves_the_outcome_open(service, monkeypatch):
    monkeypatch.setattr(sink_transaction_line, "_TAKE_S", 0.5)
    service.properties["bootstrap.servers"] = "127.0.0.1:1"
    written = service.writer().write([service.effect("a")])
    assert _outcomes(written) == ["SinkUnavailable"]
    assert written[0].error.temporary
