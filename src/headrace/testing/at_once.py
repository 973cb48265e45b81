"""A thread that is none: what is handed to it is done at once.

Real threads make a test another one each time. With this, whatever a driver does beside its turns
is done within the turn that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class AtOnce(Executor):
    """Does each call when it is handed over."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Make the call; its future is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def at_once(name: str) -> Executor:
    """What ``headrace.cycle.driver.Driver`` takes as ``threads``."""
    del name
    return AtOnce()
