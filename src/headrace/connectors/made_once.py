"""A client of a library, made when it is first asked for, and the same for all who ask.

A process speaks to a server from several threads, and each may be the first one to. To make a
client contacts nobody, but each has connections of its own. When they are given up, whoever asks
next has another one.

Whose a client is, and for how long it is kept, is in ``kept_servers.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class MadeOnce(Generic[_T]):
    """One client at a time. Safe in several threads."""

    def __init__(self, make: Callable[[], _T], give_up: Callable[[_T], object]) -> None:
        """Make none yet.

        Args:
            make: makes it; what it raises is raised, and it is asked again the next time.
            give_up: closes its connections.
        """
        #: what was made, if anything
        self.made: _T | None = None
        self._make, self._give_up = make, give_up
        self._making = threading.Lock()

    def had(self) -> _T:
        """What was made; one for all threads."""
        with self._making:
            if self.made is None:
                self.made = self._make()
            return self.made

    def close(self) -> None:
        """Give up what was made, if anything was."""
        with self._making:
            made, self.made = self.made, None
        if made is not None:
            self._give_up(made)
