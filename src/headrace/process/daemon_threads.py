"""Threads for calls that may never come back, which keep no process from ending.

A driver waits for jobs of Spark, asks brokers and keeps dead letters beside its turns, and each of
these calls may hang. Python joins the threads of its own pools when a process ends, so a driver
that was asked to end would wait for all of them, for ever where a handler of DataFrames never
returns. These threads are left behind when their time is over.

A thread that is free is used again, as Python's own are: Spark opens a connection for each thread.
What hangs is not ended here; it ends with the process.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_Call = tuple[Future[Any], Callable[[], Any]]
_Calls = queue.SimpleQueue[_Call | None]


class DaemonThreads(Executor):
    """Makes calls, each in a thread of its own; what comes when all are busy waits."""

    def __init__(self, most: int, name: str) -> None:
        """Start none yet.

        Args:
            most: threads at once.
            name: what stack dumps call them.
        """
        self._most, self._name = most, f"headrace-{name}"
        self._calls: _Calls = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        #: of calls that wait for a thread, or have one
        self._pending: set[Future[Any]] = set()
        self._is_shut = False
        # Those that nobody can hand a call to any more have nothing to wait for.
        weakref.finalize(self, self._calls.put, None)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Have a call made; what it returned or raised is in the future.

        Raises:
            RuntimeError: no thread can be started now, or none is to be; no call was taken.
        """
        future: Future[R] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError(f"{self._name} takes no calls any more")
            self._pending.add(future)
            self._calls.put((future, partial(fn, *args, **kwargs)))
            # As many threads as calls are enough, whichever of them takes which call.
            if self._threads < min(self._most, len(self._pending)):
                self._begin(future)
        future.add_done_callback(self._over)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no calls any more; without ``wait`` what runs is left behind."""
        with self._lock:
            self._is_shut = True
        if cancel_futures:
            _cancel(self._calls)
        self._calls.put(None)
        if wait:
            self._waited(None)

    def close(self, timeout_s: float) -> bool:
        """Wait for what runs, and end the threads; whether all came to its end in time."""
        is_over = self._waited(timeout_s)
        self.shutdown(wait=False)
        return is_over

    def _waited(self, timeout_s: float | None) -> bool:
        with self._lock:
            pending = list(self._pending)
        return not wait(pending, timeout_s).not_done

    def _begin(self, future: Future[Any]) -> None:
        """Start one more thread, now that there is a call for it."""
        name = self._name if self._most == 1 else f"{self._name}-{self._threads + 1}"
        # It refers to the calls alone, so that nobody refers to these threads when all let go.
        one = threading.Thread(target=_work, args=(self._calls,), name=name, daemon=True)
        try:
            one.start()
        except RuntimeError:  # for a limit of the container, say
            if not self._threads:
                self._calls.get_nowait()  # the call: there is nobody else who would take it
                self._pending.discard(future)
                raise
        else:
            self._threads += 1

    def _over(self, done: Future[Any]) -> None:
        with self._lock:
            self._pending.discard(done)


def _cancel(calls: _Calls) -> None:
    with suppress(queue.Empty):
        while True:
            given = calls.get_nowait()
            if given is not None:
                future, _ = given
                future.cancel()
                future.set_running_or_notify_cancel()


def _work(calls: _Calls) -> None:
    while (given := calls.get()) is not None:
        _make(*given)
        del given  # what it refers to is to be gone before the next call comes
    calls.put(None)  # for the next thread


def _make(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        made = call()
    except BaseException as error:  # it is told to whoever asks, and the thread goes on
        future.set_exception(error)
    else:
        future.set_result(made)
