"""A lane in doubt: what hung or killed its worker, and is tried again in smaller slices.

What is remembered of it is the lane's, so that others of its stream can go on (`HeldStream.shown`).
Whether it is tried again at all, `policies/quarantine.py` says.
"""

from __future__ import annotations

from headrace.board import HeldStream, Lane
from headrace.errors import TenantsSinkSlow
from headrace.model.places import OPEN, UNKNOWN, Place
from headrace.model.receipts import Receipt, SliceError
from headrace.model.streams import Slice
from headrace.policies.quarantine import Verdict

#: after trouble that passed, each good slice may be so many times larger than the last
GROWTH = 4


def doubt(piece: Slice, error: SliceError, verdict: Verdict, held: HeldStream, lane: Lane) -> None:
    """Have a lane tried apart, in smaller slices, or its stream where nothing is of one lane."""
    alone = f"{held.stream.id}"
    # Alone it has all the time of one that hangs, though what it met passes by itself.
    silent = held.apart == alone and error.code == TenantsSinkSlow.__name__
    others = any(other is not lane for other in held.in_doubt)
    held.hung = silent or not error.temporary or (held.hung and others)
    held.apart = alone
    if held.deployment.order.merges_lanes:
        held.most_records = verdict.most_records
    else:
        lane.most_records = verdict.most_records
    lane.suspect_until = max(past(piece, held), lane.suspect_until or UNKNOWN)


def past(piece: Slice, held: HeldStream) -> Place:
    """Where a slice is passed; of an open one the place after its records, if it can be counted."""
    if not piece.is_open:
        return piece.until_offset
    until = held.measures.after(piece.from_offset, piece.records)
    return held.measures.behind(piece.from_offset) if until == OPEN else until


def widen(held: HeldStream, most: int | None, receipt: Receipt) -> None:
    """Let the next slices have more than those that were narrowed, of which one came through."""
    if most is not None:
        most = max(most, receipt.slice.records) * GROWTH
        held.most_records = most if most < held.lag_records else None
