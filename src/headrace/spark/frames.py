"""Use cases of form ``wave``: the handler gets a DataFrame of a whole wave, on the driver.

Joins, aggregates and table writers want a DataFrame, as users of ``foreachBatch`` know it. Such a
wave succeeds or fails as one. When it fails, the handler is run again for each stream alone: those
that work are done, and the culprit is known, so one tenant cannot stop the others.

Traps, and what is done about them. The frame is persisted before the handler sees it: a lazy frame
would be read from Kafka again for every action (and could even answer differently). Reading errors
are settled first, slice by slice, so that a lane that cannot be read is not the handler's problem.
A handler can be run twice for the same records. When a recorded wave is replayed ``wave.id`` is the
same, so writes keyed by it replace each other. After a call that raised or was ended it is not:
each stream alone is ``<wave.id>.<tenant>``, and what is tried later is a wave of another id.
Nothing here undoes what such a call wrote. So a handler raises before it writes, or keys its rows
by tenant, partition and offset, which never change.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Move
from headrace.model.streams import Slice, StreamId
from headrace.model.waves import Bin, Wave
from headrace.ports import RECORD_SCHEMA, SliceReader
from headrace.spark.handling import error_of
from headrace.spark.portions import by_slice
from headrace.spark.tally import SAMPLES, sample_s
from headrace.spark.task import BATCH_RECORDS, Work, kept
from headrace.use_cases import UseCase

_RECEIPT = "__receipt"
_TENANT = "tenant"
_SCHEMA = RECORD_SCHEMA.insert(0, pa.field(_TENANT, pa.string())).append(
    pa.field(_RECEIPT, pa.binary())
)
#: Spark takes timestamps in microseconds only.
_SPARK_TYPES = {pa.timestamp("ms", tz="UTC"): pa.timestamp("us", tz="UTC")}
#: Receipt rows have no record in them, so every column may be null on the way.
_WIRE = pa.schema([pa.field(each.name, _SPARK_TYPES.get(each.type, each.type)) for each in _SCHEMA])


@dataclass(frozen=True, slots=True)
class ReadBin:
    """Runs in the Python worker: the records of a bin, then a receipt for each slice."""

    work: Work
    bins: tuple[Bin, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark; the one row it is given is the number of its bin."""
        for batch in batches:
            numbers: list[int] = batch.column(0).to_pylist()  # type: ignore[assignment]
            for number in numbers:
                yield from self._read(self.bins[number])

    def _read(self, planned: Bin) -> Iterator[pa.RecordBatch]:
        reader: SliceReader = kept(self.work).reader
        event_time = self.work.load().event_time if self.work.code else None
        began = time.monotonic()
        for portion in by_slice(reader.read(planned.slices, BATCH_RECORDS)):
            piece, rows = portion.planned[0], portion.records.num_rows
            receipt = Receipt(
                slice=piece,
                reached=portion.reached[0],
                committed=False,
                records=rows,
                bytes=portion.records.nbytes,
                timestamps_s=tuple(sample_s(portion.records, SAMPLES, event_time)),
                error=portion.error,
                seconds=time.monotonic() - began,
            )
            yield from _with_tenant(portion.records, piece.lane.tenant).to_batches()
            yield _receipt_row(receipt)
            began = time.monotonic()


def _with_tenant(records: pa.Table, tenant: str) -> pa.Table:
    rows = records.num_rows
    filled = records.add_column(0, _TENANT, pa.array([tenant] * rows, pa.string()))
    return filled.append_column(_RECEIPT, pa.nulls(rows, pa.binary())).cast(_WIRE)


def _receipt_row(receipt: Receipt) -> pa.RecordBatch:
    empty = [pa.nulls(1, each.type) for each in _WIRE][:-1]
    return pa.RecordBatch.from_arrays(
        [*empty, pa.array([pickle.dumps(receipt)], pa.binary())], schema=_WIRE
    )


