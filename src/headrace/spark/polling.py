"""Questions to Spark that no turn of a driver waits for.

How many slots there are, whether a wave has begun, whether Spark is still there: the answers come
from the JVM within a millisecond, unless it collects garbage, or a cluster manager hangs while it
holds a lock. So a thread asks. A moment is waited for, which is mostly enough to have the answer of
now; if it is not, the last answer stands until the next one is there, and no other question is
waited for until one is answered: there is one for each wave that is late.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

import structlog
from py4j.protocol import Py4JError
from pyspark import SparkContext, SparkStageInfo
from pyspark.sql import SparkSession

from headrace.process.daemon_threads import DaemonThreads
from headrace.spark.executors import known_slots, live_executors

log = structlog.get_logger(__name__)

T = TypeVar("T")

#: questions that hang at once before others wait for them
_MOST = 8
#: how long an answer is waited for, once for each question, while Spark answers
_MOMENT_S = 0.1


class Polled(Generic[T]):
    """One question, asked again and again."""

    def __init__(self, spark: PolledSpark, ask: Callable[[], T], first: T) -> None:
        """Ask nothing yet; ``first`` is known until there is an answer."""
        self._spark, self._ask, self._last = spark, ask, first
        self._asking: Future[T] | None = None

    def now(self) -> T:
        """The answer of now, or the last one there was; one that fails changes nothing."""
        patience_s = 0.0
        if self._asking is None:
            self._asking, patience_s = self._spark.submit(self._ask), self._spark.patience_s
        if self._asking is None:
            return self._last
        try:
            error = self._asking.exception(patience_s)
        except TimeoutError:
            self._spark.patience_s = 0.0
            return self._last
        self._spark.patience_s = _MOMENT_S
        asked, self._asking = self._asking, None
        if error is None:
            self._last = asked.result()
        elif not (isinstance(error, (Py4JError, OSError)) or self._spark.is_stopped):
            raise error
        return self._last


class PolledSpark:
    """What a driver asks a session, and tells it, without waiting."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._closed = threading.Event()
        self._threads = DaemonThreads(_MOST, "spark")
        #: how long a question is waited for that is asked now
        self.patience_s = _MOMENT_S
        #: tasks that the executors can run at once
        self.slots = Polled(self, lambda: known_slots(session), 1)
        self.executors = Polled(self, lambda: live_executors(session), 1)
        self.ui_url = Polled(self, lambda: self._context.uiWebUrl or "", "")
        #: why nothing runs any more; None if Spark is there
        self.end = Polled[str | None](self, self._why_stopped, None)
        self._begun: dict[str, Polled[bool | None]] = {}

    def has_begun(self, group: str) -> bool | None:
        """Whether any task of a job group has begun; None if nobody can say."""
        if group not in self._begun:
            ask = partial(self._has_begun, group)
            self._begun[group] = Polled[bool | None](self, ask, None)
        return self._begun[group].now()

    def forget(self, group: str) -> None:
        """A job group is over."""
        self._begun.pop(group, None)

    def cancel(self, group: str) -> None:
        """End a job group soon, with jobs of it that are about to be handed in."""
        self.submit(partial(self._cancel, group))

    def submit(self, call: Callable[[], T]) -> Future[T] | None:
        """Make a call in a thread; None if it is too late for that."""
        return None if self._closed.is_set() else self._threads.submit(call)

    def close(self, timeout_s: float) -> bool:
        """Ask nothing any more, and wait for what is being asked; whether all was answered in time.

        The last answers stand. A question that hangs is left behind: it ends with the process.
        """
        self._closed.set()
        return self._threads.close(timeout_s)

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has stopped the session in this process, such as a handler."""
        return self._context._jsc is None

    @property
    def _context(self) -> SparkContext:
        return self._session.sparkContext

    def _has_begun(self, group: str) -> bool:
        return any(
            stage.numActiveTasks + stage.numCompletedTasks + stage.numFailedTasks
            for stage in stages_of(self._context, group)
        )

    def _cancel(self, group: str) -> None:
        try:
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(group)
        except (Py4JError, OSError) as exc:  # Spark itself may be gone
            log.warning("job group not cancelled", error=f"{group}: {exc}")

    def _why_stopped(self) -> str | None:
        if self.is_stopped:
            return "the Spark session was stopped in this process, which no handler may do"
        try:
            return "Spark has ended" if self._context._jsc.sc().isStopped() else None
        except (Py4JError, OSError) as exc:
            return f"Spark does not answer: {exc}"


def stages_of(context: SparkContext, group: str) -> list[SparkStageInfo]:
    """The stages of a job group, as far as Spark remembers them; waits for Spark."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return [stage for stage in stages if stage is not None]
