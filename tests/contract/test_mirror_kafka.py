"""Consumer groups of a real Kafka keep the laws of a mirror."""

import threading

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from headrace.errors import ConfigError, Temporary
from headrace.kafka import GroupMirror
from headrace.ports import TopicPartition
from headrace.testing.kafka_topics import KafkaTopics, until
from headrace.testing.mirror_contract import MirrorContract

pytestmark = pytest.mark.kafka


class TestGroupMirror(MirrorContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, kafka):
        self.topics = KafkaTopics(kafka.bootstrap_servers)
        lane = TopicPartition(self.topics.make(), 0)
        until(lambda: self._has_coordinators(lane))

    def _has_coordinators(self, lane):
        """The first group of a cluster makes the topic that all groups are kept in."""
        try:
            self.mirror().show("first", {lane: 0})
        except Temporary:
            return False
        return True

    def make_topic(self, partitions):
        return self.topics.make(partitions)

    def mirror(self):
        return GroupMirror(self.topics.config)

    def unreachable(self):
        return GroupMirror({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5)

    def seen(self, use_case):
        group = f"headrace.{use_case}"
        admin = AdminClient(self.topics.config)
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = asked[group].result(30).topic_partitions
        return {TopicPartition(each.topic, each.partition): each.offset for each in found}

    def test_a_group_that_somebody_else_reads_with_is_left_to_him(self, use_case):
        topic = self.make_topic(1)
        assigned = threading.Event()
        consumer = Consumer({**self.topics.config, "group.id": f"headrace.{use_case}"})
        consumer.subscribe([topic], on_assign=lambda *_: assigned.set())
        for _ in range(300):
            consumer.poll(0.1)
            if assigned.is_set():
                break
        with pytest.raises(ConfigError, match="somebody else is a member"):
            self.mirror().show(use_case, {TopicPartition(topic, 0): 3})
        consumer.close()
