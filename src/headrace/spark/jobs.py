"""The functions of Spark jobs, called in the Python workers: one runs a wave, one warms up.

What they do there is in `task.py`, which knows no Spark.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.model.receipts import Receipt
from headrace.model.waves import Wave
from headrace.spark.crash_markers import crash_markers_of
from headrace.spark.handler_output import OUTPUT
from headrace.spark.heap import Heap
from headrace.spark.own_process import end_behind_task, keep_to_itself
from headrace.spark.task import CACHE, Work, kept, run_bin
from headrace.spark.vitals import vitals_now

#: the heap of this process, a Python worker
HEAP = Heap()


@contextmanager
def kept_small(needed: Collection[str]) -> Iterator[None]:
    """Around all that a task does in a Python worker: nothing stays that nobody needs.

    What handlers write is told with whose records it is about (`handler_output.py`), and what they
    do to their group of processes, or fork, is their own affair (`own_process.py`).

    Args:
        needed: digests of the code that tasks may still ask for.

    A process that what was loaded has spoiled ends behind its task, whose receipts say that nothing
    was done: a task that raised would have Spark forget what its whole job did elsewhere.

    Raises:
        TaskLost: the process was spoiled by an earlier task; Spark has another one do this.
    """
    CACHE.demand_whole()
    keep_to_itself()
    # Before anything is loaded: modules may ask for the logger, or keep sys.stdout.
    OUTPUT.install()
    CACHE.drop_all_but(needed)
    yield
    if CACHE.spoiled is not None:
        end_behind_task()
    # A task that raises ends its worker, and all of its heap.
    HEAP.settle_behind_task(CACHE.dropped, changed=CACHE.changed)
    CACHE.dropped, CACHE.changed = [], False


@dataclass(frozen=True, slots=True)
class BinTasks:
    """The function of a job: task ``index`` runs bin ``index``."""

    work: Work
    wave: Wave
    #: unique name of this job
    job: str
    #: digests of the code that tasks may still ask for
    needed: frozenset[str]

    def __call__(self, index: int, _: Iterable[int]) -> Iterator[Receipt]:
        """Called by Spark in the Python worker."""
        planned = self.wave.bins[index]
        # The parent of all workers of an executor. Workers also die because their executor does,
        # which says nothing against a handler; then the next attempt has another parent.
        task = f"{os.getppid()}/{index}"
        markers = crash_markers_of(self.job, task, planned.slices, vitals_now())
        with kept_small(self.needed):
            receipts = run_bin(
                self.work, planned, self.wave.budget_s, markers=markers, wave_id=self.wave.id
            )
            markers.close()
        return iter(receipts)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The function of a job that only gets workers going, and tells what they lack."""

    work: Work
    #: digests of the code that tasks may still ask for
    needed: frozenset[str]

    def __call__(self, _: Iterable[int]) -> Iterator[str]:
        """Called by Spark in the Python worker."""
        with kept_small(self.needed):
            try:
                kept(self.work)
                self.work.load()
                if self.work.sentinel is not None:
                    self.work.sentinel.check()
            except HeadraceError as error:
                yield str(error)
