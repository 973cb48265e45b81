"""How many tasks can run at once, on executors that come and go.

A new executor takes tasks at once, but a first one there waits for Python to start, and with it the
lanes in it and their records. So slots that are new are made warm by a task that is nobody's, and
count when it was through. And executors are asked for, and let go, beside the turns: a cluster
manager that does not answer must not hold up the waves.

How many there should be is not decided here (`policies/elasticity.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.process.daemon_threads import DaemonThreads
from headrace.spark.executors import resize_executors
from headrace.spark.polling import PolledSpark

log = structlog.get_logger(__name__)

#: how long what is known about executors stays true enough
KNOWN_S = 0.25


@dataclass(slots=True)
class Slots:
    """The slots of a session that bins may be sent to."""

    session: SparkSession
    spark: PolledSpark
    threads: DaemonThreads
    #: starts a Python worker in so many slots, waits for it, and returns the number
    warm_up: Callable[[int], int]
    _last: tuple[float, int] = (-KNOWN_S, 1)
    #: slots whose workers were made to start; None before the first look
    _warm: int | None = None
    #: slots at the last look
    _known: int = 1
    _warming: list[Future[int]] = field(default_factory=list)
    _resizing: Future[None] | None = None

    def now(self) -> int:
        """As many as there are now, or were a moment ago; at least 1."""
        now_s = time.monotonic()
        if now_s - self._last[0] >= KNOWN_S:
            self._last = (now_s, self.warmed(self.spark.slots.now()))
        return self._last[1]

    def warmed(self, known: int) -> int:
        """As many of the ``known`` slots as bins may be sent to; has new ones made warm."""
        if self._warm is None:
            self._warm = known
        elif known > self._known:
            self._warming.append(self.threads.submit(lambda: self.warm_up(known)))
        self._known = known
        # Asked once: one that ends between two looks would be in neither list.
        done = {future for future in self._warming if future.done()}
        self._warming = [future for future in self._warming if future not in done]
        self._warm = min(known, max([self._warm, *(future.result() for future in done)]))
        return self._warm

    def resize(self, slots: int) -> None:
        """Ask for executors for ``slots`` tasks at once, and let others go when they are done."""
        if self._resizing is None or self._resizing.done():
            self._resizing = self.threads.submit(lambda: self._resize(slots))

    def _resize(self, slots: int) -> None:
        try:
            gone = resize_executors(self.session, slots)
        except (Py4JError, OSError) as exc:
            log.warning("no executors asked for", slots=slots, error=str(exc))
            return
        if gone:
            log.info("executors released", released=gone, slots=slots)
