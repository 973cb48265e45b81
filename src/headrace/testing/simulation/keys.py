"""Keys of records, and which of them a lane has: all, or those of its bucket.

What key a record has follows from its offset, so whoever knows where a record is knows its key as
well, whichever topic of a name it is of. Some have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.model.buckets import bucket_of
from headrace.model.places import place_at
from headrace.model.streams import LaneId, Slice
from headrace.spark.key_hash import bucket_of_key
from headrace.spark.place_hash import bucket_of_place
from headrace.testing.ledger import Place

_KEYS, _NONE_OF = 5, 7


def key_of(offset: int) -> bytes | None:
    """The key of the record at an offset."""
    return None if offset % _NONE_OF == 0 else b"k%d" % (offset * 3 % _KEYS)


def is_in(lane: str, offset: int) -> bool:
    """Whether a lane has what is at an offset of the lane that it is, or is a bucket of."""
    bucket = bucket_of(lane)
    if bucket is None:
        return True
    if bucket.by_place:
        return bucket_of_place(place_at(offset), bucket.of) == bucket.number
    return bucket_of_key(key_of(offset), bucket.of) == bucket.number


def those_in(lane: str, offsets: Iterable[int]) -> Iterator[int]:
    """What a lane has of these offsets."""
    return (offset for offset in offsets if is_in(lane, offset))


def lane_with(slices: tuple[Slice, ...], place: Place) -> LaneId:
    """The lane among those of some slices that has a record."""
    whole = f"{place.topic}[{place.partition}]"
    return next(
        piece.lane
        for piece in slices
        if piece.lane.name.startswith(whole) and is_in(piece.lane.name, place.offset)
    )
