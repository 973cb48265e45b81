"""How much of what failed the store keeps of one tenant.

A failure is kept with its record, and who may retry can make one fail again and again, with records
as large as Kafka takes them. So what one tenant keeps is bounded in rows and bytes. Room is made by
the oldest failures that are over: their lanes went on, and a record that was skipped is in the dead
letters. What is open is never dropped, as it stops its lane. Where that alone fills the room, a
failure is kept without its record, and says so: the record is where it was, in its log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.model.records import Failure

#: failures of one tenant, and bytes of them with their records
MOST_ROWS = 1_000
MOST_BYTES = 64 * 2**20
#: characters of a message that stays without its record
_MESSAGE = 1_000


class KeptRow(NamedTuple):
    """A failure of the tenant that is there already."""

    id: int
    bytes: int
    open: bool


@dataclass(frozen=True, slots=True)
class FailureRoom:
    """What has to go so that more can be kept."""

    drop: tuple[int, ...]
    #: the failures as they are kept: whole, or without their records
    failures: tuple[Failure, ...]


def bytes_of(failure: Failure) -> int:
    """What it takes in the store, nearly."""
    error = failure.error
    texts = len(error.message) + len(error.traceback)
    headers = sum(len(name) + len(value or b"") for name, value in error.raw_headers)
    return len(error.raw_key or b"") + len(error.raw_value or b"") + texts + headers


def room_for(new: Iterable[Failure], kept: Iterable[KeptRow]) -> FailureRoom:
    """Decide what more failures of a tenant cost the others.

    None of those that come together makes room for another one of them, so rows may be more for
    once; bytes are not.

    Args:
        new: those to keep.
        kept: those that are there, the oldest first, without the ones whose places are taken.
    """
    rows = list(kept)
    over = iter([row for row in rows if not row.open])
    stays = sum(row.bytes for row in rows if row.open)
    count, size = len(rows), sum(row.bytes for row in rows)
    drop, found = [], []
    for failure in new:
        fits = stays + bytes_of(failure) <= MOST_BYTES
        found.append(failure if fits else without_record(failure))
        more = bytes_of(found[-1])
        stays, count, size = stays + more, count + 1, size + more
        while count > MOST_ROWS or size > MOST_BYTES:
            oldest = next(over, None)
            if oldest is None:
                break
            drop.append(oldest.id)
            count, size = count - 1, size - oldest.bytes
    return FailureRoom(tuple(drop), tuple(found))


def without_record(failure: Failure) -> Failure:
    """The failure as it is kept where the room of its tenant is full."""
    piece, error = failure.slice, failure.error
    _, _, at, is_slice = failure.place
    why = (
        f"{error.message[:_MESSAGE]} (kept without its record, as open failures of tenant "
        f"{piece.lane.tenant} fill the {MOST_BYTES / 2**20:g} MiB that the store has for them; the "
        f"record is still in its log, {piece.lane.name} offset {at}: decide "
        "about older failures of the tenant, then retry this one)"
    )
    bare = replace(error, message=why, traceback="", raw_key=None, raw_value=None, raw_headers=())
    return replace(failure, error=bare, record_kept=is_slice)
