"""Reading buckets: each range of a lane once, for all of its buckets that a task has.

A log knows nothing of buckets, so what is read is a range of the lane that they are of, and each is
given what is its own. Small slices of a lane's buckets begin and end at much the same places, and
to read them one by one would be to read the same as many times as there are buckets. So where
ranges overlap, they are read as one, and kept until all of it is there. That is bounded: what is
more than `HELD_BYTES` is handed out as far as it came, and the rest of each bucket is then read by
itself, without keeping anything.

A record that no reader can hand out stops its own bucket alone; the others go on behind it.
What else stops a reader stops all that is read with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.buckets import Bucket, bucket_of
from headrace.model.places import Place
from headrace.model.streams import LaneId, Slice
from headrace.ports import RECORD_SCHEMA, SliceBatch, SliceReader
from headrace.spark.key_hash import bucket_of_key, buckets_of
from headrace.spark.place_hash import bucket_of_place, buckets_of_places
from headrace.spark.row_places import numbered_from, place_of_row, places_of_rows

#: what may be kept of a range that is read for several buckets
HELD_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Part:
    """A slice of a bucket, and what was read of it and not handed out yet."""

    slice: Slice
    bucket: Bucket
    held: list[pa.Table] = field(default_factory=list)

    def whole_from(self, start: Place) -> Slice:
        """What is left of it from a place on, as a slice of the lane that it is of."""
        lane = LaneId(*self.slice.lane.stream, self.bucket.lane)
        return replace(self.slice, lane=lane, from_offset=start)

    def own(self, numbers: Any) -> Any:
        """Which rows are its own, by the buckets that they are in."""
        return numbers == self.bucket.number

    def is_stopped_by(self, batch: SliceBatch) -> bool:
        """Whether it ends where a range could not be read on."""
        error = batch.error
        if error is None or batch.past is None or error.offset is None:
            return error is not None
        within = self.slice.from_offset <= error.offset < self.slice.until_offset
        if not within:
            return False
        if self.bucket.by_place:
            return bucket_of_place(error.offset, self.bucket.of) == self.bucket.number
        return bucket_of_key(error.raw_key, self.bucket.of) == self.bucket.number


@dataclass(slots=True)
class _Range:
    """A range of a lane, and the slices of its buckets that are within."""

    slice: Slice
    parts: list[_Part]
    bytes: int = 0

    def take(self, records: pa.Table) -> None:
        """Keep what is there of each bucket."""
        numbers, places = _numbers(records, self.parts[0].bucket), None
        for part in self.parts:
            ours = part.own(numbers)
            if part.slice.from_offset != self.slice.from_offset or (
                part.slice.until_offset != self.slice.until_offset
            ):
                places = places_of_rows(records) if places is None else places
                start, until = part.slice.from_offset, part.slice.until_offset
                ours = ours & (places >= start) & (places < until)
            part.held.append(records.filter(pa.array(ours)))
        self.bytes += records.nbytes


class BucketReader:
    """A ``SliceReader`` around one, for slices of buckets and of whole lanes alike."""

    def __init__(self, reader: SliceReader) -> None:
        self._reader = reader

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield the records of each slice."""
        wholes = [piece for piece in slices if bucket_of(piece.lane.name) is None]
        if wholes:
            yield from self._reader.read(wholes, batch_records)
        ordinals = dict[Slice, int]()
        for ranges in _rounds(slices):
            while ranges:
                yield from _numbered(self._round(ranges, batch_records), ordinals)

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def _round(self, ranges: list[_Range], batch_records: int) -> Iterator[SliceBatch]:
        """Read ranges together, and take those that are done out of the list: one at least.

        It ends early where buckets have to be read by themselves, for there is one reader.
        """
        of = {within.slice: within for within in ranges}
        batches = self._reader.read([within.slice for within in ranges], batch_records)
        with _ended_early(batches):
            for batch in map(partial(_taken, of), batches):
                within = of[batch.slice]
                alone = len(within.parts) == 1
                if batch.last or (not alone and within.bytes > HELD_BYTES):
                    if not batch.last or batch.past is not None:
                        break
                    ranges.remove(within)
                    for part in within.parts:
                        yield from _ended(part, batch, batch_records)
                elif alone:
                    (part,) = within.parts
                    yield SliceBatch(part.slice, part.held.pop(), batch.reached, last=False)
            else:
                ranges.clear()
                return
        ranges.remove(within)
        for part in within.parts:
            yield from self._apart(part, batch, batch_records)

    def _apart(self, part: _Part, batch: SliceBatch, batch_records: int) -> Iterator[SliceBatch]:
        """What is left of a bucket behind what was read for several."""
        go_on_at = batch.reached if batch.past is None else batch.past
        start = max(part.slice.from_offset, go_on_at)
        if part.is_stopped_by(batch) or start >= part.slice.until_offset:
            yield from _ended(part, batch, batch_records)
            return
        yield from _begun(part, start, batch_records)
        while start < part.slice.until_offset:
            found = self._reader.read([part.whole_from(start)], batch_records)
            with _ended_early(found):
                for one in found:
                    numbers = _numbers(one.records, part.bucket)
                    records = one.records.filter(pa.array(part.own(numbers)))
                    if one.past is not None and not part.is_stopped_by(one):
                        start = min(one.past, part.slice.until_offset)
                        is_last = start == part.slice.until_offset
                        yield SliceBatch(part.slice, records, start, last=is_last)
                        break
                    yield replace(one, slice=part.slice, records=records)
                    if one.last:
                        return


