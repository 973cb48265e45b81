"""A wave as one Spark job, several at once.

Spark's own streaming starts one job, waits for its slowest task, and starts the next: one slow
tenant sets the pace of all. Here each wave is a job of its own, started from its own thread in the
FAIR pool of its use case, so waves neither wait for each other nor share a fate. A job is named
after its wave, so that one can be cancelled alone.

What a job returns is receipts; records stay on the executors.
"""

from __future__ import annotations

import queue
import re
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import (
    CodeNotFetched,
    CodeNotLoaded,
    EngineStopped,
    FolderNotShared,
    HeadraceError,
    TaskLost,
    WorkerKilled,
)
from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Deployment
from headrace.model.waves import Terms, Wave
from headrace.ports import (
    Connections,
    DeadLettersFactory,
    NoRegistry,
    NoTenants,
    PackedCode,
    PositionsFactory,
    ReaderFactory,
    SchemasFactory,
    TenantsFactory,
    WaveResult,
)
from headrace.process.daemon_threads import DaemonThreads
from headrace.spark.crash_markers import ended_at_loading
from headrace.spark.executors import known_slots
from headrace.spark.frames import FrameJob
from headrace.spark.jobs import BinTasks, WarmUp
from headrace.spark.polling import PolledSpark, stages_of
from headrace.spark.shared_code import SharedCode
from headrace.spark.shared_folder import Sentinel
from headrace.spark.shipping import code_of, differs_in_terms_alone, terms_of
from headrace.spark.slice_errors import error_of
from headrace.spark.slots import KNOWN_S, Slots
from headrace.spark.task import Work
from headrace.spark.worker_cache import not_installed
from headrace.spark.worker_ends import still_alive
from headrace.telemetry.log_fields import of_wave
from headrace.use_cases import UseCase

log = structlog.get_logger(__name__)

#: longest wait for the tasks of a failed job to be gone; Spark kills a worker within 3 s
_GONE_S = 15.0
_LOOK_EVERY_S = 0.05
#: how long bins are tried on other executors; far less than a wave may take before it is ended
_ELSEWHERE_S = 5.0
#: longest wait at the end for all waves; Spark kills a worker within 3 s, later on a starved
#: machine; what lives on is as a task whose driver was killed
_CLOSE_S = 15.0


@dataclass(frozen=True, slots=True)
class TaskTools:
    """What tasks need besides their bins: addresses, and what opens clients to them."""

    connections: Connections
    reader: ReaderFactory
    positions: PositionsFactory
    dead_letters: DeadLettersFactory
    schemas: SchemasFactory = field(default_factory=NoRegistry)
    tenants: TenantsFactory = field(default_factory=NoTenants)
    #: receipts are to carry the places of records in traces
    traced: bool = False


@dataclass(slots=True)
class _Deployed:
    use_case: UseCase
    work: Work
    #: as it was packed, under whatever terms
    packed: PackedCode


