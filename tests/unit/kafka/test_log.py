"""Answers of the admin client that are none."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from headrace.errors import BrokerUnavailable
from headrace.kafka.log import KafkaLog
from headrace.ports import TopicPartition

WELL, KILLED = TopicPartition("acme.visits", 0), TopicPartition("bolt.visits", 0)
#: what Kafka says where no record is as young as was asked
NO_LATER_RECORD = -1


class FakeAdmin:
    """Tells an offset of each partition, or of nobody's."""

    def __init__(self, offsets):
        self.offsets = offsets

    def list_offsets(self, asked, **_options):
        answers = {}
        for each in asked:
            answers[each] = Future()
            offset = self.offsets[TopicPartition(each.topic, each.partition)]
            answers[each].set_result(SimpleNamespace(offset=offset))
        return answers


@pytest.fixture
def log(monkeypatch):
    made = KafkaLog({"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(made._edges, "of", lambda partitions, edge: {})
    yield made
    made.close()


@pytest.mark.parametrize("ask", ["end_offsets", "start_offsets"])
def test_a_partition_of_which_nothing_is_said_is_left_out(log, ask):
    log._admin = FakeAdmin({WELL: 7, KILLED: OFFSET_INVALID})
    assert getattr(log, ask)([WELL, KILLED]) == {WELL: 7}
    log._admin = FakeAdmin({WELL: 7, KILLED: 9})
    assert getattr(log, ask)([WELL, KILLED]) == {WELL: 7, KILLED: 9}


def test_where_a_time_begins_is_not_the_end_when_nobody_said_so(log):
    log._admin = FakeAdmin({WELL: 7, KILLED: OFFSET_INVALID})
    assert log.offsets_at([WELL, KILLED], 1.0) == {WELL: 7}


def test_a_time_after_the_last_record_is_the_end(log, monkeypatch):
    log._admin = FakeAdmin({WELL: NO_LATER_RECORD})
    monkeypatch.setattr(log, "end_offsets", lambda partitions: dict.fromkeys(partitions, 5))
    assert log.offsets_at([WELL], 1.0) == {WELL: 5}


class OfADeadController:
    """Waits for a broker that is dead, until it has asked which brokers there are."""

    def __init__(self):
        self.asked = False

    def poll(self, _timeout):
        return 0

    def list_topics(self, timeout):
        self.asked = True

    def describe_topics(self, topics, **_options):
        (name,) = topics.topic_names
        answer = Future()
        if self.asked:
            partitions = [SimpleNamespace(id=0)]
            answer.set_result(SimpleNamespace(topic_id="x", partitions=partitions))
        else:
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {name: answer}


def test_a_controller_that_died_is_waited_for_once(log):
    log._admin = OfADeadController()
    with pytest.raises(BrokerUnavailable):
        log.topics(["acme.visits"])
    assert log.topics(["acme.visits"])["acme.visits"].partitions == (0,)
