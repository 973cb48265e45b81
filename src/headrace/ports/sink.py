"""Where results go: what a handler wants done, and what a sink promises to do with it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Final, Literal, Protocol

import pyarrow as pa

from headrace.model.places import Place
from headrace.model.receipts import SliceError
from headrace.model.records import Move, moves_of
from headrace.model.state import StateChanges
from headrace.model.streams import Slice
from headrace.ports.connections import Connections
from headrace.ports.positions import Positions
from headrace.ports.schemas import NoRegistry, SchemaIds

_WAYS: Final[tuple[Literal["transaction", "intent"], ...]] = ("transaction", "intent")
_PLAIN = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a handler wants done for the records ``[from_offset, reached)`` of its slices.

    ``slices`` is one slice; for order ``stream`` it is all slices of the stream in the bin, whose
    effects belong together. ``(slice.lane, from_offset, reached)`` is the effect's identity: the
    same slice run again has the same one.

    A sink that keeps the newest of what has one key can tell it by a column in which its handler
    put the versions of records (``SliceContext.versions``), or else by ``version``.
    """

    slices: tuple[Slice, ...]
    reached: tuple[Place, ...]
    output: pa.Table
    #: move the positions in the sink's own transaction (exactly-once by transaction); these moves
    #: guard a repeat as well
    move_positions: bool = False
    #: records of each slice up to there, if its log has no number for each; see ``Move.passed``
    passed: tuple[int, ...] = ()
    #: False for at-most-once: what may have been written already is not written again
    may_repeat: bool = True
    #: of its last record (``model/record_versions.py``); None where it is of several lanes, or the
    #: records have none
    version: int | None = None
    #: what its records make of the state of their lane, which goes with the positions alone
    state: StateChanges | None = None

    @property
    def moves(self) -> tuple[Move, ...]:
        """The positions to move, one for each slice."""
        return moves_of(self.slices, self.reached, self.passed)


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that a sink did not take, while it took others of its effect."""

    #: of the effect's table
    row: int
    #: why; None: it was not offered, since one of its key before it was not taken
    error: SliceError | None = None

    @property
    def may_be_taken(self) -> bool:
        """Whether it may be taken when it is offered again."""
        return self.error is None or self.error.temporary


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink did with one effect."""

    #: the positions moved in the same transaction
    committed: bool = False
    #: a position was not where the slice starts: done before, fenced or sought; nothing was written
    superseded: bool = False
    #: nothing of this effect was written; or part of it may have been, and that is not known
    error: SliceError | None = None
    #: how far each slice came, where an earlier attempt has written it; None: as the effect says
    reached: tuple[Place, ...] | None = None
    #: rows that were not taken, in their order; all others are durable. Only of an effect whose
    #: positions do not move with it
    refused: tuple[RefusedRow, ...] = ()
    #: nothing was written nor tried, since others of the bin took the time: it comes again, which
    #: counts against nobody. Only of an effect that ``may_repeat``
    untried: bool = False
    #: seconds that this effect alone took, where a sink writes those of some after those of others;
    #: all other time of writing is everybody's
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Site:
    """What a sink finds where it works."""

    connections: Connections
    #: the store's; a sink with rows in its database knows them to be ``HostPositions``
    positions: Positions
    #: the recorded wave that runs; empty where waves are not written down
    wave_id: str = ""
    #: the name that all attempts at this bin share, and no other bin that runs (see ``Bin.fence``)
    fence: str = ""
    #: others wait for this bin, so one of its tenants is not to be waited for as long as alone
    in_company: bool = False
    #: the worker's, for sinks whose messages name a schema
    schemas: SchemaIds = field(default_factory=NoRegistry)


