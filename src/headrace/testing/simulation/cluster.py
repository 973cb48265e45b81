"""The fake of a Spark cluster: waves of all drivers, run bin by bin when the scheduler says so.

The real task code runs here (``spark/task.py``), one bin at a time. What Spark and its machines do
around it is drawn: a task dies and is run again, or its job fails; an executor is thought lost, its
bin runs again, and the first attempt wakes up later all the same; a wave comes to its end and
nobody hears of it; a driver dies, and its tasks die with it or go on as zombies.

A handler may take its worker along, or never come back. Where a worker died is found by the next
attempt, mostly: on another machine it is not. What never comes back stays until its driver ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from headrace.errors import HeadraceError, ReadOtherwise, TaskLost, WorkerKilled
from headrace.model.receipts import Receipt
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Terms, Wave
from headrace.ports import Connections, Positions, WaveResult
from headrace.spark.slice_errors import error_of
from headrace.spark.task import WorkerClients, run_bin
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import SECONDS_PER_RECORD, InProcessWork
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory
from headrace.testing.simulation.actors import Actor, Killed
from headrace.testing.simulation.frames import BROKERS_GO, LostBlocks, run_wave
from headrace.testing.simulation.odds import Odds
from headrace.testing.simulation.troubles import Stuck, WorkerDies
from headrace.use_cases import UseCase

#: how often a task that died is run again
_ATTEMPTS = 4
#: chance that the next attempt runs where the markers of the last are
_SAME_MACHINE = 0.7
#: innocent waves in a run whose workers are killed by somebody else: more of them in a row could
#: not be told from a handler that kills
_ACCIDENTS = 2
#: seconds that a call of a handler takes besides those of its records; some handlers ask a server
_CALLS_S = (0.0, 0.0, 0.4)


@dataclass(slots=True)
class MemoryCrashMarkers:
    """The crash markers of one bin, over all attempts of its task."""

    killers: frozenset[Slice] = frozenset()
    #: attempts that found them
    attempts: int = 0

    @property
    def is_first(self) -> bool:
        """Whether no attempt began before the one that runs."""
        return self.attempts == 1

    def during(self, planned: Slice | None, call: Callable[[], Any]) -> Any:
        """Run ``call``; should its worker die in it, ``planned`` is to blame; None: nobody is."""
        try:
            return call()
        except WorkerDies:
            self.killers |= set() if planned is None else {planned}
            raise

    def loading(self, call: Callable[[], Any]) -> Any:
        """Run ``call``; nothing is loaded here."""
        return call()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task that runs, or sleeps."""

    actor: Actor
    bin: Bin


@dataclass(eq=False, slots=True)
class Flight:
    """A wave on the cluster."""

    wave: Wave
    work: InProcessWork
    owner: Actor
    waiting: list[Bin]
    #: the generation of each lane that it was started in
    born: Mapping[LaneId, int] = field(default_factory=dict)
    running: list[Attempt] = field(default_factory=list)
    #: attempts that sleep and have been replaced; nobody listens to them any more
    orphans: list[Attempt] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    #: attempts that never come back
    stuck: list[Attempt] = field(default_factory=list)
    markers: dict[Bin, MemoryCrashMarkers] = field(default_factory=dict)
    died: int = 0
    result: WaveResult | None = None

    @property
    def whole(self) -> bool:
        """Whether it has one handler for all of its bins, which runs where its driver does."""
        return self.work.load().form == "wave"

    def sticks(self, attempt: Attempt) -> None:
        """An attempt never comes back; with a dead driver's executor its worker goes as well."""
        if attempt in self.running:
            self.running.remove(attempt)
            if not self.owner.dead:
                self.stuck.append(attempt)

    def fail(self, why: str, kind: type[HeadraceError] = TaskLost) -> None:
        """The job fails; what sleeps goes on, and nobody listens."""
        self.waiting.clear()
        self.orphans += self.running
        self.running.clear()
        self.stuck.clear()
        error = error_of(kind(f"wave {self.wave.id}: {why}"))
        self.result = self.result or WaveResult(self.wave, (), 0.0, error)


