"""Messages into a Kafka topic: at-least-once, or exactly-once by a Kafka transaction.

What is sent to Kafka cannot be in the store's transaction, and a killed task sends its slice
again. So every message carries the header ``headrace.slice``, the identity of its effect: a reader
that has done a slice drops its repeats. A slice that runs again may be cut at other offsets, and
ranges that overlap say only that some messages are repeats, not which; where that matters, put the
record's own partition and offset in the message. Within one run nothing is doubled or swapped,
since the producer is idempotent and waits for all replicas: it asks again in safety where an
acknowledgement is lost, as long as no message is refused meanwhile, and nothing else here sends
twice. At-most-once is had by position first, and by a producer that sends nothing again.

With ``transactional=True`` a use case may say exactly-once: its waves are written down before they
run, and `sink_transactions.py` makes a repeat harmless for readers of committed messages.

Columns: ``value`` (bytes or text), and if wanted ``key`` (bytes or text), ``headers`` (as records
have them), ``topic`` (text; null means the sink's), ``to_partition`` (null means that of the key),
``timestamp`` (null means that of sending) and ``place`` (whole numbers: offsets of the records,
told with their lane in two headers). With ``encode`` there are columns of their own in the place
of ``value``, with ``encode_key`` in that of ``key``, and the bytes are made here
(`sink_encoding.py`). Rows of one key keep their order: they are sent in the order of the effects
and of their rows, and one key has one partition.

An effect is checked before any of it is sent: its schema, the client's ``message.max.bytes``, and
whether its topics are there. What the broker refuses after that (a smaller limit, a right that is
missing) is found out message by message, so without transactions the other messages of that effect
may be in the topic.

A topic that is missing is made if the sink says its ``partitions``: at a deploy if it is one for
all tenants, else by the task that first writes to it, never by a turn of the driver. Else, or where
brokers refuse that, its tenant's lanes stop, and what stopped them names the commands that mend it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import pyarrow as pa
from confluent_kafka import KafkaError

from headrace.connectors.kafka.clients import BROKEN
from headrace.connectors.kafka.config import once_config, sink_config
from headrace.connectors.kafka.faults import ErrorKind, first_error, kind_of
from headrace.connectors.kafka.sink_encoding import Encodings, UnaskedIds
from headrace.connectors.kafka.sink_line import MakeTopics, TopicProducer
from headrace.connectors.kafka.sink_messages import (
    MAX_BYTES_DEFAULT,
    Encode,
    check,
    own_topic,
    sendable,
    translated,
)
from headrace.connectors.kafka.sink_transactions import KafkaTransactionWriter
from headrace.connectors.kafka.topic_shapes import TopicMaker, TopicShape
from headrace.connectors.outcomes import failed, told
from headrace.errors import ConfigError, HeadraceError, SinkUnavailable
from headrace.model.patterns import TENANT, has_other_braces
from headrace.ports import Effect, Encoding, SinkWriter, Site, Written


@dataclass(frozen=True)
class KafkaTopic:
    """A topic in the cluster that the records come from.

    Args:
        topic: name of the topic; ``{tenant}`` in it becomes the tenant.
        transactional: do exactly-once, by Kafka transactions, where the use case asks for it. Needs
            the rights WRITE and DESCRIBE on transactional ids that begin with ``headrace.``, and
            READ on groups that begin with ``headrace.tx.``.
        partitions: make a topic that is missing, with so many. None: it must be there.
        replication: copies of each partition of such a topic; None: the brokers' default.
        encode: makes values of columns, such as ``AvroOutput(schema)`` or ``Json(schema)``.
        encode_key: the same for keys; a column may go into both.
        retention: how long it keeps messages, as ``7d``, ``12h``, ``30m`` or ``forever``; None:
            the brokers' default.
        most_bytes: the largest message that is sent; None: ``message.max.bytes`` of the client's
            properties, or 1,000,000.

    Raises:
        ConfigError: the name has braces other than ``{tenant}``, no topic is made so, or two
            columns have one name.
    """

    keeps_newest: ClassVar[bool] = False

    topic: str
    transactional: bool = False
    # How a topic is made says nothing about where effects go, so it may change at any time.
    partitions: int | None = field(default=None, repr=False)
    replication: int | None = field(default=None, repr=False)
    retention: str | None = field(default=None, repr=False)
    encode: Encoding | None = field(default=None, repr=False)
    encode_key: Encoding | None = field(default=None, repr=False)
    most_bytes: int | None = field(default=None, repr=False)

    @property
    def writes_topic(self) -> str:
        """What use cases call it that would read it."""
        return self.topic

    def __post_init__(self) -> None:
        if self.partitions is None and (self.replication, self.retention) != (None, None):
            raise ConfigError(
                f"topic {self.topic!r}: replication and retention are those of a topic that is "
                "made; say partitions too"
            )
        _ = self.shape
        if not self.topic or has_other_braces(self.topic):
            raise ConfigError(f"topic {self.topic!r}: only {{tenant}} may stand in braces")
        self._encodings.refuse_clashes(self.topic)

    @property
    def exactly_once(self) -> Literal["intent"] | None:
        """Only by transactions; else a reader that drops repeats by ``headrace.slice`` can."""
        return "intent" if self.transactional else None

    @property
    def marks_partitions(self) -> bool:
        """Transactions carry offsets of partitions."""
        return self.transactional

    @property
    def shape(self) -> TopicShape:
        """How its topics are made, if they are."""
        return TopicShape(self.partitions, self.replication, self.retention)

    @property
    def needs_registry(self) -> bool:
        """Whether its messages name schemas of a registry."""
        return self._encodings.needs_registry

    def prepare(self, site: Site) -> None:
        """Make the topic, if it is one for all tenants and may be made.

        Raises:
            ConfigError: brokers refuse it.
            SinkUnavailable: no broker answers.
        """
        make = self._maker(site)
        if make is not None and TENANT not in self.topic:
            for error in make([self.topic]).values():
                raise error

    def check(self, output: pa.Table) -> None:
        """See that every row of a handler's table can be a message.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a message is too large, or does not fit what is encoded.
        """
        made = output
        if self.encode is not None or self.encode_key is not None:
            made = self._encodings.messages(output, self.topic, UnaskedIds())
        check(made, self.topic, self.most_bytes or MAX_BYTES_DEFAULT)

    def open(self, site: Site) -> SinkWriter:
        """Open the writer of a bin; its producer is shared with other bins of the worker."""
        if self.most_bytes is not None:
            site = taking(self.most_bytes, site)
        if self.transactional and site.fence:
            return KafkaTransactionWriter(self.topic, site, self._maker(site), self._encoder(site))
        properties = dict(site.connections.kafka)
        return KafkaTopicWriter(self.topic, properties, self._maker(site), self._encoder(site))

    @property
    def _encodings(self) -> Encodings:
        return Encodings(self.encode, self.encode_key)

    def _encoder(self, site: Site) -> Encode:
        encodings, pattern, ids = self._encodings, self.topic, site.schemas
        return lambda effect: encodings.made(effect, own_topic(effect, pattern), ids)

    def _maker(self, site: Site) -> TopicMaker | None:
        return None if self.partitions is None else TopicMaker(site.connections.kafka, self.shape)


class KafkaTopicWriter:
    """Sends the messages of effects and waits until each is acknowledged."""

    def __init__(
        self,
        topic: str,
        properties: dict[str, str],
        make: MakeTopics | None = None,
        encode: Encode | None = None,
    ) -> None:
        self._topic = topic
        self._make = make
        self._encode = encode
        self._properties = properties
        self._most_bytes = int(properties.get("message.max.bytes", MAX_BYTES_DEFAULT))

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        line = _line(self._properties, once=not all(effect.may_repeat for effect in effects))
        given = dict(enumerate(effects))
        ready, errors = sendable(given, self._topic, self._most_bytes, self._encode)
        try:
            line.learn(ready.values(), self._topic, self._make)
        except SinkUnavailable as error:
            errors.update(dict.fromkeys(ready, error))
            ready = {}
        for index, effect in ready.items():
            _send(line, effect, self._topic, errors, index)
        try:
            # Every message ends within message.timeout.ms, delivered or not.
            while line.producer.flush(1.0):
                pass
        except BROKEN as exc:
            _forget(line)
            broke = SinkUnavailable(f"topic {self._topic}: the producer broke: {exc}")
            errors = {**dict.fromkeys(ready, broke), **errors}
        return [failed(errors[i]) if i in errors else Written() for i in range(len(effects))]

    def close(self) -> None:
        """Keep the producer for the next bin; all it was given has been delivered."""


def taking(most_bytes: int, site: Site) -> Site:
    """The site with a client that sends messages of so many bytes."""
    properties = {**site.connections.kafka, "message.max.bytes": str(most_bytes)}
    return replace(site, connections=replace(site.connections, kafka=properties))


def _send(
    line: TopicProducer, effect: Effect, pattern: str, errors: dict[int, HeadraceError], index: int
) -> None:
    note = _noted(errors, index, line, own_topic(effect, pattern))
    try:
        line.demand(effect, pattern)
        line.send(effect, pattern, note)
    except HeadraceError as error:
        errors.setdefault(index, error)
    except BROKEN as exc:
        _forget(line)
        note(first_error(exc), pattern)
    except Exception as error:  # it must not stop the other tenants
        errors.setdefault(index, told(error, f"topic {pattern}"))


def _noted(
    errors: dict[int, HeadraceError], index: int, line: TopicProducer, own: str
) -> Callable[[KafkaError, str], None]:
    def note(error: KafkaError, topic: str) -> None:
        errors.setdefault(index, translated(error, topic, own))
        # Reports do not bear the mark of a fatal error, only its code.
        if error.fatal() or kind_of(error) is ErrorKind.BROKEN:
            _forget(line)

    return note


def _forget(line: TopicProducer) -> None:
    """Let the next bin make a producer anew."""
    for key in [key for key, known in _lines.items() if known is line]:
        del _lines[key]


#: one for each process and configuration; a forked child must not use its parent's
_lines: dict[tuple[int, tuple[tuple[str, str], ...]], TopicProducer] = {}


def _line(properties: dict[str, str], once: bool = False) -> TopicProducer:
    settings = once_config(properties) if once else sink_config(properties)
    key = (os.getpid(), tuple(sorted(settings.items())))
    if key not in _lines:
        _lines[key] = TopicProducer(settings)
    return _lines[key]
