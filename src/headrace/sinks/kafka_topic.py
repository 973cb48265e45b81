"""Messages into a Kafka topic. Guarantee: at-least-once; repeats can be told.

What is sent to Kafka cannot be in the store's transaction, and a killed task sends its slice
again. So every message carries the header ``headrace.slice``, the identity of its effect: a reader
that has done a slice drops its repeats. A slice that runs again may be cut at other offsets, and
ranges that overlap say only that some messages are repeats, not which; where that matters, put the
record's own partition and offset in the message. Within one run nothing is doubled or swapped,
since the producer is idempotent and waits for all replicas. At-most-once is had by position first.

Columns: ``value`` (bytes or text), and if wanted ``key`` (bytes or text), ``headers`` (as records
have them) and ``topic`` (text; null means the sink's). Rows of one key keep their order: they are
sent in the order of the effects and of their rows, and one key has one partition.

An effect is checked before any of it is sent: its schema, the client's ``message.max.bytes``, and
whether its topics are there, since the client would wait for a missing topic and all other tenants
with it. What the broker refuses after that (a smaller limit, a right that is missing) is found out
message by message, so the other messages of that effect may be in the topic. Kafka transactions,
which would hide them, are not used yet. Topics are not made here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.errors import ConfigError, HeadraceError, SinkRefused, SinkUnavailable
from headrace.ports import Effect, Site, Written
from headrace.sinks.columns import check_columns
from headrace.sinks.outcomes import failed, identity

#: header that names the effect a message belongs to
SLICE_HEADER = "headrace.slice"
_REQUIRED = {"value": "bytes or text"}
_OPTIONAL = {"key": "bytes or text", "headers": "headers", "topic": "text"}
#: what a message is counted to need besides key, value and headers
_OVERHEAD_BYTES = 128
_MAX_BYTES_DEFAULT = 1_000_000
_METADATA_WAIT_S = 10.0
#: within a bin's time budget, since a missing topic delays whoever is sent with it
_NEW_TOPIC_WAIT_S = 0.5
_OURS = {"enable.idempotence": "true", "acks": "all"}
_DEFAULTS = {
    "linger.ms": "2",
    "compression.type": "lz4",
    # A message that cannot be delivered must be known of before the bin's time is long over.
    "message.timeout.ms": "30000",
    # A topic that vanished is waited for, and all that were sent with it wait too.
    "topic.metadata.propagation.max.ms": "2000",
}
#: refusals that a person has to mend, though the protocol calls some of them retriable
_PERMANENT = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._INVALID_ARG,
}


@dataclass(frozen=True)
class KafkaTopic:
    """A topic in the cluster that the records come from.

    Args:
        topic: name of the topic; ``{tenant}`` in it becomes the tenant. It must be there.

    Raises:
        ConfigError: the name has braces other than ``{tenant}``.
    """

    topic: str

    def __post_init__(self) -> None:
        rest = self.topic.replace("{tenant}", "")
        if not self.topic or "{" in rest or "}" in rest:
            raise ConfigError(f"topic {self.topic!r}: only {{tenant}} may stand in braces")

    @property
    def exactly_once(self) -> None:
        """It cannot; a reader that drops repeats by ``headrace.slice`` can."""
        return

    def prepare(self, site: Site) -> None:
        """Do nothing: topics are made by whoever decides on their partitions."""

    def open(self, site: Site) -> KafkaTopicWriter:
        """Open the writer of a bin; the producer is shared by all bins of the worker."""
        return KafkaTopicWriter(self, dict(site.connections.kafka))


class KafkaTopicWriter:
    """Sends the messages of effects and waits until each is acknowledged."""

    def __init__(self, sink: KafkaTopic, properties: dict[str, str]) -> None:
        self._sink = sink
        self._properties = properties
        self._max_bytes = int(properties.get("message.max.bytes", _MAX_BYTES_DEFAULT))

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        errors: dict[int, HeadraceError] = {}
        line = _line(self._properties)
        for index, effect in enumerate(effects):
            try:
                if effect.output.num_rows or effect.output.num_columns:
                    self._check(effect.output)
            except HeadraceError as error:
                errors[index] = error
        ready = {i: e for i, e in enumerate(effects) if i not in errors and e.output.num_rows}
        try:
            line.learn({topic for effect in ready.values() for topic in self._topics(effect)})
        except SinkUnavailable as error:
            errors.update(dict.fromkeys(ready, error))
            ready = {}
        for index, effect in ready.items():
            try:
                self._send(line, effect, index, errors)
            except HeadraceError as error:
                errors.setdefault(index, error)
            except ValueError as error:
                # Such as text that is no UTF-8; it must not stop the other tenants.
                errors.setdefault(index, SinkRefused(f"topic {self._sink.topic}: {error}"))
        # Every message ends within message.timeout.ms, delivered or not.
        while line.producer.flush(1.0):
            pass
        return [failed(errors[i]) if i in errors else Written() for i in range(len(effects))]

    def close(self) -> None:
        """Keep the producer for the next bin; all it was given has been delivered."""

    def _own_topic(self, effect: Effect) -> str:
        return self._sink.topic.format(tenant=effect.slices[0].lane.tenant)

    def _topics(self, effect: Effect) -> set[str]:
        own = self._own_topic(effect)
        if "topic" not in effect.output.schema.names:
            return {own}
        return {name or own for name in effect.output.column("topic").unique().to_pylist()}

    def _send(
        self, line: _Line, effect: Effect, index: int, errors: dict[int, HeadraceError]
    ) -> None:
        for topic in sorted(self._topics(effect)):
            if topic not in line.topics:
                raise SinkRefused(f"topic {topic}: it is not there; make it, then resume")
        own = self._own_topic(effect)
        mark = (SLICE_HEADER, identity(effect).encode())

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                topic = message.topic() or own
                errors.setdefault(index, _translated(error, topic))
                line.note(error, topic)

        for topic, key, value, headers in _messages(effect.output):
            all_headers = [*_pairs(headers), mark]
            message = {"key": key, "headers": all_headers, "on_delivery": delivered}
            line.put(topic or own, value, message)

    def _check(self, table: pa.Table) -> None:
        where = f"topic {self._sink.topic}"
        check_columns(table.schema, _REQUIRED, where, _OPTIONAL)
        sizes = _binary_lengths(table, "value")
        if "key" in table.schema.names:
            sizes = pc.add(sizes, _binary_lengths(table, "key"))
        largest = (pc.max(sizes).as_py() or 0) + _OVERHEAD_BYTES
        if largest > self._max_bytes:
            row = pc.index(sizes, largest - _OVERHEAD_BYTES).as_py()
            raise SinkRefused(
                f"{where}: the message of row {row} has {largest} bytes, message.max.bytes allows "
                f"{self._max_bytes}"
            )


def _messages(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    names = ("topic", "key", "value", "headers")
    columns = [
        table.column(name).to_pylist() if name in table.schema.names else [None] * table.num_rows
        for name in names
    ]
    return zip(*columns, strict=True)


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    # A slice that was itself read from such a topic brings a mark; only the newest counts.
    return [(h["key"], h["value"]) for h in headers or () if h["key"] != SLICE_HEADER]


def _binary_lengths(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    if pa.types.is_null(column.type):
        return pa.array([0] * table.num_rows, pa.int64())
    return pc.fill_null(pc.binary_length(column).cast(pa.int64()), 0)


def _translated(error: KafkaError, topic: str) -> HeadraceError:
    message = f"topic {topic}: {error.str()}"
    if error.code() in _PERMANENT and not error.fatal():
        return SinkRefused(message)
    # The producer's own time-outs and a fatal state end with a new try or a new producer.
    return SinkUnavailable(message)


class _Line:
    """A producer, and the topics it is known to have."""

    def __init__(self, settings: dict[str, str]) -> None:
        try:
            self.producer = Producer(settings)
        except KafkaException as exc:
            raise ConfigError(f"Kafka producer: {exc.args[0].str()}") from exc
        self.topics: set[str] = set()

    def learn(self, wanted: set[str]) -> None:
        """Ask for all topics at once, if one of these is not known yet.

        A topic just made is not known to every broker at once, so it is asked for again, shortly:
        all other tenants wait with it.
        """
        give_up_s = time.monotonic() + _NEW_TOPIC_WAIT_S
        while not self.topics.issuperset(wanted):
            try:
                self.topics = set(self.producer.list_topics(timeout=_METADATA_WAIT_S).topics)
            except KafkaException as exc:
                raise SinkUnavailable(f"Kafka: no broker answers: {exc.args[0].str()}") from exc
            if time.monotonic() > give_up_s:
                return
            if not self.topics.issuperset(wanted):
                self.producer.poll(0.05)

    def put(self, topic: str, value: Any, message: dict[str, Any]) -> None:
        """Queue a message; waits while the queue is full."""
        while True:
            try:
                self.producer.produce(topic, value, **message)
            except BufferError:
                # Give the deliveries that fill the queue a moment, and their callbacks a turn.
                self.producer.poll(0.1)
            except KafkaException as exc:
                self.note(exc.args[0], topic)
                raise _translated(exc.args[0], topic) from exc
            else:
                self.producer.poll(0)
                return

    def note(self, error: KafkaError, topic: str) -> None:
        """Forget what an error shows to be wrong: the topic, or after a fatal one the producer."""
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            self.topics.discard(topic)
        if error.fatal():
            for key in [key for key, line in _lines.items() if line is self]:
                del _lines[key]


#: one for each process and configuration; a forked child must not use its parent's
_lines: dict[tuple[int, tuple[tuple[str, str], ...]], _Line] = {}


def _line(properties: dict[str, str]) -> _Line:
    settings = {**_DEFAULTS, **properties, **_OURS}
    key = (os.getpid(), tuple(sorted((name, str(value)) for name, value in settings.items())))
    if key not in _lines:
        _lines[key] = _Line(settings)
    return _lines[key]