@dataclass(slots=True)
class Cluster:
    """All waves in flight."""

    rng: Random
    odds: Odds
    log: MemoryLog
    letters: MemoryDeadLetters
    #: the clients of one attempt, behind doors
    clients: Callable[[Actor, WorkerClients], WorkerClients]
    positions: Positions
    #: the generations of the lanes of a wave that starts
    born: Callable[[Wave], Mapping[LaneId, int]]
    flights: list[Flight] = field(default_factory=list)
    #: no wave is lost any more
    calm: bool = False
    waves: int = 0
    #: waves whose records were read again, and those of them that were others then
    read_again: int = 0
    read_otherwise: int = 0
    _attempts: int = 0
    _accidents: int = 0
    #: seconds of a call of each use case, however few its records
    _call_s: dict[str, float] = field(default_factory=dict)
    #: of which a bin runs now; who is asleep inside is behind
    _inside: list[Flight] = field(default_factory=list)

    def loaded(self, use_case: UseCase, deployment: Deployment) -> InProcessWork:
        """What tasks of a use case need."""
        return InProcessWork(
            code=b"",
            use_case=use_case,
            options=tuple(sorted(deployment.options.items())),
            connections=Connections({}, "sqlite:///simulated.db"),
            reader=MemoryReaderFactory(self.log),
            positions=_Same(self.positions),
            dead_letters=self.letters,
        )

    def start(self, wave: Wave, work: InProcessWork, owner: Actor) -> None:
        """Take a wave."""
        self.waves += 1
        flight = Flight(wave, work, owner, list(wave.bins), self.born(wave))
        self.flights.append(flight)
        if not self.calm and self.rng.random() < self.odds.lost_before:
            flight.fail("it was lost before it ran", self._why_lost())

    def _why_lost(self) -> type[HeadraceError]:
        if self._accidents == _ACCIDENTS or self.rng.random() < 0.5:
            return TaskLost
        self._accidents += 1
        return WorkerKilled

    def generation(self, lane: LaneId) -> int:
        """The generation that the slice was started in which runs now."""
        return self.inside.born[lane]

    @property
    def inside(self) -> Flight:
        """The wave of which something runs now."""
        return self._inside[-1]

    @property
    def runnable(self) -> list[Flight]:
        """Waves of which a bin waits for a slot."""
        return [flight for flight in self.flights if flight.waiting]

    def run(self, flight: Flight, hurt: Callable[[Wave], None], *, calm: bool) -> None:
        """Run one bin of a wave, as far as it comes."""
        planned = flight.waiting.pop(self.rng.randrange(len(flight.waiting)))
        if flight.whole:
            flight.waiting.clear()
        self._attempts += 1
        actor = Actor(f"task {self._attempts} of {flight.wave.id}", "task")
        actor.hurt = lambda: hurt(flight.wave)
        attempt = Attempt(actor, planned)
        flight.running.append(attempt)
        work = flight.work
        whole = WorkerClients(work.reader.open(work.connections), self.positions, self.letters)
        clients = self.clients(actor, whole)
        self._inside.append(flight)
        try:
            receipts = self._receipts(flight, planned, clients, calm=calm)
        except HeadraceError as error:  # of a whole wave: a task has a receipt for it
            if isinstance(error, ReadOtherwise):
                self.read_otherwise += 1
                hurt(flight.wave)
            flight.fail(str(error), type(error))
        except Stuck:
            flight.sticks(attempt)
        except Killed as end:
            if isinstance(end, WorkerDies):
                hurt(flight.wave)
            self._died(flight, attempt, WorkerKilled if isinstance(end, WorkerDies) else TaskLost)
        else:
            if attempt in flight.running:
                flight.running.remove(attempt)
                flight.receipts += [self._timed(receipt) for receipt in receipts]
        finally:
            self._inside.pop()
            if attempt in flight.orphans:
                flight.orphans.remove(attempt)
        self._end(flight, hurt, calm=calm)

    def _receipts(
        self, flight: Flight, planned: Bin, clients: WorkerClients, *, calm: bool
    ) -> list[Receipt]:
        work = flight.work
        if flight.whole:
            return run_wave(work.load(), flight.wave, clients, self._lost_blocks(calm=calm))
        markers = self._markers(flight, planned, calm=calm)
        hasty = not calm and self.rng.random() < self.odds.yields
        return run_bin(
            work,
            planned,
            -1.0 if hasty else math.inf,
            clients=clients,
            markers=markers,
            wave_id=flight.wave.id,
        )

    def _lost_blocks(self, *, calm: bool) -> LostBlocks | None:
        """Whether a wave loses what was kept of it, and what its brokers do meanwhile."""
        often = 0.0 if calm else self.odds.read_again
        if not often or self.rng.random() > often:
            return None
        self.read_again += 1
        return LostBlocks(self.rng, self.rng.choice(BROKERS_GO))

    def _timed(self, receipt: Receipt) -> Receipt:
        """With its seconds: so much a record, and for some use cases so much a call."""
        name = receipt.slice.lane.use_case
        if name not in self._call_s:
            self._call_s[name] = self.rng.choice(_CALLS_S)
        call_s = self._call_s[name] if receipt.records else 0.0
        return replace(receipt, seconds=call_s + SECONDS_PER_RECORD * receipt.records)

    def _markers(self, flight: Flight, planned: Bin, *, calm: bool) -> MemoryCrashMarkers:
        found = MemoryCrashMarkers()
        if calm or self.rng.random() <= _SAME_MACHINE:
            found = flight.markers.setdefault(planned, found)
        found.attempts += 1
        return found

    def lose_executor(self, flight: Flight) -> None:
        """A sleeping task is thought dead and runs again; it will wake up all the same."""
        attempt = flight.running.pop(self.rng.randrange(len(flight.running)))
        flight.orphans.append(attempt)
        flight.waiting.append(attempt.bin)

    def owner_died(self, owner: Actor, *, tasks_too: bool) -> None:
        """A driver is gone: its tasks die with it, or go on and nobody hears of them."""
        for flight in [flight for flight in self.flights if flight.owner is owner]:
            if tasks_too:
                for attempt in flight.running + flight.orphans:
                    attempt.actor.dead = True
                flight.waiting.clear()
            flight.stuck.clear()  # its worker goes with its executor, sooner or later
            if not flight.waiting and not flight.running:
                self.flights.remove(flight)

    def ended(self, owner: Actor) -> list[WaveResult]:
        """Hand over what became of a driver's waves."""
        done = [
            flight for flight in self.flights if flight.owner is owner and flight.result is not None
        ]
        for flight in done:
            self.flights.remove(flight)
        return [flight.result for flight in done if flight.result is not None]

    def _died(self, flight: Flight, attempt: Attempt, kind: type[HeadraceError]) -> None:
        if attempt not in flight.running:
            return
        flight.running.remove(attempt)
        flight.died += 1
        again = flight.died < _ATTEMPTS and not flight.whole and not flight.owner.dead
        if again and self.rng.random() < 0.7:
            flight.waiting.append(attempt.bin)
        else:
            flight.fail("a task died", kind)

    def _end(self, flight: Flight, hurt: Callable[[Wave], None], *, calm: bool) -> None:
        if flight.waiting or flight.running or flight.stuck or flight not in self.flights:
            return
        if flight.owner.dead:
            self.flights.remove(flight)
        elif not calm and flight.result is None and self.rng.random() < self.odds.lost_after:
            hurt(flight.wave)
            flight.fail("it ran, and nobody heard of it")
        elif flight.result is None:
            flight.result = WaveResult(flight.wave, tuple(flight.receipts), 0.0)


