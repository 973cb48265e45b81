"""The event loops that handlers which wait are called in: one for each, swept after each slice.

A call has a task and a context (``contextvars``) of its own, and what it began and left is ended
when it is over: tasks are cancelled, timers are taken back. So nothing of it is in the next call of
its slice, neither what it has set nor what it has forgotten. A connection that it opened stays, as
what is begun on behalf of that later is of no call.

A loop stays from slice to slice, so that a handler's HTTP client keeps its connections. But all
tenants of a worker are called in it, one after the other, and a call may leave something behind: a
task that goes on, a timer, a thread of `asyncio.to_thread` whose server never answers. It would run
in the middle of a neighbour's calls, and take their time or their threads, or end them. So what
was begun during the calls of a slice ends with them, as it does with `asyncio.run`: tasks are
cancelled, timers are taken back, and the pool of threads is a new one each time. A task that does
not end is left in its loop, which is never run again; the next slice gets another one.

What exits in a callback, or in a task that nobody waits for, ends no call, like what raises there.

A thread cannot be ended. It goes on by itself, and how many there may be is looked at elsewhere
(`vitals.py`). Nor is a timer found in a loop that is not of asyncio's own make.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
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
#: of what a call has begun; then it is looked what of it is over
_SWEPT_AT = 100
#: and what is begun during a call this
_CALL: ContextVar[_Begun | None] = ContextVar("headrace_call", default=None)
_OWN = threading.local()
_T = TypeVar("_T")


class _Begun:
    """What a call has begun, and may still be there."""

    __slots__ = ("_all", "_is_over", "_room")

    def __init__(self) -> None:
        self._all: list[asyncio.Task[Any] | asyncio.TimerHandle] = []
        self._room = _SWEPT_AT
        self._is_over = False

    def add(self, begun: asyncio.Task[Any] | asyncio.TimerHandle) -> None:
        """Of a call that is over nothing is kept: a connection that it opened serves others."""
        if self._is_over:
            return
        self._all.append(begun)
        if len(self._all) >= self._room:
            now_s = asyncio.get_running_loop().time()
            self._all = [one for one in self._all if not _is_over(one, now_s)]
            self._room = 2 * len(self._all) + _SWEPT_AT

    def end(self) -> None:
        """Cancel what is left of it."""
        self._is_over = True
        for begun in self._all:
            begun.cancel()
            if isinstance(begun, asyncio.Task):
                begun.add_done_callback(_told)
        self._all.clear()


def _told(task: asyncio.Task[Any]) -> None:
    """Tell what a task raised that was left and ended, now and not when it is collected."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, SystemExit):  # that ``run`` has told
        told = {"message": "what a call left behind has failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(told)


def _is_over(begun: asyncio.Task[Any] | asyncio.TimerHandle, now_s: float) -> bool:
    if isinstance(begun, asyncio.TimerHandle):
        return begun.cancelled() or begun.when() < now_s
    return begun.done()


class _NotingLoop(asyncio.SelectorEventLoop):
    """A loop that notes of which call what is begun in it is."""

    def create_task(self, coro: Any, *, context: Context | None = None, **more: Any) -> Any:
        """As asyncio has it."""
        task = super().create_task(coro, context=context, **more)
        _note(task, context)
        return task

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio has it; ``call_later`` comes here too."""
        timer = super().call_at(when, callback, *args, context=context)
        _note(timer, context)
        return timer


def _note(begun: asyncio.Task[Any] | asyncio.TimerHandle, context: Context | None) -> None:
    call = _CALL.get() if context is None else context.get(_CALL)
    if call is not None:
        call.add(begun)


async def alone(call: Coroutine[Any, Any, _T]) -> _T:
    """Make one call in a context of its own, and end what it leaves behind."""
    begun, context = _Begun(), copy_context()
    context.run(_CALL.set, begun)
    # Not by the loop, whose factory a call may have set.
    task = asyncio.Task(call, loop=asyncio.get_running_loop(), context=context)
    try:
        return await task
    finally:
        begun.end()


class EventLoop:
    """A loop for the calls of one handler, in one thread."""

    def __init__(self) -> None:
        # Not by the policy, which other handlers may set.
        self._loop: asyncio.AbstractEventLoop = _NotingLoop()
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
            self._loop = _NotingLoop()
        self._forget([*_timers(self._loop), *_due(self._loop)])
        self._slice = object()

    def close(self) -> None:
        """Run nothing in it any more."""
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
