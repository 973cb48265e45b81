"""The loop of a driver: as soon as slots are free, the next wave starts with whoever is ready.

There is no global batch. A turn takes the results that came back, looks at the store and at Kafka,
and starts what the planner says; then it waits for the next result, or a moment when there is
nothing to do. A straggler so holds its own lane and its own slot, and nobody waits for it.

A driver drains on request: nothing new is planned, what runs may end, results are committed. It
may as well be killed: on the next start recorded waves run again unchanged, and everything else is
planned from the positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from headrace.cycle.board import Board, HeldStream
from headrace.cycle.commit import Committer
from headrace.cycle.observe import Observer
from headrace.cycle.replay import renewed
from headrace.cycle.report import Reporter, Row
from headrace.errors import BrokerUnavailable, Fenced, StoreUnavailable
from headrace.model.plans import Limits, Snapshot
from headrace.model.records import Deployment
from headrace.model.waves import Wave
from headrace.planning import check, plan
from headrace.policies.throttle import Bucket
from headrace.ports import Clock, Engine, Log, Store, WaveResult
from headrace.use_cases import UseCase

log = structlog.get_logger(__name__)

#: how long a turn waits for results when nothing else is to do
IDLE_S = 0.05
#: how long it waits when every slot is busy
BUSY_S = 0.5
#: how long it waits before asking a broker or store again that did not answer
TROUBLE_S = 1.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts a driver is made of."""

    store: Store
    log: Log
    engine: Engine
    clock: Clock


