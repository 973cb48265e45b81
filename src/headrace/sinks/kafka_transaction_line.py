"""A transactional producer of a worker, and what Kafka knows of its lanes.

A transactional id is taken once for each producer, which costs some round trips, so a worker keeps
a few producers for the next bins. One that was shut out, or of whose commit nobody knows, is given
up for good: the next one of its id settles what it left open.

What is sent, and when, is `kafka_transactions.py`'s matter.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from headrace.errors import SinkRefused
from headrace.sinks.kafka_line import Line, line_settings

_TAKE_S = 10.0
_OFFSETS_S = 10.0
_LOOK_EVERY_S = 0.02
#: a worker meets as many fences as there are slots, at most
_MOST_LINES = 8
#: messages have to be through before Kafka ends the transaction by itself
_TRANSACTION_MS = 20_000
_MESSAGE_MS = 15_000
_MUST_BE_MENDED = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
}


class Lost(Exception):
    """Whether anything was or will be committed is not known."""


class Mark(NamedTuple):
    """How far a lane has come in a transaction, and of which wave that was."""

    offset: int
    wave_id: str

    def covers(self, reached: int, wave_id: str) -> bool:
        """Whether it says that the wave, or one that it is a part of, has come this far."""
        ours = wave_id == self.wave_id or wave_id.startswith(f"{self.wave_id}.")
        return ours and self.offset >= reached


class TransactionLine(Line):
    """A producer that has taken its transactional id from whoever had it.

    Raises:
        ConfigError: librdkafka refuses the settings.
        SinkRefused: a right is missing, or the time-out is more than the broker allows.
        Lost: the broker did not answer in time.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        self.settings = settings
        self._members: dict[str, object] = {}
        try:
            self.producer.init_transactions(_TAKE_S)
        except KafkaException as exc:
            raise as_error(exc.args[0]) from exc

    def marks(self, group: str, lanes: Collection[tuple[str, int]]) -> dict[tuple[str, int], Mark]:
        """The marks of lanes (topic, partition) that have one; waits for open transactions.

        Raises:
            SinkRefused: a right is missing.
            Lost: they cannot be had now.
        """
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*each) for each in lanes])
        give_up_s = time.monotonic() + _OFFSETS_S
        while True:
            try:
                answer = admin_for(self.settings).list_consumer_group_offsets(
                    [asked], require_stable=True, request_timeout=_OFFSETS_S
                )
                found = answer[group].result(_OFFSETS_S).topic_partitions
            except KafkaException as exc:
                error = exc.args[0]
            else:
                error = next((each.error for each in found if each.error is not None), None)
                if error is None:
                    return {
                        (each.topic, each.partition): Mark(each.offset, each.metadata or "")
                        for each in found
                        if each.offset >= 0
                    }
            unstable = error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT
            if not unstable or time.monotonic() > give_up_s:
                raise as_error(error)
            time.sleep(_LOOK_EVERY_S)

    def member(self, group: str) -> object:
        """Who commits offsets of a group without being in it, as the client wants it."""
        if group not in self._members:
            consumer = Consumer({"group.id": group})
            self._members[group] = consumer.consumer_group_metadata()
            consumer.close()
        return self._members[group]


def transaction_settings(properties: Mapping[str, str], name: str) -> dict[str, str]:
    """Properties of a transactional producer; a user's time-out of messages lengthens all."""
    message_ms = int(properties.get("message.timeout.ms", _MESSAGE_MS))
    most_ms = max(_TRANSACTION_MS, message_ms + _TRANSACTION_MS - _MESSAGE_MS)
    ours = {"message.timeout.ms": str(message_ms), "transaction.timeout.ms": str(most_ms)}
    return {**line_settings(properties, {"log_level": "0", **ours}), "transactional.id": name}


#: producers of this process, the one used last at the end; a forked child must not use a parent's
_lines: OrderedDict[tuple[int, tuple[tuple[str, str], ...]], TransactionLine] = OrderedDict()
_admins: dict[tuple[int, str], AdminClient] = {}


def line_for(settings: Mapping[str, str]) -> TransactionLine:
    """The producer of a transactional id; made, and the id taken, if this process has none."""
    key = _key(settings)
    if key not in _lines:
        _lines[key] = TransactionLine(settings)
    _lines.move_to_end(key)
    while len(_lines) > _MOST_LINES:
        _, oldest = _lines.popitem(last=False)
        oldest.producer.close()
    return _lines[key]


def give_up(settings: Mapping[str, str]) -> None:
    """Never use this producer again; whoever takes its id settles what it has open."""
    line = _lines.pop(_key(settings), None)
    if line is not None:
        with suppress(KafkaException):
            line.producer.purge()


def admin_for(settings: Mapping[str, str]) -> AdminClient:
    """One client for each process and cluster, to ask about offsets."""
    plain: dict[str, Any] = {
        name: value for name, value in settings.items() if name != "transactional.id"
    }
    key = (os.getpid(), repr(sorted(plain.items())))
    if key not in _admins:
        _admins[key] = AdminClient(plain)
    return _admins[key]


def _key(settings: Mapping[str, str]) -> tuple[int, tuple[tuple[str, str], ...]]:
    return (os.getpid(), tuple(sorted(settings.items())))


def as_error(error: KafkaError) -> SinkRefused | Lost:
    """What a failed call of a transactional producer means."""
    if error.code() in _MUST_BE_MENDED:
        return SinkRefused(
            f"Kafka transaction: {error.str()}; see the rights and limits in docs/sinks.md"
        )
    return Lost(error.str())
