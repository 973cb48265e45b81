"""Whether a server that does not answer was told of already.

A door goes on without its store for a while, and meets the outage again with each request. A line
of the log for each would bury what else happens, so there is one when it begins and one when it is
over. What the lines say is not known here.
"""

from __future__ import annotations

import threading


class Outage:
    """One server, as it answered last. Safe in several threads."""

    def __init__(self) -> None:
        """Begin with a server that answers."""
        self._lasts = False
        self._lock = threading.Lock()

    def begins(self) -> bool:
        """It did not answer; whether it did until now."""
        return self._turned(True)

    def ends(self) -> bool:
        """It answered; whether it did not until now."""
        return self._turned(False)

    def _turned(self, lasts: bool) -> bool:
        with self._lock:
            before, self._lasts = self._lasts, lasts
        return before is not lasts
