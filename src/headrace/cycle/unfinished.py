"""What of a recorded wave is to run again as it was, after its results came back.

An earlier attempt, of another life or of a task that Spark ran again, may have written an effect
that nobody heard of. Other slices would leave theirs beside it. So what was not reached, or met
trouble that passes, stays written down just as it is.

This only decides. `recorded.py` keeps what is said here, and `commit.py` asks.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.board import Board
from headrace.cycle.parts import by_tenant, parts_of
from headrace.errors import RecordUnreadable, RunsApart
from headrace.model.receipts import Receipt
from headrace.model.streams import Slice, State
from headrace.model.waves import Wave
from headrace.policies.data_loss import ABOUT_THE_LOG, NOT_READ
from headrace.policies.quarantine import ABOUT_RECORDS, HURTS_NEIGHBOURS
from headrace.ports import WaveResult


def unfinished(result: WaveResult, board: Board, *, tried: bool) -> list[Wave]:
    """What of a recorded wave runs again, as one wave or as parts of it.

    What was only not reached runs together, as there is nothing against it, and every stream that
    met trouble runs apart from the others.

    Args:
        result: of the wave.
        board: with its lanes as they were before this result.
        tried: whether an attempt was made before, of which nobody knows what it left.
    """
    again = _slices(result, board)
    if result.wave.writes_by_id and _keeps_id(result, tried=tried):
        # Only under this id is met what an earlier attempt may have written under it. Where all
        # tenants have raised nothing is to be waited for, and each goes on by itself.
        raised = {receipt.slice for receipt in result.receipts if _has_raised(receipt)}
        blamed = {piece.lane.stream for piece in raised}
        # Of a tenant that raised other slices wait as well, which nobody has come through with.
        may_come = tried and any(piece.lane.stream not in blamed for piece in again)
        kept = again | raised if may_come else again
        return [result.wave.only(kept.__contains__)]
    left = result.wave.only(again.__contains__)
    if any(map(_runs_apart, result.receipts)):
        return by_tenant(left)
    troubled = {
        receipt.slice.lane.stream for receipt in result.receipts if receipt.error is not None
    }
    streams = {piece.lane.stream for piece in again}
    labels = {stream: str(stream) if stream in troubled else "" for stream in streams}
    if left == result.wave and len(set(labels.values())) == 1:
        return [left]
    return parts_of(left, labels)


def over(result: WaveResult, left: Collection[Wave]) -> list[Slice]:
    """Slices of a recorded wave that came to nothing, and are not to run again as they were."""
    again = {piece for wave in left for piece in wave.slices}
    lost = {receipt.slice.lane.stream for receipt in result.receipts if receipt.superseded}
    return [
        receipt.slice
        for receipt in result.receipts
        if receipt.slice not in again and receipt.slice.lane.stream not in lost
        if not tells_no_end(receipt)
    ]


def runs_whole(receipt: Receipt, board: Board) -> bool:
    """Whether a recorded slice that its worker hung or died at is tried once more as it was.

    It may have been killed by somebody else, and have left its effect in an earlier attempt, beside
    which smaller slices would leave theirs. A slice that ends so as often as the use case retries
    has a handler that never came to its end: there smaller ones find the record.
    """
    error, piece = receipt.error, receipt.slice
    held, lane = board.streams.get(piece.lane.stream), board.lane(piece.lane)
    if error is None or held is None or lane is None or error.temporary:
        return False
    if error.code not in HURTS_NEIGHBOURS:
        return False
    begin = error.offset in (None, piece.from_offset)
    return begin and _nothing_done(receipt) and lane.attempts < held.deployment.retries


def _slices(result: WaveResult, board: Board) -> set[Slice]:
    again = {
        receipt.slice
        for receipt in result.receipts
        if _untouched(receipt) or runs_whole(receipt, board) or _doubted(receipt, board)
    }
    if not result.wave.merges_lanes:
        return again
    # Its lanes are merged: what is left of one cannot run without the others.
    ended = {piece.lane.stream for piece in result.wave.slices if piece not in again}
    return {piece for piece in again if piece.lane.stream not in ended}


def _keeps_id(result: WaveResult, *, tried: bool) -> bool:
    """Whether what is left of a wave that is written under its id still has to run under that.

    It replaces what an earlier attempt may have left, until somebody came through and has it. What
    raises has not written: if it did so in the first attempt, nothing is there.
    """
    mine = (receipt for receipt in result.receipts if not receipt.superseded)
    if any(receipt.reached > receipt.slice.from_offset for receipt in mine):
        return False
    return tried or all(map(_unread, result.receipts))


def _doubted(receipt: Receipt, board: Board) -> bool:
    """Whether a log is to be looked at before a slice counts as lost with it.

    A broker that is cut off may not have what others do. What is lost indeed shows where the lane
    goes on; of a stream that was removed nobody looks any more.
    """
    held = board.streams.get(receipt.slice.lane.stream)
    about_log = receipt.error is not None and receipt.error.code in ABOUT_THE_LOG
    there = held is not None and held.state is not State.REMOVED
    return about_log and there and _nothing_done(receipt)


def _untouched(receipt: Receipt) -> bool:
    """Whether nothing was done of a slice, for want of time or for trouble that is not its own.

    What is neither of its records nor of its log passes, be it when a person has come: a warehouse
    that is read-only, a right that was taken away.
    """
    error = receipt.error
    passes = error is None or error.temporary or error.code not in ABOUT_RECORDS | ABOUT_THE_LOG
    return passes and _nothing_done(receipt)


def _has_raised(receipt: Receipt) -> bool:
    """Whether a slice's records are to blame that nothing was done of it."""
    error = receipt.error
    mine = error is not None and not error.temporary and error.code in ABOUT_RECORDS
    return mine and _nothing_done(receipt) and not tells_no_end(receipt)


def waits_for_neighbours(receipt: Receipt, rest: Collection[Wave], wave: Wave) -> bool:
    """Whether a slice that raised stays in its wave, until somebody has come through under its id.

    Nothing is held against its records as long as that is so.
    """
    kept = {piece.begin for part in rest if part.id == wave.id for piece in part.slices}
    return wave.writes_by_id and receipt.slice.begin in kept and _has_raised(receipt)


def _unread(receipt: Receipt) -> bool:
    """Whether nobody would hand the slice's records out just now."""
    error = receipt.error
    return error is not None and error.code in NOT_READ and _nothing_done(receipt)


def _runs_apart(receipt: Receipt) -> bool:
    """Whether a handler of frames raised for several tenants, and another one has the wave's id."""
    return receipt.error is not None and receipt.error.code == RunsApart.__name__


def _nothing_done(receipt: Receipt) -> bool:
    nothing = receipt.reached == receipt.slice.from_offset < receipt.slice.until_offset
    return nothing and not receipt.committed and not receipt.superseded and not was_empty(receipt)


def tells_no_end(receipt: Receipt) -> bool:
    """Whether a slice came to nothing before it was read to an end that could be written down.

    What another attempt wrote down stays then: it may have read less, and be asleep with that.
    """
    error = receipt.error
    unread = error is not None and error.code == RecordUnreadable.__name__
    return was_empty(receipt) or (unread and receipt.slice.most_bytes > 0)


def was_empty(receipt: Receipt) -> bool:
    """Whether an open slice was read, and there was nothing in it for now."""
    nothing = receipt.reached == receipt.slice.from_offset and not receipt.superseded
    return nothing and receipt.error is None and receipt.behind is not None
