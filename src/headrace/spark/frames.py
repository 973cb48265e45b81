"""Use cases of form ``wave``: the handler gets a DataFrame of a whole wave, on the driver.

Joins, aggregates and table writers want a DataFrame, as users of ``foreachBatch`` know it. What
becomes of such a wave is decided in ``frame_calls.py``; Spark's part of it is here.

Traps, and what is done about them. The frame is persisted before the handler sees it: a lazy frame
would be read from Kafka again for every action. What was kept and lost is read again all the same,
and is refused if it comes to anything else than the receipts (`reading_again.py`). Reading errors
are settled first, slice by slice, so that a lane that cannot be read is not the handler's problem.
A handler can be run twice for the same records. When a recorded wave is replayed ``wave.id`` is the
same, so writes keyed by it replace each other, and it stays the same for whoever of it runs until
one of its streams came through. Else each stream alone is ``<wave.id>.<tenant>`` after a call that
raised, and what is tried later is a wave of another id.
Nothing here undoes what such a call wrote, nor refuses the write of a driver that slept in it. So a
handler raises before it writes, or keys its rows by tenant, partition and offset, which never
change.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel, TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.errors import HeadraceError
from headrace.model.receipts import Receipt
from headrace.model.streams import Slice
from headrace.model.waves import Bin, Wave
from headrace.spark.bucket_reading import BucketReader
from headrace.spark.decoding import shown_schema
from headrace.spark.frame_calls import FrameCalls, read, with_share
from headrace.spark.jobs import kept_small
from headrace.spark.reading_again import FIRST, Seen, compare, heard, to_tell
from headrace.spark.shipping import home_of
from headrace.spark.slice_errors import error_of
from headrace.spark.spark_types import as_spark
from headrace.spark.task import BATCH_RECORDS, Work, kept
from headrace.use_cases import UseCase
from headrace.versions.loading import version_of

_RECEIPT = "__receipt"
#: which of the wave's slices a record is of; no handler sees it
_SLICE = "__slice"
_TENANT = "tenant"
#: the farthest time from 1970, in milliseconds, that Spark can hold; a sender may write any
_FARTHEST_MS = (2**63 - 1) // 1000


def wire_of(use_case: UseCase) -> pa.Schema:
    """What a worker hands to Spark: records as a handler sees them, and rows that are receipts.

    Receipt rows have no record in them, so every column may be null on the way.
    """
    columns = shown_schema(use_case).insert(0, pa.field(_TENANT, pa.string()))
    return as_spark(
        columns.append(pa.field(_SLICE, pa.int32())).append(pa.field(_RECEIPT, pa.binary()))
    )


def numbered(bins: Sequence[Bin]) -> dict[Slice, int]:
    """The slices of a wave with their numbers."""
    pieces = (piece for bin_ in bins for piece in bin_.slices)
    return {piece: number for number, piece in enumerate(pieces)}


@dataclass(frozen=True, slots=True)
class ReadBin:
    """Runs in the Python worker: the records of a bin, then a receipt for each slice."""

    work: Work
    bins: tuple[Bin, ...]
    #: what Spark is handed
    wire: pa.Schema
    #: digests of the code that tasks may still ask for
    needed: frozenset[str]
    #: the local property of jobs that tells what was read before
    before: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark; the one row it is given is the number of its bin."""
        with kept_small(self.needed):
            for batch in batches:
                numbers: list[int] = batch.column(0).to_pylist()  # type: ignore[assignment]
                for number in numbers:
                    before = self._before(number)
                    for given, receipt in self._read(self.bins[number]):
                        if before is not None:
                            compare(before, receipt)
                        yield from given
                        yield _receipt_row(receipt, self.wire)

    def _before(self, number: int) -> Mapping[Slice, Seen] | None:
        """What a bin was at the first reading; None if this is the first."""
        task = TaskContext.get()
        text = FIRST if task is None else task.getLocalProperty(self.before)
        return heard(text, number, self.bins[number])

    def _read(self, planned: Bin) -> Iterator[tuple[Sequence[pa.RecordBatch], Receipt]]:
        try:
            use_case = self.work.load() if self.work.has_code else None
            clients = kept(self.work)
        except HeadraceError as error:
            for piece in planned.slices:
                told = error_of(error)
                yield (), Receipt(piece, piece.from_offset, committed=False, error=told)
            return
        numbers = numbered(self.bins)
        reader = BucketReader(clients.reader)
        found = read(reader, clients.schemas, planned.slices, BATCH_RECORDS, use_case)
        for records, receipt in found:
            try:
                given = _with_slice(records, receipt.slice, numbers[receipt.slice], self.wire)
            except pa.ArrowException as error:  # what Spark has no place for
                piece, why = receipt.slice, error_of(error)
                stopped = Receipt(
                    piece, piece.from_offset, committed=False, error=why, seconds=receipt.seconds
                )
                yield (), stopped
            else:
                yield given.to_batches(), receipt


