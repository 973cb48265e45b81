"""Which bucket a record is in where its place says that, and not its key.

Places are not numbered off one by one: a log that writes a marker behind each record would have
all records in every second bucket. So each is hashed, and by itself: in blocks of neighbours a few
records that wait would all be in one bucket, and one slot would have them. The hash is that of
SplitMix64, over a place of any width, and never changes: a record that was in another bucket than
before would be handled twice, or not at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.model.places import Place

#: a prime, so that all digits of a wide place count
_NARROWED = 2**61 - 1
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def bucket_of_place(place: Place, buckets: int) -> int:
    """The bucket of what is at a place, where there are so many.

    >>> [bucket_of_place(place, 16) for place in range(8)]
    [15, 1, 14, 13, 10, 10, 0, 7]
    """
    return int(buckets_of_places(np.array([place], np.object_), buckets)[0])


def buckets_of_places(places: npt.NDArray[Any], buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of what is at each of some places."""
    mixed: Any = (places % _NARROWED).astype(np.uint64) + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed = (mixed ^ (mixed >> np.uint64(31))) % np.uint64(buckets)
    numbers: npt.NDArray[np.int64] = mixed.astype(np.int64)
    return numbers