@dataclass(frozen=True, slots=True)
class FrameJob:
    """One wave of a use case of form ``wave``, from the driver's side."""

    session: SparkSession
    use_case: UseCase
    work: Work

    def run(self, wave: Wave) -> list[Receipt]:
        """Read, persist, call the handler, and on failure find the culprit."""
        wire = (
            self.session.range(0, len(wave.bins), 1, len(wave.bins))
            .mapInArrow(ReadBin(self.work, wave.bins), from_arrow_schema(_WIRE))
            .persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            rows = wire.where(sf.col(_RECEIPT).isNotNull()).select(_RECEIPT).collect()
            receipts: list[Receipt] = [pickle.loads(row[0]) for row in rows]  # noqa: S301
            records = wire.where(sf.col(_RECEIPT).isNull()).drop(_RECEIPT)
            began = time.monotonic()
            receipts = self._handle(wave, records, receipts)
            return _with_share(receipts, time.monotonic() - began)
        finally:
            wire.unpersist()

    def _handle(self, wave: Wave, records: DataFrame, receipts: list[Receipt]) -> list[Receipt]:
        receipts = self._claim(receipts)
        usable = [each for each in receipts if _usable(each)]
        records = _without(records, [each.slice for each in receipts if each.superseded])
        error = self._call(records, _only(wave, [each.slice for each in usable]))
        if error is None:
            return receipts
        if error.temporary or self.use_case.claims:
            return [_failed(each, error) if _usable(each) else each for each in receipts]
        streams = sorted({each.slice.lane.stream for each in usable})
        if len(streams) == 1:
            return [_failed(each, error) if _usable(each) else each for each in receipts]
        culprits = {
            stream: failure
            for stream in streams
            if (failure := self._alone(wave, records, receipts, stream))
        }
        return [
            _failed(each, culprits[each.slice.lane.stream])
            if _usable(each) and each.slice.lane.stream in culprits
            else each
            for each in receipts
        ]

    def _alone(
        self, wave: Wave, records: DataFrame, receipts: list[Receipt], stream: StreamId
    ) -> SliceError | None:
        mine = [each.slice for each in receipts if each.slice.lane.stream == stream]
        part = replace(_only(wave, mine), id=f"{wave.id}.{stream.tenant}")
        return self._call(records.where(sf.col(_TENANT) == stream.tenant), part)

    def _claim(self, receipts: list[Receipt]) -> list[Receipt]:
        """For at-most-once the positions move before the handler runs."""
        if not self.use_case.claims:
            return receipts
        moves = [
            Move(each.slice.lane, each.slice.from_offset, each.reached, each.slice.epoch)
            for each in receipts
        ]
        moved = kept(self.work).positions.advance(moves)
        return [
            replace(each, committed=mine, superseded=not mine)
            for each, mine in zip(receipts, moved, strict=True)
        ]

    def _call(self, records: DataFrame, wave: Wave) -> SliceError | None:
        if not wave.bins:
            return None
        try:
            self.use_case.handler(records, wave)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # asyncio.CancelledError and SystemExit are no Exception
            return error_of(error)
        return None


def _usable(receipt: Receipt) -> bool:
    return not receipt.superseded and receipt.reached > receipt.slice.from_offset


def _without(records: DataFrame, claimed_elsewhere: list[Slice]) -> DataFrame:
    for each in claimed_elsewhere:
        lane = (sf.col(_TENANT) == each.lane.tenant) & (sf.col("partition") == each.lane.partition)
        records = records.where(~lane)
    return records


def _failed(receipt: Receipt, error: SliceError) -> Receipt:
    """Nothing of this slice is done, unless its position has moved already."""
    reached = receipt.reached if receipt.committed else receipt.slice.from_offset
    return replace(receipt, reached=reached, error=error)


def _with_share(receipts: list[Receipt], handler_s: float) -> list[Receipt]:
    total = sum(1 + each.records for each in receipts) or 1
    return [
        replace(each, seconds=each.seconds + handler_s * (1 + each.records) / total)
        for each in receipts
    ]


def _only(wave: Wave, slices: list[Slice]) -> Wave:
    wanted = set(slices)
    bins = (
        replace(each, slices=tuple(piece for piece in each.slices if piece in wanted))
        for each in wave.bins
    )
    return replace(wave, bins=tuple(each for each in bins if each.slices))
