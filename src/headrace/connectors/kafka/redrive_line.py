"""The transaction in which dead letters go back and the place moves on.

Nobody but this module sees librdkafka's transactional producer: it takes over from whoever was at
it before, sends one batch together with the place it reaches, and says in our words why not. What
the letters are is decided by ``redrive``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.connectors.kafka.clients import BROKEN, opened, put, settled
from headrace.connectors.kafka.config import admin_config, redrive_config, servers
from headrace.connectors.kafka.dead_letter_headers import Header
from headrace.connectors.kafka.dead_letters_read import PLACE_HEADER
from headrace.connectors.kafka.faults import (
    DENIED,
    NOT_THERE,
    ErrorKind,
    delivery_error,
    first_error,
    kind_of,
    of_client,
)
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.seals import USE_CASE_HEADER, Message
from headrace.errors import BrokerUnavailable, ConfigError, Fenced, Temporary, TopicMissing
from headrace.model.topic_names import dead_letters_topic

#: readers of the source topic wait so long at most for a redrive that was killed
_TRANSACTION_S = 15.0
_REQUEST_S = 30.0
_DENIED = DENIED | {ErrorKind.GROUP_DENIED, ErrorKind.TRANSACTION_DENIED}


class RedriveLine:
    """Sends the letters of one use case back to one topic."""

    def __init__(self, config: Mapping[str, str], use_case: str, topic: str) -> None:
        """Take client properties; nothing connects yet."""
        self._config = config
        self._use_case = use_case
        self._topic = topic
        self._letters = dead_letters_topic(topic)
        self._group = f"headrace.redrive.{use_case}"
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    def take_over(self) -> None:
        """End whoever sends the same letters, and undo what it has not completed.

        Raises:
            BrokerUnavailable: no broker answers.
            ConfigError: we may not.
        """
        # A stream is one use case on one topic, and so is the place that two would fight for.
        name = f"{self._group}/{self._topic}"
        self._producer = opened(Producer, redrive_config(self._config, _TRANSACTION_S, name))
        try:
            self._producer.init_transactions(_REQUEST_S)
        except KafkaException as exc:
            self._fail(first_error(exc), exc)

    def places(self, partitions: Sequence[TopicPartition]) -> dict[int, int]:
        """The next letter to read, by partition, as the consumer group has it."""
        if not partitions:
            return {}
        asked = [KafkaPartition(partition.topic, partition.partition) for partition in partitions]
        try:
            found = self._own_consumer().committed(asked, timeout=_REQUEST_S)
        except KafkaException as exc:
            self._fail(first_error(exc), exc)
        for partition in found:
            if partition.error is not None:
                self._fail(partition.error)
        return {
            partition.partition: partition.offset for partition in found if partition.offset >= 0
        }

    def send(self, partition: int, messages: Sequence[Message], place: int) -> None:
        """Send messages to a partition of the topic and move its place, both or neither.

        Raises:
            BrokerUnavailable: no broker answers; it may have happened all the same.
            Fenced: somebody else has taken over.
            TopicMissing: the topic, or this partition of it, is not there any more.
            ConfigError: we may not, or a message is too large.
        """
        assert self._producer is not None, "take_over comes first"
        mark: list[Header] = [
            (USE_CASE_HEADER, self._use_case.encode()),
            (PLACE_HEADER, b"%d" % place),
        ]
        faults: list[KafkaError] = []
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._put(self._topic, partition, message, faults)
            self._put(self._letters, partition, Message(None, None, tuple(mark)), faults)
            self._settle(faults)
            self._producer.send_offsets_to_transaction(
                [KafkaPartition(self._letters, partition, place)],
                self._own_consumer().consumer_group_metadata(),
                _REQUEST_S,
            )
            self._producer.commit_transaction(_REQUEST_S)
        except BROKEN as exc:
            error = self._cause(first_error(exc))
            with contextlib.suppress(*BROKEN):
                self._producer.abort_transaction(_REQUEST_S)
            self._fail(error, exc, partition)

    def close(self) -> None:
        """Give up connections; an open transaction is undone by whoever comes next."""
        if self._consumer is not None:
            self._consumer.close()
        if self._producer is not None:
            self._producer.purge()
        self._producer = self._consumer = None

    def _put(self, topic: str, partition: int, message: Message, faults: list[KafkaError]) -> None:
        assert self._producer is not None

        def delivered(error: KafkaError | None, message: Any) -> None:
            problem = delivery_error(error, message)
            if problem is not None:
                faults.append(problem)

        if not faults:
            put(
                self._producer,
                lambda: bool(faults),
                topic,
                message.value,
                message.key,
                partition,
                on_delivery=delivered,
                headers=list(message.headers),
            )

    def _settle(self, faults: list[KafkaError]) -> None:
        assert self._producer is not None
        if not settled(self._producer, time.monotonic() + _REQUEST_S):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if faults:
            # One that fails takes the others of its transaction along, and they may tell first.
            telling = [fault for fault in faults if kind_of(fault) is not ErrorKind.PURGED]
            raise KafkaException((telling or faults)[0])

    def _cause(self, error: KafkaError) -> KafkaError:
        """What broke a producer that says no more than that it broke."""
        assert self._producer is not None
        if kind_of(error) is ErrorKind.BROKEN:
            try:
                self._producer.poll(0)
            except BROKEN as exc:
                return first_error(exc)
        return error

    def _own_consumer(self) -> Consumer:
        """A consumer that only asks and is asked who it is: it reads nothing and joins nothing."""
        if self._consumer is None:
            settings = {
                **admin_config(self._config),
                "group.id": self._group,
                "enable.auto.commit": "false",
                "isolation.level": "read_committed",
            }
            self._consumer = opened(Consumer, settings)
        return self._consumer

    def _fail(
        self, error: KafkaError, cause: BaseException | None = None, partition: int = -1
    ) -> NoReturn:
        fault, what = kind_of(error), f"redrive of {self._use_case} to topic {self._topic}"
        if fault is ErrorKind.FENCED:
            raise Fenced(f"{what}: a later one has begun and goes on from here") from cause
        if fault in _DENIED:
            raise ConfigError(
                f"{what}: {error.str()}; grant Write on {self._topic} and {self._letters}, Read on "
                f"{self._letters} and group {self._group}, and Write on the transactional id "
                f"{self._group}/{self._topic}"
            ) from cause
        if fault in NOT_THERE:
            raise TopicMissing(
                f"{what}: partition {partition} is not there; make it, then redrive again"
            ) from cause
        if fault is ErrorKind.TOO_LARGE:
            raise ConfigError(
                f"{what}: a record of partition {partition} with its new headers is too large; "
                f"raise max.message.bytes of {self._topic} by 1000, then redrive again"
            ) from cause
        if fault in (ErrorKind.CREDENTIALS, ErrorKind.UNREACHABLE):
            raise of_client(error, self._config) from cause
        at = servers(self._config)
        kind = BrokerUnavailable if error.retriable() else Temporary
        raise kind(f"{what}: Kafka at {at}: {error.str()}; redrive again") from cause
