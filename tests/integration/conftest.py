"""What several tests of Kafka begin with."""

import contextlib

import pytest

from headrace.connectors.kafka import KafkaDeadLetters
from headrace.testing.kafka_topics import KafkaTopics


@pytest.fixture
def topics(kafka):
    return KafkaTopics(kafka.bootstrap_servers)


@pytest.fixture
def letters(topics):
    with contextlib.closing(KafkaDeadLetters(topics.config)) as made:
        yield made
