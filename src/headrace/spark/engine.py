"""A wave as one Spark job, several at once.

Spark's own streaming starts one job, waits for its slowest task, and starts the next: one slow
tenant sets the pace of all. Here each wave is a job of its own, started from its own thread in the
FAIR pool of its use case, so waves neither wait for each other nor share a fate. A job is named
after its wave, so that one can be cancelled alone.

What a job returns is receipts; records stay on the executors.
"""

from __future__ import annotations

import inspect
import os
import pickle
import queue
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

import cloudpickle
import structlog
from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext, SparkStageInfo
from pyspark.sql import SparkSession

from headrace.errors import ConfigError, EngineStopped, HeadraceError, TaskLost, WorkerKilled
from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Deployment
from headrace.model.waves import Wave
from headrace.ports import (
    Connections,
    DeadLettersFactory,
    PositionsFactory,
    ReaderFactory,
    WaveResult,
)
from headrace.spark.crumbs import crumbs_of
from headrace.spark.executors import known_slots, live_executors, resize_executors
from headrace.spark.frames import FrameJob
from headrace.spark.handling import error_of
from headrace.spark.task import Work, kept, run_bin
from headrace.use_cases import UseCase

log = structlog.get_logger(__name__)

#: how long what is known about executors stays true enough
_KNOWN_S = 0.25
#: longest wait for the tasks of a failed job to be gone; Spark kills a worker within 3 s
_GONE_S = 15.0
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Tools:
    """What tasks need besides their bins: addresses, and what opens clients to them."""

    connections: Connections
    reader: ReaderFactory
    positions: PositionsFactory
    dead_letters: DeadLettersFactory
    #: receipts are to carry the places of records in traces
    traced: bool = False


@dataclass(frozen=True, slots=True)
class TaskOf:
    """The function of a job: task ``index`` runs bin ``index``."""

    work: Work
    wave: Wave
    #: unique name of this job
    job: str

    def __call__(self, index: int, _: Iterable[int]) -> Iterator[Receipt]:
        """Called by Spark in the Python worker."""
        planned = self.wave.bins[index]
        # The parent of all workers of an executor. Workers also die because their executor does,
        # which says nothing against a handler; then the next attempt has another parent.
        crumbs = crumbs_of(f"{self.job}/{os.getppid()}/{index}", planned.slices)
        receipts = run_bin(
            self.work, planned, self.wave.budget_s, crumbs=crumbs, wave_id=self.wave.id
        )
        crumbs.close()
        return iter(receipts)


@dataclass(frozen=True, slots=True)
class Warm:
    """The function of a job that only gets workers going."""

    work: Work

    def __call__(self, _: Iterable[int]) -> None:
        """Called by Spark in the Python worker."""
        self.work.load()
        kept(self.work)


@dataclass(slots=True)
class _Deployed:
    use_case: UseCase
    work: Work


