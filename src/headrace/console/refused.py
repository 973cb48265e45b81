"""Attempts of nobody are logged, but no stranger fills the disk of the log by them.

Whoever can reach the console can ask for changes without a credential, as often as he likes. The
first ones of a minute tell where that comes from; the others are a count, on the next line that is
written.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from headrace.doors.attempts import network_of
from headrace.doors.minute import Minute

log = structlog.get_logger(__name__)

#: lines of an address in a minute, and of all of them
LINES_OF_ADDRESS = 10
LINES_OF_ALL = 100


class RefusedLog:
    """Writes a line of an attempt, or counts it. For one event loop."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        """Take seconds that never go back."""
        self._minute = Minute(steady)
        self._left_out = 0

    def note(self, action: str, status: int, client: tuple[str, int] | None) -> None:
        """An attempt was refused; ``client`` is where it came from."""
        network = network_of(client[0] if client else "")
        # What an address is not told any more does not count for all, or it would silence others.
        if self._minute.add(network) > LINES_OF_ADDRESS or self._minute.add("all") > LINES_OF_ALL:
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        log.warning(
            "change refused", action=action, status=status, client=client, left_out=left_out
        )