@dataclass(slots=True)
class SparkEngine:
    """Runs waves as Spark jobs. Implements ``headrace.ports.Engine``."""

    session: SparkSession
    tools: TaskTools
    fixed_slots: int | None = None
    #: waves that may be with Spark at once, each with a thread that waits for it
    most_waves: int = 1_000
    #: longest wait at the end for what nobody can interrupt: a handler of DataFrames, and Spark
    close_s: float = _CLOSE_S
    #: when it was last asked whether Spark is there
    _looked_at_s: float = -KNOWN_S
    #: the last version under each terms, and by None the last one of all
    _deployed: dict[tuple[str, Terms | None], _Deployed] = field(default_factory=dict)
    #: no `SimpleQueue`: it waits for ever where a signal's handler outlasts the timeout
    _done: queue.Queue[WaveResult] = field(default_factory=queue.Queue)
    #: job groups of the waves that did not come back yet, by wave id
    _groups: dict[str, str] = field(default_factory=dict)
    #: what these waves run, by wave id
    _running: dict[str, _Deployed] = field(default_factory=dict)
    #: job groups that were cancelled
    _cancelled: set[str] = field(default_factory=set)
    _seeds: dict[int, RDD[int]] = field(default_factory=dict)
    #: of this start: what workers have to see before they write files
    _token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _threads: DaemonThreads = field(init=False)
    _spark: PolledSpark = field(init=False)
    _slots: Slots = field(init=False)
    _code: SharedCode = field(init=False)

    def __post_init__(self) -> None:
        """Prepare for the threads that wait for jobs, and those that ask Spark."""
        self._threads = DaemonThreads(self.most_waves, "wave")
        self._spark = PolledSpark(self.session)
        self._slots = Slots(self.session, self._spark, self._threads, self._warm_up)
        self._code = SharedCode(self.session)

    @property
    def slots(self) -> int:
        """Tasks that can run at the same time on the executors there are; at least 1."""
        return self._slots.now() if self.fixed_slots is None else self.fixed_slots

    @property
    def executors(self) -> int:
        """Executors that take tasks now, without the driver; a local session counts as one."""
        return self._spark.executors.now()

    @property
    def ui_url(self) -> str:
        """Address of Spark's pages about this session; empty where they are switched off."""
        return self._spark.ui_url.now()

    def packed(self, use_case: UseCase) -> PackedCode:
        """The use case as workers are sent it."""
        return PackedCode.of(code_of(use_case))

    def take(
        self, use_case: UseCase, deployment: Deployment, code: PackedCode | None = None
    ) -> None:
        """Take a use case or a new version of one; waves already running keep the old one."""
        last = self._deployed.get((use_case.name, None))
        if code is None and last and differs_in_terms_alone(use_case, last.use_case):
            packed, terms = last.packed, terms_of(use_case)
        else:
            packed, terms = self.packed(use_case) if code is None else code, ()
        work = Work(
            code=packed.code,
            digest=packed.digest,
            terms=terms,
            options=tuple(sorted(deployment.options.items())),
            connections=self.tools.connections,
            reader=self.tools.reader,
            positions=self.tools.positions,
            dead_letters=self.tools.dead_letters,
            schemas=self.tools.schemas,
            tenants=self.tools.tenants,
            timeout_s=deployment.handler_timeout_s,
            traced=self.tools.traced,
            sentinel=self._sentinel(use_case),
        )
        made = _Deployed(use_case, work, packed)
        for known in (use_case.terms, None):
            self._deployed[use_case.name, known] = made

    def forget(self, use_case: str, terms: Terms | None) -> None:
        """Let a version go that no wave is started with any more."""
        self._deployed.pop((use_case, terms), None)

    def modules(self) -> frozenset[str]:
        """Modules of what waves in flight run, and waves to come may run."""
        return frozenset(deployed.use_case.module for deployed in self._asked_for())

    def start(self, wave: Wave) -> None:
        """Run a wave; it comes back from ``finished``, whatever happens to it."""
        deployed = self._deployed[wave.use_case, wave.terms]
        # A recorded wave may run again, under its own id; its new job must not find the fate of
        # the old one: neither that it was cancelled nor the markers of a worker that died.
        group = f"{wave.id} {uuid.uuid4().hex}"
        self._groups[wave.id] = group
        self._running[wave.id] = deployed
        needed = self._needed()
        self._threads.submit(lambda: self._run(wave, deployed, group, needed))

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

    def began(self, wave_id: str) -> bool | None:
        """Whether any task of a running wave has begun; False while it queues for an executor."""
        group = self._groups.get(wave_id)
        return False if group is None else self._spark.has_begun(group)

    def cancel(self, wave_id: str) -> None:
        """End a wave; it comes back with an error when its Python workers are dead.

        Future jobs are included, because its thread may be about to hand one in.
        """
        group = self._groups.get(wave_id)
        if group is not None:
            self._cancelled.add(group)
            self._spark.cancel(group)

    def warm_up(self) -> None:
        """Start a Python worker with its clients in every slot, so that no wave waits for one."""
        # Not by ``slots``, which is the turn's to ask.
        self._threads.submit(lambda: self._warm_up(self.fixed_slots or known_slots(self.session)))

    def resize(self, slots: int) -> None:
        """Ask for executors for ``slots`` tasks at once, and let others go when they are done."""
        self._slots.resize(slots)

    def close(self) -> None:
        """Cancel what runs and wait until it is dead; the session belongs to whoever made it.

        A handler of DataFrames that computes in this process is beyond a cancel. It is waited for
        no longer than ``close_s``, and left behind: it ends with the process. So is a question
        that Spark does not answer; the two share that time.
        """
        until_s = time.monotonic() + self.close_s
        for wave_id in list(self._groups):
            self.cancel(wave_id)
        if not self._threads.close(self.close_s):
            left = sorted(self._groups)
            log.error("waves are left behind, they do not end", waves=left, seconds=self.close_s)
        if not self._spark.close(max(0.0, until_s - time.monotonic())):
            log.error("questions to Spark are left behind, it hangs", seconds=self.close_s)

    def _refuse_if_stopped(self) -> None:
        """Every job of a context that has ended fails as if an executor was lost, for ever."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s < KNOWN_S:
            return
        self._looked_at_s = now_s
        why = self._spark.end.now()
        if why is not None:
            raise EngineStopped(why)

    @property
    def _context(self) -> SparkContext:
        return self.session.sparkContext

    def _sentinel(self, use_case: UseCase) -> Sentinel | None:
        warehouse = self.tools.connections.warehouse
        if warehouse is None or not use_case.of_sink.needs_shared_folder:
            return None
        return Sentinel(warehouse, self._token)

    def _needed(self) -> frozenset[str]:
        """Code that tasks may still ask for."""
        return frozenset(deployed.work.digest for deployed in self._asked_for())

    def _asked_for(self) -> list[_Deployed]:
        """What waves to come may run, and what those in flight run."""
        # Copies: other threads take waves out. In this order: what is superseded between the two
        # has its waves in the second.
        deployed = list(self._deployed.values())
        return deployed + list(self._running.values())

    def _warm_up(self, slots: int) -> int:
        # A copy: this is not the thread that takes use cases.
        works = [deployed.work for deployed in list(self._deployed.values()) if deployed.work.code]
        # One that has to see the shared folder first: then that is told before a bin meets it.
        works.sort(key=lambda work: work.sentinel is None)
        try:
            for work in works[:1]:
                _keep_sentinel(work)
                tasks = WarmUp(self._code.shared(work), self._needed())
                warm = self._seed(slots).mapPartitions(tasks)
                for trouble in sorted(set(warm.collect())):
                    log.error("executor cannot do all that is deployed", error=trouble)
        except (Py4JError, PySparkException, OSError, FolderNotShared) as exc:
            # Waves start workers too, only later, and say what is wrong with them.
            log.warning("workers not warmed up", error=str(exc))
        return slots

    def _run(self, wave: Wave, deployed: _Deployed, group: str, needed: frozenset[str]) -> None:
        started = time.monotonic()
        receipts: tuple[Receipt, ...] = ()
        error: SliceError | None = None
        try:
            receipts = tuple(self._job(wave, deployed, group, needed))
            if group in self._cancelled and any(receipt.error for receipt in receipts):
                # What a handler in the driver made of its jobs being cancelled is not its fault.
                receipts, error = (), error_of(TaskLost(f"wave {wave.id} was cancelled"))
        except BaseException as exc:  # a DataFrame handler may raise anything in this thread
            error = error_of(_translated(exc, wave))
            self._await_gone(wave, group)
            if self._was_loading(group, error):
                error = error_of(_still_loading(wave, time.monotonic() - started))
        finally:
            # Even if that wait fails: a wave that never came back would hold its lanes.
            del self._groups[wave.id]
            del self._running[wave.id]
            self._cancelled.discard(group)
            self._spark.forget(group)
            self._done.put(WaveResult(wave, receipts, time.monotonic() - started, error))
            self._code.keep_only(self._needed)

    def _job(
        self, wave: Wave, deployed: _Deployed, group: str, needed: frozenset[str]
    ) -> list[Receipt]:
        context = self._context
        context.setLocalProperty("spark.scheduler.pool", wave.use_case)
        context.setJobGroup(group, f"wave {wave.id} of {wave.use_case}", interruptOnCancel=True)
        work = self._code.shared(deployed.work)
        if deployed.use_case.form == "wave":
            receipts = FrameJob(self.session, deployed.use_case, work, needed).run(wave)
        else:
            _keep_sentinel(work)
            receipts = self._bins(BinTasks(work, wave, group, needed))
        errors = {receipt.error.code for receipt in receipts if receipt.error is not None}
        if CodeNotFetched.__name__ in errors:
            self._code.lost(work)
        return receipts

    def _bins(self, task: BinTasks) -> list[Receipt]:
        """Run the bins; those that met an executor without the shared folder run again, elsewhere.

        Nothing of such a bin was done. Spark cannot be told to pass that executor over, but it
        soon takes another; the planner would make the lanes wait longer each time.
        """
        wave, group = task.wave, task.job
        tasks = self._seed(len(wave.bins)).mapPartitionsWithIndex(task)
        end_s = time.monotonic() + _ELSEWHERE_S
        done: list[Receipt] = []
        left = list(range(len(wave.bins)))
        while True:
            receipts: list[Receipt] = self._context.runJob(tasks, iter, left)
            refused = {
                receipt.slice: receipt.error.message
                for receipt in receipts
                if receipt.error is not None and receipt.error.code == FolderNotShared.__name__
            }
            if not refused or time.monotonic() > end_s or group in self._cancelled:
                return done + receipts
            for error in sorted(set(refused.values())):
                log.warning("bins go to another executor", **of_wave(wave), error=error)
            done += [receipt for receipt in receipts if receipt.slice not in refused]
            left = [index for index in left if refused.keys() & set(wave.bins[index].slices)]

    def _await_gone(self, wave: Wave, group: str) -> None:
        """Wait for the tasks of a failed job, and for the workers on this machine that ran them.

        Spark gives up a job before it has killed its tasks. Were the wave back at once, its lanes
        would be planned again while a worker still writes. A worker on another machine is dead some
        milliseconds after its task: till then it is as a zombie, whose writes are fenced or repeat
        a slice.
        """
        deadline_s = time.monotonic() + _GONE_S
        with suppress(Py4JError, OSError):  # Spark itself may be gone
            while any(info.numActiveTasks for info in stages_of(self._context, group)):
                if time.monotonic() > deadline_s:
                    log.warning("tasks do not end", **of_wave(wave), seconds=_GONE_S)
                    break
                time.sleep(_LOOK_EVERY_S)
        if alive := still_alive(group):
            log.warning("workers are not dead", **of_wave(wave), pids=sorted(alive))

    def _was_loading(self, group: str, error: SliceError) -> bool:
        """Whether a job came to nothing because a worker of it had not loaded its code yet."""
        tasks = ended_at_loading(group)
        if group in self._cancelled:
            return any(tasks)
        return error.code == WorkerKilled.__name__ and bool(tasks) and all(tasks)

    def _seed(self, bins: int) -> RDD[int]:
        """An RDD of so many partitions; made once, because making one costs as much as a job."""
        if bins not in self._seeds:
            self._seeds[bins] = self._context.parallelize(range(bins), bins)
        return self._seeds[bins]


def _keep_sentinel(work: Work) -> None:
    if work.sentinel is not None:
        work.sentinel.keep()


def _still_loading(wave: Wave, seconds: float) -> CodeNotLoaded:
    return CodeNotLoaded(
        f"the code of {wave.use_case} was still being loaded by an executor when its worker ended, "
        f"after {seconds:.0f} s; no handler was called. Give executors a faster disk or more "
        "memory, let it import less, or raise deploy_timeout: an executor has twice that"
    )


#: what Spark says when a Python worker lacks a module that its task itself is made of
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
#: what Spark says when a Python worker is gone in the middle of a task
_WORKER_DIED = "Python worker exited unexpectedly"


def _translated(error: BaseException, wave: Wave) -> HeadraceError:
    """A failed job: the task, its executor, or Spark itself was lost, or a handler's own error."""
    if isinstance(error, HeadraceError):
        return error
    text = str(error).strip()
    if module := _MISSING.search(text):
        return CodeNotLoaded(not_installed(module[1], "on an executor"))
    if _WORKER_DIED in text:
        return WorkerKilled(f"Python workers died again and again in wave {wave.id}")
    told = next((line for line in text.splitlines() if "Error" in line or "Exception" in line), "")
    lost = TaskLost(f"the Spark job of wave {wave.id} failed: {told or type(error).__name__}")
    lost.__cause__ = error
    return lost