@dataclass(slots=True)
class Engine:
    """One driver's door to the cluster; implements ``headrace.ports.Engine``."""

    cluster: Cluster
    owner: Actor
    #: told of waves that start and end
    started: Callable[[Wave], None]
    returned: Callable[[WaveResult], None]
    cancelled: Callable[[Wave], None]
    slots: int = 3
    executors: int = 1
    ui_url: str = ""
    _works: dict[tuple[str, Terms | None], InProcessWork] = field(default_factory=dict)

    def packed(self, use_case: UseCase) -> bytes:
        """Nothing is sent anywhere."""
        del use_case
        return b""

    def take(self, use_case: UseCase, deployment: Deployment, code: bytes | None = None) -> None:
        """Take a use case, or a new version of one."""
        del code
        work = self.cluster.loaded(use_case, deployment)
        self._works |= {(use_case.name, terms): work for terms in (use_case.terms, None)}

    def forget(self, use_case: str, terms: Terms | None) -> None:
        """Let a version go."""
        self._works.pop((use_case, terms), None)

    def modules(self) -> frozenset[str]:
        """Nothing here is imported."""
        return frozenset()

    def start(self, wave: Wave) -> None:
        """Hand a wave to the cluster."""
        self.started(wave)
        self.cluster.start(wave, self._works[wave.use_case, wave.terms], self.owner)

    def finished(self, timeout_s: float) -> list[WaveResult]:
        """Waves that ended; never waits."""
        del timeout_s
        results = self.cluster.ended(self.owner)
        for result in results:
            self.returned(result)
        return results

    def began(self, wave_id: str) -> bool:
        """Only of a wave that never comes back: time here says nothing about other handlers."""
        return any(flight.wave.id == wave_id and flight.stuck for flight in self.cluster.flights)

    def cancel(self, wave_id: str) -> None:
        """End a wave; it comes back with an error."""
        for flight in self.cluster.flights:
            if flight.wave.id == wave_id and flight.owner is self.owner:
                self.cancelled(flight.wave)
                flight.fail("it was cancelled")

    def resize(self, slots: int) -> None:
        """Slots are fixed."""

    def close(self) -> None:
        """What runs is the cluster's."""


@dataclass(frozen=True, slots=True)
class _Same:
    positions: Positions

    def open(self, connections: Connections) -> Positions:
        del connections
        return self.positions