@dataclass(slots=True)
class SparkEngine:
    """Runs waves as Spark jobs. Implements ``headrace.ports.Engine``."""

    session: SparkSession
    tools: Tools
    fixed_slots: int | None = None
    #: waves that may be with Spark at once, each with a thread that waits for it
    most_waves: int = 1_000
    _slots: tuple[float, int] = (-_KNOWN_S, 1)
    #: when it was last asked whether Spark is there
    _looked_at_s: float = -_KNOWN_S
    #: slots whose workers were made to start; None before the first look
    _warm: int | None = None
    #: slots at the last look
    _known: int = 1
    _warming: list[Future[int]] = field(default_factory=list)
    _resizing: Future[None] | None = None
    _deployed: dict[str, _Deployed] = field(default_factory=dict)
    _done: queue.SimpleQueue[WaveResult] = field(default_factory=queue.SimpleQueue)
    #: job groups of the waves that did not come back yet, by wave id
    _groups: dict[str, str] = field(default_factory=dict)
    #: job groups that were cancelled
    _cancelled: set[str] = field(default_factory=set)
    _seeds: dict[int, RDD[int]] = field(default_factory=dict)
    _threads: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        """Open the threads that wait for jobs."""
        self._threads = ThreadPoolExecutor(self.most_waves, thread_name_prefix="headrace-wave")

    @property
    def slots(self) -> int:
        """Tasks that can run at the same time on the executors there are; at least 1."""
        if self.fixed_slots is not None:
            return self.fixed_slots
        now_s = time.monotonic()
        if now_s - self._slots[0] >= _KNOWN_S:
            self._slots = (now_s, self._warmed(known_slots(self.session)))
        return self._slots[1]

    @property
    def executors(self) -> int:
        """Executors that take tasks now, without the driver; a local session counts as one."""
        return live_executors(self.session)

    @property
    def ui_url(self) -> str:
        """Address of Spark's pages about this session; empty where they are switched off."""
        return self._context.uiWebUrl or ""

    def take(self, use_case: UseCase, deployment: Deployment) -> None:
        """Take a use case or a new version of one; waves already running keep the old one."""
        work = Work(
            code=_code(use_case),
            options=tuple(sorted(deployment.options.items())),
            connections=self.tools.connections,
            reader=self.tools.reader,
            positions=self.tools.positions,
            dead_letters=self.tools.dead_letters,
            timeout_s=deployment.handler_timeout_s,
            traced=self.tools.traced,
        )
        self._deployed[use_case.name] = _Deployed(use_case, work)

    def start(self, wave: Wave) -> None:
        """Run a wave; it comes back from ``finished``, whatever happens to it."""
        deployed = self._deployed[wave.use_case]
        # A recorded wave may run again, under its own id; its new job must not find the fate of
        # the old one: neither that it was cancelled nor the crumbs of a worker that died.
        group = f"{wave.id} {uuid.uuid4().hex}"
        self._groups[wave.id] = group
        self._threads.submit(self._run, wave, deployed, group)

    def finished(self, timeout_s: float) -> list[WaveResult]:
        """Waves that ended; waits up to ``timeout_s`` for the first.

        Raises:
            EngineStopped: Spark has ended, killed by its cluster manager or by an error of its own.
        """
        self._refuse_if_stopped()
        try:
            results = [self._done.get(timeout=max(timeout_s, 0.000_001))]
        except queue.Empty:
            return []
        while True:
            try:
                results.append(self._done.get_nowait())
            except queue.Empty:
                return results

    def began(self, wave_id: str) -> bool:
        """Whether any task of a running wave has begun; False while it queues for an executor."""
        group = self._groups.get(wave_id)
        return group is not None and any(
            each.numActiveTasks + each.numCompletedTasks + each.numFailedTasks
            for each in self._stages(group)
        )

    def cancel(self, wave_id: str) -> None:
        """End a wave; it comes back with an error when its Python workers are dead.

        Future jobs are included, because its thread may be about to hand one in.
        """
        group = self._groups.get(wave_id)
        if group is not None:
            self._cancelled.add(group)
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(group)

    def warm_up(self) -> None:
        """Start a Python worker with its clients in every slot, so that no wave waits for one."""
        self._threads.submit(lambda: self._warm_up(self.slots))

    def resize(self, slots: int) -> None:
        """Ask for executors for ``slots`` tasks at once, and let others go when they are done."""
        if self._resizing is None or self._resizing.done():
            # A cluster manager that does not answer must not hold up the waves.
            self._resizing = self._threads.submit(self._resize, slots)

    def close(self) -> None:
        """Cancel what runs and wait for it; the session belongs to whoever made it."""
        for wave_id in list(self._groups):
            with suppress(Py4JError, OSError):  # Spark itself may be gone
                self.cancel(wave_id)
        self._threads.shutdown(wait=True)

    def _refuse_if_stopped(self) -> None:
        """Every job of a context that has ended fails as if an executor was lost, for ever."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s < _KNOWN_S:
            return
        self._looked_at_s = now_s
        try:
            stopped = bool(self._context._jsc.sc().isStopped())
        except (Py4JError, OSError) as exc:
            raise EngineStopped(f"Spark does not answer: {exc}") from exc
        if stopped:
            raise EngineStopped

    @property
    def _context(self) -> SparkContext:
        return self.session.sparkContext

    def _warmed(self, known: int) -> int:
        """As many of the ``known`` slots as bins may be sent to.

        On an executor that has just come, a first bin would wait for Python to start, and the
        lanes in it with their records. So new slots count when a first task was through there,
        which is sent at once, to be there before any bin.
        """
        if self._warm is None:
            self._warm = known
        elif known > self._known:
            self._warming.append(self._threads.submit(self._warm_up, known))
        self._known = known
        # Asked once: one that ends between two looks would be in neither list.
        done = {each for each in self._warming if each.done()}
        self._warming = [each for each in self._warming if each not in done]
        self._warm = min(known, max([self._warm, *(each.result() for each in done)]))
        return self._warm

    def _warm_up(self, slots: int) -> int:
        works = [each.work for each in self._deployed.values() if each.work.code]
        try:
            if works:
                self._seed(slots).foreachPartition(Warm(works[0]))
        except (Py4JError, OSError) as exc:  # waves start workers as well, only later
            log.warning("workers not warmed up", error=str(exc))
        return slots

    def _resize(self, slots: int) -> None:
        try:
            gone = resize_executors(self.session, slots)
        except (Py4JError, OSError) as exc:
            log.warning("no executors asked for", slots=slots, error=str(exc))
            return
        if gone:
            log.info("executors released", released=gone, slots=slots)

    def _run(self, wave: Wave, deployed: _Deployed, group: str) -> None:
        started = time.monotonic()
        receipts: tuple[Receipt, ...] = ()
        error: SliceError | None = None
        try:
            receipts = tuple(self._job(wave, deployed, group))
            if group in self._cancelled and any(each.error for each in receipts):
                # What a handler in the driver made of its jobs being cancelled is not its fault.
                receipts, error = (), error_of(TaskLost(f"wave {wave.id} was cancelled"))
        except BaseException as exc:  # a DataFrame handler may raise anything in this thread
            error = error_of(_translated(exc, wave))
            with suppress(Py4JError, OSError):  # Spark itself may be gone
                self._await_gone(group)
        del self._groups[wave.id]
        self._cancelled.discard(group)
        self._done.put(WaveResult(wave, receipts, time.monotonic() - started, error))

    def _job(self, wave: Wave, deployed: _Deployed, group: str) -> list[Receipt]:
        context = self._context
        context.setLocalProperty("spark.scheduler.pool", wave.use_case)
        context.setJobGroup(group, f"wave {wave.id} of {wave.use_case}", interruptOnCancel=True)
        if deployed.use_case.form == "wave":
            return FrameJob(self.session, deployed.use_case, deployed.work).run(wave)
        run = TaskOf(deployed.work, wave, group)
        return self._seed(len(wave.bins)).mapPartitionsWithIndex(run).collect()

    def _await_gone(self, group: str) -> None:
        """Wait for the tasks of a failed job: Spark gives up a job before it has killed them.

        Were the wave back at once, its lanes would be planned again while a worker still writes.
        Spark then tells the daemon of the workers to kill it, and waits no longer: for some
        milliseconds it may live on, as a zombie would, whose writes are fenced or repeat a slice.
        """
        deadline_s = time.monotonic() + _GONE_S
        while any(each.numActiveTasks for each in self._stages(group)):
            if time.monotonic() > deadline_s:
                return
            time.sleep(_LOOK_EVERY_S)

    def _stages(self, group: str) -> list[SparkStageInfo]:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return [each for each in stages if each is not None]

    def _seed(self, bins: int) -> RDD[int]:
        """An RDD of so many partitions; made once, because making one costs as much as a job."""
        if bins not in self._seeds:
            self._seeds[bins] = self._context.parallelize(range(bins), bins)
        return self._seeds[bins]


def _code(use_case: UseCase) -> bytes:
    """What workers need of it: all; of form wave, whose handler stays here, its event time."""
    if use_case.form == "slice":
        return pickled(use_case)
    if use_case.event_time is None:
        return b""
    return pickled(replace(use_case, handler=use_case.event_time))


def pickled(use_case: UseCase) -> bytes:
    """The use case with its module's code, so that workers need not import the module.

    The whole package that the handler's module is in goes by value; what it imports from
    elsewhere must be installed on the executors.

    Raises:
        ConfigError: the handler holds on to something that cannot be sent, such as a connection.
    """
    module = inspect.getmodule(use_case.handler)
    top = module.__name__.partition(".")[0] if module else "__main__"
    by_value = module is not None and top not in ("__main__", "headrace")
    family = [
        each for name, each in sys.modules.items() if by_value and name.partition(".")[0] == top
    ]
    for each in family:
        cloudpickle.register_pickle_by_value(each)
    try:
        return bytes(cloudpickle.dumps(use_case))
    except (TypeError, pickle.PicklingError) as exc:
        raise ConfigError(
            f"use case {use_case.name} cannot be sent to executors: {exc}; "
            "open connections inside the handler, not in the module"
        ) from exc
    finally:
        for each in family:
            cloudpickle.unregister_pickle_by_value(each)


#: what Spark says when a Python worker is gone in the middle of a task
_WORKER_DIED = "Python worker exited unexpectedly"


def _translated(error: BaseException, wave: Wave) -> HeadraceError:
    """A failed job: the task, its executor, or Spark itself was lost, or a handler's own error."""
    if isinstance(error, HeadraceError):
        return error
    text = str(error).strip()
    if _WORKER_DIED in text:
        return WorkerKilled(f"Python workers died again and again in wave {wave.id}")
    told = next((each for each in text.splitlines() if "Error" in each or "Exception" in each), "")
    lost = TaskLost(f"the Spark job of wave {wave.id} failed: {told or type(error).__name__}")
    lost.__cause__ = error
    return lost
