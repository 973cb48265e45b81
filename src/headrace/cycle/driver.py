"""The loop of a driver: as soon as slots are free, the next wave starts with whoever is ready.

There is no global batch. A turn takes the results that came back, looks at the store and at Kafka,
and starts what the planner says; then it waits for the next result, or a moment when there is
nothing to do. A straggler so holds its own lane and its own slot, and nobody waits for it.

A driver drains on request: nothing new is planned, what runs may end, results are committed. It
may as well be killed: on the next start recorded waves run again unchanged, and everything else is
planned from the positions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import structlog

from headrace.board import NO_LIMIT, Board, HeldStream
from headrace.cycle.accounts import Accounts
from headrace.cycle.apart_again import ApartAgain
from headrace.cycle.apply import Applier
from headrace.cycle.beside import Threads, one_thread
from headrace.cycle.capacity import Capacity
from headrace.cycle.commit import Committed, Committer
from headrace.cycle.dead_letters import PendingLetters
from headrace.cycle.failing import Failing
from headrace.cycle.gates import GateId, GateRate, Gates, own_rates
from headrace.cycle.late_claims import LateClaims
from headrace.cycle.leases import Leases
from headrace.cycle.losses import Losses
from headrace.cycle.mirror import LEASE_TABLE, Mirror
from headrace.cycle.observe import Observer
from headrace.cycle.overdue import end_lost, end_overdue
from headrace.cycle.pacing import Pacing
from headrace.cycle.reach import NeededServer, Reach
from headrace.cycle.recorded import RecordedWaves
from headrace.cycle.replay import stopped
from headrace.cycle.turn_plan import RunningBins, plan_turn
from headrace.cycle.versions import Version, Versions
from headrace.errors import BrokerUnavailable, ConfigError, EngineStopped, StoreUnavailable
from headrace.model.plans import Limits, Snapshot
from headrace.model.records import Deployment
from headrace.model.statistics import Missing
from headrace.model.streams import StreamId
from headrace.model.waves import Wave
from headrace.planning.shares import CREDIT_BINS
from headrace.policies.backpressure import PaceBounds
from headrace.policies.elasticity import SlotLimits
from headrace.policies.express import slot_room
from headrace.policies.looking import rest_s
from headrace.ports import (
    Clock,
    DeadLetters,
    Engine,
    Log,
    PositionsMirror,
    Statistics,
    Store,
    WaveResult,
)
from headrace.process.crash_points import reached
from headrace.telemetry.figures import BoardFigures
from headrace.telemetry.log_fields import of_stream
from headrace.telemetry.publishing import Facts, Publisher
from headrace.telemetry.report import Reporter, StreamRow
from headrace.use_cases import UseCase

log = structlog.get_logger(__name__)

#: how long a turn waits for results when nothing else is to do
IDLE_S = 0.05
#: the same, when no lane had a new record lately
QUIET_S = 0.1
#: how long it waits when every slot is busy
BUSY_S = 0.5
#: how long it waits before asking a broker or store again that did not answer
TROUBLE_S = 1.0
#: longest wait at the end for everything that is told to others, or asked of them
CLOSE_S = 6.0
#: the part of it that the store has for the last figures
_FIGURES_S = 3.0


@dataclass(frozen=True, slots=True)
class DriverParts:
    """The parts a driver is made of."""

    store: Store
    log: Log
    engine: Engine[UseCase]
    dead_letters: DeadLetters
    clock: Clock
    #: where positions in Kafka are shown to other tools; None is nowhere
    mirror: PositionsMirror | None = None
    #: where it tells how it fares; None is nowhere
    statistics: Statistics | None = None
    #: where positions in logs of connections are shown to other tools; None is nowhere
    lease_mirror: PositionsMirror | None = None


@dataclass(slots=True)
class Driver:
    """Runs the use cases it was given, for all tenants the store names."""

    parts: DriverParts
    #: unique for ever; wave ids start with it
    run_id: str
    limits: Limits = field(default_factory=Limits)
    #: between how many slots to choose by load; None: as many as the engine has
    slot_limits: SlotLimits | None = None
    #: unique among the drivers that share the store; the next one of this name replaces this one
    name: str = "driver"
    #: silence after which another driver takes over what this one holds
    lease_s: float = 15.0
    #: what a worker has to load a version
    load_s: float = 60.0
    #: how many records a second servers are given that sinks know by these names
    bounds: Mapping[str, PaceBounds] = field(default_factory=dict)
    #: names of connections that stand for a server of each tenant
    own_servers: Collection[str] = ()
    #: where calls are made that no turn may wait for
    threads: Threads = one_thread
    board: Board = field(default_factory=Board)
    reporter: Reporter = field(default_factory=Reporter)
    _results: list[WaveResult] = field(default_factory=list)
    #: the first of them, if it is in the store and the rest does not follow yet
    _committed: Committed | None = None
    _turn: int = 0
    _draining: bool = False
    #: when to look at the earliest at what operators changed
    _look_s: float = -math.inf
    _recovered: bool = False
    _observed: bool = False
    _busy: bool = False
    _was_long: bool = False
    leases: Leases = field(init=False)
    observer: Observer = field(init=False)
    failing: Failing = field(init=False)
    recorded: RecordedWaves = field(init=False)
    apart_again: ApartAgain = field(init=False)
    committer: Committer = field(init=False)
    late_claims: LateClaims = field(init=False)
    applier: Applier = field(init=False)
    gates: Gates = field(init=False)
    accounts: Accounts = field(init=False)
    capacity: Capacity = field(init=False)
    mirror: Mirror | None = field(init=False)
    lease_mirror: Mirror | None = field(init=False)
    publisher: Publisher | None = field(init=False)
    versions: Versions = field(init=False)
    reach: Reach = field(init=False)

    def __post_init__(self) -> None:
        """Wire the steps to the board."""
        store, clock, board = self.parts.store, self.parts.clock, self.board
        self.versions = Versions(self.parts.engine)
        pacing = Pacing(bounds=self.bounds, own_servers=self.own_servers)
        self.capacity = Capacity(self.parts.engine, board, self.versions, self.slot_limits, pacing)
        self.reach = Reach(clock)
        self.leases = Leases(store.membership, self.name, self.lease_s)
        losses = Losses(store.registry, store.progress, board, self.reporter, clock)
        asking = self.threads("log")
        self.observer = Observer(store, board, self.leases, losses, self.parts.log, asking)
        letters = PendingLetters(
            self.parts.dead_letters, self.parts.store.positions, self.threads("letters")
        )
        self.failing = Failing(store, letters, board, self.observer, self.reporter, clock)
        self.recorded = RecordedWaves(store.progress, board, clock, self.name)
        self.apart_again = ApartAgain(board)
        self.committer = Committer(store, board, self.recorded, clock)
        self.late_claims = LateClaims(store.failures, board, self.observer, clock)
        self.applier = Applier(
            board,
            self.observer,
            self.failing,
            self.reporter,
            self.recorded,
            self.late_claims,
            clock,
            self._returned,
        )
        self.gates = Gates(self._rates)
        most_credit_s = CREDIT_BINS * self.limits.bin_budget_s
        self.accounts = Accounts(board, self.gates, most_credit_s)
        self.mirror = Mirror(self.parts.mirror, board) if self.parts.mirror else None
        leases = self.parts.lease_mirror
        self.lease_mirror = Mirror(leases, board, LEASE_TABLE) if leases else None
        told, figures = self.parts.statistics, BoardFigures(board, self.reporter)
        self.publisher = Publisher(self.name, told, figures, clock) if told else None

    def take(self, use_case: UseCase, deployment: Deployment) -> None:
        """Take a use case, or a new version of one, from the next turn on."""
        if use_case.name not in self.versions.newest:
            self._recovered = False
        self.versions.take(use_case, deployment)
        self.observer.forget_revision()

    def end(self, names: Collection[str]) -> None:
        """Let use cases go of which nothing more is to come, such as reruns that are done."""
        self.versions.end(names)

    @property
    def deployed(self) -> Mapping[str, Deployment]:
        """What it runs, by use case."""
        return {name: deployment for name, (_, deployment) in self.versions.newest.items()}

    @property
    def slots(self) -> int:
        """Tasks that may be in flight at once."""
        return self.capacity.slots

    def rows(self) -> list[StreamRow]:
        """Every stream as people see it."""
        return self.reporter.rows(self.board, self.parts.clock)

    @property
    def idle(self) -> bool:
        """Nothing runs, and nothing that may run is left, as far as last seen."""
        now_s = self.parts.clock.monotonic_s()
        waiting = self.board.runnable(now_s)
        replays = any(not stopped(wave, self.board) for _, wave in self.recorded.waiting)
        return not self.board.flights and not waiting and not replays and not self.observer.asks

    @property
    def ready(self) -> bool:
        """Whether it has joined and seen store and Kafka, has both still, and is not draining."""
        return self._observed and not self._draining and not self.missing

    @property
    def missing(self) -> tuple[Missing, ...]:
        """What it has been without for a while: store, Kafka or both."""
        return self.reach.missing

    def drain(self) -> None:
        """Plan nothing more. Safe to call from a signal handler."""
        self._draining = True

    @property
    def drained(self) -> bool:
        """Whether it was asked to drain and has nothing left in flight."""
        asks = self.failing.is_busy or self.late_claims.is_busy
        waits = self.board.flights or self._results or asks
        return self._draining and not waits

    def turn(self) -> None:
        """One turn: commit what came back, observe, plan, start.

        Trouble with Kafka or the store is logged and waited for, never raised.

        Raises:
            ConfigError: at first; what refuses a driver that has worked is waited for as well.
            EngineStopped: nothing runs any more; only a new process can.
            Fenced: another driver of this name was started.
        """
        self._results += self._finished(self._wait_s())
        self.reach.begin()
        try:
            self._commit()
            self.failing.poll()
            steady_s = self.parts.clock.monotonic_s()
            if self._draining and not self.board.flights:
                self.late_claims.finish()
            else:
                self.late_claims.poll(steady_s)
            end_overdue(self.board, self.parts.engine, self.versions.of, steady_s, self.load_s)
            if self._draining:
                self.leases.stay(self.parts.clock.monotonic_s())
            else:
                self._observe()
                self._start()
            for mirror in (self.mirror, self.lease_mirror):
                if mirror is not None:
                    mirror.poll(self.parts.clock.monotonic_s())
            self.reach.answered(NeededServer.STORE)
        except (BrokerUnavailable, StoreUnavailable, ConfigError) as trouble:
            if isinstance(trouble, ConfigError) and not self._observed:
                raise
            log.warning("waiting for a server", error=str(trouble))
            self.reach.failed(trouble)
            self._busy = False
            self._results += self._finished(TROUBLE_S)
        if self.publisher is not None:
            self.publisher.poll(self._facts)

    def leave(self) -> None:
        """Let other drivers have its streams at once, and be gone; for one that drains.

        What still runs of them is not heard of any more, so these wait until its lease is over.
        """
        self.late_claims.finish()
        running = self.board.busy_streams
        self.leases.leave(running)
        if running:
            why = f"something of them still runs, such as {min(running)}"
            log.warning("streams are not given back", streams=len(running), why=why)
        elif self.publisher is not None:
            self.publisher.leave()

    def close(self) -> None:
        """Show others how far everything came; nothing is called after it.

        What servers do not answer in ``CLOSE_S`` is left behind, and ends with the process: nothing
        exact depends on it.
        """
        until_s = time.monotonic() + CLOSE_S
        over = {
            "figures": self.publisher is None or self.publisher.finish(_FIGURES_S),
            "consumer groups": self.mirror is None
            or self.mirror.finish(self.parts.clock.monotonic_s(), until_s),
            "lease tables": self.lease_mirror is None
            or self.lease_mirror.finish(self.parts.clock.monotonic_s(), until_s),
            "dead letters": self.failing.letters.close(until_s),
            "questions to the log": self.observer.close(until_s),
        }
        if left := [what for what, is_over in over.items() if not is_over]:
            log.warning(
                "left behind, servers do not answer", error=", ".join(left), seconds=CLOSE_S
            )

    def cancel_all(self) -> None:
        """End everything that runs; for a drain that takes too long."""
        for wave_id in list(self.board.flights):
            self.parts.engine.cancel(wave_id)

    def _wait_s(self) -> float:
        if self._free_slots() <= 0:
            return BUSY_S
        if self._busy:
            return 0.0
        return IDLE_S if self.board.ready or not self.observer.quiet else QUIET_S

    def _finished(self, timeout_s: float) -> list[WaveResult]:
        try:
            return self.parts.engine.finished(timeout_s)
        except EngineStopped as end:
            self.committer.give_up(end)
            raise

    def _free_slots(self) -> int:
        return self.slots - self.board.busy_slots

    def _commit(self) -> None:
        while self._results:
            result = self._results[0]
            if self._committed is None:
                self._committed = self.committer.commit(result)
            self.applier.apply(self._committed)
            self._committed = None
            self._results.pop(0)
            self.reporter.returned(result, self.parts.clock.now_s())

    def _observe(self) -> None:
        now_s, newest = self.parts.clock.monotonic_s(), self.versions.newest
        if self.leases.poll(newest, now_s):
            self.observer.forget_revision()
            self._recovered = False
            self._look_s = -math.inf
        if self.leases.given_up:
            self.leases.given_up = False
            end_lost(self.board, self.parts.engine, self.versions.of)
        if not self._recovered:
            self.recorded.find(newest)
        self.board.owed = self.recorded.streams
        if now_s >= self._look_s:
            self._control(newest)
        if self.versions.crowded:
            flying = [flight.wave for flight in self.board.flights.values()]
            recorded = self.parts.store.progress.pending_intents()
            self.versions.keep([*flying, *recorded], self.board.streams)
        self.reach.asks(NeededServer.LOG)
        if self.observer.topics(now_s):
            self.recorded.find(newest)
        self._recovered = True
        if self.observer.ends(now_s):
            self.reach.answered(NeededServer.LOG)
            self._observed = True
        else:
            self.reach.waits(NeededServer.LOG)
        self.reach.asks(NeededServer.STORE)
        self.capacity.look(now_s)

    def _control(self, newest: Mapping[str, Version]) -> None:
        """Take over what operators changed, and say when that is looked at again."""
        begun_s = self.parts.clock.monotonic_s()
        deployments = [version.deployment for version in newest.values()]
        if not self.observer.control(deployments, begun_s):
            return
        try:
            self.failing.reload(self.name)
            # Another one of our name may have written waves down until its streams were taken.
            self.recorded.find(newest)
            self.board.owed = self.recorded.streams
            if self.recorded.waiting:
                self.versions.know(self.parts.store.registry.deployments())
        except StoreUnavailable:
            self.observer.forget_revision()
            raise
        ended_s = self.parts.clock.monotonic_s()
        self._look_s = ended_s + rest_s(ended_s - begun_s)

    def _start(self) -> None:
        now_s = self.parts.clock.monotonic_s()
        self._run_again(now_s)
        free = self._free_slots()
        if free <= 0:
            return
        flights = self.board.flights.values()
        long_running = sum(flight.long_bins for flight in flights)
        held_s, hasty = self.board.held_s(now_s), self.versions.hasty
        hung = self.board.hung_bins
        running = RunningBins(self.slots, long_running, hung, self._was_long, held_s, hasty)
        snapshot, places = self._snapshot(now_s, free, running), self.parts.log.places
        made = plan_turn(snapshot, running, self.limits.bin_budget_s, places)
        # With nothing to start (all idle, or throttled) the next turn waits a moment.
        self._busy = bool(made.waves)
        for stream, fault in made.unfit.items():
            self._leave_out(stream, fault)
        for credit in made.credits:
            self.board.streams[credit.stream].credit_s = credit.credit_s
        for wave, _ in made.waves:
            self.accounts.planned(wave)
        if made.waves:
            reached("planned")
        for wave, long_bins in made.waves:
            self._was_long = long_bins > 0
            self._launch(wave, long_bins, fresh=True)

    def _run_again(self, now_s: float) -> None:
        """Start what is recorded and due."""
        for lane in self.recorded.short_logs(self.versions, now_s):
            self.observer.ask_again(self.board.streams[lane.stream], lane.name)

        def may_run(wave: Wave) -> bool:
            return self.apart_again.may_run(wave, self.slots, now_s)

        for wave in self.recorded.due(self.versions, now_s, may_run):
            self._launch(wave, len(wave.bins), fresh=False)
        if self.recorded.is_refused:
            self.recorded.is_refused = self._recovered = False
            self.observer.forget_revision()

    def _leave_out(self, stream: StreamId, fault: str) -> None:
        """Plan nothing of a stream that no plan can have, until somebody changes something."""
        self.board.streams[stream].unfit = (
            f"no plan of it is fit to run, a fault of Headrace, please report it: {fault}. "
            f"'headrace streams suspend {stream}' and 'resume' have it tried again"
        )
        log.error("a stream's part of a plan breaks the rules", error=fault, **of_stream(stream))

    def _launch(self, wave: Wave, long_bins: int, *, fresh: bool) -> None:
        wave = self.board.with_their_past(self.versions.begun(wave)) if fresh else wave
        self.board.planned(wave)
        if fresh and wave.intended:
            # Should the answer be lost, the wave may be recorded all the same: look for it then.
            self._recovered = False
            recorded = self.recorded.record(wave, self.slots)
            self._recovered = True
            if recorded is None:
                self.observer.forget_revision()  # the next turn sees who has its streams
                return
            wave = recorded
            reached("intent-recorded", wave.use_case)
        now_s = self.parts.clock.monotonic_s()
        self.board.started(wave, now_s, long_bins, cold=self.capacity.is_cold(wave))
        self.accounts.started(wave, now_s)
        self.reporter.started(wave, self.parts.clock.now_s())
        self.parts.engine.start(wave)
        reached("submitted", wave.use_case)

    def _snapshot(self, now_s: float, free_slots: int, running: RunningBins) -> Snapshot:
        self._turn += 1
        runnable = self.board.runnable(now_s)
        allowed = self.gates.allowances(runnable, now_s)
        room = slot_room(running.slots, running.long, running.hung)
        views = tuple(
            held.view(
                now_s,
                allowed.get(held.stream.id, NO_LIMIT),
                room if held.apart and held.stream.id.use_case in running.hasty else None,
            )
            for held in runnable
        )
        limits = self.capacity.limits(self.limits)
        return Snapshot(f"{self.run_id}-{self._turn}", views, free_slots, limits)

    def _rates(self, held: HeldStream) -> dict[GateId, GateRate]:
        """The gates that a stream stands behind."""
        return own_rates(held) | self.capacity.rates(held.stream.id.use_case)

    def _facts(self) -> Facts:
        """What is told of the driver itself."""
        engine, capacity, busy = self.parts.engine, self.capacity, self.board.busy_slots
        wanted, paces = capacity.wanted_slots, capacity.paces
        return Facts(engine.slots, wanted, busy, engine.executors, engine.ui_url, paces)

    def _returned(self, result: WaveResult) -> None:
        self.accounts.returned(result)
        self.capacity.returned(result)
        self.apart_again.returned(result, self.parts.clock.monotonic_s())
