"""The event loops that handlers which wait are called in: one for each, swept after each slice.

A call has a task and a context (``contextvars``) of its own, so what it has set, or cancelled, is
not so in the next one of its slice.

A loop stays from slice to slice, so that a handler's HTTP client keeps its connections. But all
tenants of a worker are called in it, one after the other, and a call may leave something behind: a
task that goes on, a timer, a thread of `asyncio.to_thread` whose server never answers. It would run
in the middle of a neighbour's calls, and take their time or their threads, or end them. So what
was begun during the calls of a slice ends with them, as it does with `asyncio.run`: tasks are
cancelled, timers are taken back, and the pool of threads is a new one each time. A task that does
not end is left in its loop, which is never run again; the next slice gets another one.

What exits or stops the loop in a callback, or in a task that nobody waits for, ends no call, like
what raises there.

A thread cannot be ended. It goes on by itself, and how many there may be is looked at elsewhere
(`vitals.py`). Nor is a timer found in a loop that is not of asyncio's own make.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from inspect import CORO_CREATED, getcoroutinestate, iscoroutine
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, finalize

from headrace.process.crash_points import PlayedKill
from headrace.spark.timeouts import bounded

#: seconds that tasks which are ended have for it
_END_S = 1.0
#: threads for calls that block, of one slice
_MOST_THREADS = 100

#: what is begun during the calls of a slice carries it along
_SLICE: ContextVar[object] = ContextVar("headrace_slice")
_OWN = threading.local()
_T = TypeVar("_T")


async def alone(call: Coroutine[Any, Any, _T]) -> _T:
    """Make one call in a task and a context of its own."""
    # Not by the loop, whose factory a call may have set.
    return await asyncio.Task(call, loop=asyncio.get_running_loop())


class EventLoop:
    """A loop for the calls of one handler, in one thread."""

    def __init__(self) -> None:
        # Not by the policy, which other handlers may set.
        self._loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop()
        self._slice = object()
        self._threads: ThreadPoolExecutor | None = None

    def run(self, calls: Callable[[], Coroutine[Any, Any, None]], concurrency: int) -> None:
        """Make the calls of a slice; ``sweep`` is to follow, whatever becomes of them."""
        loop = self._loop
        # Another handler may have left a loop that it thinks is running.
        asyncio._set_running_loop(None)
        self._threads = ThreadPoolExecutor(min(concurrency, _MOST_THREADS), "headrace-blocking")
        loop.set_default_executor(self._threads)

        async def marked() -> None:
            _SLICE.set(self._slice)
            await calls()

        all_of_it = asyncio.Task(marked(), loop=loop)
        while not all_of_it.done():
            try:
                loop.run_until_complete(all_of_it)
            except SystemExit as error:
                told = "what a call began has exited; it ends nothing"
                loop.call_exception_handler({"message": told, "exception": error})
            except RuntimeError:
                # Somebody stopped the loop; else it is what the calls raised, or cannot run.
                if all_of_it.done() or loop.is_closed() or loop.is_running():
                    raise
        all_of_it.result()

    def sweep(self) -> None:
        """End what the calls have left, and take back what they have set."""
        self._loop.set_task_factory(None)
        self._loop.set_exception_handler(None)
        self._loop.set_debug(False)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        self._forget(_timers(self._loop))
        if not self._end_tasks():
            self.close()
            self._loop = asyncio.SelectorEventLoop()
        self._forget([*_timers(self._loop), *_due(self._loop)])
        self._slice = object()

    def close(self) -> None:
        """Run nothing in it any more."""
        for task in asyncio.all_tasks(self._loop):
            call = task.get_coro()
            # Where the time of all is over in the loop itself, it may have lost a first step.
            if iscoroutine(call) and getcoroutinestate(call) == CORO_CREATED:
                call.close()
        self._loop.close()

    def _end_tasks(self) -> bool:
        """Whether the loop is as it was before."""
        loop = self._loop
        if loop.is_closed():
            return False
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if not left:
            return True
        waiting = asyncio.wait(left, timeout=_END_S)
        try:
            bounded(lambda: loop.run_until_complete(waiting), 2 * _END_S)
        except PlayedKill:
            raise
        except BaseException:  # what they do instead of ending
            return False
        finally:
            waiting.close()
        return not asyncio.all_tasks(loop)

    def _forget(self, handles: Iterable[asyncio.Handle]) -> None:
        for handle in handles:
            if handle._context.get(_SLICE, None) is self._slice:  # type: ignore[attr-defined]
                handle.cancel()


def loop_of(handler: Callable[..., object]) -> EventLoop:
    """The loop of a handler in this thread, which is closed when nobody knows the handler."""
    loops: WeakKeyDictionary[Callable[..., object], EventLoop] | None = getattr(_OWN, "loops", None)
    if loops is None:
        loops = _OWN.loops = WeakKeyDictionary()
    if handler not in loops:
        made = loops[handler] = EventLoop()
        finalize(handler, made.close)
    return loops[handler]


def _timers(loop: asyncio.AbstractEventLoop) -> list[asyncio.Handle]:
    return list(getattr(loop, "_scheduled", ()))


def _due(loop: asyncio.AbstractEventLoop) -> list[asyncio.Handle]:
    return list(getattr(loop, "_ready", ()))
