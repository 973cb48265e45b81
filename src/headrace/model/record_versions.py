"""Which of two states of a thing is newer, in a number of 64 bits that any store can compare.

Who keeps the newest state under a key in another system has to tell it from an older one that comes
later: a slice that runs again, or records that are read again after a seek. Clocks do not tell, and
places do not either: those of two lanes mean nothing to each other, and a topic that is made again
has the same ones with other records. So a record has a *version*: above, the *depth* of its lane;
below, the number that its log gave it there, such as Kafka's offset. A log with wider places has
no such number. There it is the *ordinal* of the record: how many records of the lane were passed
before it since the depth was given. That is kept with the position and moves with it, so an attempt
that runs again finds the same ones. Where nobody knows how many were passed, no fewer are counted:
a number is given to no two records, and there can be gaps.

Depth grows from a parent to what follows it, but for another division of one lane, whose numbers
compare; and for all lanes of a stream whenever one of them is sent back. So along a lineage, and
over seeks, what is newer has the larger version. Two lanes of which neither follows the other, and
two streams, have versions that do not compare: where a key comes from several of them, only what is
in the records can tell.
"""

from __future__ import annotations

from typing import Final

#: of a version, for the number; the sign stays 0
NUMBER_BITS: Final = 47
_MOST_NUMBER, MOST_DEPTH = 2**NUMBER_BITS - 1, 2 ** (63 - NUMBER_BITS) - 1


def first_version(depth: int) -> int:
    """The version of a record whose number is 0; others are so much more.

    Raises:
        ValueError: there are no versions of this depth any more.
    """
    if not 0 <= depth <= MOST_DEPTH:
        raise ValueError(
            f"a lane of depth {depth} has no versions, which end at {MOST_DEPTH}: its stream was "
            "sent back too often, and only a stream of another use case begins at 0"
        )
    return depth << NUMBER_BITS


def version_of(depth: int, number: int) -> int:
    """The version of a record.

    Raises:
        ValueError: it has none: the number is too large, or the depth.
    """
    if not 0 <= number <= _MOST_NUMBER:
        raise ValueError(f"record number {number} has no version, which end at {_MOST_NUMBER}")
    return first_version(depth) | number
