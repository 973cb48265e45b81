"""Records from strangers into topics, each with its place in Kafka as the answer.

Whoever posts an event is told that it is stored only when Kafka has acknowledged it on all replicas
in sync, so each record has to be waited for, many thousand at once, on one event loop. The client
works in threads of its own and tells of deliveries only when it is polled. So the loop itself polls
it, every two milliseconds while anything is under way: no thread of ours, no lock, one wake for
many records.

A record that is not acknowledged in time has an unknown outcome: its bytes may be on the broker.
That is told as ``BrokerUnavailable``, never as stored. Idempotence of the producer keeps its own
retries from doubling anything, as long as none of its records fails; it does not know of a sender
that sends again. Where such a retry finds the record stored already, since an acknowledgement was
lost, Kafka does not say at what offset.

So a record that its sender may send again (``begin``) is not given up when its sender is answered:
the client goes on with it, under the sequence number that it has, by which brokers know it however
often it comes, until its fate is known. Such records have a client of their own: the time after
which a client gives up is one for all of its records, and once one of them failed for good it would
number all anew (``ingest_clients`` says what it does instead).

How much may be under way is bounded by the caller (``gateway.rates``); the client's own queue is
only large enough for that. What goes on may stay there for days, with its headers, so of that queue
a tenant may have a quarter of what the others leave. Its topics are those with the same first part
of their names, up to a dot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka.config import (
    QUEUE_RECORDS,
    client_config,
    ingest_config,
    queue_bytes,
    servers,
)
from headrace.connectors.kafka.faults import (
    DENIED,
    NOT_THERE,
    ErrorKind,
    delivery_error,
    first_error,
    kind_of,
)
from headrace.connectors.kafka.ingest_clients import IngestClient, IngestClients, ProducerKind
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    HeadraceError,
    SinkRefused,
    SinkUnavailable,
    TopicMissing,
)
from headrace.policies.holding import may_hold

_POLL_EVERY_S = 0.002


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


#: a place, or why there is none: ``BrokerUnavailable`` when nobody knows whether there is one
Result = Stored | HeadraceError


class Ingest:
    """A producer for one event loop."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        delivery_timeout_s: float,
        most_bytes: int,
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
        self._most_bytes = most_bytes
        self._under_way = 0
        self._polling = False
        #: topics that have refused a record
        self._refusing: set[str] = set()
        #: what goes on, by tenant
        self._queued = Queued(queue_bytes(most_bytes))
        self._clients = IngestClients(self._settings, delivery_timeout_s)
        self._clients.of(ProducerKind.PROMPT, 0.0)

    def __repr__(self) -> str:
        return f"Ingest({servers(self._config)})"

    @property
    def under_way(self) -> int:
        """Records of calls of which not every fate is known."""
        return self._under_way

    async def store(self, topic: str, records: Sequence[Outgoing]) -> list[Result]:
        """Store records in order; the topic has to be there.

        Returns when the fate of each is known, one result for each record. Records behind one that
        the client has no room for are not tried, so that their order holds.
        """
        return await self._sent(ProducerKind.PROMPT, topic, records).fates if records else []

    def begin(self, topic: str, records: Sequence[Outgoing]) -> Sending:
        """Store records in order, and go on with each until its fate is known.

        As ``store``, but whoever asks need not wait for it.
        """
        tenant, size = topic.partition(".")[0], sum(map(_size, records))
        if not self._queued.take(tenant, len(records), size):
            sending = Sending(self, topic, len(records), asyncio.get_running_loop(), set())
            sending.stopped(0, SinkUnavailable("too much of this tenant waits for Kafka"))
            return sending
        kind = ProducerKind.APART if topic in self._refusing else ProducerKind.PATIENT
        sending = self._sent(kind, topic, records)
        done = partial(self._queued.give_back, tenant, len(records), size)
        sending.fates.add_done_callback(lambda _: done())
        return sending

    async def close(self) -> None:
        """Wait for what is under way, no longer than a delivery may take, and give up the rest."""
        give_up_s = asyncio.get_running_loop().time() + self._timeout_s
        while self._under_way and asyncio.get_running_loop().time() < give_up_s:
            await asyncio.sleep(_POLL_EVERY_S)
        if self._under_way:
            for client in self._clients:
                client.producer.purge()
                client.poll()

    def _settings(self, kind: ProducerKind) -> dict[str, str]:
        patient = kind is not ProducerKind.PROMPT
        return ingest_config(self._config, self._timeout_s, self._most_bytes, patient=patient)

    def _sent(self, kind: ProducerKind, topic: str, records: Sequence[Outgoing]) -> Sending:
        loop = asyncio.get_running_loop()
        client = self._clients.of(kind, loop.time())
        sending = Sending(self, topic, len(records), loop, client.numbered if client else set())
        if client is None:
            sending.stopped(0, SinkUnavailable("the client of topics that refuse records ends"))
        else:
            self._produce(client, topic, records, sending)
        if self._under_way and not self._polling:
            self._polling = True
            loop.call_later(_POLL_EVERY_S, self._poll, loop)
        return sending

    def _produce(
        self, client: IngestClient, topic: str, records: Sequence[Outgoing], sending: Sending
    ) -> None:
        produce: Any = client.producer.produce
        told = sending.told
        for number, record in enumerate(records):
            try:
                # To name headers, even none, makes the client's call twice as dear.
                more = {"headers": record.headers} if record.headers else {}
                produce(topic, record.value, record.key, on_delivery=partial(told, number), **more)
            except BufferError:
                sending.stopped(number, SinkUnavailable("the queue to Kafka is full"))
                break
            except KafkaException as exc:
                error = first_error(exc)
                client.health.broken |= kind_of(error) is ErrorKind.BROKEN
                sending.failed(number, self._refused(error, topic))

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        for client in self._clients:
            client.poll()
        self._clients.sort_out(loop.time())
        self._polling = self._under_way > 0
        if self._polling:
            loop.call_later(_POLL_EVERY_S, self._poll, loop)

    def _failed(self, error: KafkaError, topic: str) -> HeadraceError:
        """Of a record that the client gave up, or a broker refused."""
        # Codes of the client itself are far below 0.
        if error.code() >= KafkaError.UNKNOWN and kind_of(error) not in NOT_THERE:
            self._refusing.add(topic)
        return self._translated(error, topic)

    def _refused(self, error: KafkaError, topic: str) -> HeadraceError:
        """Of a record that the client did not take: it is nowhere."""
        told = self._translated(error, topic)
        if isinstance(told, BrokerUnavailable):
            return SinkUnavailable(f"the client of Kafka takes nothing: {error.str()}")
        return told

    def _translated(self, error: KafkaError, topic: str) -> HeadraceError:
        fault = kind_of(error)
        if fault in NOT_THERE:
            return TopicMissing(f"topic {topic} is not there")
        if fault in (ErrorKind.TOO_LARGE, ErrorKind.BAD_SIZE):
            return SinkRefused(f"topic {topic} takes no record of this size")
        if fault in (ErrorKind.REFUSED, ErrorKind.BAD_CALL):
            return SinkRefused(f"topic {topic} refuses the record: {error.str()}")
        if fault in DENIED:
            return ConfigError(f"we may not write to topic {topic}; grant Write on it")
        return BrokerUnavailable(
            f"Kafka did not acknowledge it within {self._timeout_s:g} s, so it may be stored or not"
        )


