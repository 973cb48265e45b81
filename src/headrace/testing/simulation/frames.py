"""Waves of form ``wave`` without Spark: the same rules, on tables in this process.

The handler runs where the driver does, and writes for itself. As the guide asks, it raises before
it writes, and keys what it writes by tenant, partition and offset where it has to be there once. It
writes the same a second time as the guide's example does: whole, and in place of all that stood
under the id of its wave.

In some waves an executor dies when the receipts are there, with all that it kept of the records, so
that they are read again for the handler. Brokers that were away at the first reading may be back by
then, or the other way round; and a registry answers as it does just then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal, cast

import pyarrow as pa

from headrace.model.lane_names import number_of
from headrace.model.receipts import Receipt
from headrace.model.streams import Slice
from headrace.model.waves import Wave
from headrace.ports import SliceBatch, SliceReader
from headrace.spark import reading_again
from headrace.spark.frame_calls import FrameCalls, read
from headrace.spark.task import WorkerClients
from headrace.testing.ledger import Found, Place
from headrace.testing.simulation.doors import cut_short
from headrace.testing.simulation.sinks import Done, Notebook
from headrace.use_cases import UseCase

#: the reading of the two in whose middle brokers go
BrokersGo = Literal["first", "again", "never"]
BROKERS_GO: tuple[BrokersGo, ...] = ("first", "again", "never")
_BATCH_RECORDS = 3
#: chance of each batch of a reading in which brokers go that they do so in it
_GOES = 0.5


@dataclass(frozen=True, slots=True)
class LostBlocks:
    """What was kept of a wave is lost when its receipts are there."""

    rng: Random
    brokers_go: BrokersGo

    def reader(self, whole: SliceReader, reading: Literal["first", "again"]) -> SliceReader:
        """What reads the first time, or again."""
        return _Fading(whole, self.rng) if reading == self.brokers_go else whole


@dataclass(frozen=True, slots=True)
class _Fading:
    """A reader whose brokers go, in some slices or all of them."""

    whole: SliceReader
    rng: Random

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        ended = set[Slice]()
        for batch in self.whole.read(slices, batch_records):
            if batch.slice in ended:
                continue
            goes = batch.error is None and self.rng.random() < _GOES
            if goes:
                ended.add(batch.slice)
            yield cut_short(batch, self.rng) if goes else batch

    def close(self) -> None:
        self.whole.close()


@dataclass(frozen=True, slots=True)
class _Reading:
    """How the slices of a wave are read, as often as it takes."""

    use_case: UseCase
    slices: Sequence[Slice]
    clients: WorkerClients

    def __call__(self, reader: SliceReader) -> list[tuple[pa.Table, Receipt]]:
        schemas = self.clients.schemas
        return list(read(reader, schemas, self.slices, _BATCH_RECORDS, self.use_case))


@dataclass(frozen=True, slots=True)
class FakeFrame:
    """The records of some slices; implements ``headrace.spark.frame_calls.Frame``."""

    parts: tuple[tuple[Slice, pa.Table], ...]
    #: of the task, which may die or sleep
    door: Any
    #: reads them again for whoever looks at them; None: they are kept
    again: Callable[[], dict[Slice, pa.Table]] | None = None

    @property
    def given(self) -> FakeFrame:
        """The handler gets it as it is, or as it is by now."""
        if self.again is None:
            return self
        now = self.again()
        return replace(self, parts=tuple((piece, now[piece]) for piece, _ in self.parts))

    def without(self, slices: Sequence[Slice]) -> FakeFrame:
        """The same but for the records of some slices."""
        gone = {piece.lane for piece in slices}
        return replace(self, parts=tuple(part for part in self.parts if part[0].lane not in gone))

    def of(self, tenant: str) -> FakeFrame:
        """The records of one tenant."""
        mine = tuple(part for part in self.parts if part[0].lane.tenant == tenant)
        return replace(self, parts=mine)


def run_wave(
    use_case: UseCase, wave: Wave, clients: WorkerClients, lost: LostBlocks | None = None
) -> list[Receipt]:
    """Read a wave and call its handler.

    Raises:
        ReadOtherwise: the handler met other records than were counted.
    """
    reading = _Reading(use_case, list(wave.slices), clients)
    found = reading(lost.reader(clients.reader, "first") if lost else clients.reader)
    receipts = [receipt for _, receipt in found]

    def again() -> dict[Slice, pa.Table]:
        assert lost is not None, "what is kept is not read again"
        cast("Any", clients.positions).step("before frame.read again")
        now = reading(lost.reader(clients.reader, "again"))
        before = {receipt.slice: reading_again.seen(receipt) for receipt in receipts}
        for _, receipt in now:
            reading_again.compare(before, receipt)
        return {receipt.slice: records for records, receipt in now}

    parts = tuple((receipt.slice, records) for records, receipt in found)
    frame = FakeFrame(parts, clients.positions, again if lost else None)
    return FrameCalls(use_case, lambda: clients.positions).handle(wave, frame, receipts)


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
    #: told each slice that it is called with
    heard: Callable[[Slice], None]

    def __call__(self, frame: FakeFrame, wave: Wave) -> None:
        """One call."""
        for piece in wave.slices:
            self.heard(piece)
        call = self.book.begins(wave.id)
        done: list[tuple[str, list[Done]]] = []
        for piece, table in frame.parts:
            offsets = cast("list[int]", table["offset"].to_pylist())
            rows = zip(offsets, table["value"].to_pylist(), strict=True)
            of_slice = []
            for offset, value in rows:
                self.stumble(value, piece)
                place = self.place(piece.lane_topic, number_of(piece.lane.name), offset, value)
                found = Found(piece.lane.tenant, place)
                own = self.generation(piece)
                of_slice.append(Done(piece.lane.use_case, found, own, name=piece.lane.name))
            done.append((piece.lane.tenant, of_slice))
        for tenant, of_slice in done:
            frame.door.step("before frame.write")
            self.book.happened += of_slice
            self.book.wrote(tenant, of_slice)
        written = [effect for _, of_slice in done for effect in of_slice]
        self.book.replace(wave.id, call, written)
        frame.door.step("after frame.write")
