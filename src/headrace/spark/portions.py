"""Cutting what the reader yields into portions: what one handler call is given.

For order ``lane`` a portion is some consecutive records of one slice. For order ``stream`` it is
the slices of one tenant, merged by (timestamp, partition, offset). A wave written down as an
intent must give the same effects when it runs again, so there a portion is always whole slices:
batch borders depend on the network and would give other file names.

Nothing here calls a handler or a sink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.lane_names import number_of
from headrace.model.places import Place
from headrace.model.receipts import Behind, SliceError
from headrace.model.streams import Slice, StreamId
from headrace.ports import SliceBatch
from headrace.spark.row_places import first_places


@dataclass(frozen=True, slots=True)
class Portion:
    """What one handler call is given."""

    #: the planned slices it is of
    planned: tuple[Slice, ...]
    #: where each of them stood before this portion; ``planned`` itself unless it came in parts
    slices: tuple[Slice, ...]
    #: how far each comes with this portion
    reached: tuple[Place, ...]
    records: pa.Table
    #: it stopped here; what came before still counts
    error: SliceError | None = None
    #: the planned slice whose error it is; None: the first
    blamed: Slice | None = None
    #: with it an open slice is complete, and this is what its log said then
    behind: Behind | None = None


def by_batch(batches: Iterable[SliceBatch]) -> Iterator[Portion]:
    """One portion for each batch as it comes: little memory, and a place to yield after each."""
    stood: dict[Slice, Place] = {}
    for batch in batches:
        start = stood.get(batch.slice, batch.slice.from_offset)
        part = batch.slice if start == batch.slice.from_offset else _from(batch.slice, start)
        stood[batch.slice] = batch.reached
        yield Portion(
            (batch.slice,),
            (part,),
            (batch.reached,),
            batch.records,
            batch.error,
            behind=batch.behind,
        )
        if batch.last:
            del stood[batch.slice]


def by_slice(batches: Iterable[SliceBatch]) -> Iterator[Portion]:
    """One portion for each slice, whole."""
    parts: list[pa.Table] = []
    for batch in batches:
        parts.append(batch.records)
        if batch.last:
            records = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
            parts = []
            planned = (batch.slice,)
            yield Portion(
                planned, planned, (batch.reached,), records, batch.error, behind=batch.behind
            )


def whole_or_nothing(portions: Iterable[Portion]) -> Iterator[Portion]:
    """A slice that could not be read to its end counts as not read at all.

    For a recorded wave: what was read this time and what a replay reads may differ, and two
    effects of different ranges would not replace each other.
    """
    for portion in portions:
        if portion.error is None:
            yield portion
        else:
            starts = tuple(piece.from_offset for piece in portion.slices)
            nothing = portion.records.slice(0, 0)
            yield replace(portion, reached=starts, records=nothing, behind=None)


def by_stream(batches: Iterable[SliceBatch], slices: Iterable[Slice]) -> Iterator[Portion]:
    """One portion for each stream, once all of its slices are read."""
    waiting: dict[StreamId, int] = {}
    for piece in slices:
        waiting[piece.lane.stream] = waiting.get(piece.lane.stream, 0) + 1
    read: dict[StreamId, list[Portion]] = {}
    for portion in by_slice(batches):
        stream = portion.planned[0].lane.stream
        read.setdefault(stream, []).append(portion)
        if len(read[stream]) == waiting[stream]:
            yield merge(read.pop(stream))


def merge(portions: list[Portion]) -> Portion:
    """The records of several lanes as one table, in order of (timestamp, partition, offset).

    Strict order needs care where a lane goes on past its slice: its next record may be older than
    what another lane has here. So nothing younger than the last record of such a lane is taken
    now; those lanes stop early and go on in the next wave. The lane with the oldest last record is
    always taken whole, so every portion makes progress.
    """
    portions = sorted(portions, key=lambda portion: _number(portion.planned[0]))
    planned = tuple(portion.planned[0] for portion in portions)
    broken = next((portion for portion in portions if portion.error), None)
    if broken is not None:
        # One lane of the stream is missing here, so the order of the others cannot be kept.
        starts = tuple(piece.from_offset for piece in planned)
        nothing = portions[0].records.slice(0, 0)
        return Portion(planned, planned, starts, nothing, broken.error, broken.planned[0])
    table = pa.concat_tables([_keyed(portion.records) for portion in portions]).sort_by(
        _MERGE_ORDER
    )
    cut = _rows_before_horizon(table, portions)
    taken = table.slice(0, cut).drop_columns([_MERGE_KEY])
    left = first_places(table.slice(cut))
    reached = tuple(
        left.get(_number(portion.planned[0]), portion.reached[0]) for portion in portions
    )
    return Portion(planned, planned, reached, taken)


#: A record is merged by the latest timestamp its lane has shown so far: producers' clocks may step
#: back, and a lane's own order must hold all the same.
_MERGE_KEY = "__merge_key"
_MERGE_ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    (_MERGE_KEY, "ascending"),
    ("partition", "ascending"),
    ("offset", "ascending"),
]


def _keyed(records: pa.Table) -> pa.Table:
    stamps = pc.cast(records["timestamp"], pa.int64())
    return records.append_column(_MERGE_KEY, pc.cumulative_max(stamps))


def _rows_before_horizon(table: pa.Table, portions: list[Portion]) -> int:
    """Rows up to the first last record of a lane that goes on past its slice.

    None, if such a lane has no record here, only gaps: how old its next one is, nobody knows.
    """
    goes_on = {_number(portion.planned[0]) for portion in portions if portion.planned[0].more}
    lanes_by_row = enumerate(table["partition"].to_pylist())
    last_row = {partition: row for row, partition in lanes_by_row if partition in goes_on}
    return min((last_row.get(number, -1) + 1 for number in goes_on), default=table.num_rows)


def slice_of(portion: Portion, row: int) -> Slice:
    """The planned slice that a record is of; a merged portion has one for each partition."""
    partition = portion.records["partition"][row].as_py()
    return next(piece for piece in portion.planned if _number(piece) == partition)


def cut_to(
    portion: Portion, rows: int, error: SliceError | None, blamed: Slice | None = None
) -> Portion:
    """The portion's first rows only, with what each slice then reaches: its first row left out."""
    taken, left = portion.records.slice(0, rows), first_places(portion.records.slice(rows))
    reached = tuple(
        left.get(_number(piece), upto)
        for piece, upto in zip(portion.slices, portion.reached, strict=True)
    )
    whole = error is None and reached == portion.reached
    behind = portion.behind if whole else None
    return replace(
        portion, reached=reached, records=taken, error=error, blamed=blamed, behind=behind
    )


def rest_of(portion: Portion, done: Portion) -> Portion:
    """What is left of a portion after its first part is done."""
    left = portion.records.slice(done.records.num_rows)
    stand = tuple(map(_from, portion.slices, done.reached))
    return replace(portion, slices=stand, records=left)


def _number(planned: Slice) -> int:
    """What records of it have in the column ``partition``."""
    return number_of(planned.lane.name)


def _from(planned: Slice, offset: Place) -> Slice:
    return replace(planned, from_offset=offset)
