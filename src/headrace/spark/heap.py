"""Keeping what a Python worker has loaded out of the collections after each task.

PySpark's daemon has a worker collect all garbage after every task (`pyspark/daemon.py`), and there
is no setting for it. The collector walks whatever is there: 160,000 objects of modules that were
imported, none of them garbage. With ten short tasks a second that is more than half of what a
worker does. It does not walk what is *frozen* (`gc.freeze`), so what was loaded is frozen.

Frozen garbage is never freed. So before anything is frozen all of it is thawed and collected: what
is frozen is alive at that moment, code that was superseded is gone with its modules, and freezing
again and again adds nothing up. It is done at the end of a task, when that task has loaded or
dropped something; when a handler has filled a cache of its own, some tasks later; and once a
minute, so that what a handler has replaced meanwhile, such as a model, does not stay for good.

What a handler leaves behind may be closed by code of its own (`__del__`), which may hang. Behind
the task that would hold a worker that Spark takes for free, and the next task would be blamed. So
each task collects before it is over, within the time of a call, and hears of it (`left_behind`).

What is frozen here is what lives for long whoever owns it. What is kept at all, and what is
dropped, is decided in `worker_cache.py`. The driver's own heap is settled in `process/memory.py`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from headrace.errors import HandlerSlow
from headrace.spark.timeouts import CallOverdue, bounded

#: objects that a collection may walk after each task: it takes about a millisecond
MOST_LOOSE = 10_000
#: a handler that fills and empties a cache all the time is not followed more often than this
EVERY_TASKS = 16
#: how long something that is frozen may be garbage, in a worker that has tasks
EVERY_S = 60.0

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


@dataclass(slots=True)
class Heap:
    """The heap of this process, as its collector sees it."""

    clock: Callable[[], float] = time.monotonic
    _tasks: int = 0
    _frozen_at_s: float = float("-inf")

    def settle(self, *, changed: bool) -> bool:
        """Collect, at the end of each task; whether everything was frozen anew."""
        self._tasks += 1
        loose, age_s = len(gc.get_objects(_OLD)), self.clock() - self._frozen_at_s
        due = is_due(changed=changed, loose=loose, tasks=self._tasks, age_s=age_s)
        if due:
            gc.unfreeze()
        gc.collect()
        if due:
            gc.freeze()
            self._tasks, self._frozen_at_s = 0, self.clock()
        return due


def left_behind(
    use_case: str, collect: Callable[[], object], limit_s: float, clock: Callable[[], float]
) -> HandlerSlow | None:
    """Collect what calls left behind; what to say if to close that took too long.

    What ends a call is lost in a ``__del__`` that it is raised in, so the time tells.

    Args:
        use_case: whose calls they were.
        collect: collects all garbage.
        limit_s: seconds that may take, and each object that hangs once they are over.
        clock: monotonic seconds.
    """
    began_s = clock()
    with suppress(CallOverdue):
        bounded(collect, limit_s)
    if clock() - began_s < limit_s:
        return None
    return HandlerSlow(
        f"what use case {use_case} left behind took over {limit_s:g} s to be closed, and was given "
        "up; what was written counts: close clients and files in the handler, and let no __del__ "
        "wait for a server"
    )
