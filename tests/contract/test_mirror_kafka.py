"""Consumer groups of a real Kafka keep the laws of a mirror."""

import os
import subprocess
import threading

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from headrace.connectors.kafka import GroupMirror
from headrace.embedded.jars import jars
from headrace.embedded.java import find_java
from headrace.errors import ConfigError, Temporary
from headrace.model.lane_names import named
from headrace.testing.kafka_topics import KafkaTopics, until
from headrace.testing.log_fake import Row
from headrace.testing.mirror_contract import MirrorContract

pytestmark = pytest.mark.kafka
#: what the script of that name runs
KAFKA_CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def kafka_consumer_groups(bootstrap_servers, *words):
    """Lines of what Kafka's own command says, each as its words."""
    class_path = os.pathsep.join(map(str, jars("kafka-tools") + jars("kafka")))
    command = [find_java(), "-cp", class_path, KAFKA_CONSUMER_GROUPS]
    done = subprocess.run(
        [*command, "--bootstrap-server", bootstrap_servers, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.split() for line in done.stdout.splitlines() if line.strip()]


class TestGroupMirror(MirrorContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, kafka):
        self.topics = KafkaTopics(kafka.bootstrap_servers)
        lane = named(self.topics.make(), 0)
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
        return {named(lane.topic, lane.partition): lane.offset for lane in found}

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
            self.mirror().show(use_case, {named(topic, 0): 3})
        consumer.close()

    def test_kafka_consumer_groups_shows_positions_ends_and_lag(self, kafka, use_case):
        topic = self.make_topic(2)
        self.topics.write(topic, 1, [Row(b"x", timestamp_ms=1)] * 7)
        mirror = self.mirror()
        mirror.show(use_case, {named(topic, 0): 0, named(topic, 1): 4})
        mirror.close()
        group = f"headrace.{use_case}"
        assert [group] in kafka_consumer_groups(kafka.bootstrap_servers, "--list")
        shown = kafka_consumer_groups(kafka.bootstrap_servers, "--describe", "--group", group)
        columns = next(line for line in shown if line[0] == "GROUP")
        wanted = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
        places = [columns.index(column) for column in wanted]
        rows = [[line[place] for place in places] for line in shown if line[0] == group]
        assert sorted(rows) == [["0", "0", "0", "0"], ["1", "4", "7", "3"]]

    def test_what_another_one_has_set_back_is_seen(self, use_case):
        lane = named(self.make_topic(1), 0)
        holder, sleeper = self.mirror(), self.mirror()
        holder.show(use_case, {lane: 9})
        sleeper.show(use_case, {lane: 4})
        assert holder.look(use_case, [lane]) == {lane: 4}
        holder.close()
        sleeper.close()
