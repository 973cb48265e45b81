"""What a worker hands to Spark of the records of a DataFrame wave."""

import pickle
from dataclasses import dataclass

import pyarrow as pa
import pytest

from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin
from headrace.ports import Connections, SliceBatch
from headrace.spark.frames import ReadBin
from headrace.spark.task import Work
from headrace.testing.records import records

PIECE = Slice(LaneId("join", "acme", 0), "acme.visits", 0, 2, 1)


@dataclass(frozen=True)
class OfTimes:
    """A reader, and whatever else a worker opens; its records are of these times."""

    stamps_ms: tuple

    def open(self, _connections):
        return self

    def read(self, slices, _batch_records):
        for piece in slices:
            values = [b"visit"] * len(self.stamps_ms)
            table = records(values, timestamps_ms=self.stamps_ms)
            yield SliceBatch(piece, table, piece.until_offset, last=True)


@pytest.mark.parametrize("far_ms", [2**62, -(2**62)])
def test_a_time_that_spark_cannot_hold_becomes_the_nearest_that_it_can(far_ms):
    reader = OfTimes((7, far_ms))
    work = Work(b"", (), Connections({}, ""), reader, reader, reader)
    numbers = pa.record_batch({"id": [0]})
    read = list(ReadBin(work, (Bin((PIECE,), 1.0),), frozenset())([numbers]))
    told, receipts = read[:-1], read[-1]
    stamps_us = [stamp.value for batch in told for stamp in batch["timestamp"]]
    assert stamps_us[0] == 7_000
    assert stamps_us[1] == (1 if far_ms > 0 else -1) * 9_223_372_036_854_775_000
    assert pickle.loads(receipts["__receipt"][0].as_py()).reached == 2
