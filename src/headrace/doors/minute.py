"""How often something happened in this minute, by a clock that never goes back.

By the time of day, a clock that is set back by an hour would let whoever has to wait for the rest
of a minute wait for an hour. So minutes are of a steady clock, and begin where counting began; with
each one all counts are forgotten, so what is kept is never more than what a minute brings.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable

_MINUTE_S = 60.0


class Minute:
    """Counts by name. Safe in several threads."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        """Take seconds that never go back; the first minute begins now."""
        self._steady = steady
        self._ends_s = steady() + _MINUTE_S
        self._counts: Counter[Hashable] = Counter()
        self._lock = threading.Lock()

    def count(self, name: Hashable) -> int:
        """How often it was added in this minute."""
        with self._lock:
            self._forget()
            return self._counts[name]

    def add(self, name: Hashable) -> int:
        """Count it once more; how often that is in this minute."""
        with self._lock:
            self._forget()
            self._counts[name] += 1
            return self._counts[name]

    def left_s(self) -> float:
        """Until the minute is over."""
        with self._lock:
            self._forget()
            return self._ends_s - self._steady()

    def _forget(self) -> None:
        late_s = self._steady() - self._ends_s
        if late_s >= 0:
            self._counts.clear()
            self._ends_s += (math.floor(late_s / _MINUTE_S) + 1) * _MINUTE_S
