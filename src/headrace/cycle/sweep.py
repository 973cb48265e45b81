"""Going round many things with a bounded effort: the one looked at longest ago comes first.

Ten thousand idle lanes need a look now and then, and no more than a driver can spare. A sweep gives
out so many keys a second, however many there are: with few each comes up at every call, with many
the round takes longer. A call costs what it gives out and nothing for the rest. What can not wait
for its place is given out at the next call, at no charge to the others.

There is no clock here: the caller says what time it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import islice
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Sweep(Generic[Key]):
    """Keys in the order in which they were looked at.

    >>> sweep = Sweep[str](rate_per_s=2.0, most_at_once=2.0, every_s=0.1)
    >>> for name in "abc":
    ...     sweep.add(name)
    >>> sweep.due(0.0), sweep.due(0.0), sweep.due(1.0), sweep.due(2.0)
    (['a', 'b', 'c'], [], ['a', 'b'], ['c', 'a'])
    """

    def __init__(
        self, rate_per_s: float, most_at_once: float, every_s: float, step_s: float = 0.0
    ) -> None:
        """An empty round.

        Args:
            rate_per_s: keys given out in a second, over time.
            most_at_once: keys given out in one call, after a pause.
            every_s: a key does not come up again before so many seconds, more than 0.
            step_s: the line moves at most so often, where a call for one key costs nearly as much
                as one for many.
        """
        self._rate_per_s = rate_per_s
        self._most = most_at_once
        self._every_s = every_s
        self._step_s = step_s
        self._moved_s = float("-inf")
        self._left = most_at_once
        self._now_s = float("-inf")
        #: key -> the second it was looked at, longest ago first
        self._looked: OrderedDict[Key, float] = OrderedDict()
        #: in front of the line
        self._hurried: dict[Key, None] = {}

    def add(self, key: Key) -> None:
        """Take a key in, to be given out at the next call; one that is there keeps its place."""
        if key not in self._looked:
            self._looked[key] = float("-inf")
            self._hurried[key] = None

    def hurry(self, key: Key) -> None:
        """Let a key be given out at the next call."""
        if key in self._looked:
            self._hurried[key] = None

    def discard(self, key: Key) -> None:
        """Forget a key; one that is not there does no harm."""
        self._looked.pop(key, None)
        self._hurried.pop(key, None)

    def due(self, now_s: float) -> list[Key]:
        """The keys to look at now; they go to the end of the line."""
        found = list(self._hurried)
        for key in found:
            self._to_the_end(key, now_s)
        if now_s - self._moved_s >= self._step_s:
            self._moved_s = now_s
            found += self._next(now_s)
        return found

    def claim(self, key: Key, now_s: float) -> bool:
        """Whether a key may be looked at now, out of its turn; if so it was."""
        self._gain(now_s)
        looked_s = self._looked.get(key)
        if looked_s is None or now_s - looked_s < self._every_s or self._left < 1:
            return False
        self._left -= 1
        self._to_the_end(key, now_s)
        return True

    def _next(self, now_s: float) -> list[Key]:
        self._gain(now_s)
        found = []
        for key, looked_s in islice(self._looked.items(), int(self._left)):
            if now_s - looked_s < self._every_s:
                break
            found.append(key)
        for key in found:
            self._to_the_end(key, now_s)
        self._left -= len(found)
        return found

    def _to_the_end(self, key: Key, now_s: float) -> None:
        self._hurried.pop(key, None)
        self._looked[key] = now_s
        self._looked.move_to_end(key)

    def _gain(self, now_s: float) -> None:
        if now_s > self._now_s:
            gained = (now_s - self._now_s) * self._rate_per_s
            self._left = min(self._most, self._left + gained)
            self._now_s = now_s
