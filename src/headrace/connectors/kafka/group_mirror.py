"""Positions as the offsets of consumer groups, which every lag tool knows.

Headrace keeps positions in its own store and joins no group, so the tools that people watch Kafka
with (`kafka-consumer-groups`, lag exporters) would see nothing of it. So each use case has a group
that nobody is a member of, ``headrace.<use case>``. Its offsets are committed by a consumer that
subscribes to nothing, as anybody may who manages partitions by himself. This needs Read on the
group and on the topics, and refuses to disturb a group that has members.

The admin client has a call for it, and with it librdkafka 2.16 ends the whole process by an
assertion when the broker goes down (``rd_kafka_enq_once_del_source_return``); so it is not used.

Offsets are never deleted here: those of streams that were removed are forgotten by Kafka when
nobody has set them for ``offsets.retention.minutes`` (7 days). When to set which is decided in
`cycle/mirror.py`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.connectors.kafka.clients import END_S, end_clients, opened
from headrace.connectors.kafka.config import consumer_config, servers
from headrace.connectors.kafka.consumers import PROFILES
from headrace.connectors.kafka.faults import ErrorKind, kind_of, of_client
from headrace.connectors.kafka.partitions import TopicPartition, by_partition
from headrace.connectors.kafka.watermarks import portions
from headrace.errors import BrokerUnavailable, ConfigError, HeadraceError
from headrace.model.places import Place, number_at, place_at

_LOOK_EVERY_S = 0.1


class _Group:
    """A consumer that only commits, one request at a time."""

    def __init__(self, config: Mapping[str, str], group: str) -> None:
        self._answers: list[tuple[KafkaError | None, Sequence[KafkaPartition]]] = []
        answers = self._answers
        self._waits = False
        self._consumer = opened(
            Consumer,
            {**consumer_config(config, PROFILES["small"]), "group.id": group},
            on_commit=lambda error, partitions: answers.append((error, partitions)),
        )

    def commit(
        self, offsets: Sequence[KafkaPartition], timeout_s: float
    ) -> tuple[KafkaError | None, Sequence[KafkaPartition]] | None:
        """The answer: an error for all, and each partition with its own; None for no answer."""
        give_up_s = time.monotonic() + timeout_s
        if self._waits and self._answer(give_up_s) is None:
            return None
        self._consumer.commit(offsets=list(offsets), asynchronous=True)
        self._waits = True
        return self._answer(give_up_s)

    def committed(
        self, partitions: Sequence[KafkaPartition], timeout_s: float
    ) -> Sequence[KafkaPartition]:
        """What the group has of these, each with its own error.

        Raises:
            KafkaException: there is no answer for any of them.
        """
        found: Sequence[KafkaPartition] = self._consumer.committed(list(partitions), timeout_s)
        return found

    def close(self) -> None:
        """Give up the connection, beside the caller where an answer is still to come."""
        clients = [self._consumer]
        del self._consumer
        end_clients(clients, 0.0 if self._waits else END_S)

    def _answer(
        self, give_up_s: float
    ) -> tuple[KafkaError | None, Sequence[KafkaPartition]] | None:
        while not self._answers and time.monotonic() < give_up_s:
            self._consumer.poll(_LOOK_EVERY_S)
        if not self._answers:
            return None
        self._waits = False
        return self._answers.pop()


class GroupMirror:
    """``headrace.ports.PositionsMirror`` on a real cluster."""

    def __init__(
        self, config: Mapping[str, str], prefix: str = "headrace.", timeout_s: float = 5.0
    ) -> None:
        """Connect lazily.

        Args:
            config: client properties.
            prefix: what the names of the groups begin with; the use case follows.
            timeout_s: how long one request, for some hundred partitions, may take.
        """
        self._config = dict(config)
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._groups: dict[str, _Group] = {}

    def __repr__(self) -> str:
        return f"GroupMirror({servers(self._config)})"

    def show(self, use_case: str, offsets: Mapping[str, Place]) -> None:
        """Set offsets of the use case's group; a lane that is not there is passed over.

        Raises:
            ConfigError: librdkafka does not accept a property.
            HeadraceError: the first trouble, after which nothing more was tried.
        """
        group = f"{self._prefix}{use_case}"
        names = by_partition(offsets)
        for portion in portions(list(names)):
            self._set(
                group,
                [
                    KafkaPartition(*partition, number_at(offsets[names[partition]]))
                    for partition in portion
                ],
            )

    def look(self, use_case: str, lanes: Collection[str]) -> dict[str, Place]:
        """Offsets of the use case's group, of lanes that have one.

        Raises:
            ConfigError: librdkafka does not accept a property.
            HeadraceError: the first trouble, after which nobody was asked.
        """
        group, found = f"{self._prefix}{use_case}", dict[str, Place]()
        names = by_partition(lanes)
        for portion in portions(list(names)):
            for partition in self._had(group, [KafkaPartition(*where) for where in portion]):
                if partition.offset >= 0:
                    where = TopicPartition(partition.topic, partition.partition)
                    found[names[where]] = place_at(partition.offset)
        return found

    def close(self) -> None:
        """Give up connections."""
        for group in list(self._groups):
            self._groups.pop(group).close()

    def _opened(self, group: str) -> _Group:
        if group not in self._groups:
            self._groups[group] = _Group(self._config, group)
        return self._groups[group]

    def _had(self, group: str, partitions: Sequence[KafkaPartition]) -> Sequence[KafkaPartition]:
        try:
            found = self._opened(group).committed(partitions, self._timeout_s)
        except KafkaException as error:
            raise self._told(error.args[0], group) from error
        self._see_that_none_failed(group, found)
        return found

    def _set(self, group: str, offsets: Sequence[KafkaPartition]) -> None:
        answer = self._opened(group).commit(offsets, self._timeout_s)
        if answer is None:
            at = servers(self._config)
            raise BrokerUnavailable(f"no Kafka broker answers at {at}: {group} not set")
        error, partitions = answer
        if not self._see_that_none_failed(group, partitions) and error is not None:
            raise self._told(error, group)

    def _see_that_none_failed(self, group: str, partitions: Sequence[KafkaPartition]) -> bool:
        """Whether partitions are missing; of any other error it raises the first."""
        wrong = [
            (partition, partition.error) for partition in partitions if partition.error is not None
        ]
        for partition, why in wrong:
            if kind_of(why) is not ErrorKind.MISSING:
                raise self._told(why, f"{group}, {partition.topic}[{partition.partition}]")
        return bool(wrong)

    def _told(self, error: KafkaError, where: str) -> HeadraceError:
        fault = kind_of(error)
        if fault in (ErrorKind.GROUP_DENIED, ErrorKind.TOPIC_DENIED):
            return ConfigError(
                f"consumer group {where}: we may not set its offsets; grant Read on the group and "
                "on its topics, or say driver: mirror: false"
            )
        if fault is ErrorKind.IN_USE:
            return ConfigError(
                f"consumer group {where}: somebody else is a member of it; end that consumer, or "
                "choose another driver: mirror_prefix"
            )
        return of_client(error, self._config)
