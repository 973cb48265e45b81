"""Reads slices of shards inside a Spark task.

A shard answers within some ten milliseconds, and a task may have hundreds of quiet ones: one after
the other they would take longer than their records are worth. So a few are asked at once, each by a
thread, and given out whole, those first that were answered first: what one that is slow or silent
takes, the others do not wait for. How much one has is bounded by its slice.

An iterator travels with what a visit tells to the next one, of whichever worker: who goes on
exactly where the last one came to is spared a request, and the empty stretch before it. Any other
begins at its place, and so does who comes when the iterator has expired, or when retention may have
come to where it is (`notes.py`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.connectors.kinesis.client import Kinesis
from headrace.connectors.kinesis.notes import note_of
from headrace.connectors.kinesis.shards import shard_of
from headrace.connectors.kinesis.spots import END, PLACES, spot_of
from headrace.connectors.kinesis.streams import Streams
from headrace.connectors.kinesis.tables import table_of
from headrace.connectors.kinesis.visit import Row, Visit, slice_error
from headrace.connectors.kinesis.walk import Walk
from headrace.errors import TopicMissing
from headrace.model.places import Place
from headrace.model.receipts import Behind, SliceError
from headrace.model.streams import Slice
from headrace.ports import Clock, Connections, SliceBatch, SliceReader
from headrace.process.clock import SystemClock

#: shards that are asked at once
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class KinesisReaderFactory:
    """``headrace.ports.ReaderFactory``; travels by pickle, and so must what it is made of."""

    #: makes the client of a worker, and contacts nobody
    client_of: Callable[[Connections], Kinesis]
    clock: Clock = field(default_factory=SystemClock)
    #: lets seconds pass
    pause: Callable[[float], None] = time.sleep

    def open(self, connections: Connections) -> SliceReader:
        """A reader for this worker; it connects at its first read."""
        return KinesisReader(self.client_of(connections), self.clock, self.pause)


class KinesisReader:
    """``headrace.ports.SliceReader`` on shards of Kinesis."""

    def __init__(
        self,
        client: Kinesis,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take Amazon's client, or what is called as it is."""
        self._client = client
        self._clock = clock or SystemClock()
        self._pause = pause
        self._streams = Streams(client, self._clock)

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield the records of each slice, slice by slice, in the order of their answers."""
        waiting, alone = deque(slices), 1 / min(_AT_ONCE, max(1, len(slices))) - 1 / _AT_ONCE
        begun: dict[Future[Visit], Slice] = {}
        pool = ThreadPoolExecutor(min(_AT_ONCE, max(1, len(slices))), "kinesis")
        try:
            while waiting or begun:
                while waiting and len(begun) < _AT_ONCE:
                    piece = waiting.popleft()
                    settled = _settled(piece)
                    if settled is not None:
                        yield settled
                    else:
                        begun[pool.submit(self._visit, piece, alone)] = piece
                if begun:
                    wait(begun, return_when=FIRST_COMPLETED)
                    visit = next(one for one in begun if one.done())
                    yield from _batches(begun.pop(visit), visit.result(), batch_records)
        finally:
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Give up connections."""
        close = getattr(self._client, "close", None)
        if close is not None:
            close()

    def _visit(self, piece: Slice, alone: float) -> Visit:
        """Read one; of the seconds it waits this part could have been those of others."""
        shard = shard_of(piece.lane.name)
        assert shard is not None, "a name of no shard is settled before"
        begin = spot_of(piece.from_offset)
        walk = Walk(
            self._client, self._streams, shard, begin, note_of(piece.note, piece.from_offset)
        )
        visit = Visit(piece, walk, self._streams, self._pause)
        visit.read()
        if visit.behind is not None:
            visit.behind = visit.behind._replace(idle_s=visit.waited_s * alone, note=visit.note)
        return visit


def _batches(piece: Slice, visit: Visit, batch_records: int) -> Iterator[SliceBatch]:
    rows, ordinal = visit.rows, piece.ordinal
    while len(rows) > batch_records:
        batch, rows = rows[:batch_records], rows[batch_records:]
        table = _table(piece, batch, ordinal)
        yield SliceBatch(piece, table, PLACES.behind(batch[-1].place), last=False)
        ordinal += len(batch)
    table, end = _table(piece, rows, ordinal), (visit.error, visit.behind, visit.past)
    yield SliceBatch(piece, table, visit.reached, True, *end)


def _settled(piece: Slice) -> SliceBatch | None:
    """The batch of a slice of which nothing has to be read."""
    if piece.is_empty:
        return _nothing(piece, piece.until_offset)
    if shard_of(piece.lane.name) is None:
        missing = TopicMissing(f"{piece.lane}: no shard is called {piece.lane.name!r}")
        return _nothing(piece, piece.from_offset, error=slice_error(missing))
    if piece.from_offset >= END:
        return _nothing(piece, piece.from_offset, behind=Behind(0.0, sealed=True))
    begin, until = spot_of(piece.from_offset), spot_of(piece.until_offset)
    if not piece.is_open and begin.part is None and begin.number == until.number:
        return _nothing(piece, piece.until_offset)
    return None


def _nothing(
    piece: Slice, reached: Place, error: SliceError | None = None, behind: Behind | None = None
) -> SliceBatch:
    return SliceBatch(piece, _table(piece, [], 0), reached, True, error, behind)


def _table(piece: Slice, rows: Sequence[Row], ordinal: int) -> pa.Table:
    shard = shard_of(piece.lane.name)
    return table_of(piece.lane_topic, 0 if shard is None else shard.number, rows, ordinal)
