"""Positions as the offsets of consumer groups, which every lag tool knows.

Headrace keeps positions in its own store and joins no group, so the tools that people watch Kafka
with (`kafka-consumer-groups`, lag exporters) would see nothing of it. So each use case has a group
that nobody is a member of, ``headrace.<use case>``, whose offsets are set by the admin client. This
needs Read on the group and on the topics, and refuses to disturb a group that has members.

Offsets are never deleted here: those of streams that were removed are forgotten by Kafka when
nobody has set them for ``offsets.retention.minutes`` (7 days). When to set which is decided in
`cycle/mirror.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from headrace.errors import BrokerUnavailable, ConfigError, HeadraceError
from headrace.kafka.config import admin_config, servers
from headrace.kafka.edges import portions
from headrace.kafka.faults import first_error, of_client
from headrace.ports import TopicPartition

_DENIED = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
_IN_USE = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.REBALANCE_IN_PROGRESS,
)
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART,)


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

        Raises:
            ConfigError: librdkafka does not accept a property.
        """
        self._config = admin_config(config)
        self._prefix = prefix
        self._timeout_s = timeout_s
        settings: dict[str, Any] = {**self._config}
        try:
            self._admin = AdminClient(settings)
        except KafkaException as exc:
            raise ConfigError(f"kafka: {first_error(exc).str()}") from exc

    def __repr__(self) -> str:
        return f"GroupMirror({servers(self._config)})"

    def show(self, use_case: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set offsets of the use case's group; a partition that is not there is passed over.

        Raises:
            HeadraceError: the first trouble, after which nothing more was tried.
        """
        group = f"{self._prefix}{use_case}"
        for portion in portions(list(offsets)):
            self._set(group, [KafkaPartition(*each, offsets[each]) for each in portion])

    def close(self) -> None:
        """Give up connections."""
        del self._admin

    def _set(self, group: str, offsets: Sequence[KafkaPartition]) -> None:
        asked = ConsumerGroupTopicPartitions(group, list(offsets))
        try:
            futures = self._admin.alter_consumer_group_offsets(
                [asked], request_timeout=self._timeout_s
            )
            answer = futures[group].result(self._timeout_s + 1.0)
        except KafkaException as exc:
            raise self._told(first_error(exc), group) from exc
        except TimeoutError as exc:
            at = servers(self._config)
            raise BrokerUnavailable(f"no Kafka broker answers at {at}: {group} not set") from exc
        for each in answer.topic_partitions:
            if each.error is not None and each.error.code() not in _GONE:
                raise self._told(each.error, f"{group}, {each.topic}[{each.partition}]")

    def _told(self, error: KafkaError, where: str) -> HeadraceError:
        if error.code() in _DENIED:
            return ConfigError(
                f"consumer group {where}: we may not set its offsets; grant Read on the group and "
                "on its topics, or say driver: mirror: false"
            )
        if error.code() in _IN_USE:
            return ConfigError(
                f"consumer group {where}: somebody else is a member of it; end that consumer, or "
                "choose another driver: mirror_prefix"
            )
        return of_client(error, self._config)