def _taken(of: Mapping[Slice, _Range], batch: SliceBatch) -> SliceBatch:
    """What was read, given to its buckets, whose copies are all that is kept of the records."""
    of[batch.slice].take(batch.records)
    return replace(batch, records=RECORD_SCHEMA.empty_table())


def _numbered(batches: Iterator[SliceBatch], ordinals: dict[Slice, int]) -> Iterator[SliceBatch]:
    """Where records have ordinals, those of each bucket, which counts what it passed itself."""
    with _ended_early(batches):
        for batch in batches:
            first = ordinals.get(batch.slice, batch.slice.ordinal)
            ordinals[batch.slice] = first + batch.records.num_rows
            yield replace(batch, records=numbered_from(batch.records, first))


def _numbers(records: pa.Table, bucket: Bucket) -> npt.NDArray[np.int64]:
    """The bucket of each row, where the lane is divided as it is for this one."""
    if bucket.by_place:
        return buckets_of_places(places_of_rows(records), bucket.of)
    return buckets_of(records["key"], bucket.of)


@contextmanager
def _ended_early(batches: Iterator[SliceBatch]) -> Iterator[None]:
    """Leave the reader usable, however far it was read."""
    try:
        yield
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


def _rounds(slices: Sequence[Slice]) -> list[list[_Range]]:
    """Ranges of lanes, those that overlap as one, in rounds that have no lane twice."""
    parts: dict[LaneId, list[_Part]] = {}
    for piece in slices:
        bucket = bucket_of(piece.lane.name)
        if bucket is not None:
            lane = LaneId(*piece.lane.stream, bucket.lane)
            parts.setdefault(lane, []).append(_Part(piece, bucket))
    rounds: list[list[_Range]] = []
    for of_lane in parts.values():
        for number, within in enumerate(_ranges(of_lane)):
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(within)
    return rounds


def _ranges(parts: list[_Part]) -> list[_Range]:
    found: list[_Range] = []
    for part in sorted(parts, key=lambda part: part.slice.from_offset):
        piece = part.whole_from(part.slice.from_offset)
        last = found[-1] if found else None
        if last is None or last.parts[0].bucket.division != part.bucket.division:
            found.append(_Range(piece, [part]))
        elif piece.from_offset < last.slice.until_offset:
            until = max(last.slice.until_offset, piece.until_offset)
            last.slice = replace(last.slice, until_offset=until)
            last.parts.append(part)
        else:
            found.append(_Range(piece, [part]))
    return found


def _ended(part: _Part, batch: SliceBatch, batch_records: int) -> Iterator[SliceBatch]:
    """All that is kept of a bucket, whose range was read up to a batch."""
    tables = _cut(part, batch_records)
    yield from _parts(part, tables)
    start, until = part.slice.from_offset, part.slice.until_offset
    is_whole = batch.reached >= until or not part.is_stopped_by(batch)
    error, past = (None, None) if is_whole else (batch.error, batch.past)
    reached = until if is_whole else max(start, batch.reached)
    yield SliceBatch(part.slice, tables[-1], reached, last=True, error=error, past=past)


def _begun(part: _Part, reached: Place, batch_records: int) -> Iterator[SliceBatch]:
    """All that is kept of a bucket that is read on from a place."""
    tables = _cut(part, batch_records)
    yield from _parts(part, tables)
    yield SliceBatch(part.slice, tables[-1], reached, last=False)


def _parts(part: _Part, tables: Sequence[pa.Table]) -> Iterator[SliceBatch]:
    """All tables but the last, each up to where the next one begins."""
    for table, following in pairwise(tables):
        yield SliceBatch(part.slice, table, place_of_row(following, 0), last=False)


def _cut(part: _Part, batch_records: int) -> list[pa.Table]:
    """What is kept, in tables of so many records; an empty one if it is nothing."""
    held = part.held or [RECORD_SCHEMA.empty_table()]
    records, part.held = pa.concat_tables(held), []
    rows = range(0, max(1, records.num_rows), batch_records)
    return [records.slice(row, batch_records) for row in rows]
