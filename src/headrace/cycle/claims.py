"""What was claimed for at-most-once and may have no effect, told by its offsets.

With at-most-once a position moves before anything is done, and what then goes wrong is not tried
again. That is what was asked for, but which records it cost should be known: they are logged, and
kept as a failure that is over.

A task tells exactly what it claimed and did not do. Of a task or a wave that died, and of a claim
whose answer was lost, only the place is known that the lane came to: then all that was claimed is
told, though some of it may be done. A later attempt need not have met that claim: it may have
yielded before, or had trouble of its own. So whatever came back short of its end is held against
its position, and all that was in flight when Spark ended under its driver.

A seek and another driver raise the epoch of all lanes of a stream, also of those that they do not
move. So what stands inside such a slice, or at its end, is told under any epoch, and of a lost wave
what stands behind it too, and that nobody knows who moved it. Only a lane that is at the beginning
of its slice, or before, was not claimed, or comes again.

A claim may even be carried out after that look, by a server that goes on with a COMMIT;
`late_claims.py` looks again. Of a driver that died nothing is known: the next one finds a position,
as after work that was done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from headrace.errors import TaskLost
from headrace.model.places import Place
from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Failure, FailureState
from headrace.model.streams import Guarantee, LaneId, Position, Slice
from headrace.ports import WaveResult

#: what the message of such a failure says
CLAIMED = "were claimed and may have no effect, as at-most-once allows"
#: what it says of a lane that may have been moved by somebody else
_MOVED = "its stream was sought or taken over meanwhile, so they may as well be passed or done"
_DIED = SliceError(True, TaskLost.__name__, "an earlier attempt of its task died")


def claims(result: WaveResult) -> bool:
    """Whether positions of this wave moved before anything was done."""
    terms = result.wave.terms
    return terms is not None and terms.guarantee is Guarantee.AT_MOST_ONCE


def is_unclear(result: WaveResult) -> bool:
    """Whether only positions can tell what was claimed."""
    short = (receipt.reached < receipt.slice.until_offset for receipt in result.receipts)
    return result.error is not None or any(short)


def as_claimed(result: WaveResult, positions: dict[LaneId, Position]) -> WaveResult:
    """A result whose receipts also tell of claims that its last attempts did not hear of.

    Args:
        result: of a wave of at-most-once.
        positions: of its lanes, where it is unclear.
    """
    receipts = (_as_claimed(receipt, positions) for receipt in result.receipts)
    return replace(result, receipts=tuple(receipts))


def unclaimed(result: WaveResult, lost: Iterable[Failure]) -> Iterator[tuple[Slice, SliceError]]:
    """What was not claimed of a wave of at-most-once when its result came, and may yet be.

    What stopped at an error that does not pass was claimed before, or is a matter of its record.

    Args:
        result: of the wave, with receipts ``as_claimed``.
        lost: what it lost.
    """
    if result.error is not None:
        came_to = {failure.slice.lane: failure.slice.until_offset for failure in lost}
        for piece in result.wave.slices:
            begin = came_to.get(piece.lane, piece.from_offset)
            yield replace(piece, from_offset=begin), result.error
    for receipt in result.receipts:
        error = receipt.error or _DIED
        if error.temporary and receipt.reached < receipt.slice.until_offset:
            yield replace(receipt.slice, from_offset=receipt.reached), error


def lost_claims(
    result: WaveResult, positions: dict[LaneId, Position], now_s: float
) -> list[Failure]:
    """What a wave of at-most-once lost, as failures that are over.

    Args:
        result: of the wave, with receipts ``as_claimed``.
        positions: of its lanes, where it is unclear.
        now_s: seconds since 1970.
    """
    found = [*_undone(result), *_of_lost_job(result, positions)]
    return [told(piece, error, now_s) for piece, error in found]


def _as_claimed(receipt: Receipt, positions: dict[LaneId, Position]) -> Receipt:
    piece = receipt.slice
    to = _claimed_to(piece, receipt.reached, positions)
    if to is None or (to > piece.until_offset and _moved_by_others(piece, positions)):
        return receipt
    lost_from = receipt.reached if receipt.lost_from is None else receipt.lost_from
    error = receipt.error
    if _moved_by_others(piece, positions):
        error = _doubted(error or _DIED)
    return replace(receipt, reached=to, superseded=True, lost_from=lost_from, error=error)


def _undone(result: WaveResult) -> Iterator[tuple[Slice, SliceError]]:
    for receipt in result.receipts:
        if receipt.lost_from is not None:
            piece = replace(
                receipt.slice, from_offset=receipt.lost_from, until_offset=receipt.reached
            )
            yield piece, receipt.error or _DIED


def _of_lost_job(
    result: WaveResult, positions: dict[LaneId, Position]
) -> Iterator[tuple[Slice, SliceError]]:
    if result.error is None:
        return
    for piece in result.wave.slices:
        to = _claimed_to(piece, piece.from_offset, positions)
        if to is None:
            continue
        if _moved_by_others(piece, positions):
            to = min(to, piece.until_offset)
            yield replace(piece, until_offset=to), _doubted(result.error)
        else:
            yield replace(piece, until_offset=to), result.error


def _claimed_to(piece: Slice, begin: Place, positions: dict[LaneId, Position]) -> Place | None:
    """Where a lane was moved to from the beginning or the inside of a slice, if it was."""
    at = positions.get(piece.lane)
    return None if at is None or at.next_offset <= begin else at.next_offset


def _moved_by_others(piece: Slice, positions: dict[LaneId, Position]) -> bool:
    """Whether it may not have been this slice's claim: its lane is under another epoch by now."""
    return positions[piece.lane].epoch != piece.epoch


def _doubted(error: SliceError) -> SliceError:
    return replace(error, message=f"{error.message}; {_MOVED}")


def told(piece: Slice, error: SliceError, now_s: float) -> Failure:
    """A range that was claimed and may have no effect, as a failure that is over."""
    where = f"offsets {piece.from_offset}..{piece.until_offset} of {piece.lane.name}"
    message = f"{where} {CLAIMED}: {error.message}"
    lost = SliceError(temporary=False, code=error.code, message=message)
    return Failure(piece, lost, now_s, attempts=1, state=FailureState.SKIPPED)
