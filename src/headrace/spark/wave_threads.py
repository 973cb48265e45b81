"""Threads that wait for Spark, of which one may never come back.

A thread that waits for a job is used again by the next wave, because Spark opens a connection for
each thread. That is what Python's own pool does. But Python joins the threads of its pools when a
process ends, and a handler of DataFrames runs in such a thread: one that never returns would keep a
driver that was stopped from ever ending; so would a question to a Spark that hangs. These threads
are left behind when their time is over.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(slots=True)
class WaveThreads:
    """Runs calls, each in a thread of its own; what comes when all are busy waits."""

    most: int
    #: what stack dumps call them
    name: str = "wave"
    _calls: queue.SimpleQueue[Callable[[], None] | None] = field(default_factory=queue.SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: int = 0
    #: of calls that wait for a thread, or have one
    _pending: set[Future[Any]] = field(default_factory=set)

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        """Run ``call``; what it returned or raised is in the future."""
        done: Future[_T] = Future()
        with self._lock:
            self._pending.add(done)
            self._calls.put(lambda: _run(call, done))
            # As many threads as calls are enough, whichever of them takes which call.
            if self._threads < min(self.most, len(self._pending)):
                self._threads += 1
                name = f"headrace-{self.name}-{self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        done.add_done_callback(self._over)
        return done

    def close(self, timeout_s: float) -> bool:
        """Wait for what runs, and end the threads; whether all came to its end in time."""
        with self._lock:
            pending = list(self._pending)
        left = wait(pending, timeout_s).not_done
        for _ in range(self._threads):
            self._calls.put(None)
        return not left

    def _over(self, done: Future[Any]) -> None:
        with self._lock:
            self._pending.discard(done)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call


def _run(call: Callable[[], _T], done: Future[_T]) -> None:
    try:
        made = call()
    except BaseException as error:  # it is told to whoever asks, and the thread goes on
        done.set_exception(error)
    else:
        done.set_result(made)
