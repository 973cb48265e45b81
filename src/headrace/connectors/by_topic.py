"""One log, and one reader, made of all that there are: who has a topic says its name.

A driver reads what use cases name, and of these some read Kafka and others streams of a connection.
So it is given a log that asks the one which has the topic (``model/topic_names.py``), and its
workers a reader that does. Each answers for its own: where one is away, the other's lanes go on.

Nothing of Kinesis is imported, and no client made, before a topic names a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from headrace.connectors.client_libraries import not_here
from headrace.connectors.dynamodb.servers import Service, address_of
from headrace.connectors.kafka import KafkaLog, KafkaReaderFactory
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.patterns import TENANT
from headrace.model.places import NARROW, Place, Places
from headrace.model.streams import Slice
from headrace.model.topic_lists import topics_of
from headrace.model.topic_names import connection_of, own_name
from headrace.ports import (
    Connections,
    Log,
    PositionsMirror,
    SliceBatch,
    SliceReader,
    TopicInfo,
)

if TYPE_CHECKING:
    from headrace.connectors.kinesis import KinesisLog
    from headrace.connectors.kinesis.shards import Listed

V = TypeVar("V")


def open_log(connections: Connections, *, asks_once: bool = False) -> LogByTopic:
    """What is in Kafka, and in the streams of all connections.

    Args:
        connections: where they are.
        asks_once: whoever asks does not come again, as a command does not: where one is away he
            is told that, and not of the others' topics alone.

    Raises:
        ConfigError: Kafka's client does not accept a property.
    """
    return LogByTopic(connections, KafkaLog(connections.kafka), asks_once)


def require_log(topic: str, connections: Connections) -> None:
    """See that the log is named that has a topic, and that it can be asked from here.

    Args:
        topic: as a use case says it.
        connections: what the YAML file names.

    Raises:
        ConfigError: it is not; says what to do.
        CodeNotLoaded: a library is not installed on this machine.
    """
    for one in topics_of(topic):
        if (name := connection_of(one)) is not None:
            _require_connection(name, one, connections)


def _require_connection(name: str, topic: str, connections: Connections) -> None:
    is_own = connections.server(name, telling=True).is_of_a_tenant
    if is_own and not own_name(topic).startswith(f"{TENANT}."):
        raise ConfigError(
            f"connection {name} is another one for each tenant, and the name of a stream says "
            f"whose it is where it begins with {TENANT} and a dot, such as "
            f"{name}:{TENANT}.visits; call streams so, or name a connection for all"
        )
    try:
        from headrace.connectors.kinesis import require_client  # noqa: PLC0415 - see above
    except ImportError as error:
        raise not_here("Kinesis needs boto3 and protobuf", "kinesis", error) from error
    require_client(name, connections)


def open_lease_mirror(
    log: LogByTopic, connections: Connections, at: str, prefix: str
) -> PositionsMirror:
    """What shows positions in shards as leases, in tables of DynamoDB.

    Args:
        log: of the same driver; which shards there are was told to it.
        connections: what the YAML file names.
        at: the connection of DynamoDB that the tables are at.
        prefix: what their names begin with.

    Raises:
        ConfigError: there is no such connection, or it is none of DynamoDB.
        CodeNotLoaded: a library is not installed on this machine.
    """
    server = connections.server(at, telling=True)
    if server.is_of_a_tenant:
        raise ConfigError(
            f"driver: mirror_leases: connection {at} is another one for each tenant; name one for "
            "all"
        )
    service = Service(at, address_of(server, at))
    try:
        from headrace.connectors.lease_mirror import LeaseMirror  # noqa: PLC0415 - see above
    except ImportError as error:
        raise not_here("Kinesis needs boto3 and protobuf", "kinesis", error) from error
    return LeaseMirror(service, log.listed, prefix, connections.installation)


@dataclass(slots=True)
class LogByTopic:
    """``headrace.ports.Log`` on Kafka and Kinesis; turns and who asks beside them may be at it."""

    connections: Connections = field(repr=False)
    kafka: Log
    asks_once: bool = False
    _kinesis: KinesisLog | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def of(self, topic: str) -> Log:
        """The one that has a topic, or a lane."""
        if connection_of(topic) is None:
            return self.kafka
        with self._lock:
            if self._kinesis is None:
                from headrace.connectors.kinesis import streams_log  # noqa: PLC0415 - see above

                self._kinesis = streams_log(self.connections, asks_once=self.asks_once)
            return self._kinesis

    def listed(self, stream: str) -> Listed | None:
        """A stream of Kinesis as it was listed last; None if it was not. Nobody is asked."""
        return None if self._kinesis is None else self._kinesis.listed(stream)

    @property
    def places(self) -> Places:
        """Those of both, which no number has in common: Kafka's fit in 64 bits, the others' never.

        Whether a place is the number of a record only the log of a topic says.
        """
        if self._kinesis is None:
            return self.kafka.places
        return _both(self.kafka.places, self._kinesis.places)

    @property
    def tells_ends(self) -> bool:
        """Whether all do."""
        return self.kafka.tells_ends and (self._kinesis is None or self._kinesis.tells_ends)

    @property
    def tells_starts(self) -> bool:
        """Whether all do."""
        return self.kafka.tells_starts and (self._kinesis is None or self._kinesis.tells_starts)

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Id and lanes of each topic that exists."""
        return self._asked(names, lambda log, ours: log.topics(ours))

    def all_topics(self) -> Collection[str]:
        """Kafka's: patterns are of no others."""
        return self.kafka.all_topics()

    def absent(self, names: Collection[str]) -> Collection[str]:
        """Topics that are surely not there."""
        return {name for log, ours in self._by_log(names) for name in log.absent(ours)}

    def end_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """Where lanes end."""
        return self._asked(lanes, lambda log, ours: log.end_offsets(ours))

    def start_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """Where lanes begin."""
        return self._asked(lanes, lambda log, ours: log.start_offsets(ours))

    def offsets_at(self, lanes: Collection[str], timestamp_s: float) -> dict[str, Place]:
        """Where lanes were at a time."""
        return self._asked(lanes, lambda log, ours: log.offsets_at(ours, timestamp_s))

    def doubt(self, lanes: Collection[str]) -> None:
        """Forget who leads these."""
        for log, ours in self._by_log(lanes):
            log.doubt(ours)

    def close(self) -> None:
        """Give up all connections."""
        with closing(self.kafka):
            if self._kinesis is not None:
                self._kinesis.close()

    def _by_log(self, names: Iterable[str]) -> list[tuple[Log, list[str]]]:
        kafka, others = list[str](), list[str]()
        for name in names:
            (kafka if connection_of(name) is None else others).append(name)
        return [(self.of(ours[0]), ours) for ours in (kafka, others) if ours]

    def _asked(
        self, names: Collection[str], ask: Callable[[Log, list[str]], Mapping[str, V]]
    ) -> dict[str, V]:
        """What those that are asked answer; one that is away is left out while another answers."""
        found, away, asked = dict[str, V](), list[BrokerUnavailable](), self._by_log(names)
        for log, ours in asked:
            try:
                found |= ask(log, ours)
            except BrokerUnavailable as error:
                away.append(error)
        if away and (self.asks_once or len(away) == len(asked)):
            raise away[0]
        return found


