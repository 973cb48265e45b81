"""Reading slices inside a task: from Kafka to the table that a handler is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headrace.model.places import Place
from headrace.model.receipts import Behind, SliceError
from headrace.model.streams import Slice
from headrace.ports.connections import Connections

_HEADER: pa.DataType = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_COLUMNS: list[pa.Field[pa.DataType]] = [
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

#: Where records are in their lane, as text, of a log whose places are wider than ``offset``. There
#: its reader numbers the records that it hands out, one after the other, from ``Slice.ordinal`` on.
PLACE_COLUMN = "__place"

#: Headers whose names begin so say for whom a record was sent back. They are Headrace's own, and no
#: sink sends them on.
REDRIVE_HEADERS = "headrace.redrive."


@dataclass(frozen=True, slots=True)
class SliceBatch:
    """Some consecutive records of one slice."""

    slice: Slice
    #: RECORD_SCHEMA; may be empty
    records: pa.Table
    #: everything before this place is in this batch, in an earlier one, or does not exist
    reached: Place
    #: nothing more comes of this slice: it is complete (``reached == until_offset``, or ``behind``)
    #: or ``error``
    last: bool
    error: SliceError | None = None
    #: of the last batch of an open slice that is complete: what its log said then
    behind: Behind | None = None
    #: with an error that names a record which cannot be handed out: the place behind that
    past: Place | None = None


class SliceReader(Protocol):
    """Reads slices inside a task.

    One reader lives as long as its Python worker and is never used by two threads at once.
    """

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield the records of each slice: exactly ``[from, until)``, of an open one what is there.

        An open slice begins where it says and has at most ``records`` records and ``most_bytes``
        bytes of keys, values and headers, or one record that is larger. It ends sooner where there
        is nothing more for now, and may end sooner anywhere: a visit is one or a few answers of its
        log, and never waits for records that are still to come. Its last batch says how far it came
        and what is ``behind`` that. That there is nothing more is said only by who knows; an empty
        answer says nothing of it. Where the lane is sealed ``reached`` is the end that the lanes
        that follow it have for it.

        Visits that go on from one another come to the end, through any stretch in which nothing is:
        all that one tells the next is ``reached``. A log whose answers can be empty again and again
        has places for how far these came, as of a record's number and a time behind it.

        Batches of one slice come in offset order, at most ``batch_records`` each, and end with
        ``last=True`` exactly once. Slices come one after the other, in any order: a new slice
        begins only after the last batch of the one before. A slice that cannot be read ends with
        ``error``, and the others go on: `TopicMissing` if its log does not have the lane,
        `OffsetOutOfRange` if it does not begin where records are, with the place at which the lane
        goes on where the log itself does not tell that, `RecordUnreadable` with the place
        of a record that cannot be handed out, and what is temporary for all that passes by itself.
        Records that do not exist (compaction, aborted transactions, control records) are passed
        over, and so are those that a redrive has sealed for another use case than the slice's: they
        were sent back for that one alone. Headers that say so without a seal of this store hide
        nothing from anybody. Closing the iterator early is allowed and leaves the reader usable.
        """

    def close(self) -> None:
        """Give up connections. Nothing is called after it."""


class ReaderFactory(Protocol):
    """Makes the reader of a worker. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> SliceReader:
        """Called at most once per worker for equal connections; must not contact anybody yet."""
