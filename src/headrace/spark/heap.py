"""What a Python worker frees between two tasks, and what it keeps out of that.

PySpark's daemon has a worker collect all garbage after every task (`pyspark/daemon.py`), and there
is no setting for it. The collector walks whatever is there: 160,000 objects of modules that were
imported, none of them garbage. With ten short tasks a second that is more than half of what a
worker does. It does not walk what is *frozen* (`gc.freeze`), so what was loaded is frozen.

Frozen garbage is never freed. So before anything is frozen all of it is thawed, for the daemon's
own collection: what is frozen after it is alive at that moment, code that was superseded is gone
with its modules, and freezing again and again adds nothing up. It is done behind a task, when that
has loaded or dropped something; when a handler has filled a cache of its own, some tasks later; and
once a minute, so that what a handler has replaced meanwhile, such as a model, does not stay for
good.

What is freed there may be closed by code of a use case (`__del__`), and that may hang. Spark takes
the worker for free by then, and would give it the task of somebody else, who would wait and be
blamed. So a worker that is held there ends: the garbage goes too, and Spark starts another one. A
task that it was given meanwhile had not begun; that attempt is lost, and there is another. A clock
tells code that hangs from a long walk, which is nobody's fault: a walk handles one ring, when it is
over; code that hangs handles them all, and the last one ends the worker. Code that waits in C
handles none, as a client library that joins its threads; so the watchdog of `faulthandler`, which
needs no Python, ends the worker when no walk can take so long. What a call leaves behind is closed
within that call (`calling.py`).

What is frozen here is what lives for long whoever owns it. What is kept at all, and what is
dropped, is decided in `worker_cache.py`. The driver's own heap is settled in `process/memory.py`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from headrace.process import watchdog
from headrace.spark.own_process import is_between_tasks
from headrace.spark.vitals import are_dumps_of_spark

#: objects that a collection may walk after each task: it takes about a millisecond
MOST_LOOSE = 10_000
#: a handler that fills and empties a cache all the time is not followed more often than this
EVERY_TASKS = 16
#: how long something that is frozen may be garbage, in a worker that has tasks
EVERY_S = 60.0

#: how long what is freed between two tasks may take, but for the collector's walk
PATIENCE_S: Final = 2.0
#: how often the clock rings in that time; a walk puts off all rings but one
_RINGS: Final = 4
#: longer than a walk takes, of 20 million objects on a busy machine; and less than a driver gives a
#: wave besides its calls (`policies/watchdog.py`), so that no wave is ended that waits for it
MOST_S: Final = 10.0

_STDERR: Final = 2
_HANGS: Final = (
    b"headrace: what code of a use case left behind does not come back where it is freed (__del__);"
    b" this Python worker ends, and what waits for it is tried again: let that code close what it"
    b" opens\n"
)
#: objects of the oldest generation: those that came through a collection
_OLD = 2


def is_due(*, changed: bool, loose: int, tasks: int, age_s: float) -> bool:
    """Whether a worker is to freeze what it holds now.

    Args:
        changed: this task has loaded or dropped code or clients.
        loose: objects that live for long and are not frozen.
        tasks: how many tasks ended since it froze last.
        age_s: how long ago that was.
    """
    return changed or age_s >= EVERY_S or (loose > MOST_LOOSE and tasks >= EVERY_TASKS)


def _end() -> None:
    os.write(_STDERR, _HANGS)
    os._exit(0)


@dataclass(slots=True)
class Heap:
    """The heap of this process, as its collector sees it."""

    clock: Callable[[], float] = time.monotonic
    #: whether a frame is the one that a worker is in between two tasks
    is_between: Callable[[FrameType], bool] = is_between_tasks
    #: ends the process
    end: Callable[[], None] = _end
    patience_s: float = PATIENCE_S
    most_s: float = MOST_S
    _tasks: int = 0
    _frozen_at_s: float = float("-inf")
    _changed: bool = False
    _dropped: list[object] = field(default_factory=list)
    _thawed: bool = False
    _before: Any = None
    _heard: int = 0

    def settle_behind_task(self, dropped: Iterable[object], *, changed: bool) -> None:
        """Free what was dropped when the task is over, and look whether to freeze.

        Args:
            dropped: what nobody else has any more.
            changed: this task has loaded or dropped code or clients.
        """
        self._dropped += dropped
        self._changed |= changed
        if self._collecting not in gc.callbacks:
            # The first: what rings in the walk is heard by the code that runs after it.
            gc.callbacks.insert(0, self._collecting)

    def _collecting(self, phase: str, _: dict[str, int]) -> None:
        frame = sys._getframe().f_back
        if frame is None or not self.is_between(frame):
            return  # within a task, or in a thread of a library, with no Python under it
        if phase == "start":
            self._watch()
            self._dropped.clear()
            self._thaw()
        else:
            self._freeze()
            self._unwatch()

    def _thaw(self) -> None:
        self._tasks += 1
        loose, age_s = len(gc.get_objects(_OLD)), self.clock() - self._frozen_at_s
        self._thawed = is_due(changed=self._changed, loose=loose, tasks=self._tasks, age_s=age_s)
        if self._thawed:
            gc.unfreeze()

    def _freeze(self) -> None:
        if self._thawed:
            gc.freeze()
            self._tasks, self._frozen_at_s, self._changed = 0, self.clock(), False

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        self._heard, self._before = 0, signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, *(self.patience_s / _RINGS,) * 2)
        if not are_dumps_of_spark():
            with suppress(RuntimeError):  # there is no thread for it
                watchdog.end_after(self.most_s, _STDERR)

    def _unwatch(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        if not are_dumps_of_spark():
            watchdog.stop()

    def _ring(self, _: int, frame: FrameType | None) -> None:
        """End the process, if it is code of somebody else that takes so long, not the walk."""
        while frame is not None and not self.is_between(frame):
            if frame.f_code.co_filename != __file__:
                self._heard += 1
                if self._heard == _RINGS:
                    self.end()
                return
            frame = frame.f_back
