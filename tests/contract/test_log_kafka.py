"""Real Kafka keeps the laws of a log and of a reader."""

from contextlib import closing

import pytest

from headrace.connectors.kafka import KafkaLog, KafkaReaderFactory
from headrace.connectors.kafka.rounds import FetchTimeouts
from headrace.ports import Connections
from headrace.testing.kafka_topics import KafkaTopics
from headrace.testing.log_contract import *  # noqa: F403 - the suites
from headrace.testing.log_contract import SEAL_KEY

pytestmark = pytest.mark.kafka


@pytest.fixture
def topics(kafka):
    return KafkaTopics(kafka.bootstrap_servers)


@pytest.fixture
def log(topics):
    with closing(KafkaLog(topics.config)) as opened:
        yield opened


@pytest.fixture
def reader_factory():
    return KafkaReaderFactory(FetchTimeouts(idle_s=5.0, look_s=0.2))


@pytest.fixture
def connections(topics):
    return Connections(topics.config, database_url="", seal_key=SEAL_KEY)
