"""Threads beside the turns, for calls that may take their time.

A turn beats, commits and starts waves for all tenants, so nothing it calls may wait for somebody
else's answer. What has to be asked of brokers is handed to a thread of its own, and the turn looks
now and then whether it came back. A test or a simulation gives a driver threads of another kind:
such as do everything at once, or much later.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

#: makes a thread for some kind of call, by the name it has in stack dumps
Threads = Callable[[str], Executor]


def one_thread(name: str) -> Executor:
    """A thread that does one call after the other; it begins with the first."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"headrace-{name}")
