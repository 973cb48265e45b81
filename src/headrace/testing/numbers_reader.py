"""A reader that needs no Kafka: every record's value is its own offset, as text.

Any slice can be read, whatever its offsets, so a test of what happens around the reading needs no
broker and can compute what must come out. Lanes can be broken, and slices cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.errors import LeaderUnknown
from headrace.model.lane_names import number_of
from headrace.model.places import number_at, place_at
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, SliceBatch
from headrace.spark.slice_errors import error_of
from headrace.testing.records import records


@dataclass(frozen=True)
class NumbersReader:
    """Implements ``ReaderFactory`` and ``SliceReader``."""

    #: batches that a slice is cut into
    parts: int = 1
    #: lanes whose leader is unknown
    broken: tuple[LaneId, ...] = ()

    def open(self, connections: Connections) -> NumbersReader:
        """It is its own reader."""
        del connections
        return self

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield each slice in ``parts`` batches, or in as many as ``batch_records`` asks for."""
        for piece in slices:
            if piece.lane in self.broken:
                error = error_of(LeaderUnknown(f"{piece}: no leader"))
                yield SliceBatch(piece, records([]), piece.from_offset, last=True, error=error)
            else:
                span = number_at(piece.until_offset) - number_at(piece.from_offset)
                yield from self._cut(piece, min(batch_records, max(1, span // self.parts)))

    def _cut(self, piece: Slice, step: int) -> Iterator[SliceBatch]:
        until = number_at(piece.until_offset)
        for start in range(number_at(piece.from_offset), until, step):
            end = min(start + step, until)
            table = records(
                [b"%d" % offset for offset in range(start, end)],
                topic=piece.lane_topic,
                partition=number_of(piece.lane.name),
                first_offset=start,
            )
            yield SliceBatch(piece, table, place_at(end), last=end == until)

    def close(self) -> None:
        """Nothing to give up."""
