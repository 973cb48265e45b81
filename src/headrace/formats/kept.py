"""What a registry told, and what was made of it, kept for the next time, up to a size.

A worker lives for days, and whoever writes records says which schemas it meets, and how large they
are. So of all that was fetched or made what was asked for last is kept, and the rest is had again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """Values by what one asks for them by. Safe in several threads."""

    def __init__(self, most: int, size_of: Callable[[Value], int]) -> None:
        """Nothing is kept yet; take how much may be, and how much each is."""
        self._most, self._size_of = most, size_of
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """What is kept; None: it is not, or not any more."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def had(self, key: Key, make: Callable[[], Value]) -> Value:
        """What is kept; if it is not, it is made, and kept."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def put(self, key: Key, value: Value) -> None:
        """Keep it, in place of what was not asked for longest."""
        size = self._size_of(value)
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self._kept[key] = value, size
            self._held += size - before
            while self._held > self._most:
                _, (_, gone) = self._kept.popitem(last=False)
                self._held -= gone
