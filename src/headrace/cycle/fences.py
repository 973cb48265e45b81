"""A name for each bin of a recorded wave, by which a sink shuts earlier attempts out.

A sink such as Kafka with transactions lets the newest holder of a name write and refuses all
others. So every attempt at a bin must come under the same name: it is written down with the wave,
and whoever runs the bin again, also an heir or a part of a divided wave, keeps it. Two bins that
run at the same time need different ones. And names must not be new each time, since brokers keep
each for days: the smallest free number is taken, so there are about as many as there are slots.

Two drivers may have one name in use after the one was thought dead and came back. Then they shut
each other out now and then, which costs another try and breaks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from headrace.model.waves import Wave


def fenced(wave: Wave, driver: str, others: Iterable[Wave]) -> Wave:
    """The wave, each bin with a fence ``<driver>-<number>`` that none of the others has."""
    taken = {each.fence for other in others for each in other.bins}
    free = (name for number in count() if (name := f"{driver}-{number}") not in taken)
    return replace(wave, bins=tuple(replace(each, fence=next(free)) for each in wave.bins))
