"""A name for each bin of a recorded wave, by which a sink shuts earlier attempts out.

A sink such as Kafka with transactions lets the newest holder of a name write and refuses all
others. So every attempt at a bin must come under the same name: it is written down with the wave,
and whoever runs the bin again, also an heir or a part of a divided wave, keeps it. Two bins that
run at the same time need different ones. And names must not be new each time, since brokers keep
each for days: there are as many as there are slots, or as there are bins to be told apart.

Of those that are free the one that was free for longest is taken. Spark gives the next task to the
Python worker that was idle for longest, so a name comes back to the worker that had it last, where
the sink still has what belongs to it. Any other choice would be as right, and slower.

Two drivers may have one name in use after the one was thought dead and came back. Then they shut
each other out now and then, which costs another try and breaks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count

from headrace.model.waves import Wave


@dataclass(slots=True)
class Fences:
    """The names ``<driver>-<number>`` that a driver gives to bins."""

    driver: str
    #: names given so far, the one that was free for longest first
    _names: list[str] = field(default_factory=list)

    def given(self, wave: Wave, others: Iterable[Wave], slots: int) -> Wave:
        """The wave, each bin with a fence that none of the others has.

        Args:
            wave: a new one.
            others: all that run, or wait to run again.
            slots: how many bins run at once, more or less.
        """
        taken = {bin_.fence for other in others for bin_ in other.bins}
        self._names.sort(key=lambda name: name in taken)
        numbers = (f"{self.driver}-{number}" for number in count())
        new = (name for name in numbers if name not in taken and name not in self._names)
        bins = []
        for bin_ in wave.bins:
            free = next((name for name in self._names if name not in taken), None)
            if free is None or len(self._names) < slots:
                free = next(new)
            else:
                self._names.remove(free)
            self._names.append(free)
            taken.add(free)
            bins.append(replace(bin_, fence=free))
        return replace(wave, bins=tuple(bins))
