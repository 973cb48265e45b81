"""Real Kafka keeps the laws of dead letters."""

import pytest

from headrace.connectors.kafka import KafkaDeadLettersFactory
from headrace.model.lane_names import named
from headrace.model.receipts import SliceError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, DeadLetter
from headrace.testing.dead_letters_contract import DeadLettersContract
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = pytest.mark.kafka
CONNECT = "__connect.errors."


class TestKafkaDeadLetters(DeadLettersContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, kafka):
        self.topics = KafkaTopics(kafka.bootstrap_servers)

    def new_topic(self):
        return self.topics.make(partitions=3)

    def factory(self):
        return KafkaDeadLettersFactory(deadline_s=20)

    def connections(self):
        return Connections(kafka=self.topics.config, database_url="")

    def unreachable(self):
        nowhere = Connections({"bootstrap.servers": "127.0.0.1:1"}, database_url="")
        return KafkaDeadLettersFactory(deadline_s=0.5).open(nowhere)

    def kept(self, topic):
        return [as_letter(message) for message in self.topics.messages(f"{topic}.dlq")]


def as_letter(message):
    """Read the headers with their names spelt out, as other tools do."""
    headers = message.headers()
    opening = max(i for i, (name, _) in enumerate(headers) if name == f"{CONNECT}topic")
    said = {name: text.decode() for name, text in headers[opening:]}
    assert int(said[f"{CONNECT}partition"]) == message.partition()
    assert said[f"{CONNECT}stage"] == "TASK_PUT"
    assert said[f"{CONNECT}class.name"]
    offset = int(said[f"{CONNECT}offset"])
    lane = LaneId(
        said[f"{CONNECT}connector.name"],
        said["headrace.tenant"],
        named(said[f"{CONNECT}topic"], message.partition()),
    )
    error = SliceError(
        False,
        said[f"{CONNECT}exception.class.name"].removeprefix("headrace.errors."),
        said[f"{CONNECT}exception.message"],
        said[f"{CONNECT}exception.stacktrace"],
        offset=offset,
        raw_key=message.key(),
        raw_value=message.value(),
        raw_headers=tuple(headers[:opening]),
        timestamp_ms=message.timestamp()[1],
    )
    piece = Slice(lane, said[f"{CONNECT}topic"], offset, offset + 1, epoch=0)
    return DeadLetter(piece, error, int(said["headrace.attempts"]))
