"""An engine in this process: the same task code, no Spark.

Waves run one after the other when ``finished`` is asked, in the order they were started, so a test
decides when time passes. A wave can be told to be lost, as when an executor dies: before its tasks
ran, or after they did and before anybody heard of it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.errors import TaskLost
from headrace.model.records import Deployment
from headrace.model.waves import Terms, Wave
from headrace.ports import (
    Connections,
    DeadLettersFactory,
    NoTenants,
    PackedCode,
    PositionsFactory,
    ReaderFactory,
    TenantsFactory,
    WaveResult,
)
from headrace.spark.slice_errors import error_of
from headrace.spark.task import Work, WorkerClients, opened, run_bin
from headrace.use_cases import UseCase

#: what a receipt says of each record: real ones would make every run another one
SECONDS_PER_RECORD = 0.001


@dataclass(frozen=True)
class InProcessWork(Work):
    """Work whose use case was never pickled, so that a test's handler can look at the test."""

    use_case: UseCase | None = None

    def load(self) -> UseCase:
        """The use case itself; nothing was pickled."""
        assert self.use_case is not None
        return self.use_case

    def call_limit_s(self, predicted_s: float, *, shared: bool) -> float:
        """No limit: here time passes when a test says so, and a slow machine is no hang."""
        return math.inf


@dataclass(slots=True)
class InProcessEngine:
    """Implements ``headrace.ports.Engine`` for use cases of form ``slice``."""

    connections: Connections
    reader: ReaderFactory
    positions: PositionsFactory
    dead_letters: DeadLettersFactory
    slots: int = 2
    executors: int = 1
    ui_url: str = ""
    #: nothing that was started comes to its end
    paused: bool = False
    #: what was started waits for an executor
    queued: bool = False
    #: receipts carry the places of records in traces
    traced: bool = False
    tenants: TenantsFactory = field(default_factory=NoTenants)
    #: what happens to the next waves, one entry each; an empty list lets them run
    accidents: list[Literal["before", "after"] | None] = field(default_factory=list)
    #: told how long the driver is ready to wait
    on_wait: Callable[[float], object] = id
    #: every wave ever started, for tests to look at
    started: list[Wave] = field(default_factory=list)
    #: the slots that were asked for, each time
    asked_for: list[int] = field(default_factory=list)
    _clients: WorkerClients | None = None
    _works: dict[tuple[str, Terms | None], InProcessWork] = field(default_factory=dict)
    _waiting: deque[Wave] = field(default_factory=deque)
    #: the version that a waiting wave was started with, by wave id
    _taken: dict[str, InProcessWork] = field(default_factory=dict)
    _cancelled: set[str] = field(default_factory=set)

    def packed(self, use_case: UseCase) -> PackedCode:
        """Nothing is sent anywhere."""
        del use_case
        return PackedCode.of(b"")

    def take(
        self, use_case: UseCase, deployment: Deployment, code: PackedCode | None = None
    ) -> None:
        """Take a use case or a new version of one."""
        del code
        work = InProcessWork(
            code=b"",
            use_case=use_case,
            options=tuple(sorted(deployment.options.items())),
            connections=self.connections,
            reader=self.reader,
            positions=self.positions,
            dead_letters=self.dead_letters,
            tenants=self.tenants,
            timeout_s=deployment.handler_timeout_s,
            traced=self.traced,
        )
        for terms in (use_case.terms, None):
            self._works[use_case.name, terms] = work

    def forget(self, use_case: str, terms: Terms | None) -> None:
        """Let a version go."""
        self._works.pop((use_case, terms), None)

    def modules(self) -> frozenset[str]:
        """Modules of what was taken, and of what waits."""
        works = [*self._works.values(), *self._taken.values()]
        return frozenset(work.use_case.module for work in works if work.use_case is not None)

    def start(self, wave: Wave) -> None:
        """Remember a wave; it runs when ``finished`` is asked."""
        self._taken[wave.id] = self._works[wave.use_case, wave.terms]
        self.started.append(wave)
        self._waiting.append(wave)

    def finished(self, timeout_s: float) -> list[WaveResult]:
        """Run everything that was started; never waits."""
        self.on_wait(timeout_s)
        if self.paused:
            return []
        results = []
        while self._waiting:
            results.append(self._run(self._waiting.popleft()))
        return results

    def began(self, wave_id: str) -> bool:
        """Whether it waits for nothing but ``finished``."""
        return not self.queued and any(wave.id == wave_id for wave in self._waiting)

    def cancel(self, wave_id: str) -> None:
        """Forget a wave that did not run yet; it comes back with an error."""
        if any(wave.id == wave_id for wave in self._waiting):
            self._cancelled.add(wave_id)

    def resize(self, slots: int) -> None:
        """Remember what was asked for."""
        self.asked_for.append(slots)

    def close(self) -> None:
        """Cancel what did not run yet."""
        self._cancelled |= {wave.id for wave in self._waiting}

    def _run(self, wave: Wave) -> WaveResult:
        work = self._taken.pop(wave.id)
        if wave.id in self._cancelled:
            self._cancelled.remove(wave.id)
            return _lost(wave)
        accident = self.accidents.pop(0) if self.accidents else None
        if accident == "before":
            return _lost(wave)
        if self._clients is None:
            self._clients = opened(work)
        receipts = tuple(
            replace(receipt, seconds=SECONDS_PER_RECORD * receipt.records)
            for bin_ in wave.bins
            for receipt in run_bin(
                work, bin_, wave.budget_s, clients=self._clients, wave_id=wave.id
            )
        )
        return _lost(wave) if accident == "after" else WaveResult(wave, receipts, 0.0)


def _lost(wave: Wave) -> WaveResult:
    return WaveResult(wave, (), 0.0, error_of(TaskLost(f"wave {wave.id} was lost")))
