"""What the embedded servers have in common: how they are begun and waited for.

Each is another program with its own way to say that it is ready, but all may find that a port which
was free a moment ago is taken, and all are looked at again and again until they answer, end, or
take too long. What is said about it is theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from headrace.embedded.guarded import GuardedProcess
from headrace.errors import ServerError

#: starts that may meet a port that was free a moment before
_TRIES = 3


class Missed(Enum):
    """Why a server did not become ready."""

    ENDED = "it ended while starting"
    SILENT = "it does not answer"


def until_ready(
    ready: Callable[[], bool], process: GuardedProcess, deadline_s: float, look_every_s: float
) -> Missed | None:
    """Wait until a server is ready; None when it is.

    Args:
        ready: whether it answers.
        process: its process.
        deadline_s: monotonic second at which it has taken too long.
        look_every_s: time between two looks.
    """
    while not ready():
        if not process.running:
            return Missed.ENDED
        if time.monotonic() > deadline_s:
            return Missed.SILENT
        time.sleep(look_every_s)
    return None


def begin(attempt: Callable[[], str | None], port_taken: str) -> None:
    """Start a server, again if a port was taken meanwhile.

    Args:
        attempt: chooses ports and starts; returns what went wrong, and then nothing runs.
        port_taken: what stands in that if it was a port.

    Raises:
        ServerError: it did not start.
    """
    for tries_left in reversed(range(_TRIES)):
        problem = attempt()
        if problem is None:
            return
        if tries_left == 0 or port_taken not in problem:
            raise ServerError(problem)
