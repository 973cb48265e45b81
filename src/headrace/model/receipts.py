"""What became of a slice.

A receipt is a hint, the store is the truth: a task can die after its transaction and before its
receipt, so after any failure the driver reads the positions back instead of believing this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.model.places import Place
from headrace.model.streams import Slice

#: schemas of writers that are counted one by one, in a slice as in a stream
MOST_WRITERS = 16


@dataclass(frozen=True, slots=True)
class SliceError:
    """Why a slice stopped, with the record that stopped it where one can be named."""

    #: True: try again, nothing is wrong with the data. False: a person has to decide.
    temporary: bool
    #: name of the class in ``headrace.errors``
    code: str
    message: str
    #: the handler's own traceback, as text
    traceback: str = ""
    #: place of the record that could not be handled; None when no single one is to blame
    offset: Place | None = None
    raw_key: bytes | None = None
    raw_value: bytes | None = None
    raw_headers: tuple[tuple[str, bytes | None], ...] = ()
    #: when the record was written, in milliseconds since 1970; None when nobody knows any more
    timestamp_ms: int | None = None
    retry_after_s: float | None = None
    #: of what retention took, where only reading tells: the place at which the lane goes on
    goes_on_at: Place | None = None


class Behind(NamedTuple):
    """What its log said when an open slice had come to its end."""

    #: how far the lane goes on past it, in seconds; 0: there is nothing more for now; None: it goes
    #: on, and nobody says how far
    seconds: float | None
    #: the lane takes no more records, and this was the last
    sealed: bool = False
    #: of what its log gives of the lane in a second, to all who read it, this took so many seconds'
    #: worth; 0: nothing is rationed
    spent_s: float = 0.0
    #: for so long its task did nothing but wait for it, for want of other lanes to ask meanwhile
    idle_s: float = 0.0
    #: what the next read of the lane is given, if it begins there: a note of the log's reader to
    #: itself, which spares it work and may be lost
    note: str = ""

    @property
    def caught_up(self) -> bool:
        """Whether there was nothing more."""
        return self.sealed or self.seconds == 0


class Writer(NamedTuple):
    """Whoever wrote records by one schema, as far as the records say so."""

    #: where the schema is named: ``value`` or ``key``
    column: str
    #: the number that a registry gave it, or its GUID; empty: one of those beyond ``MOST_WRITERS``
    schema_id: str


class WrittenBy(NamedTuple):
    """How many records a writer wrote."""

    writer: Writer
    records: int


def most_written(counts: Mapping[Writer, int]) -> dict[Writer, int]:
    """Those who wrote most, in order; what the others wrote counts together, by column."""
    order = sorted(counts.items(), key=lambda found: (not found[0].schema_id, -found[1], found[0]))
    if len(order) <= MOST_WRITERS:
        return dict(order)
    kept = dict(order[:MOST_WRITERS])
    for writer, records in order[MOST_WRITERS:]:
        others = Writer(writer.column, "")
        kept[others] = kept.get(others, 0) + records
    return kept


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a slice: how far it came, at what cost, and why it stopped.

    ``reached`` is between ``slice.from_offset`` and ``slice.until_offset``; everything before it
    is in the sink. With ``error`` set, the part up to ``reached`` is done all the same. Of an open
    slice ``reached`` alone says where it ended.
    """

    slice: Slice
    reached: Place
    #: the position was already moved to ``reached``, inside the task
    committed: bool
    #: somebody else had already moved the position: done before, fenced, or the stream was sought
    superseded: bool = False
    records: int = 0
    bytes: int = 0
    #: what its handler gave to the sink, as Arrow counts it; None where that does not pass by here
    output_bytes: int | None = None
    #: task-seconds this slice used: reading, handler and its part of the sink's time
    seconds: float = 0.0
    #: when up to 32 of its records happened, evenly spread, in order of time, in seconds since 1970
    timestamps_s: tuple[float, ...] = ()
    #: records of it that went to the dead letters; they count among ``records``
    dead_letters: int = 0
    #: of some of its records, where traces are wanted: W3C ``traceparent`` headers
    traceparents: tuple[str, ...] = ()
    error: SliceError | None = None
    #: the position was moved before anything was done, and what is between this place and
    #: ``reached`` was not, or nobody knows
    lost_from: Place | None = None
    #: how many records these are
    lost: int = 0
    #: rows that the sink was given of it, and those that it did not take when they came first, and
    #: may take later
    offered: int = 0
    refused: int = 0
    #: records between ``slice.from_offset`` and ``reached``, whatever became of them, or more; 0
    #: where the log has a number for each
    passed: int = 0
    #: who wrote its records, where these name the schemas of their writers
    writers: tuple[WrittenBy, ...] = ()
    #: of an open slice that came to its end
    behind: Behind | None = None
    #: how often the state of its lane was found as this worker had left it, and how often not
    state_hits: int = 0
    state_misses: int = 0
