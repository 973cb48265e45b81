"""Which partitions are asked how, and what is left out."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka.log import KafkaLog
from headrace.connectors.kafka.watermarks import END, START
from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import named

WELL, KILLED = named("acme.visits", 0), named("bolt.visits", 0)


def by_name(partitions):
    return {named(*partition): partition for partition in partitions}


class FakeEdges:
    """Knows some offsets the quick way and more the careful one, and notes what it was asked."""

    def __init__(self, quickly, more):
        self.quickly, self.more = quickly, more
        self.asked = []

    def of(self, partitions, at):
        names = by_name(partitions)
        self.asked.append((names.keys(), at))
        return {names[name]: at for name, at in self.quickly.items() if name in names}

    def carefully(self, partitions, at):
        names = by_name(partitions)
        self.asked.append((names.keys(), at, "carefully"))
        if isinstance(self.more, Exception):
            raise self.more
        return {names[name]: at for name, at in self.more.items() if name in names}

    def close(self):
        pass


@pytest.fixture
def log():
    made = KafkaLog({"bootstrap.servers": "127.0.0.1:1"})
    made._edges.close()
    yield made
    made.close()


def test_what_the_quick_way_leaves_out_is_asked_carefully_until_there_is_an_answer(log):
    log._edges = FakeEdges({WELL: 7}, {})
    assert log.end_offsets([WELL, KILLED]) == {WELL: 7}
    assert log._edges.asked == [({WELL, KILLED}, END), ({KILLED}, END, "carefully")]
    log._ask_again_s = 0.0
    log._edges = FakeEdges({WELL: 7}, {KILLED: 9})
    assert log.end_offsets([WELL, KILLED]) == {WELL: 7, KILLED: 9}
    assert log._edges.asked == [({WELL}, END), ({KILLED}, END, "carefully")]
    log._edges = FakeEdges({WELL: 7, KILLED: 9}, {})
    assert log.end_offsets([WELL, KILLED]) == {WELL: 7, KILLED: 9}
    assert log._edges.asked == [({WELL, KILLED}, END)]


def test_what_had_no_answer_is_not_asked_for_in_every_turn(log):
    log._edges = FakeEdges({WELL: 7}, {})
    for _ in range(3):
        assert log.end_offsets([WELL, KILLED]) == {WELL: 7}
    assert [question for question in log._edges.asked if len(question) == 3] == [
        ({KILLED}, END, "carefully")
    ]
    # Something new is, at once; and so is everything where nothing else has an answer.
    log.end_offsets([WELL, KILLED, named("cove.visits", 0)])
    log.end_offsets([KILLED])
    assert len([question for question in log._edges.asked if len(question) == 3]) == 3


def test_brokers_that_are_away_take_no_answer_from_the_others(log):
    log._edges = FakeEdges({WELL: 7}, BrokerUnavailable("no Kafka broker answers"))
    assert log.end_offsets([WELL, KILLED]) == {WELL: 7}
    with pytest.raises(BrokerUnavailable):
        log.end_offsets([KILLED])


def test_a_time_after_the_last_record_is_the_end(log, monkeypatch):
    log._edges = FakeEdges({WELL: END, KILLED: 3}, {})
    monkeypatch.setattr(log, "end_offsets", lambda partitions: dict.fromkeys(partitions, 5))
    assert log.offsets_at([WELL, KILLED], 1.0) == {WELL: 5, KILLED: 3}
    assert log._edges.asked == [({WELL, KILLED}, 1000)]


def test_a_record_that_comes_while_a_time_is_looked_up_is_not_passed_over(log):
    class Growing(FakeEdges):
        """Of one partition, whose records are all older; one more comes after each answer."""

        def of(self, partitions, at):
            answer = super().of(partitions, at)
            self.quickly = {WELL: self.quickly[WELL] + 1}
            return answer if at == END else dict.fromkeys(answer, END)

    log._edges = Growing({WELL: 3}, {})
    assert log.offsets_at([WELL], 10.0) == {WELL: 3}


def test_the_beginning_of_time_is_the_first_record(log):
    log._edges = FakeEdges({WELL: 4}, {})
    assert log.offsets_at([WELL], 0.0) == {WELL: 4}
    assert log._edges.asked[-1] == ({WELL}, START)


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
    assert log.topics(["acme.visits"])["acme.visits"].lanes == ("acme.visits[0]",)
