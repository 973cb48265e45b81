"""The rules of a wave of form ``wave``: what was read, who is claimed, what a failed call means.

Such a wave succeeds or fails as one. When it fails, the handler is run again for each stream alone:
those that work are done, and the culprit is known, so one tenant cannot stop the others. Of a
recorded wave only one can be done so, under the wave's own id. What is written under another name
has to stand in the store before, or a kill leaves both; so the driver divides the rest
(``cycle/unfinished.py``).

Reading errors are settled before, slice by slice; of a recorded wave nothing is given of a stream
of which a slice was not read to its end, as a replay may read another part of it. That a frame was
read again and is another by then (``reading_again.py``) is nobody's failure: the wave is lost as a
whole, as with an executor.

What a frame is, and where it is kept meanwhile, is not known here: ``frames.py`` has Spark's, and a
test its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from headrace.errors import RunsApart
from headrace.model.receipts import Receipt, SliceError, WrittenBy, most_written
from headrace.model.records import Move
from headrace.model.streams import Slice, StreamId
from headrace.model.waves import Wave
from headrace.ports import Positions, Schemas, SliceReader
from headrace.process.crash_points import PlayedKill
from headrace.spark.decoding import decoded, shown, shown_schema, writers
from headrace.spark.event_samples import sample_s
from headrace.spark.portions import Portion, by_slice, cut_to
from headrace.spark.reading_again import read_otherwise
from headrace.spark.row_places import passed, without_places
from headrace.spark.slice_errors import error_of, undecoded_error
from headrace.spark.tally import SAMPLES
from headrace.use_cases import UseCase


class Frame(Protocol):
    """The records of a wave, or of some of its slices."""

    @property
    def given(self) -> Any:
        """What the handler gets."""

    def without(self, slices: Sequence[Slice]) -> Frame:
        """The same but for the records of some slices."""

    def of(self, tenant: str) -> Frame:
        """The records of one tenant."""


def read(
    reader: SliceReader,
    schemas: Schemas,
    slices: Sequence[Slice],
    batch_records: int,
    use_case: UseCase | None,
) -> Iterator[tuple[pa.Table, Receipt]]:
    """The records of each slice as a handler is given them, and how far they could be read.

    A record that does not decode is where its slice stops. Without ``use_case`` records are given
    as they came, and nothing but their timestamps tells when they happened.
    """
    event_time = None if use_case is None else use_case.event_time
    began = time.monotonic()
    for whole in by_slice(reader.read(slices, batch_records)):
        portion, given = _decodable(use_case, whole, schemas)
        yield (
            given,
            Receipt(
                slice=portion.planned[0],
                reached=portion.reached[0],
                committed=False,
                records=portion.records.num_rows,
                passed=sum(passed(portion.records, 1)),
                bytes=portion.records.nbytes,
                timestamps_s=tuple(sample_s(portion.records, SAMPLES, event_time)),
                error=portion.error,
                seconds=time.monotonic() - began,
                writers=_writers(use_case, portion),
            ),
        )
        began = time.monotonic()


def _writers(use_case: UseCase | None, portion: Portion) -> tuple[WrittenBy, ...]:
    if use_case is None:
        return ()
    found = most_written(writers(use_case, portion.records))
    return tuple(map(WrittenBy, found.keys(), found.values()))


def _decodable(
    use_case: UseCase | None, portion: Portion, schemas: Schemas
) -> tuple[Portion, pa.Table]:
    """A portion up to the first record that does not decode, or not yet; and these, decoded."""
    if use_case is None or not use_case.decodes:
        return portion, without_places(portion.records)
    try:
        found = decoded(use_case, portion.records, schemas)
    except Exception as error:  # a format may be of somebody's own
        nothing = shown_schema(use_case).empty_table()
        return cut_to(portion, 0, error_of(error)), nothing
    given = shown(use_case, found.records)
    if found.undecoded:
        row, why = min(found.undecoded.items())
        bad = undecoded_error(portion.records, row, why)
        return cut_to(portion, row, bad), given.slice(0, row)
    if found.waiting is not None:
        return cut_to(portion, found.given, error_of(found.waiting)), given
    return portion, given


@dataclass(frozen=True, slots=True)
class FrameCalls:
    """Claims what was read, calls the handler, and finds the culprit."""

    use_case: UseCase
    #: opens what moves positions; not called for at-least-once
    positions: Callable[[], Positions]

    def handle(self, wave: Wave, frame: Frame, receipts: Sequence[Receipt]) -> list[Receipt]:
        """Take what was read all the way; what became of each slice, in the same order.

        Raises:
            ReadOtherwise: the handler met other records than were counted.
        """
        claimed = self._claim(receipts)
        if self.use_case.intends:
            claimed = _whole_streams(claimed)
        usable = [receipt for receipt in claimed if _usable(receipt)]
        given = {receipt.slice for receipt in usable}
        frame = frame.without([piece for piece in wave.slices if piece not in given])
        error = self._call(frame, only(wave, [receipt.slice for receipt in usable]))
        if error is None:
            return claimed
        streams = sorted({receipt.slice.lane.stream for receipt in usable})
        if error.temporary or self.use_case.claims or len(streams) == 1:
            return [_failed(receipt, error) if _usable(receipt) else receipt for receipt in claimed]
        failures = self._one_by_one(wave, frame, claimed, streams)
        return [
            _failed(receipt, failures[receipt.slice.lane.stream])
            if _usable(receipt) and receipt.slice.lane.stream in failures
            else receipt
            for receipt in claimed
        ]

    def _one_by_one(
        self, wave: Wave, frame: Frame, receipts: Sequence[Receipt], streams: Sequence[StreamId]
    ) -> dict[StreamId, SliceError]:
        """What streams met that did not come through alone.

        The id of a recorded wave is for the first that comes through: its call replaces all that an
        earlier attempt may have left there. No other may write under it then, so the streams behind
        have to be written down under other names first.
        """
        failures: dict[StreamId, SliceError] = {}
        for number, stream in enumerate(streams, 1):
            failure = self._alone(wave, frame, receipts, stream)
            if failure is not None:
                failures[stream] = failure
            elif self.use_case.intends:
                apart = error_of(RunsApart(f"{stream.tenant} has the id of its wave"))
                return failures | dict.fromkeys(streams[number:], apart)
        return failures

    def _alone(
        self, wave: Wave, frame: Frame, receipts: Sequence[Receipt], stream: StreamId
    ) -> SliceError | None:
        mine = [receipt.slice for receipt in receipts if receipt.slice.lane.stream == stream]
        name = wave.id if self.use_case.intends else f"{wave.id}.{stream.tenant}"
        return self._call(frame.of(stream.tenant), replace(only(wave, mine), id=name))

    def _claim(self, receipts: Sequence[Receipt]) -> list[Receipt]:
        """For at-most-once the positions move before the handler runs.

        Of a recorded wave they are asked: a driver that slept while it read has an heir, and would
        write where that one has written by now.
        """
        if not self.use_case.claims and not self.use_case.intends:
            return list(receipts)
        claims = self.use_case.claims
        moves = [Move.of(receipt.slice, receipt.reached, receipt.passed) for receipt in receipts]
        moved = self.positions().advance([move if claims else move.stay() for move in moves])
        return [
            replace(receipt, committed=claims) if mine else _undone(receipt, superseded=True)
            for receipt, mine in zip(receipts, moved, strict=True)
        ]

    def _call(self, frame: Frame, wave: Wave) -> SliceError | None:
        if not wave.bins:
            return None
        try:
            self.use_case.handler(frame.given, wave)
        except PlayedKill:
            raise
        except BaseException as error:  # signals go to another thread: this is the handler's own
            if otherwise := read_otherwise(error):
                raise otherwise from error
            return error_of(error)
        return None


def with_share(
    handled: Sequence[Receipt], given: Sequence[Receipt], handler_s: float
) -> list[Receipt]:
    """The handler's seconds are spread by what it was given, done or not."""
    total = sum(1 + receipt.records for receipt in given) or 1
    return [
        replace(receipt, seconds=receipt.seconds + handler_s * (1 + before.records) / total)
        for receipt, before in zip(handled, given, strict=True)
    ]


