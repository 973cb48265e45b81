"""Reading an open slice of a recorded wave as it was read before, or so that it will be.

Where such a slice ends only reading tells, and each attempt could be told otherwise. So an attempt
first asks what is written down of it, and reads just that; and where nothing is, it writes down
what it read before anything of that is written to a sink. The store lets one of several be right;
the others stop, and read what is written down when they are tried again.

A slice of such a lane that is to end before a bad record is treated alike: an attempt at an earlier
one without an end may be asleep. Slices of lanes that tell their ends need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.errors import HeadraceError, ReadOtherwise
from headrace.model.records import ReadRange
from headrace.model.streams import Slice
from headrace.ports import RECORD_SCHEMA, Positions, SliceBatch, SliceReader
from headrace.spark.portions import Portion
from headrace.spark.slice_errors import error_of


def read_the_same(
    reader: SliceReader, positions: Positions, slices: Sequence[Slice], batch_records: int
) -> Iterator[SliceBatch]:
    """Batches of slices, those that were read before exactly as they were.

    While the store does not say what was read before, nothing of an open slice is.
    """
    opened = [piece for piece in slices if piece.most_bytes]
    try:
        reads = positions.reads_of(opened) if opened else []
    except HeadraceError as error:
        told, nothing = error_of(error), RECORD_SCHEMA.empty_table()
        for piece in opened:
            yield SliceBatch(piece, nothing, piece.from_offset, last=True, error=told)
        slices, opened, reads = [piece for piece in slices if not piece.most_bytes], [], []
    known = {
        piece: replace(piece, until_offset=read.until_offset, records=read.records)
        for piece, read in zip(opened, reads, strict=True)
        if read is not None
    }
    planned_of = {bounded: piece for piece, bounded in known.items()}
    for batch in reader.read([known.get(piece, piece) for piece in slices], batch_records):
        planned = planned_of.get(batch.slice)
        yield batch if planned is None else replace(batch, slice=planned)


def ranges_of(portions: Sequence[Portion]) -> list[ReadRange]:
    """What was read of open slices, where anything is to be written of it."""
    return [
        ReadRange(
            piece.lane, piece.from_offset, reached, piece.epoch, records=portion.records.num_rows
        )
        for portion in portions
        for piece, reached in zip(portion.planned, portion.reached, strict=True)
        if piece.most_bytes and reached > piece.from_offset
    ]


def read_otherwise(portion: Portion, kept: ReadRange) -> ReadOtherwise:
    """What is told of a slice that another attempt read otherwise."""
    return ReadOtherwise(
        f"{portion.planned[0]} was read up to {portion.reached[0]}, and another attempt wrote down "
        f"that it read up to {kept.until_offset}; that is read when it runs again"
    )
