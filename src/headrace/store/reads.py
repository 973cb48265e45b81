"""What was read of open slices, so that every attempt at one reads the same.

A recorded slice of a lane whose end nobody knows says where it begins and how much may be in it,
not where it ends. Two attempts at it could read different parts of the lane, and their effects
would stand beside each other. So who has read one writes down how far it came before it writes
anything else, and who comes later, or was slower, reads exactly that.

A row counts for as long as its lane stands where it begins; one row for each lane is enough, since
only from there is anything to be read. It stays behind when the lane moves on, as that costs moves
nothing, until something else is read or the lane is sent somewhere. The lock of the position's row
makes recorders of one lane wait for each other, and for whoever moves it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select, tuple_

from headrace.model.places import Place
from headrace.model.records import ReadRange
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.topic_lists import is_of
from headrace.store.pairs import of, portions
from headrace.store.schema import positions, reads

#: each has three columns
_LANES_AT_ONCE = 300


def find(connection: Connection, slices: Sequence[Slice]) -> list[ReadRange | None]:
    """What is written down of slices, in order."""
    found = _known(connection, {piece.lane for piece in slices})
    return [_as_of(found.get(piece.lane), piece.from_offset, piece.epoch) for piece in slices]


def record(connection: Connection, new: Sequence[ReadRange]) -> list[ReadRange | None]:
    """Write down what is new; what is written down then, in order."""
    lanes = {read.lane for read in new}
    stands = _stands(connection, lanes)
    there = {read for read in new if stands.get(read.lane) == (read.from_offset, read.epoch)}
    kept = _known(connection, {read.lane for read in there})
    for read in sorted(there, key=lambda read: read.lane):
        if _as_of(kept.get(read.lane), read.from_offset, read.epoch) is None:
            _put(connection, read)
            kept[read.lane] = read
    return [
        _as_of(kept[read.lane], read.from_offset, read.epoch) if read in there else None
        for read in new
    ]


def forget(connection: Connection, slices: Collection[Slice]) -> None:
    """Forget what was read of slices, where their lanes are still under their epochs."""
    opened = {piece.lane: (piece.from_offset, piece.epoch) for piece in slices if piece.most_bytes}
    if not opened:
        return
    stands = _stands(connection, opened.keys())
    _drop(connection, [lane for lane, at in opened.items() if stands.get(lane) == at])


def forget_stream(connection: Connection, stream: StreamId, topics: Collection[str]) -> None:
    """Forget what was read of topics of a stream: their places mean other records from now on."""
    read = connection.scalars(select(reads.c.lane).where(of(reads, stream)))
    _drop(connection, [LaneId(*stream, name) for name in read if is_of(name, topics)])


def leave_behind(connection: Connection, stream: StreamId) -> None:
    """Forget what was read of lanes of a stream that stand elsewhere by now, or nowhere.

    Whoever sends lanes elsewhere does so before and after it: one that moved on may be sent back to
    where a row begins, and reads anew from there.
    """
    rows = connection.execute(select(reads).where(of(reads, stream)))
    begins = {LaneId(*row[:3]): row[3] for row in rows}
    stands = _stands(connection, begins.keys())
    gone = [lane for lane, at in begins.items() if lane not in stands or stands[lane][0] != at]
    _drop(connection, gone)


def forget_lost(connection: Connection, tenants: Collection[str]) -> None:
    """Forget what was read of lanes of tenants that have no positions any more."""
    for some in portions(sorted(tenants)):
        asked = select(reads.c.use_case, reads.c.tenant, reads.c.lane)
        lanes = {LaneId(*row) for row in connection.execute(asked.where(reads.c.tenant.in_(some)))}
        _drop(connection, lanes - _stands(connection, lanes).keys())


def _drop(connection: Connection, lanes: Collection[LaneId]) -> None:
    for some in _among(reads, lanes):
        connection.execute(delete(reads).where(some))


def _as_of(read: ReadRange | None, begin: Place, epoch: int) -> ReadRange | None:
    """What was read from a place, for who has it by now."""
    if read is None or read.from_offset != begin:
        return None
    return ReadRange(read.lane, begin, read.until_offset, epoch, read.records)


def _put(connection: Connection, read: ReadRange) -> None:
    lane = of(reads, read.lane.stream) & (reads.c.lane == read.lane.name)
    connection.execute(delete(reads).where(lane))
    row = {"from_offset": read.from_offset, "until_offset": read.until_offset}
    connection.execute(insert(reads).values(**_key(read.lane), **row, records=read.records))


def _key(lane: LaneId) -> dict[str, Any]:
    return {"use_case": lane.use_case, "tenant": lane.tenant, "lane": lane.name}


def _known(connection: Connection, lanes: Collection[LaneId]) -> dict[LaneId, ReadRange]:
    rows = (
        row
        for some in _among(reads, lanes)
        for row in connection.execute(select(reads).where(some))
    )
    found = (ReadRange(LaneId(*row[:3]), row[3], row[4], 0, row[5]) for row in rows)
    return {read.lane: read for read in found}


def _stands(
    connection: Connection, lanes: Collection[LaneId]
) -> Mapping[LaneId, tuple[Place, int]]:
    """Where lanes are, and under which epochs; it stays so until the transaction ends."""
    columns = positions.c
    asked = select(
        columns.use_case, columns.tenant, columns.lane, columns.next_offset, columns.epoch
    )
    rows = (
        row
        for some in _among(positions, lanes)
        for row in connection.execute(
            asked.where(some)
            .order_by(columns.use_case, columns.tenant, columns.lane)
            .with_for_update()
        )
    )
    return {LaneId(*row[:3]): (row[3], row[4]) for row in rows}


def _among(table: Table, lanes: Collection[LaneId]) -> Iterator[ColumnElement[bool]]:
    """Conditions that together match exactly these lanes, in the order to lock rows in."""
    key = tuple_(table.c.use_case, table.c.tenant, table.c.lane)
    for some in portions(sorted(lanes), _LANES_AT_ONCE):
        yield key.in_([tuple(lane) for lane in some])
