"""Cutting what the reader yields into portions: what one handler call is given.

For order ``lane`` a portion is some consecutive records of one slice. For order ``stream`` it is
the slices of one tenant, merged by (timestamp, lane, place). A wave written down as an
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

from headrace.model.lane_names import place_of
from headrace.model.places import Place
from headrace.model.receipts import Behind, SliceError
from headrace.model.record_versions import version_of
from headrace.model.records import Move, moves_of
from headrace.model.streams import Slice, StreamId
from headrace.ports import SliceBatch
from headrace.spark.row_places import LANE_COLUMN, first_places, lanes_of_rows, of_lane, passed
from headrace.spark.slice_errors import name_record


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
    #: it was cut short for the time it took; the rest of its slices is a later wave's
    yields: bool = False

    @property
    def moves(self) -> tuple[Move, ...]:
        """The positions that it moves, one for each lane."""
        return moves_of(self.slices, self.reached, passed(self.records, len(self.slices)))


def by_batch(batches: Iterable[SliceBatch]) -> Iterator[Portion]:
    """One portion for each batch as it comes: little memory, and a place to yield after each."""
    stood: dict[Slice, Slice] = {}
    for batch in batches:
        part = stood.pop(batch.slice, batch.slice)
        if not batch.last:
            stood[batch.slice] = _from(part, batch.reached, *passed(batch.records, 1))
        yield Portion(
            (batch.slice,),
            (part,),
            (batch.reached,),
            batch.records,
            batch.error,
            behind=batch.behind,
        )


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
        yield portion if portion.error is None else nothing_of(portion)


def nothing_of(portion: Portion) -> Portion:
    """The portion without a record, in which no slice comes further, be it over a gap."""
    starts = tuple(piece.from_offset for piece in portion.slices)
    return replace(portion, reached=starts, records=portion.records.slice(0, 0), behind=None)


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
    """The records of several lanes as one table, in order of (timestamp, lane, place).

    Lanes have the order of their names, as the log puts them.

    Strict order needs care where a lane goes on past its slice: its next record may be older than
    what another lane has here. So nothing younger than the last record of such a lane is taken
    now; those lanes stop early and go on in the next wave. The lane with the oldest last record is
    always taken whole, so every portion makes progress.
    """
    portions = sorted(portions, key=lambda portion: place_of(portion.planned[0].lane.name))
    planned = tuple(portion.planned[0] for portion in portions)
    broken = next((portion for portion in portions if portion.error), None)
    if broken is not None:
        # One lane of the stream is missing here, so the order of the others cannot be kept.
        starts = tuple(piece.from_offset for piece in planned)
        nothing = of_lane(portions[0].records.slice(0, 0), 0)
        return Portion(planned, planned, starts, nothing, broken.error, broken.planned[0])
    keyed = [of_lane(_keyed(portion.records), lane) for lane, portion in enumerate(portions)]
    table = pa.concat_tables(keyed).sort_by(_MERGE_ORDER)
    cut = _rows_before_horizon(table, portions)
    taken = table.slice(0, cut).drop_columns([_MERGE_KEY])
    left = first_places(table.slice(cut))
    reached = tuple(left.get(lane, portion.reached[0]) for lane, portion in enumerate(portions))
    return Portion(planned, planned, reached, taken)


#: A record is merged by the latest timestamp its lane has shown so far: producers' clocks may step
#: back, and a lane's own order must hold all the same.
_MERGE_KEY = "__merge_key"
_MERGE_ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    (_MERGE_KEY, "ascending"),
    (LANE_COLUMN, "ascending"),
    ("offset", "ascending"),
]


def _keyed(records: pa.Table) -> pa.Table:
    stamps = pc.cast(records["timestamp"], pa.int64())
    return records.append_column(_MERGE_KEY, pc.cumulative_max(stamps))


def _rows_before_horizon(table: pa.Table, portions: list[Portion]) -> int:
    """Rows up to the first last record of a lane that goes on past its slice.

    None, if such a lane has no record here, only gaps: how old its next one is, nobody knows.
    """
    goes_on = {lane for lane, portion in enumerate(portions) if portion.planned[0].more}
    lanes_by_row = enumerate(lanes_of_rows(table).tolist())
    last_row = {lane: row for row, lane in lanes_by_row if lane in goes_on}
    return min((last_row.get(lane, -1) + 1 for lane in goes_on), default=table.num_rows)


def slice_of(portion: Portion, row: int) -> Slice:
    """The planned slice that a record is of; a merged portion has one for each lane."""
    return portion.planned[int(lanes_of_rows(portion.records.slice(row, 1))[0])]


def cut_to(
    portion: Portion, rows: int, error: SliceError | None, blamed: Slice | None = None
) -> Portion:
    """The portion's first rows only, with what each slice then reaches: its first row left out."""
    taken, left = portion.records.slice(0, rows), first_places(portion.records.slice(rows))
    reached = tuple(left.get(lane, upto) for lane, upto in enumerate(portion.reached))
    whole = error is None and reached == portion.reached
    behind = portion.behind if whole else None
    return replace(
        portion,
        reached=reached,
        records=taken,
        error=error,
        blamed=blamed,
        behind=behind,
        yields=False,
    )


def rest_of(portion: Portion, done: Portion) -> Portion:
    """What is left of a portion after its first part is done."""
    left = portion.records.slice(done.records.num_rows)
    count = len(portion.slices)
    counted = passed(done.records, count) or (0,) * count
    stand = tuple(map(_from, portion.slices, done.reached, counted))
    return replace(portion, slices=stand, records=left)


def is_whole(portion: Portion) -> bool:
    """Whether it is all that is handled of its slices: no batch of one comes before or after it."""
    if len(portion.planned) > 1:
        return True  # slices that are merged are handled in one call
    ended = portion.behind is not None or portion.reached[0] >= portion.planned[0].until_offset
    return ended and portion.slices == portion.planned


def named_alone(portion: Portion, error: SliceError) -> tuple[Portion, SliceError]:
    """An error with its record, where there is one alone."""
    if error.temporary or portion.records.num_rows != 1:
        return portion, error
    named = name_record(error, portion.records, 0)
    return replace(portion, blamed=slice_of(portion, 0)), named


def last_version(portion: Portion) -> int | None:
    """The version of its last record; None where it has none, or is of several lanes."""
    if len(portion.slices) != 1 or not portion.records.num_rows:
        return None
    try:
        return version_of(portion.slices[0].depth, portion.records["offset"][-1].as_py())
    except ValueError:
        return None


def _from(piece: Slice, place: Place, records: int = 0) -> Slice:
    """A slice from a place on, so many records further."""
    if place == piece.from_offset:
        return piece
    return replace(piece, from_offset=place, ordinal=piece.ordinal + records)