def _with_slice(records: pa.Table, piece: Slice, number: int, wire: pa.Schema) -> pa.Table:
    rows, tenant = records.num_rows, piece.lane.tenant
    filled = _within_reach(records).add_column(0, _TENANT, pa.array([tenant] * rows, pa.string()))
    filled = filled.append_column(_SLICE, pa.array(np.full(rows, number, np.int32)))
    return filled.append_column(_RECEIPT, pa.nulls(rows, pa.binary())).cast(wire)


def _within_reach(records: pa.Table) -> pa.Table:
    """The records, of which none is of a time that Spark cannot hold, but of the nearest."""
    at, kind = records.schema.get_field_index("timestamp"), records.schema.field("timestamp")
    farthest: pa.Scalar[Any] = pa.scalar(_FARTHEST_MS, pa.int64())
    stamps = pc.cast(records["timestamp"], pa.int64())
    held: Any = pc.max_element_wise(pc.min_element_wise(stamps, farthest), pc.negate(farthest))
    return records.set_column(at, kind, held.cast(kind.type))


def _receipt_row(receipt: Receipt, wire: pa.Schema) -> pa.RecordBatch:
    empty = [pa.nulls(1, column.type) for column in wire][:-1]
    return pa.RecordBatch.from_arrays(
        [*empty, pa.array([pickle.dumps(receipt)], pa.binary())], schema=wire
    )


@dataclass(frozen=True, slots=True)
class FrameJob:
    """One wave of a use case of form ``wave``, from the driver's side."""

    session: SparkSession
    use_case: UseCase
    work: Work
    #: digests of the code that tasks may still ask for
    needed: frozenset[str]

    def run(self, wave: Wave) -> list[Receipt]:
        """Read, persist, call the handler, and on failure find the culprit."""
        with sent_by_value(self.use_case):
            return self._run(wave)

    def _run(self, wave: Wave) -> list[Receipt]:
        columns, before = wire_of(self.use_case), f"headrace.read.{uuid.uuid4().hex}"
        reading = ReadBin(self.work, wave.bins, columns, self.needed, before)
        context = self.session.sparkContext
        wire = (
            self.session.range(0, len(wave.bins), 1, len(wave.bins))
            .mapInArrow(reading, from_arrow_schema(columns))
            .persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            context.setLocalProperty(before, FIRST)
            rows = wire.where(sf.col(_RECEIPT).isNotNull()).select(_RECEIPT).collect()
            receipts: list[Receipt] = [pickle.loads(row[0]) for row in rows]  # noqa: S301
            context.setLocalProperty(before, to_tell(wave.bins, receipts))
            records = wire.where(sf.col(_RECEIPT).isNull()).drop(_RECEIPT)
            frame = SparkFrame(records, numbered(wave.bins))
            began = time.monotonic()
            calls = FrameCalls(self.use_case, lambda: kept(self.work).positions)
            handled = calls.handle(wave, frame, receipts)
            return with_share(handled, receipts, time.monotonic() - began)
        finally:
            context.setLocalProperty(before, None)  # type: ignore[arg-type]
            wire.unpersist()


@contextmanager
def sent_by_value(use_case: UseCase) -> Iterator[None]:
    """For a while Spark sends the local functions that a handler gives it (a udf, say) by value.

    Their modules have names of their version, which no worker can import. Spark keeps one list of
    such modules for the process, in which no version stays for ever.
    """
    name = home_of(use_case)
    if version_of(name) is None:
        yield
        return
    package = sys.modules[name.partition(".")[0]]
    with _registering:
        if not _sending[package.__name__]:
            cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
        _sending[package.__name__] += 1
    try:
        yield
    finally:
        with _registering:
            _sending[package.__name__] -= 1
            if not _sending[package.__name__]:
                del _sending[package.__name__]
                cloudpickle.unregister_pickle_by_value(package)  # type: ignore[no-untyped-call]


#: waves that run, by the package of their version; waves of one version may overlap
_sending: Counter[str] = Counter()
_registering = threading.Lock()


@dataclass(frozen=True, slots=True)
class SparkFrame:
    """A persisted DataFrame of records with their tenants; implements ``frame_calls.Frame``."""

    records: DataFrame
    #: slices of the wave, as their records have it
    numbers: Mapping[Slice, int]

    @property
    def given(self) -> DataFrame:
        """The frame as the handler gets it."""
        return self.records.drop(_SLICE)

    def without(self, slices: Sequence[Slice]) -> SparkFrame:
        """The same but for the records of some slices."""
        gone = [self.numbers[piece] for piece in slices]
        return replace(self, records=self.records.where(~sf.col(_SLICE).isin(gone)))

    def of(self, tenant: str) -> SparkFrame:
        """The records of one tenant."""
        return replace(self, records=self.records.where(sf.col(_TENANT) == tenant))
