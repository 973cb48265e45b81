"""Threads beside the turns, for calls that may take their time.

A turn beats, commits and starts waves for all tenants, so nothing it calls may wait for somebody
else's answer. What has to be asked of brokers is handed to a thread of its own, and the turn looks
now and then whether it came back. A test or a simulation gives a driver threads of another kind:
such as do everything at once, or much later.

A driver that is asked to end leaves behind what hangs when its time is over
(`process/daemon_threads.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, wait
from typing import Any

from headrace.process.daemon_threads import DaemonThreads

#: makes a thread for some kind of call, by the name it has in stack dumps
Threads = Callable[[str], Executor]


def one_thread(name: str) -> Executor:
    """A thread that does one call after the other; it begins with the first."""
    return DaemonThreads(1, name)


def ended(thread: Executor, calls: Iterable[Future[Any] | None], until_s: float) -> bool:
    """Shut a thread, and wait for calls that it may be at; whether they ended in time.

    Args:
        thread: takes no calls any more; those it has not begun are cancelled.
        calls: what it was given; None is nothing.
        until_s: the monotonic second up to which to wait.
    """
    thread.shutdown(wait=False, cancel_futures=True)
    given = [call for call in calls if call is not None]
    return not wait(given, max(0.0, until_s - time.monotonic())).not_done
