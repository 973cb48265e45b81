"""Topics are made one beside the other: what is refused of one is told of that one alone."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka import topics as rooms_topics
from headrace.connectors.kafka.topics import create_topics, unmakable_topics
from headrace.errors import BrokerUnavailable, ConfigError

CONFIG = {"bootstrap.servers": "b:1"}
DENIED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
THERE = KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS))


class FakeAdmin:
    """Answers as it was told, by name."""

    def __init__(self, answers):
        self.answers = answers
        self.timeouts = []

    def create_topics(self, asked, request_timeout):
        self.timeouts.append(request_timeout)
        futures = {topic.topic: Future() for topic in asked}
        for name, future in futures.items():
            error = self.answers.get(name)
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        return futures


@pytest.fixture
def admin(monkeypatch):
    made = FakeAdmin({"a": DENIED, "b": THERE, "d": TimeoutError()})
    monkeypatch.setattr(rooms_topics, "AdminClient", lambda _: made)
    return made


def test_a_refusal_is_of_one_topic_and_hides_no_other(admin):
    refused = unmakable_topics(CONFIG, dict.fromkeys("abcd", 1), 3.0)
    assert {name: type(error) for name, error in refused.items()} == {
        "a": ConfigError,
        "d": BrokerUnavailable,
    }
    assert "topic a cannot be made" in str(refused["a"])
    assert admin.timeouts == [3.0]


def test_whoever_needs_all_of_them_is_told_of_the_first_refusal(admin):
    assert create_topics(CONFIG, {"b": 1, "c": 1}) == {"c"}
    with pytest.raises(ConfigError, match="topic a cannot"):
        create_topics(CONFIG, {"c": 1, "a": 1})
    with pytest.raises(BrokerUnavailable):
        create_topics(CONFIG, {"d": 1})