@dataclass(slots=True)
class Driver:
    """Runs the use cases it was given, for all tenants the store names."""

    parts: Parts
    #: unique for ever; wave ids start with it
    run_id: str
    limits: Limits = field(default_factory=Limits)
    board: Board = field(default_factory=Board)
    reporter: Reporter = field(default_factory=Reporter)
    #: told of every wave as it is started
    on_start: Callable[[Wave], None] | None = None
    _use_cases: dict[str, tuple[UseCase, Deployment]] = field(default_factory=dict)
    _results: list[WaveResult] = field(default_factory=list)
    _turn: int = 0
    _draining: bool = False
    _recovered: bool = False
    _busy: bool = False
    observer: Observer = field(init=False)
    committer: Committer = field(init=False)

    def __post_init__(self) -> None:
        """Wire the steps to the board."""
        self.observer = Observer(self.parts.store, self.parts.log, self.board)
        self.committer = Committer(
            self.parts.store, self.board, self.observer, self.reporter, self.parts.clock
        )

    def deploy(self, use_case: UseCase, deployment: Deployment) -> None:
        """Take a use case, or a new version of one, from the next turn on."""
        self._use_cases[use_case.name] = (use_case, deployment)
        self.observer.forget_revision()

    @property
    def deployed(self) -> Mapping[str, Deployment]:
        """What it runs, by use case."""
        return {name: deployment for name, (_, deployment) in self._use_cases.items()}

    def rows(self) -> list[Row]:
        """Every stream as people see it."""
        return self.reporter.rows(self.board, self.parts.clock.monotonic_s())

    @property
    def idle(self) -> bool:
        """Nothing runs, and nothing that may run is left, as far as last seen."""
        now_s = self.parts.clock.monotonic_s()
        waiting = any(held.runnable(now_s) for held in self.board.streams.values())
        return not self.board.waves and not waiting and not self.committer.replays

    def drain(self) -> None:
        """Plan nothing more. Safe to call from a signal handler."""
        self._draining = True

    @property
    def drained(self) -> bool:
        """Whether it was asked to drain and has nothing left in flight."""
        return self._draining and not self.board.waves and not self._results

    def turn(self) -> None:
        """One turn: commit what came back, observe, plan, start.

        Trouble with Kafka or the store is logged and waited for, never raised.

        Raises:
            Fenced: another driver took over every stream.
        """
        wait_s = BUSY_S if self._free_slots() <= 0 else 0.0 if self._busy else IDLE_S
        self._results += self.parts.engine.finished(wait_s)
        try:
            self._commit()
            if not self._draining:
                self._observe()
                self._start()
        except (BrokerUnavailable, StoreUnavailable) as trouble:
            log.warning("waiting for a server", error=str(trouble))
            self._busy = False
            self._results += self.parts.engine.finished(TROUBLE_S)

    def cancel_all(self) -> None:
        """End everything that runs; for a drain that takes too long."""
        for wave_id in list(self.board.waves):
            self.parts.engine.cancel(wave_id)

    def _free_slots(self) -> int:
        return self.parts.engine.slots - self.board.busy_slots

    def _commit(self) -> None:
        while self._results:
            result = self._results[0]
            self.committer.commit(result, self._intends(result.wave.use_case))
            self._results.pop(0)

    def _intends(self, use_case: str) -> bool:
        return self._use_cases[use_case][0].intends

    def _observe(self) -> None:
        now_s = self.parts.clock.monotonic_s()
        if not self._recovered:
            self._find_intents()
        self.observer.control([deployment for _, deployment in self._use_cases.values()])
        if self.board.lost and not self.board.streams:
            raise Fenced("another driver has taken over every stream; this one stops")
        self.observer.topics(now_s)
        self._recovered = True
        self.observer.ends(now_s)

    def _find_intents(self) -> None:
        """Recorded waves of an earlier life come back before anything is planned."""
        now_s = self.parts.clock.monotonic_s()
        known = {wave.id for _, wave in self.committer.replays}
        for wave in self.parts.store.pending_intents():
            if wave.use_case in self._use_cases and wave.id not in known:
                self.committer.replays.append((now_s, wave))
                self.observer.owed |= {piece.lane.stream for piece in wave.slices}
                log.info("recorded wave found; it runs again unchanged", wave=wave.id)

    def _start(self) -> None:
        now_s = self.parts.clock.monotonic_s()
        self._start_replays(now_s)
        free = self._free_slots()
        if free <= 0:
            return
        snapshot = self._snapshot(now_s, free)
        made = plan(snapshot)
        # With nothing to start (all idle, or throttled) the next turn waits a moment.
        self._busy = bool(made.waves)
        faults = check(snapshot, made)
        assert not faults, f"the plan of turn {snapshot.turn} breaks its rules: {faults}"
        for credit in made.credits:
            self.board.streams[credit.stream].credit_s = credit.credit_s
        for wave in made.waves:
            self._spend(wave, now_s)
            self._launch(wave, fresh=True)

    def _start_replays(self, now_s: float) -> None:
        due = [each for each in self.committer.replays if each[0] <= now_s]
        self.committer.replays = [each for each in self.committer.replays if each[0] > now_s]
        for _, recorded in due:
            wave = renewed(recorded, self.board)
            if not wave.bins:
                self.board.ended(recorded)
                self.parts.store.finish_intent(recorded.id, [])
                continue
            self._launch(wave, fresh=False)

    def _launch(self, wave: Wave, *, fresh: bool) -> None:
        if fresh and self._intends(wave.use_case):
            self.parts.store.record_intent(wave)
        self.board.started(wave)
        self.parts.engine.start(wave)
        if self.on_start is not None:
            self.on_start(wave)

    def _snapshot(self, now_s: float, free_slots: int) -> Snapshot:
        self._turn += 1
        replaying = {
            piece.lane.stream for _, wave in self.committer.replays for piece in wave.slices
        }
        views = tuple(
            held.view(now_s, self._allowance(held, now_s))
            for stream, held in self.board.streams.items()
            if stream not in replaying and held.runnable(now_s)
        )
        return Snapshot(f"{self.run_id}-{self._turn}", views, free_slots, self.limits)

    def _allowance(self, held: HeldStream, now_s: float) -> tuple[int | None, int | None]:
        throttle = held.tenant.throttle
        held.records_bucket = _bucket(held.records_bucket, throttle.records_per_s, now_s)
        held.bytes_bucket = _bucket(held.bytes_bucket, throttle.bytes_per_s, now_s)
        return (_tokens(held.records_bucket), _tokens(held.bytes_bucket))

    def _spend(self, wave: Wave, now_s: float) -> None:
        for piece in wave.slices:
            held = self.board.streams[piece.lane.stream]
            if held.records_bucket is not None:
                held.records_bucket = held.records_bucket.spend(piece.size)
            if held.bytes_bucket is not None:
                size_bytes = round(piece.size * held.cost.bytes_per_record)
                held.bytes_bucket = held.bytes_bucket.spend(size_bytes)


def _bucket(bucket: Bucket | None, rate_per_s: float | None, now_s: float) -> Bucket | None:
    if rate_per_s is None:
        return None
    if bucket is None or bucket.rate_per_s != rate_per_s:
        return Bucket.full(rate_per_s, now_s)
    return bucket.refilled(now_s)


def _tokens(bucket: Bucket | None) -> int | None:
    return None if bucket is None else max(0, int(bucket.tokens))
