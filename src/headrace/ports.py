"""Every place where a part can be exchanged, as a promise.

The cycle knows only these Protocols, so it runs the same on real Kafka, Spark and PostgreSQL and
on the twins in ``headrace.testing``. Each has one contract suite there, which the twin and the
real thing both pass. Arrow tables cross these lines; records never reach the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import pyarrow as pa

from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Deployment, Failure, LaneStart, Move
from headrace.model.streams import (
    Position,
    Slice,
    State,
    Stream,
    StreamId,
    Tenant,
    Throttle,
)
from headrace.model.waves import Wave

if TYPE_CHECKING:
    from sqlalchemy import Connection

_HEADER: pa.DataType = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_COLUMNS: list[pa.Field[Any]] = [
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", pa.list_(_HEADER)),
]
#: The columns every handler is given: Spark's Kafka source has the same names and meanings.
RECORD_SCHEMA = pa.schema(_COLUMNS)


@dataclass(frozen=True)
class Connections:
    """Addresses and credentials of the servers, as driver and tasks need them.

    They travel to the tasks inside the job itself, never in Spark's configuration, and do not show
    in ``repr``.
    """

    #: librdkafka client properties, credentials included
    kafka: Mapping[str, str] = field(repr=False)
    #: SQLAlchemy URL of the store
    database_url: str = field(repr=False)
    #: ``smtp://user:password@host:port``
    smtp_url: str | None = field(default=None, repr=False)
    #: root folder for files
    warehouse: str | None = None


class Clock(Protocol):
    """The only source of time. Called anywhere in the cycle; never in planning or policies."""

    def now_s(self) -> float:
        """Seconds since 1970; may jump. For showing and for comparing with record timestamps."""

    def monotonic_s(self) -> float:
        """Seconds since some start; never goes back. For durations, budgets and leases."""


# --- observe ---------------------------------------------------------------------------------


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What Kafka says of a topic."""

    #: new when the topic is made again under the same name
    topic_id: str
    partitions: tuple[int, ...]


class Log(Protocol):
    """What is in Kafka, without reading a record.

    Called from one thread, every planning turn. Each call is one round of requests for all names
    given. What cannot be had at this moment is left out of the answer, partition by partition, so
    that one leaderless partition delays nobody else.

    Raises:
        BrokerUnavailable: no broker answered at all.
    """

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Id and partitions of each topic that exists; a topic that does not is left out."""

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record a ``read_committed`` reader may see."""

    def start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that retention has left."""

    def offsets_at(
        self, partitions: Collection[TopicPartition], timestamp_s: float
    ) -> dict[TopicPartition, int]:
        """The first offset whose record is not older; the end offset where there is none."""

    def close(self) -> None:
        """Give up connections. Nothing is called after it."""


# --- run: inside the task --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SliceBatch:
    """Some consecutive records of one slice."""

    slice: Slice
    #: RECORD_SCHEMA; may be empty
    records: pa.Table
    #: every offset before this one is in this batch, in an earlier one, or does not exist
    reached: int
    #: nothing more comes of this slice: it is complete (``reached == until_offset``) or ``error``
    last: bool
    error: SliceError | None = None


class SliceReader(Protocol):
    """Reads slices inside a task.

    One reader lives as long as its Python worker and is never used by two threads at once.
    """

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield the records of each slice, exactly ``[from, until)``.

        Batches of one slice come in offset order, at most ``batch_records`` each, and end with
        ``last=True`` exactly once. Slices come one after the other, in any order: a new slice
        begins only after the last batch of the one before. A slice that cannot be read ends with
        ``error``, and the others go on. Records that do not exist (compaction, aborted
        transactions, control records) are passed over. Closing the iterator early is allowed and
        leaves the reader usable.
        """

    def close(self) -> None:
        """Give up connections. Nothing is called after it."""


class ReaderFactory(Protocol):
    """Makes the reader of a worker. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> SliceReader:
        """Called at most once per worker for equal connections; must not contact anybody yet."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a handler wants done for the records ``[from_offset, reached)`` of its slices.

    ``slices`` is one slice; for order ``stream`` it is all slices of the stream in the bin, whose
    effects belong together. ``(slice.lane, from_offset, reached)`` is the effect's identity: the
    same slice run again has the same one.
    """

    slices: tuple[Slice, ...]
    reached: tuple[int, ...]
    output: pa.Table
    #: move the positions in the sink's own transaction (exactly-once by transaction)
    move_positions: bool = False

    @property
    def moves(self) -> tuple[Move, ...]:
        """The positions to move, one for each slice."""
        return tuple(
            Move(each.lane, each.from_offset, reached, each.epoch)
            for each, reached in zip(self.slices, self.reached, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink did with one effect."""

    #: the positions moved in the same transaction
    committed: bool = False
    #: a position was not where the slice starts: done before, fenced or sought; nothing was written
    superseded: bool = False
    #: nothing of this effect was written
    error: SliceError | None = None


class Positions(Protocol):
    """Where every lane is. Used by the driver and inside tasks; safe in several threads.

    A move succeeds only if the position is exactly ``from_offset`` and its epoch is exactly
    ``epoch``; otherwise it changes nothing and is reported as False, never as an error.
    """

    def begin(self) -> AbstractContextManager[Connection]:
        """A write transaction of the store: commits on leaving, rolls back on an exception."""

    def advance_in(self, connection: Connection, moves: Sequence[Move]) -> list[bool]:
        """Move positions in the caller's transaction; one answer for each move, in order."""

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """Move positions in a transaction of its own; durable on return."""


class PositionsFactory(Protocol):
    """Opens the positions inside a task. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> Positions:
        """Called at most once per worker for equal connections."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a sink finds where it works."""

    connections: Connections
    positions: Positions


