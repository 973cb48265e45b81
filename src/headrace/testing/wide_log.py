"""A log in memory whose places no 64 bits hold, with gaps of any size between them.

What is told of places has to hold for logs such as Kinesis, whose numbers have 56 digits. This one
is the other fake with its offsets far apart: the record at offset 3 is at ``FAR + 3 * STEP``, and
behind it is any place up to the next one. Records that are handed out are numbered from where their
slice says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa

from headrace.model.lineage import Parent
from headrace.model.places import OPEN, Place, Places, number_at, place_at, text_of
from headrace.model.receipts import SliceError
from headrace.model.streams import Slice
from headrace.ports import Connections, SliceBatch, SliceReader, TopicInfo
from headrace.ports.reading import PLACE_COLUMN
from headrace.testing.log_fake import MemoryLog, MemoryReader

FAR, STEP = 10**55, 10**40


def wide(offset: Place | int) -> Place:
    """Where the record of an offset is."""
    return place_at(FAR + number_at(cast("Place", offset)) * STEP)


def offset_of(place: Place) -> Place:
    """The offset of the first record that is not before a place."""
    return place_at(max(0, -((FAR - number_at(place)) // STEP)))


#: what it says of its places; a place before the first record is as good as that one's
WIDE_PLACES = Places(
    after=lambda place, records: wide(number_at(offset_of(place)) + records),
    between=lambda later, place: number_at(offset_of(later)) - number_at(offset_of(place)),
    behind=lambda place: place_at(number_at(place) + 1),
)


class WideLog(MemoryLog):
    """``headrace.ports.Log`` with wide places; what a test does to it is told in offsets."""

    @property
    def places(self) -> Places:
        """Far from each other."""
        return WIDE_PLACES

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Id and lanes of each topic that exists."""
        return {
            name: replace(info, parents={lane: _wide(of) for lane, of in info.parents.items()})
            for name, info in super().topics(names).items()
        }

    def end_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """Where the last records end."""
        found = super().end_offsets(lanes)
        return {name: _told(end) for name, end in found.items()}

    def start_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """Where the first records are that are left."""
        return {name: wide(start) for name, start in super().start_offsets(lanes).items()}

    def offsets_at(self, lanes: Collection[str], timestamp_s: float) -> dict[str, Place]:
        """Where the first record is that is not older; the end where there is none."""
        return {name: _told(at) for name, at in super().offsets_at(lanes, timestamp_s).items()}


def _told(offset: Place) -> Place:
    return offset if offset == OPEN else wide(offset)


def _wide(parents: Sequence[Parent]) -> tuple[Parent, ...]:
    return tuple(Parent(lane, None if until is None else wide(until)) for lane, until in parents)


@dataclass(frozen=True, slots=True)
class WideReaderFactory:
    """``headrace.ports.ReaderFactory`` on this fake; pickled, it takes a copy of the log along."""

    log: WideLog

    def open(self, connections: Connections) -> SliceReader:
        """A reader; of ``connections`` only the key of seals matters."""
        return WideReader(MemoryReader(self.log, connections.seal_key))


class WideReader:
    """``headrace.ports.SliceReader`` on this fake."""

    def __init__(self, narrow: MemoryReader) -> None:
        self._narrow = narrow

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield the records of each slice, numbered from its ordinal on."""
        for piece in slices:
            number = piece.ordinal
            until = OPEN if piece.is_open else offset_of(piece.until_offset)
            narrow = replace(piece, from_offset=offset_of(piece.from_offset), until_offset=until)
            for batch in self._narrow.read([narrow], batch_records):
                yield _widened(batch, piece, number)
                number += batch.records.num_rows

    def close(self) -> None:
        """Nothing to give up."""


def _widened(batch: SliceBatch, piece: Slice, number: int) -> SliceBatch:
    """The same batch with wide places; its records have numbers from this one on."""
    records = batch.records
    offsets = records["offset"].to_pylist()
    places = pa.array([text_of(wide(cast("int", offset))) for offset in offsets], pa.string())
    at = records.schema.get_field_index("offset")
    numbers = pa.array(range(number, number + records.num_rows), pa.int64())
    records = records.set_column(at, records.schema.field(at), numbers)
    whole = batch.last and batch.error is None and not piece.is_open
    nothing = batch.reached == offset_of(piece.from_offset)
    reached = piece.from_offset if nothing else wide(batch.reached)
    return replace(
        batch,
        slice=piece,
        records=records.append_column(pa.field(PLACE_COLUMN, pa.string(), nullable=False), places),
        reached=piece.until_offset if whole else reached,
        error=_of_wide(batch.error),
    )


def _of_wide(error: SliceError | None) -> SliceError | None:
    if error is None:
        return None
    on_at = error.goes_on_at
    return replace(
        error,
        offset=None if error.offset is None else wide(error.offset),
        goes_on_at=None if on_at is None else wide(on_at),
    )
