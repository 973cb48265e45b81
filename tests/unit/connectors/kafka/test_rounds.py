"""How a round waits, and when it gives up, without a broker."""

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from headrace.connectors.kafka.rounds import FetchTimeouts, Round
from headrace.testing.log_contract.rows import piece

CONFIG = {"bootstrap.servers": "broker:9092"}


class Complaint:
    """A message that carries an error of the lane's own."""

    def __init__(self, code):
        self._error = KafkaError(code, retriable=True)

    def __len__(self):
        return 0

    def topic(self):
        return "t"

    def partition(self):
        return 0

    def offset(self):
        return 0

    def error(self):
        return self._error

    def headers(self):
        return None

    def key(self):
        return None


class Complaining:
    """A consumer of a sound cluster that brings nothing but the same error."""

    def __init__(self, code):
        self._code = code

    def assign(self, partitions):
        pass

    def unassign(self):
        pass

    def consume(self, count, timeout):
        return [Complaint(self._code)]

    def list_topics(self, timeout):
        topic = SimpleNamespace(error=None, partitions={0: SimpleNamespace(leader=1)})
        return SimpleNamespace(topics={"t": topic, "u": topic})


def client_of(consumer, refusal=None):
    made = SimpleNamespace(consumer=consumer, refusal=refusal, learn=lambda topics, timeout_s: "")

    def accepted():
        made.refusal = None

    made.accepted = accepted
    return made


@pytest.mark.parametrize("others", [[], ["u"]])
def test_an_error_that_comes_again_and_again_is_given_up_in_time(others):
    consumer = Complaining(KafkaError.NOT_LEADER_FOR_PARTITION)
    client = client_of(consumer)
    pieces = [piece(topic, 0, 5) for topic in ["t", *others]]
    together = Round(client, pieces, FetchTimeouts(idle_s=0.05, look_s=0.02), CONFIG)
    together.start()
    give_up_s = time.monotonic() + 60
    while together.open_lanes and time.monotonic() < give_up_s:
        together.turn()
    assert together.open_lanes == []
    assert {type(lane.error).__name__ for lane in together.lanes.values()} == {"LeaderUnknown"}


class Recording(Complaining):
    """A consumer that remembers what it is told to leave."""

    def __init__(self, messages):
        super().__init__(KafkaError._FAIL)
        self._messages, self.left = messages, []

    def consume(self, count, timeout):
        return self._messages

    def incremental_unassign(self, partitions):
        self.left += [partition.topic for partition in partitions]

    def unassign(self):
        self.left.append("everything")


class Record(Complaint):
    """A record at an offset of a topic."""

    def __init__(self, topic, offset):
        self._topic, self._offset = topic, offset

    def topic(self):
        return self._topic

    def offset(self):
        return self._offset

    def error(self):
        return None


def round_on(consumer, *pieces):
    made = Round(client_of(consumer), pieces, FetchTimeouts(), CONFIG)
    made.start()
    return made


def test_an_ended_round_leaves_the_consumer_fetching_nothing():
    consumer = Recording([])
    round_on(consumer, piece("t", 0, 5)).end()
    assert consumer.left == ["everything"]


def test_a_lane_that_is_complete_and_goes_on_is_left_so_that_it_does_not_fill_the_queue():
    consumer = Recording([Record("t", offset) for offset in range(10)])
    together = round_on(consumer, piece("t", 0, 2), piece("u", 0, 2))
    assert [lane.slice.topic for lane in together.turn()] == ["t"]
    assert consumer.left == ["t"]


def test_a_lane_that_is_complete_without_surplus_is_not_left_at_a_cost():
    consumer = Recording([Record("t", offset) for offset in range(2)])
    together = round_on(consumer, piece("t", 0, 2), piece("u", 0, 2))
    together.turn()
    assert consumer.left == []


class Quiet(Complaining):
    """A consumer that brings nothing, of a cluster that answers or does not."""

    def __init__(self, answers):
        super().__init__(KafkaError._FAIL)
        self._answers = answers

    def consume(self, count, timeout):
        return []

    def list_topics(self, timeout):
        if self._answers:
            return super().list_topics(timeout)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def refused_round(answers):
    client = client_of(Quiet(answers), KafkaError(KafkaError._AUTHENTICATION))
    made = Round(client, [piece("t", 0, 5)], FetchTimeouts(), CONFIG)
    made.start()
    made.turn()
    return client, made


def test_a_refusal_that_has_passed_is_forgotten():
    client, together = refused_round(answers=True)
    assert client.refusal is None
    assert len(together.open_lanes) == 1


def test_a_refusal_that_lasts_fails_the_lanes_and_the_next_round_shows_its_credentials_anew():
    _, together = refused_round(answers=False)
    (lane,) = together.lanes.values()
    assert type(lane.error).__name__ == "ConfigError"
    assert together.broken


@pytest.mark.parametrize(
    "large",
    [
        {"key": b"x" * 900},
        {"value": b"x" * 900},
        {"headers": [("h", b"x" * 899)]},
        {"headers": [("h" * 900, None)]},
        {"headers": [("é" * 300, b""), ("h" * 200, b"x" * 100)]},
    ],
)
def test_what_is_held_counts_keys_and_headers_with_their_names_too(large):
    message = Message(topic="t", partition=0, offset=0, **{"value": b"", **large})
    together = Round(client_of(Recording([message])), [piece("t", 0, 1)], FetchTimeouts(), CONFIG)
    together.start()
    together.turn()
    assert together.bytes == 900
