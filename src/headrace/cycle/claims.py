"""What was claimed for at-most-once and may have no effect, told by its offsets.

With at-most-once a position moves before anything is done, and what then goes wrong is not tried
again. That is what was asked for, but which records it cost should be known: they are logged, and
kept as a failure that is over.

A task tells exactly what it claimed and did not do. Of a task or a wave that died only the place is
known that its lane came to, as long as nobody else has moved the lane since: then all that was
claimed is told, though some of it may be done. Of a driver that died nothing is known: the next one
finds a position, as after work that was done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.errors import TaskLost
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState
from headrace.model.streams import Guarantee, LaneId, Position, Slice
from headrace.ports import WaveResult

#: what the message of such a failure says
CLAIMED = "were claimed and may have no effect, as at-most-once allows"
_DIED = SliceError(True, TaskLost.__name__, "an earlier attempt of its task died")


def claims(result: WaveResult) -> bool:
    """Whether positions of this wave moved before anything was done."""
    terms = result.wave.terms
    return terms is not None and terms.guarantee is Guarantee.AT_MOST_ONCE


def is_unclear(result: WaveResult) -> bool:
    """Whether only positions can tell what was claimed."""
    return result.error is not None or any(receipt.superseded for receipt in result.receipts)


def lost_claims(
    result: WaveResult, positions: dict[LaneId, Position], now_s: float
) -> list[Failure]:
    """What a wave of at-most-once lost, as failures that are over.

    Args:
        result: of the wave.
        positions: of its lanes, where it is unclear.
        now_s: seconds since 1970.
    """
    if result.error is not None:
        doubted = [(piece, piece.from_offset, result.error) for piece in result.wave.slices]
    else:
        receipts = [receipt for receipt in result.receipts if receipt.superseded]
        doubted = [(receipt.slice, receipt.reached, receipt.error or _DIED) for receipt in receipts]
    found = [*_undone(result), *_claimed(doubted, positions)]
    return [_told(piece, error, now_s) for piece, error in found]


def _undone(result: WaveResult) -> Iterator[tuple[Slice, SliceError]]:
    for receipt in result.receipts:
        if receipt.lost_from is not None:
            piece = replace(
                receipt.slice, from_offset=receipt.lost_from, until_offset=receipt.reached
            )
            yield piece, receipt.error or _DIED


def _claimed(
    doubted: list[tuple[Slice, int, SliceError]], positions: dict[LaneId, Position]
) -> Iterator[tuple[Slice, SliceError]]:
    for piece, begin, error in doubted:
        at = positions.get(piece.lane)
        # Under another epoch somebody else moved it.
        if at is not None and at.epoch == piece.epoch and at.next_offset > begin:
            yield replace(piece, from_offset=begin, until_offset=at.next_offset), error


def _told(piece: Slice, error: SliceError, now_s: float) -> Failure:
    offsets = f"{piece.from_offset} to {piece.until_offset - 1}"
    message = (
        f"offsets {offsets} of {piece.topic}[{piece.lane.partition}] {CLAIMED}: {error.message}"
    )
    told = SliceError(temporary=False, code=error.code, message=message)
    return Failure(piece, told, now_s, attempts=1, state=FailureState.SKIPPED)
