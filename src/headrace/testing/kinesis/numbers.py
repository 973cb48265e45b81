"""Sequence numbers of the fake, in the form that Amazon's have.

Nobody should read anything out of such a number, but its size matters: 56 digits with gaps of any
size, the end of a shard above all its records, a child's first above its parents' last. So the
fake's are made as the real ones look: 186 bits, of which the highest say when the shard was made,
the next which record of it this is, and then when that came.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_VERSION: Final = 2
#: of the end of a shard
_LAST: Final = 2**63 - 1


class Parts(NamedTuple):
    """What the fake made a number of."""

    made_s: int
    record: int
    came_s: int
    shard: int


def number_of(parts: Parts) -> int:
    """The number."""
    return int(
        f"{_VERSION:x}{parts.made_s:09x}{parts.shard % 16:x}{parts.record:016x}00"
        f"{parts.came_s:09x}{parts.shard:08x}{_VERSION:x}",
        16,
    )


def parts_of(number: int) -> Parts | None:
    """What the fake made a number of; None if it is none of its."""
    text = f"{number:x}"
    if len(text) != 47 or text[0] != f"{_VERSION:x}":
        return None
    found = Parts(
        int(text[1:10], 16), int(text[11:27], 16), int(text[29:38], 16), int(text[38:46], 16)
    )
    return found if number_of(found) == number else None


def first_of(made_s: int, shard: int) -> int:
    """Below the numbers of all records of a shard."""
    return number_of(Parts(made_s, 0, made_s, shard))


def last_of(made_s: int, shard: int, closed_s: int) -> int:
    """Above the numbers of all records of a shard."""
    return number_of(Parts(made_s, _LAST, closed_s, shard))
