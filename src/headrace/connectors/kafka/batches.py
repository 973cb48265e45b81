"""Which slices are read together, and how what was read is cut into batches.

Both are plain arithmetic on slices and tables; nothing here talks to Kafka.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from headrace.connectors.kafka.faults import slice_error
from headrace.connectors.kafka.lane_read import LaneRead
from headrace.connectors.kafka.offsets import behind, span_of
from headrace.connectors.kafka.tables import for_use_case, has_redriven, table_of
from headrace.model.places import place_at
from headrace.model.streams import Slice, original
from headrace.ports import SliceBatch

#: a slice of more offsets is read alone
_ALONE_OFFSETS = 20_000
#: with which fetches a slice of at most so many offsets is read (``consumers.py``)
_MOST_OFFSETS = (
    ("small", 100),
    ("middle", 1_000),
    ("large", _ALONE_OFFSETS),
    ("huge", math.inf),
)
#: most offsets and lanes read at once
_ROUND_OFFSETS = 50_000
_ROUND_LANES = 2_000


def rounds_of(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Which slices to read together: small ones first, large ones alone.

    No round has two slices of one partition, and those of one partition keep their order.
    """
    rounds: list[list[Slice]] = []
    for profile, _ in _MOST_OFFSETS:
        rounds += _packed([piece for piece in slices if profile_of(piece) == profile])
    return rounds


def profile_of(piece: Slice) -> str:
    """Which of the ``PROFILES`` of consumers a slice is read with."""
    return next(profile for profile, most in _MOST_OFFSETS if span_of(piece) <= most)


def whole(lanes: Sequence[LaneRead], batch_records: int, seal_key: bytes) -> Iterator[SliceBatch]:
    """The batches of lanes that are complete or have failed, whose messages it takes, in turn."""
    table = table_of([(*lane.key, lane.held) for lane in lanes])
    counts = [len(lane.held) for lane in lanes]
    for lane in lanes:
        # Else there would be two of each record for as long as the table is worked on.
        lane.held = []
    # Asked once for all: a question for each of a thousand tiny lanes would be felt.
    mixed = has_redriven(table)
    row = 0
    for lane, rows in zip(lanes, counts, strict=True):
        for batch in _cut(lane, table.slice(row, rows), batch_records):
            yield _filtered(batch, seal_key) if mixed else batch
        row += rows


def first(lane: LaneRead, records: int, seal_key: bytes) -> SliceBatch:
    """Take the first held messages of a lane away, as a batch that is not the last."""
    taken, lane.held = lane.held[:records], lane.held[records:]
    table = table_of([(*lane.key, taken)])
    batch = SliceBatch(lane.slice, table, place_at(taken[-1].offset() + 1), last=False)
    return _filtered(batch, seal_key) if has_redriven(table) else batch


def _filtered(batch: SliceBatch, seal_key: bytes) -> SliceBatch:
    """Without what was sent back for others, whose offsets count as read all the same."""
    use_case = original(batch.slice.lane.use_case)
    return replace(batch, records=for_use_case(batch.records, use_case, seal_key))


def _cut(lane: LaneRead, records: pa.Table, batch_records: int) -> Iterator[SliceBatch]:
    row = 0
    while records.num_rows - row > batch_records:
        part = records.slice(row, batch_records)
        row += batch_records
        yield SliceBatch(lane.slice, part, place_at(part["offset"][-1].as_py() + 1), last=False)
    rest = records.slice(row)
    if lane.error is None:
        yield SliceBatch(lane.slice, rest, lane.slice.until_offset, last=True)
    else:
        error, reached = slice_error(lane.error), place_at(lane.next_offset)
        past = None if error.offset is None else behind(error.offset)
        yield SliceBatch(lane.slice, rest, reached, last=True, error=error, past=past)


def _packed(slices: Sequence[Slice]) -> list[list[Slice]]:
    rounds: list[list[Slice]] = []
    lanes: set[str] = set()
    offsets = 0
    for piece in slices:
        lane, span = piece.lane.name, span_of(piece)
        full = offsets + span > _ROUND_OFFSETS or len(lanes) == _ROUND_LANES
        if not rounds or full or lane in lanes or span > _ALONE_OFFSETS:
            rounds.append([])
            lanes, offsets = set(), 0
        rounds[-1].append(piece)
        lanes.add(lane)
        # A round with a slice that is to be read alone is full.
        offsets += span if span <= _ALONE_OFFSETS else _ROUND_OFFSETS
    return rounds
