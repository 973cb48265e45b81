"""Real Kafka keeps the laws of a log and of a reader."""

import pytest

from headrace.connectors.kafka import KafkaLog, KafkaReaderFactory
from headrace.connectors.kafka.rounds import FetchTimeouts
from headrace.ports import Connections
from headrace.testing.kafka_topics import KafkaTopics
from headrace.testing.log_contract import SEAL_KEY, LogContract, ReaderContract

pytestmark = pytest.mark.kafka


class OnKafka:
    """How the suites write to a real cluster."""

    @pytest.fixture(autouse=True)
    def _cluster(self, kafka):
        self.topics = KafkaTopics(kafka.bootstrap_servers)

    def make_topic(self, partitions=1):
        return self.topics.make(partitions)

    def write(self, topic, partition, rows):
        self.topics.write(topic, partition, rows)

    def abort(self, topic, partition, records):
        self.topics.abort(topic, partition, records)

    def expire(self, topic, partition, start):
        self.topics.expire(topic, partition, start)

    def delete_topic(self, topic):
        self.topics.delete(topic)


class TestKafkaLog(OnKafka, LogContract):
    def make_log(self):
        return KafkaLog(self.topics.config)


class TestKafkaSliceReader(OnKafka, ReaderContract):
    def factory(self):
        return KafkaReaderFactory(FetchTimeouts(idle_s=5.0, look_s=0.2))

    def connections(self):
        return Connections(self.topics.config, database_url="", seal_key=SEAL_KEY)
