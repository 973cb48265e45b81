"""How many slices a fault took: made again, or never made.

At-least-once and at-most-once allow something, and a check that allows whatever happens checks
nothing. What they allow is at most the slice that a lane had in flight, once for each fault. So
every effect says of which slice it was made, and here the fewest slices are counted that explain
what is there too often or is missing; the test compares them with its faults, lane by lane.

*Again*: records are told by the slice that made them first. It was in flight as often as the most
repeated of its records was repeated. Who makes them again may cut other slices; that counts once.

*Never*: what is missing in one unbroken run of offsets may be one slice, if slices are that large
anywhere; a longer run is several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from headrace.testing.ledger import Place, runs

#: topic and partition
Lane = tuple[str, int]


class Made(NamedTuple):
    """An effect, and the slice that it was made of."""

    place: Place
    #: the slice's first offset, and the one behind its last
    begin: int
    end: int


def slices_again(made: Iterable[Made]) -> Counter[Lane]:
    """How often a slice of a lane was made although it had been made, at least.

    Args:
        made: every effect of the sink, those of one lane in the order they were made.
    """
    first: dict[Place, Made] = {}
    extra: Counter[Place] = Counter()
    for effect in made:
        if effect.place in first:
            extra[effect.place] += 1
        else:
            first[effect.place] = effect
    worst: dict[tuple[Lane, int, int], int] = {}
    for place, times in extra.items():
        was = first[place]
        key = (place[:2], was.begin, was.end)
        worst[key] = max(times, worst.get(key, 0))
    found: Counter[Lane] = Counter()
    for (lane, _, _), times in worst.items():
        found[lane] += times
    return found


def slices_never(lost: Iterable[Place], largest: int) -> Counter[Lane]:
    """In how many slices of a lane the missing records were, at least.

    Args:
        lost: what was acknowledged and has no effect.
        largest: records of the largest slice there was; at least 1.
    """
    found: Counter[Lane] = Counter()
    for begin, last in runs(lost):
        found[begin[:2]] += -(-(last.offset - begin.offset + 1) // largest)
    return found
