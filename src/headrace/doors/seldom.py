"""A line of the log that a stranger can cause is written once in a while, with a count.

uvicorn writes one for each connection on which something else than HTTP comes, and for each wish
for a tunnel. Whoever can reach a door could fill the disk of its log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_EVERY_S = 10.0


class Seldom(logging.Filter):
    """Lets a warning through if the same was not for some seconds. Safe in several threads."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        """Take seconds that never go back."""
        super().__init__()
        self._steady = steady
        #: by warning: when it was written last, and how often it was not since
        self._written: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written; with how many of it were not since the last time."""
        if record.levelno != logging.WARNING:
            return True
        name, now_s = str(record.msg), self._steady()
        with self._lock:
            at_s, left_out = self._written.get(name, (float("-inf"), 0))
            is_due = now_s - at_s >= _EVERY_S
            self._written[name] = (now_s, 0) if is_due else (at_s, left_out + 1)
        if is_due and left_out:
            record.msg = f"{name} ({left_out} more since the last such line)"
        return is_due


_warnings = Seldom()


def calm_server_log() -> None:
    """Have uvicorn's warnings written seldom."""
    logging.getLogger("uvicorn.error").addFilter(_warnings)
