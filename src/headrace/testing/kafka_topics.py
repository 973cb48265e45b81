"""Writing to a real Kafka in every way that a reader has to cope with.

A suite that only ever reads what a plain producer wrote proves little: gaps come from aborted
transactions, lost starts from retention, and missing topics from operators. ``KafkaTopics`` makes
each of them on a real broker, and waits until it can be seen. It does not start a broker.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from headrace.connectors.kafka import KafkaLog, create_topics, make_producer
from headrace.connectors.kafka.config import admin_config, consumer_config
from headrace.connectors.kafka.partitions import by_partition
from headrace.model.lane_names import named
from headrace.model.places import number_at
from headrace.testing.log_fake import Row

_DEADLINE_S = 60.0


class KafkaTopics:
    """Topics of its own on one cluster; the names never repeat."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.config = {"bootstrap.servers": bootstrap_servers}
        self._producer = make_producer(self.config, linger_ms=1)
        settings: dict[str, Any] = {**admin_config(self.config)}
        self._admin = AdminClient(settings)

    def make(self, partitions: int = 1, topic_config: Mapping[str, str] | None = None) -> str:
        """Make a topic and wait until all its partitions have leaders."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.make_named(name, partitions, topic_config)
        return name

    def make_named(
        self, name: str, partitions: int = 1, topic_config: Mapping[str, str] | None = None
    ) -> None:
        """The same, for a name that was deleted before."""
        create_topics(self.config, {name: partitions}, topic_config=topic_config)
        lanes = [named(name, partition) for partition in range(partitions)]
        log = KafkaLog(self.config)
        until(lambda: len(log.end_offsets(lanes)) == partitions)
        log.close()

    def add_partitions(self, name: str, partitions: int) -> None:
        """Let a topic have so many, and wait until the new ones have leaders."""
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(_DEADLINE_S)
        lanes = [named(name, partition) for partition in range(partitions)]
        log = KafkaLog(self.config)
        until(lambda: len(log.end_offsets(lanes)) == partitions)
        log.close()
        # The one there is would refuse the new partitions until it looks at the topic again.
        self._producer = make_producer(self.config, linger_ms=1)

    def delete(self, name: str) -> None:
        """Delete a topic and wait until nobody finds it."""
        self._admin.delete_topics([name])[name].result(_DEADLINE_S)
        log = KafkaLog(self.config)
        until(lambda: not log.topics([name]))
        log.close()

    def write(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Write records durably."""
        write_rows(self._producer, topic, partition, rows)
        assert self._producer.flush(_DEADLINE_S) == 0

    def forget_group(self, group: str) -> None:
        """Delete a consumer group, as Kafka does when it was not used for long."""
        self._admin.delete_consumer_groups([group])[group].result(_DEADLINE_S)

    def messages(self, topic: str) -> list[Any]:
        """All committed messages of a topic, partition by partition; none if it is not there.

        Waits for transactions to end, since readers see one a moment after it was committed.
        """
        log = KafkaLog(self.config)
        info = log.topics([topic]).get(topic)
        lanes = info.lanes if info else ()
        settings = consumer_config(self.config, {}) | {"group.id": "unused"}
        with closing(Consumer(settings | {"isolation.level": "read_uncommitted"})) as consumer:
            until(lambda: log.end_offsets(lanes) == _written(consumer, lanes))
        ends = log.end_offsets(lanes)
        log.close()
        settings["auto.offset.reset"] = "earliest"
        with closing(Consumer(settings)) as consumer:
            return [
                message
                for lane in lanes
                for message in _read_all(consumer, lane, number_at(ends[lane]))
            ]

    def transaction(self, topic: str, partition: int, records: int) -> Producer:
        """Write into a transaction and leave it open."""
        producer = make_producer(self.config, transactional_id=f"test-{uuid.uuid4().hex}")
        producer.init_transactions(_DEADLINE_S)
        producer.begin_transaction()
        write_rows(producer, topic, partition, [Row(b"in a transaction")] * records)
        assert producer.flush(_DEADLINE_S) == 0
        return producer

    def abort(self, topic: str, partition: int, records: int) -> None:
        """Write into a transaction and abort it: a gap of one offset more."""
        self._settle(
            topic, partition, self.transaction(topic, partition, records).abort_transaction
        )

    def commit(self, topic: str, partition: int, producer: Producer) -> None:
        """Commit an open transaction and wait until readers may see it."""
        self._settle(topic, partition, producer.commit_transaction)

    def expire(self, topic: str, partition: int, start: int) -> None:
        """Take away everything before ``start``."""
        at = TopicPartition(topic, partition, start)
        # A client that does not know the leader may die of asking for it (see ``watermarks``).
        self._admin.list_topics(topic, timeout=_DEADLINE_S)
        self._admin.delete_records([at])[at].result(_DEADLINE_S)

    def _settle(self, topic: str, partition: int, end: Callable[[float], Any]) -> None:
        # The markers follow the answer: the last stable offset moves a moment later.
        lane = named(topic, partition)
        log = KafkaLog(self.config)
        before = log.end_offsets([lane])[lane]
        end(_DEADLINE_S)
        until(lambda: log.end_offsets([lane]).get(lane, before) > before)
        log.close()


def write_rows(producer: Producer, topic: str, partition: int, rows: Sequence[Row]) -> None:
    """Hand rows to a producer, as fast as it takes them."""
    for row in rows:
        producer.produce(
            topic,
            row.value,
            row.key,
            partition,
            timestamp=row.timestamp_ms or 0,
            headers=list(row.headers) or None,
        )
        producer.poll(0)


def _written(consumer: Consumer, lanes: Sequence[str]) -> dict[str, int]:
    """Where logs end for a reader that sees open transactions."""
    asked = [TopicPartition(*at, OFFSET_END) for at in by_partition(lanes)]
    answers = consumer.offsets_for_times(asked, timeout=_DEADLINE_S) if asked else []
    return {named(answer.topic, answer.partition): answer.offset for answer in answers}


def _read_all(consumer: Consumer, lane: str, end: int) -> Iterator[Any]:
    """Committed messages before an offset."""
    consumer.assign([TopicPartition(*at, 0) for at in by_partition([lane])])
    give_up_s = time.monotonic() + _DEADLINE_S
    while end > 0:
        message: Any = consumer.poll(0.1)
        if message is None:
            assert time.monotonic() < give_up_s, f"{lane} was not read to {end} in time"
        elif message.error() is None:
            yield message
        if message is not None and message.offset() >= end - (message.error() is None):
            return


def until(holds: Callable[[], bool], deadline_s: float = _DEADLINE_S) -> None:
    """Ask until it holds; fail when it does not in time."""
    give_up_s = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < give_up_s, "it did not happen in time"
        time.sleep(0.02)