def only(wave: Wave, slices: Sequence[Slice]) -> Wave:
    """The wave with some of its slices alone."""
    return wave.only(set(slices).__contains__)


def _whole_streams(receipts: Sequence[Receipt]) -> list[Receipt]:
    """What was read, but for streams that were not read to the end of all their slices.

    Should the handler raise in a replay that reads the rest, other slices of the stream follow, and
    what this attempt wrote of it would stand beside theirs.
    """
    parted = {receipt.slice.lane.stream for receipt in receipts if receipt.error is not None}
    return [
        _undone(receipt, reached=receipt.slice.from_offset, passed=0)
        if receipt.slice.lane.stream in parted and not receipt.superseded
        else receipt
        for receipt in receipts
    ]


def _usable(receipt: Receipt) -> bool:
    return not receipt.superseded and receipt.reached > receipt.slice.from_offset


def _failed(receipt: Receipt, error: SliceError) -> Receipt:
    """Nothing of this slice is done, unless its position has moved already."""
    if receipt.committed:
        first, lost = receipt.slice.from_offset, receipt.records
        return _undone(receipt, lost_from=first, lost=lost, error=error)
    return _undone(receipt, reached=receipt.slice.from_offset, passed=0, error=error)


def _undone(receipt: Receipt, **more: Any) -> Receipt:
    """What was read of it counts nowhere, but for the seconds."""
    return replace(receipt, records=0, bytes=0, timestamps_s=(), writers=(), **more)
