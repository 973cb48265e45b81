"""Records from strangers into topics, each with its place in Kafka as the answer.

Whoever posts an event is told that it is stored only when Kafka has acknowledged it on all replicas
in sync, so each record has to be waited for, many thousand at once, on one event loop. The client
works in threads of its own and tells of deliveries only when it is polled. So the loop itself polls
it, every two milliseconds while anything is under way: no thread of ours, no lock, one wake for
many records.

A record that is not acknowledged in time has an unknown outcome: its bytes may be on the broker.
That is told as ``BrokerUnavailable``, never as stored. Idempotence of the producer keeps its own
retries from doubling anything; it does not know of a sender that sends again. Where such a retry
finds the record stored already, since an acknowledgement was lost, Kafka does not say at what
offset.

How much may be under way is bounded by the caller (``gateway.rates``); the client's own queue is
only large enough for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    HeadraceError,
    SinkRefused,
    TopicMissing,
)
from headrace.kafka.config import client_config, producer_config, servers
from headrace.kafka.faults import first_error

log = structlog.get_logger(__name__)

_POLL_EVERY_S = 0.002
_MISSING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
_TOO_LARGE = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_MSG_SIZE,
)
_REFUSED = (
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_MSG,
    KafkaError.POLICY_VIOLATION,
    KafkaError._INVALID_ARG,
)
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class Stored(NamedTuple):
    """Where a record is."""

    partition: int
    #: None: Kafka has it, and has not said where
    offset: int | None


class Outgoing(Protocol):
    """A record to be stored."""

    @property
    def value(self) -> bytes:
        """The bytes."""

    @property
    def key(self) -> bytes | None:
        """Chooses the partition."""

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """In order."""


#: a place, or why there is none: ``BrokerUnavailable`` when nobody knows, else a ``Permanent``
Result = Stored | HeadraceError


class Ingest:
    """A producer for one event loop."""

    def __init__(
        self, config: Mapping[str, str], *, delivery_timeout_s: float, most_bytes: int
    ) -> None:
        """Connect lazily.

        Args:
            config: client properties; ``partitioner`` is Java's unless it says otherwise, so that
                the same key from another producer comes to the same partition.
            delivery_timeout_s: a record that was not acknowledged by then has an unknown outcome.
            most_bytes: what the client's queue holds.

        Raises:
            ConfigError: a property is refused.
        """
        self._config = client_config(config)
        self._timeout_s = delivery_timeout_s
        self._under_way = 0
        self._polling = False
        settings: dict[str, Any] = ingest_config(self._config, delivery_timeout_s, most_bytes)
        try:
            self._producer = Producer({**settings, "error_cb": _note})
        except KafkaException as exc:
            raise ConfigError(f"kafka: {first_error(exc).str()}") from exc

    def __repr__(self) -> str:
        return f"Ingest({servers(self._config)})"

    @property
    def under_way(self) -> int:
        """Records of calls that have no answer yet."""
        return self._under_way

    async def store(self, topic: str, records: Sequence[Outgoing]) -> list[Result]:
        """Store records in order; the topic has to be there.

        Returns when the fate of each is known, one result for each record. Records behind one that
        the client has no room for are not tried, so that their order holds.
        """
        if not records:
            return []
        loop = asyncio.get_running_loop()
        waiting = _Waiting(self, topic, len(records), loop)
        produce: Any = self._producer.produce
        told = waiting.told
        for number, each in enumerate(records):
            try:
                # To name headers, even none, makes the client's call twice as dear.
                more = {"headers": each.headers} if each.headers else {}
                produce(topic, each.value, each.key, on_delivery=partial(told, number), **more)
            except BufferError:
                waiting.stopped(number, BrokerUnavailable("the queue to Kafka is full"))
                break
            except KafkaException as exc:
                waiting.failed(number, self._translated(first_error(exc), topic))
        if self._under_way and not self._polling:
            self._polling = True
            loop.call_later(_POLL_EVERY_S, self._poll, loop)
        return await waiting.all_told

    async def close(self) -> None:
        """Wait for what is under way, no longer than a delivery may take, and give up the rest."""
        give_up_s = asyncio.get_running_loop().time() + self._timeout_s
        while self._under_way and asyncio.get_running_loop().time() < give_up_s:
            await asyncio.sleep(_POLL_EVERY_S)
        if self._under_way:
            self._producer.purge()
            self._producer.poll(0)

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._producer.poll(0)
        except KafkaException as exc:
            # Nothing that it raises is about one record; their reports come with the next poll.
            _note(first_error(exc))
        finally:
            self._polling = self._under_way > 0
            if self._polling:
                loop.call_later(_POLL_EVERY_S, self._poll, loop)

    def _translated(self, error: KafkaError, topic: str) -> HeadraceError:
        code = error.code()
        if code in _MISSING:
            return TopicMissing(f"topic {topic} is not there")
        if code in _TOO_LARGE:
            return SinkRefused(f"topic {topic} takes no record of this size")
        if code in _REFUSED:
            return SinkRefused(f"topic {topic} refuses the record: {error.str()}")
        if code in _DENIED:
            return ConfigError(f"we may not write to topic {topic}; grant Write on it")
        return BrokerUnavailable(
            f"Kafka did not acknowledge it within {self._timeout_s:g} s, so it may be stored or not"
        )


class _Waiting:
    """The records of one call, until the fate of each is known."""

    def __init__(
        self, owner: Ingest, topic: str, count: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._owner = owner
        self._topic = topic
        self._results: list[Any] = [None] * count
        self._left = count
        self.all_told: asyncio.Future[list[Result]] = loop.create_future()
        owner._under_way += count

    def told(self, number: int, error: KafkaError | None, message: Any) -> None:
        """The client knows what became of a record."""
        # Called for each record, and a good part of what one costs.
        if error is None:
            self._results[number] = Stored(message.partition(), message.offset())
        else:
            self._results[number] = self._owner._translated(error, self._topic)
        self._left -= 1
        if self._left == 0:
            self._ended(0)

    def failed(self, number: int, error: HeadraceError) -> None:
        """A record was not taken by the client."""
        self._results[number] = error
        self._ended(1)

    def stopped(self, number: int, error: HeadraceError) -> None:
        """Neither this record nor any behind it is tried."""
        count = len(self._results) - number
        self._results[number:] = [error] * count
        self._ended(count)

    def _ended(self, count: int) -> None:
        self._left -= count
        if self._left == 0:
            self._owner._under_way -= len(self._results)
            if not self.all_told.done():
                self.all_told.set_result(self._results)


def ingest_config(
    config: Mapping[str, object], delivery_timeout_s: float, most_bytes: int
) -> dict[str, str]:
    """For a producer that never waits long: to fill a batch, or for a broker that is away."""
    return {
        "partitioner": "murmur2_random",
        "linger.ms": "5",
        "compression.type": "lz4",
        **producer_config(config),
        "queue.buffering.max.messages": "1000000",
        # What the client keeps of a record beside its bytes is not counted by us.
        "queue.buffering.max.kbytes": str(max(1024, 2 * most_bytes // 1024)),
        "message.timeout.ms": str(round(delivery_timeout_s * 1000)),
        "topic.metadata.propagation.max.ms": "2000",
    }


def _note(error: KafkaError) -> None:
    # It is called by the client, and an exception would come out of the next poll.
    with suppress(OSError, ValueError):
        log.warning("kafka client", error=error.str())