def _both(narrow: Places, wide: Places) -> Places:
    def of(place: Place) -> Places:
        return narrow if place <= NARROW else wide

    return Places(
        after=lambda place, records: of(place).after(place, records),
        between=lambda later, place: of(later).between(later, place),
        behind=lambda place: of(place).behind(place),
    )


@dataclass(frozen=True, slots=True)
class ReadersByTopic:
    """``headrace.ports.ReaderFactory`` on Kafka and Kinesis."""

    def open(self, connections: Connections) -> SliceReader:
        """A reader for this worker; it connects at its first read."""
        return ReaderByTopic(connections)


class ReaderByTopic:
    """``headrace.ports.SliceReader`` on Kafka and Kinesis."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._kafka: SliceReader | None = None
        self._kinesis: SliceReader | None = None

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield the records of each slice: those of Kafka, then those of streams."""
        kafka = [piece for piece in slices if connection_of(piece.topic) is None]
        others = [piece for piece in slices if connection_of(piece.topic) is not None]
        if kafka:
            if self._kafka is None:
                self._kafka = KafkaReaderFactory().open(self._connections)
            yield from self._kafka.read(kafka, batch_records)
        if others:
            if self._kinesis is None:
                from headrace.connectors.kinesis import streams_reader  # noqa: PLC0415 - see above

                self._kinesis = streams_reader(self._connections)
            yield from self._kinesis.read(others, batch_records)

    def close(self) -> None:
        """Give up all connections."""
        for reader in (self._kafka, self._kinesis):
            if reader is not None:
                reader.close()