class Queued:
    """How much of the client's queue is taken by what goes on, in records and in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = (QUEUE_RECORDS, most_bytes)
        self._taken = (0, 0)
        #: nobody is in it who has nothing
        self._of: dict[str, tuple[int, int]] = {}

    def take(self, tenant: str, *more: int) -> bool:
        """Take more for a tenant, of both or of none; whether there was enough."""
        own = self._of.get(tenant, (0, 0))
        if not all(map(may_hold, self._most, self._taken, own, more)):
            return False
        self._change(tenant, *more)
        return True

    def give_back(self, tenant: str, *amounts: int) -> None:
        """It was stored, or will not be."""
        self._change(tenant, *(-amount for amount in amounts))

    def _change(self, tenant: str, records: int, size: int) -> None:
        own = self._of.pop(tenant, (0, 0))
        left = own[0] + records, own[1] + size
        if left != (0, 0):
            self._of[tenant] = left
        self._taken = self._taken[0] + records, self._taken[1] + size


class Sending:
    """The records of one call, until the fate of each is known.

    Attributes:
        results: a result for each record; None as long as it is not known.
        fates: done when all of them are.
    """

    def __init__(
        self,
        owner: Ingest,
        topic: str,
        count: int,
        loop: asyncio.AbstractEventLoop,
        numbered: set[tuple[str, int]],
    ) -> None:
        self._owner = owner
        self._topic = topic
        self._numbered = numbered
        self.results: list[Any] = [None] * count
        self._left = count
        self.fates: asyncio.Future[list[Result]] = loop.create_future()
        owner._under_way += count

    async def wait(self) -> None:
        """Until the fate of each is known, but no longer than a delivery may take."""
        await asyncio.wait([self.fates], timeout=self._owner._timeout_s)

    def told(self, number: int, error: KafkaError | None, message: Any) -> None:
        """The client knows what became of a record."""
        # Called for each record, and a good part of what one costs.
        partition = message.partition()
        lane = self._topic, partition
        problem = error if lane in self._numbered else delivery_error(error, message)
        if problem is None:
            self._numbered.add(lane)
            self.results[number] = Stored(partition, message.offset())
        else:
            self.results[number] = self._owner._failed(problem, self._topic)
        self._left -= 1
        if self._left == 0:
            self._ended(0)

    def failed(self, number: int, error: HeadraceError) -> None:
        """A record was not taken by the client."""
        self.results[number] = error
        self._ended(1)

    def stopped(self, number: int, error: HeadraceError) -> None:
        """Neither this record nor any behind it is tried."""
        count = len(self.results) - number
        self.results[number:] = [error] * count
        self._ended(count)

    def _ended(self, count: int) -> None:
        self._left -= count
        if self._left == 0:
            self._owner._under_way -= len(self.results)
            if not self.fates.done():
                self.fates.set_result(self.results)


def _size(record: Outgoing) -> int:
    """Bytes that it has in the client's queue."""
    named = sum(len(name) + len(value) for name, value in record.headers)
    return len(record.value) + len(record.key or b"") + named
