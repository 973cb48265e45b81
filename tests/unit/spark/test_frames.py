"""What a worker hands to Spark of the records of a DataFrame wave."""

import pickle
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.errors import RegistryUnavailable
from headrace.formats import Json, Text
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin
from headrace.ports import Connections, Decoded, SliceBatch, Waiting
from headrace.spark.frames import ReadBin, wire_of
from headrace.spark.shipping import code_of
from headrace.spark.task import Work
from headrace.testing.records import records
from headrace.use_cases import use_case

PIECE = Slice(LaneId("join", "acme", "acme.visits[0]"), "acme.visits", 0, 2, 1)


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


@dataclass(frozen=True)
class OfValues(OfTimes):
    """The same with these values."""

    values: tuple = ()

    def read(self, slices, _batch_records):
        for piece in slices:
            yield SliceBatch(piece, records(self.values), piece.until_offset, last=True)


def handed_over(reader, **options):
    """What Spark is given of a bin: records, and a receipt."""
    report = use_case(topic="{tenant}.visits", form="wave", name="join", **options)(lambda: None)
    work = Work(code_of(report), (), Connections({}, ""), reader, reader, reader)
    numbers = pa.record_batch({"id": [0]})
    wire = wire_of(report)
    read = list(ReadBin(work, (Bin((PIECE,), 1.0),), wire, frozenset(), "")([numbers]))
    from_arrow_schema(wire)
    assert all(batch.schema == wire for batch in read)
    return read[:-1], read[-1]


EVERY = pa.schema(
    [
        pa.field("id", pa.uint32(), nullable=False),
        ("at", pa.timestamp("us", "Europe/Berlin")),
        ("amount", pa.decimal128(12, 2)),
        ("lead", pa.struct([("age", pa.uint8())])),
        ("tags", pa.list_(pa.uint16())),
        ("counts", pa.map_(pa.string(), pa.uint32())),
    ]
)


def test_a_frame_has_columns_of_types_that_spark_has():
    value = (
        b'{"id": 4294967295, "at": "2026-11-24T10:00:00+01:00", "amount": "1.50",'
        b' "lead": {"age": 255}, "tags": [65535], "counts": {"a": 4294967295}}'
    )
    (told,), _ = handed_over(OfValues((), (value,)), decode=Json(EVERY), decode_key=Text())
    (row,) = told.to_pylist()
    assert told.schema.names[0] == "tenant"
    assert told.schema.names[-9:] == ["key", *EVERY.names, "__slice", "__receipt"]
    assert (row["tenant"], row["key"], row["id"]) == ("acme", None, 4294967295)
    assert (row["at"].hour, str(row["amount"]), row["lead"]) == (10, "1.50", {"age": 255})
    assert (row["tags"], row["counts"]) == ([65535], [("a", 4294967295)])


def test_a_slice_of_a_frame_stops_at_a_record_that_does_not_decode():
    numbers = Json(pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    values = (b'{"n": 1}', b'{"n": "x"}', b'{"n": 3}')
    (told,), receipts = handed_over(OfValues((), values), decode=numbers)
    assert told["n"].to_pylist() == [1]
    receipt = pickle.loads(receipts["__receipt"][0].as_py())
    assert (receipt.reached, receipt.records) == (1, 1)
    assert (receipt.error.code, receipt.error.offset) == ("BadRecord", 1)
    assert receipt.error.raw_value == values[1]
    assert "$.n" in receipt.error.message


def test_a_slice_of_a_frame_waits_for_a_registry():
    class Away(Text):
        def decode(self, payloads):
            found = super().decode(replace(payloads, bytes=payloads.bytes.slice(0, 1)))
            return replace(found, waiting=Waiting(1, RegistryUnavailable("away")))

    (told,), receipts = handed_over(OfValues((), (b"a", b"b")), decode=Away())
    assert told["value"].to_pylist() == ["a"]
    receipt = pickle.loads(receipts["__receipt"][0].as_py())
    assert (receipt.reached, receipt.error.code, receipt.error.offset) == (
        1,
        "RegistryUnavailable",
        None,
    )
    assert receipt.error.temporary


def test_a_format_that_raises_stops_its_slice():
    class Broken(Text):
        def decode(self, payloads):
            raise ValueError("no")

    told, receipts = handed_over(OfValues((), (b"a",)), decode=Broken())
    receipt = pickle.loads(receipts["__receipt"][0].as_py())
    assert sum(batch.num_rows for batch in told) == 0
    assert (receipt.reached, receipt.error.code) == (0, "HandlerError")


def test_below_a_missing_object_every_column_may_be_null_in_a_frame():
    lead = pa.struct([pa.field("name", pa.string(), nullable=False)])
    kinds = [("lead", lead), ("leads", pa.list_(pa.field("item", lead, nullable=False)))]
    (told,), _ = handed_over(OfValues((), (b'{"lead": null}',)), decode=Json(pa.schema(kinds)))
    assert told.schema.field("lead").type.field(0).nullable
    assert told.schema.field("leads").type.value_field.nullable


def test_what_spark_has_no_place_for_stops_its_slice_and_no_other():
    class Wrong(Text):
        def decode(self, payloads):
            return Decoded(pa.table({"value": pa.array([b"\xff"], pa.binary())}))

    told, receipts = handed_over(OfValues((), (b"a",)), decode=Wrong())
    receipt = pickle.loads(receipts["__receipt"][0].as_py())
    assert told == []
    assert (receipt.reached, receipt.records, receipt.error.code) == (0, 0, "HandlerError")


@pytest.mark.parametrize("far_ms", [2**62, -(2**62)])
def test_a_time_that_spark_cannot_hold_becomes_the_nearest_that_it_can(far_ms):
    told, receipts = handed_over(OfTimes((7, far_ms)))
    stamps_us = [stamp.value for batch in told for stamp in batch["timestamp"]]
    assert stamps_us[0] == 7_000
    assert stamps_us[1] == (1 if far_ms > 0 else -1) * 9_223_372_036_854_775_000
    assert pickle.loads(receipts["__receipt"][0].as_py()).reached == 2
