"""A bounded place for what was looked up a moment ago; the oldest goes first.

How old something is decides whether it is believed. So times are those of a clock that never goes
back (``time.monotonic``), never the time of day, which somebody may set.
"""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Remembered(Generic[_T]):
    """Values by name, each with the steady time it was put at. Safe in several threads."""

    def __init__(self, most: int = 10_000) -> None:
        """Take how many are kept."""
        self._most = most
        self._values: dict[str, tuple[_T, float]] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> tuple[_T, float] | None:
        """The value and the time it was put, however long ago that is."""
        return self._values.get(name)

    def put(self, name: str, value: _T, at_s: float) -> None:
        """Keep a value in the place of the one before."""
        with self._lock:
            self._values.pop(name, None)
            self._values[name] = (value, at_s)
            while len(self._values) > self._most:
                del self._values[next(iter(self._values))]

    def drop(self, name: str) -> None:
        """Forget a value."""
        with self._lock:
            self._values.pop(name, None)
