"""A reader whose records become fewer, or more, while a test runs; workers are sent this module."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import BrokerUnavailable
from headrace.model.streams import Slice
from headrace.ports import SliceBatch
from headrace.spark.slice_errors import error_of
from headrace.testing.numbers_reader import NumbersReader


@dataclass(frozen=True)
class FadingReader(NumbersReader):
    """Brokers are away while ``away`` is there, after so many records of each slice."""

    away: str = ""
    records: int = 0

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield each slice, or what can be had of it."""
        for batch in super().read(slices, batch_records):
            if not Path(self.away).exists():
                yield batch
                continue
            reached = batch.slice.from_offset + self.records
            error = error_of(BrokerUnavailable("no broker answers"))
            some = batch.records.slice(0, self.records)
            yield replace(batch, records=some, reached=reached, last=True, error=error)
