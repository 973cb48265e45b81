"""Threads beside the turns, for calls that may take their time.

A turn beats, commits and starts waves for all tenants, so nothing it calls may wait for somebody
else's answer. What has to be asked of brokers is handed to a thread of its own, and the turn looks
now and then whether it came back. A test or a simulation gives a driver threads of another kind:
such as do everything at once, or much later.

Python joins the threads of its own pools when a process ends, and a driver that was asked to end
would wait for brokers that hang. These are left behind when their time is over.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, wait
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: makes a thread for some kind of call, by the name it has in stack dumps
Threads = Callable[[str], Executor]
_Call = tuple[Future[Any], Callable[[], Any]]


class DaemonThread(Executor):
    """Does one call after the other, and keeps no process from ending; begins with the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_shut = False
        # One that nobody can hand a call to any more has nothing to wait for.
        weakref.finalize(self, self._calls.put, None)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Have a call made; what it returned or raised is in the future."""
        future: Future[R] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError(f"thread {self._name} takes no calls any more")
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_work, args=(self._calls,), name=self._name, daemon=True
                )
                self._thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no calls any more; without ``wait`` what runs is left behind."""
        with self._lock:
            self._is_shut = True
            if cancel_futures:
                _cancel(self._calls)
            self._calls.put(None)
        if wait and self._thread is not None:
            self._thread.join()


def one_thread(name: str) -> Executor:
    """A thread that does one call after the other; it begins with the first."""
    return DaemonThread(f"headrace-{name}")


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


def _cancel(calls: queue.SimpleQueue[_Call | None]) -> None:
    while not calls.empty():
        try:
            call = calls.get_nowait()
        except queue.Empty:
            return
        if call is not None:
            call[0].cancel()
            call[0].set_running_or_notify_cancel()


def _work(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (given := calls.get()) is not None:
        _make(*given)
        del given  # what it refers to is to be gone before the next call comes


def _make(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        made = call()
    except BaseException as error:  # it is told to whoever asks, and the thread goes on
        future.set_exception(error)
    else:
        future.set_result(made)
