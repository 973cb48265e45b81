"""Waves of form ``wave`` without Spark: the same rules, on tables in this process.

The handler runs where the driver does, and writes for itself. As the guide asks, it raises before
it writes, and keys what it writes by tenant, partition and offset where it has to be there once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from headrace.model.receipts import Receipt
from headrace.model.streams import Slice
from headrace.model.waves import Wave
from headrace.spark.frame_calls import FrameCalls, read
from headrace.spark.task import WorkerClients
from headrace.testing.ledger import Found, Place
from headrace.testing.simulation.sinks import Done, Notebook
from headrace.use_cases import UseCase

_BATCH_RECORDS = 3


@dataclass(frozen=True, slots=True)
class FakeFrame:
    """The records of some slices; implements ``headrace.spark.frame_calls.Frame``."""

    parts: tuple[tuple[Slice, pa.Table], ...]
    #: of the task, which may die or sleep
    door: Any

    @property
    def given(self) -> FakeFrame:
        """The handler gets it as it is."""
        return self

    def without(self, slices: Sequence[Slice]) -> FakeFrame:
        """The same but for the records of some slices."""
        gone = {piece.lane for piece in slices}
        return FakeFrame(tuple(part for part in self.parts if part[0].lane not in gone), self.door)

    def of(self, tenant: str) -> FakeFrame:
        """The records of one tenant."""
        mine = tuple(part for part in self.parts if part[0].lane.tenant == tenant)
        return FakeFrame(mine, self.door)


def run_wave(use_case: UseCase, wave: Wave, clients: WorkerClients) -> list[Receipt]:
    """Read a wave and call its handler."""
    slices = list(wave.slices)
    found = list(read(clients.reader, clients.schemas, slices, _BATCH_RECORDS, use_case))
    frame = FakeFrame(
        tuple((receipt.slice, records) for records, receipt in found), clients.positions
    )
    calls = FrameCalls(use_case, lambda: clients.positions)
    return calls.handle(wave, frame, [receipt for _, receipt in found])


@dataclass(frozen=True, slots=True)
class FrameHandler:
    """Stumbles over what records do, then writes."""

    book: Notebook
    #: raises for what a record does now, if it does anything
    stumble: Callable[[bytes | None, Slice], None]
    #: where a record is, by its own content
    place: Callable[[str, int, int, bytes | None], Place]
    #: the generation that a slice was started in
    generation: Callable[[Slice], int]

    def __call__(self, frame: FakeFrame, wave: Wave) -> None:
        """One call."""
        del wave
        done: list[tuple[str, list[Done]]] = []
        for piece, table in frame.parts:
            offsets = cast("list[int]", table["offset"].to_pylist())
            rows = zip(offsets, table["value"].to_pylist(), strict=True)
            of_slice = []
            for offset, value in rows:
                self.stumble(value, piece)
                place = self.place(piece.topic, piece.lane.partition, offset, value)
                found = Found(piece.lane.tenant, place)
                of_slice.append(Done(piece.lane.use_case, found, self.generation(piece)))
            done.append((piece.lane.tenant, of_slice))
        for tenant, of_slice in done:
            frame.door.step("before frame.write")
            self.book.happened += of_slice
            self.book.wrote(tenant, of_slice)
        frame.door.step("after frame.write")