class SinkWriter(Protocol):
    """Writes effects inside a task; never used by two threads at once."""

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write every effect durably; return what became of each, in order.

        Effects are independent: one that fails must leave the others written. When this returns
        without error, the effects survive the death of any process. It may be called any number
        of times. An effect may have been written before, by a task that died: the sink's
        guarantee says what then happens. An exception that escapes counts for all effects given.
        """

    def close(self) -> None:
        """Called once, after the last write; not called when the worker is killed."""


class Sink(Protocol):
    """Where a use case's results go. A small picklable value, given to ``@use_case``."""

    @property
    def exactly_once(self) -> Literal["transaction", "intent"] | None:
        """How this sink can do exactly-once.

        ``transaction``: it moves the positions in its own transaction (``Effect.move_positions``).
        ``intent``: the same effect written twice leaves the same state as once, so the driver
        records the slices first and replays exactly these. None: it cannot.
        """

    def prepare(self, site: Site) -> None:
        """Make tables or folders; called on the driver at each deploy, so it must be repeatable."""

    def open(self, site: Site) -> SinkWriter:
        """Called in the worker, once per bin."""


# --- run: the engine -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaveResult:
    """A wave that ended."""

    wave: Wave
    #: one for each slice, in no order; empty when the job itself failed
    receipts: tuple[Receipt, ...]
    seconds: float
    #: the job failed as a whole: positions must be read back before these lanes are planned again
    error: SliceError | None = None


class Engine(Protocol):
    """Runs waves on executors.

    ``start`` never blocks; each started wave appears exactly once in ``finished``, whatever
    happens to it. Waves run at the same time.
    """

    @property
    def slots(self) -> int:
        """Tasks that can run at the same time."""

    def start(self, wave: Wave) -> None:
        """Run a wave of a use case that was deployed with ``deploy``."""

    def finished(self, timeout_s: float) -> list[WaveResult]:
        """Waves that ended since the last call; waits up to ``timeout_s`` for the first."""

    def cancel(self, wave_id: str) -> None:
        """End a running wave soon; it comes back from ``finished`` with an error."""

    def close(self) -> None:
        """Stop. Running waves are cancelled."""


# --- store -----------------------------------------------------------------------------------


class Store(Protocol):
    """What must be exact: tenants, streams, positions, epochs, intents, deployments, failures.

    Every method is one transaction, durable on return, and safe from several processes and threads
    at once. Unknown names raise ``UnknownName``; a store that does not answer raises
    ``StoreUnavailable``.
    """

    @property
    def positions(self) -> Positions:
        """The compare-and-set of positions."""

    def revision(self) -> int:
        """Grows with every change made by an operator, not with commits; asked each turn."""

    # tenants and streams

    def tenants(self) -> list[Tenant]:
        """All tenants ever added, by name; removed ones too."""

    def add_tenant(self, tenant: Tenant) -> None:
        """Add a tenant with a stream for every deployment that is for all tenants.

        A removed tenant of the same name starts afresh: new epochs, no positions. One that is
        there raises ``ConfigError``.
        """

    def set_tenant_state(self, name: str, state: State) -> None:
        """Suspend, resume or remove a tenant; removing also removes its streams.

        Removal keeps the positions as a record of how far it came; what was in flight may still
        commit. A removed tenant can only be added again.
        """

    def set_weight(self, name: str, weight: float) -> None:
        """Set a tenant's weight, above 0."""

    def set_throttle(self, name: str, throttle: Throttle) -> None:
        """Set or lift a tenant's throttle."""

    def streams(self) -> list[Stream]:
        """All streams ever added, by use case and tenant; removed ones too."""

    def add_stream(self, stream: StreamId) -> None:
        """Add one stream of a known tenant and use case; a removed one starts afresh."""

    def set_stream_state(self, stream: StreamId, state: State, reason: str | None = None) -> None:
        """Suspend, resume or remove one stream; ``reason`` is shown to people."""

    # positions

    def hold(self, streams: Collection[StreamId]) -> dict[StreamId, int]:
        """Take the streams: raise the epoch of each and of its positions; return the new epochs.

        Whoever held them before is refused from then on.
        """

    def load_positions(self, streams: Collection[StreamId] | None = None) -> list[Position]:
        """Committed positions, of all streams or of some."""

    def start_lanes(self, starts: Collection[LaneStart]) -> None:
        """Give lanes that have no position their first one, under their streams' epochs.

        Remembers the topic ids. A lane that has a position keeps it.
        """

    def seek(self, stream: StreamId, offsets: Mapping[int, int]) -> None:
        """Set positions, whatever they were; a slice in flight from elsewhere will not commit.

        Forgets the topic id: a seek is the decision that a topic made again asks for.
        """

    # intents

    def record_intent(self, wave: Wave) -> None:
        """Write the wave down before it runs."""

    def finish_intent(self, wave_id: str, moves: Sequence[Move]) -> list[bool]:
        """Move positions and forget the intent, in one transaction; as ``Positions.advance``."""

    def pending_intents(self) -> list[Wave]:
        """Waves written down and not finished, oldest first."""

    # deployments and failures

    def deploy(self, deployment: Deployment) -> None:
        """Add or replace a use case; adds the streams of all tenants if it is for all."""

    def deployments(self) -> list[Deployment]:
        """Deployed use cases, by name."""

    def keep_failure(self, failure: Failure) -> int:
        """Keep a failure and suspend its stream, together; return the failure's id."""

    def failures(self, stream: StreamId | None = None) -> list[Failure]:
        """Kept failures, oldest first."""

    def close(self) -> None:
        """Give up connections."""
