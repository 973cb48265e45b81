"""How many places of its lane a bucket's next records are expected in, and how far it may go.

A lane tells how many records there are between two places, and a bucket has some of them: one in
sixteen, all where every record has the same key, or none. Only reading tells. So it is learned of
what was read last, as if a few records more had come as was expected: one slice of three tells
little, as it has two or five by chance, and one of a hundred nearly all. A guess grows little by
little, since a slice that has more in it than was planned holds up others. Nobody knows anything of
a bucket at first, and then each place counts as a record.

A bucket that stands still does not hold the others up until they are far ahead of it. Not for ever:
what has to be read again when it goes on, and what its topic has to keep for it, would grow without
bound.
"""

from __future__ import annotations

#: no bucket goes further beyond the least of its lane than so many places
SPREAD = 1_000_000
#: so many records more count as having come as was expected
_BEFORE = 4
#: a guess grows by no more than so many times with each slice, and in all to so many lanes' worth
_GROWTH, _LANES = 4.0, 4.0


def seen(every: float, places: int, records: int, buckets: int) -> float:
    """In how many places one record is expected, after a slice that was read.

    Args:
        every: what was expected before.
        places: how many it went over.
        records: of the bucket that were in it.
        buckets: that the lane has.

    >>> [round(seen(*of, 16), 1) for of in ((1.0, 160, 10), (4.0, 160, 10), (16.0, 100, 100))]
    [4.0, 12.6, 1.6]
    """
    return min(likely(every, places, records), every * _GROWTH, buckets * _LANES)


def likely(every: float, places: int, records: int) -> float:
    """The same without caution, for how many records wait; it begins with an even share.

    >>> [round(likely(16.0, *of), 1) for of in ((160, 10), (10_000, 10_000), (10_000, 0))]
    [16.0, 1.0, 2516.0]
    """
    if places <= 0:
        return every
    return max(1.0, (places + _BEFORE * every) / (records + _BEFORE))