class SinkWriter(Protocol):
    """Writes effects inside a task; never used by two threads at once."""

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write every effect durably; return what became of each, in order.

        Effects are independent: one that fails must leave the others written. When this returns
        without error, the effects survive the death of any process. It may be called any number
        of times. An effect may have been written before, by a task that died: the sink's
        guarantee says what then happens. An exception that escapes counts for all effects given.

        Where the answer of the target is lost, nobody knows whether it has the effect. One that
        ``may_repeat`` can be written again, here or by its next slice, which comes after an error.
        One that may not has only its one chance: it is answered with an error, and never written
        again, nor is any part of it that may be there.

        Effects for which others of the bin left no time are ``Written.untried``.

        A target that takes some rows of an effect and not others has them named in
        ``Written.refused``. Rows behind one of their key wait and are named as well. What was taken
        is not offered again while this task runs: the rows that may be taken later are, in an
        effect of theirs alone, with the same slices.
        """

    def close(self) -> None:
        """Called once, after the last write; not called when the worker is killed.

        What was written counts, whatever this raises.
        """


class AskedFirst(Protocol):
    """A writer that is asked what is there of recorded slices before their handler is called."""

    def already(self, effects: Sequence[Effect]) -> Sequence[tuple[Place, ...] | None]:
        """How far earlier attempts at the same wave came; None where they wrote nothing.

        The effects are without rows, in the order of the slices that are about to be handled.

        Raises:
            HeadraceError: nobody knows; none of the slices is handled.
        """


class Sink(Protocol):
    """Where a use case's results go. A small picklable value, given to ``@use_case``.

    One that writes files below the warehouse says ``needs_shared_folder = True`` as well, and one
    that writes to a server of ``Connections.servers`` has its name in ``at`` (see ``server_of``).
    ``asks_first`` says whether its writer is ``AskedFirst``, as its handler may say something else
    of the same records tomorrow. ``keeps_newest`` says whether a row that comes late leaves a newer
    one of its key as it is, and ``compares_lanes`` whether it tells that by versions of records
    (see ``compares_lanes``).
    """

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
        """Called in the worker, once per bin; whatever it raises, its slices are tried again."""


def needs_shared_folder(sink: object) -> bool:
    """Whether a sink writes below the warehouse, which driver and executors then have to share.

    It says so by an attribute of this name; one without it does not. A worker that does not see
    the driver's own warehouse is given nothing of its use case to do.
    """
    return bool(getattr(sink, "needs_shared_folder", False))


def asks_first(sink: object) -> bool:
    """Whether its writer is asked what is there of recorded slices before these are handled.

    It says so by an attribute of this name, and its writers are ``AskedFirst``.
    """
    return bool(getattr(sink, "asks_first", False))


def compares_lanes(sink: object) -> bool:
    """Whether a sink tells what is newer by versions of records, which compare along one lane.

    It says so by an attribute of this name; one without it does not. A use case that merges lanes
    cannot have it.
    """
    return bool(getattr(sink, "compares_lanes", False))


def keeps_state(sink: object) -> bool:
    """Whether a sink that moves positions writes ``Effect.state`` in the same transaction.

    It says so by an attribute of this name; one without it does not.
    """
    return bool(getattr(sink, "keeps_state", False))


def server_of(sink: object) -> str:
    """The name of the connection that a sink writes to; empty if it is none of that map.

    It says so by an attribute ``at``. Sinks of one kind at two servers share no pace.
    """
    at = getattr(sink, "at", None)
    return at if isinstance(at, str) else ""


def topic_of(sink: object) -> str:
    """What use cases call the topic that a sink writes to; empty if it is no one topic.

    It says so by an attribute ``writes_topic``. Who reads it would be given its own results again,
    without end.
    """
    topic = getattr(sink, "writes_topic", None)
    return topic if isinstance(topic, str) else ""


def marks_partitions(sink: object) -> bool:
    """Whether it knows by offsets of whole partitions what was written exactly once.

    Then it cannot tell the buckets of one from each other.
    """
    return bool(getattr(sink, "marks_partitions", False))


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """What a sink says of itself, for whoever may not call it: it is somebody else's code."""

    exactly_once: Literal["transaction", "intent"] | None
    #: its kind, and what says where its effects go
    where: str
    needs_shared_folder: bool
    #: the name of the connection that it writes to, if it is one
    server: str = ""


def facts_of(sink: Sink | None) -> SinkFacts:
    """Ask a sink for all of it; whatever it raises is raised."""
    if sink is None:
        return SinkFacts(None, "", False)
    told = sink.exactly_once
    way = next((known for known in _WAYS if told == known), None)
    return SinkFacts(way, _where(sink), needs_shared_folder(sink), server_of(sink))


def _where(sink: Sink) -> str:
    """A sink as its ``repr`` would show it, by those of its fields that are plain values.

    They say where effects go, such as a folder or a topic, and are the same in another process. How
    effects look, such as a schema, may change meanwhile. What ``repr`` is not to show is left out.
    """
    known: tuple[Field[object], ...] = fields(sink) if is_dataclass(sink) else ()
    shown = [column.name for column in known if column.repr]
    values = {name: getattr(sink, name) for name in shown}
    plain = [f"{name}={value!r}" for name, value in values.items() if isinstance(value, _PLAIN)]
    return f"{type(sink).__name__}({', '.join(plain)})"


def plain_fields(where: str) -> tuple[str, dict[str, object]]:
    """The kind of a sink and its plain fields, read back from ``SinkFacts.where``.

    Nothing where it is none that was written here: deployments of earlier versions have none.
    """
    try:
        call = ast.parse(where, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            return "", {}
        return call.func.id, {
            field.arg: ast.literal_eval(field.value) for field in call.keywords if field.arg
        }
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "", {}
