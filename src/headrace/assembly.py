"""Making a running driver out of settings: the one place where real parts are wired together.

The cycle knows only ports. Here SQLAlchemy, Kafka and Spark are chosen, and a changed deployment
is taken over while the driver runs.

Not here: what the YAML file names (`deploying.py`), what a turn does (`cycle/`), and what the
terminal shows (`cli/`).
"""

from __future__ import annotations

import gc
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from headrace import tracing
from headrace.cycle.clock import SystemClock
from headrace.cycle.driver import Driver, Parts
from headrace.cycle.loading import digest_of, load_module
from headrace.deploying import connections_of, deploy, driver_name, load
from headrace.errors import ConfigError, HeadraceError, Permanent, UnknownName
from headrace.kafka import GroupMirror, KafkaDeadLettersFactory, KafkaLog, KafkaReaderFactory
from headrace.model.plans import Limits
from headrace.model.records import Deployment
from headrace.model.streams import original
from headrace.policies.elasticity import SlotLimits
from headrace.ports import Connections, Site, Store
from headrace.process import calm_garbage_collection
from headrace.settings import DriverSettings, Settings
from headrace.spark.engine import SparkEngine, Tools
from headrace.spark.session import build_session, elastic_options, on_this_machine
from headrace.store import SqlPositionsFactory, open_store
from headrace.use_cases import UseCase

log = structlog.get_logger(__name__)

#: how often a running driver looks for deployments that changed
DEPLOYMENTS_EVERY_S = 0.5


@dataclass(slots=True)
class Assembly:
    """A driver with its real parts."""

    driver: Driver
    store: Store
    engine: SparkEngine
    connections: Connections
    drain_timeout_s: float
    _next_look_s: float = 0.0
    _refused: list[Deployment] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def take(self, use_case: UseCase, deployment: Deployment) -> None:
        """Run this version of a use case from the next turn on."""
        if use_case.sink is not None:
            use_case.sink.prepare(Site(self.connections, self.store.positions))
        self.engine.take(use_case, deployment)
        self.driver.take(use_case, deployment)

    def take_changes(self) -> None:
        """Take over what changed in the store; one that does not load stays as it was."""
        for deployment in self.store.deployments():
            if self.driver.deployed.get(deployment.use_case) == deployment:
                continue
            if deployment in self._refused or deployment.until == {}:
                continue  # a rerun that is over, or not begun yet
            try:
                self._take_change(deployment)
            except Permanent as error:
                # Said once: only another deployment changes anything.
                self._refused.append(deployment)
                log.error("deployment not taken", use_case=deployment.use_case, error=str(error))

    def _take_change(self, deployment: Deployment) -> None:
        path = Path(deployment.module)
        if digest_of(path) != deployment.digest:
            raise ConfigError(
                f"{path} is not the version that was deployed; deploy {deployment.use_case} again"
            )
        module = load_module(path)
        name = original(deployment.use_case)
        if name not in module.use_cases:
            raise UnknownName(f"{path} has no use case {name} any more")
        self.take(replace(module.use_cases[name], name=deployment.use_case), deployment)
        log.info("use case taken over", use_case=deployment.use_case, digest=deployment.digest[:12])

    def stop(self) -> None:
        """Ask the loop to drain and end. Safe to call from a signal handler or another thread."""
        self._stop.set()

    def run(self, on_turn: Callable[[Driver], None] | None = None) -> bool:
        """Turn until asked to stop, then drain; True if everything in flight ended by itself."""
        clock = self.driver.parts.clock
        deadline_s: float | None = None
        while not self.driver.drained:
            now_s = clock.monotonic_s()
            if self._stop.is_set() and deadline_s is None:
                self.driver.drain()
                deadline_s = now_s + self.drain_timeout_s
            if deadline_s is not None and now_s > deadline_s:
                log.warning("drain took too long; what still runs is cancelled")
                self.driver.cancel_all()
                return False
            if deadline_s is None and now_s >= self._next_look_s:
                self._next_look_s = now_s + DEPLOYMENTS_EVERY_S
                self._look()
            self.driver.turn()
            if on_turn is not None:
                on_turn(self.driver)
        self._leave()
        return True

    def _leave(self) -> None:
        try:
            self.driver.leave()
        except HeadraceError as error:
            # The others notice by its silence.
            log.warning("leases could not be given back", error=str(error))

    def _look(self) -> None:
        try:
            self.take_changes()
        except HeadraceError as error:
            log.warning("deployments could not be read", error=str(error))


@contextmanager
def assembled(settings: Settings, folder: Path, app_name: str = "headrace") -> Iterator[Assembly]:
    """A driver on the servers that the settings name; everything is closed at the end.

    Raises:
        ConfigError: something in the settings cannot be, such as SQLite with a cluster master.
        StoreTooNew: the store was written by a later version.
    """
    connections = connections_of(settings, folder)
    _refuse_sqlite_on_a_cluster(settings.master, connections.database_url)
    module = load(settings, folder)
    store = open_store(connections.database_url)
    log_of_kafka = KafkaLog(connections.kafka)
    session = build_session(
        app_name,
        settings.master,
        {**_elastic(settings.driver), **settings.spark},
        {name: settings.of_use_case(name).priority for name in module.use_cases},
    )
    letters = KafkaDeadLettersFactory()
    traces = tracing.opened("headrace-driver")
    tools = Tools(
        connections, KafkaReaderFactory(), SqlPositionsFactory(), letters, traces is not None
    )
    engine = SparkEngine(session, tools)
    dead_letters = letters.open(connections)
    mirror = mirror_of(settings.driver, connections)
    parts = Parts(
        store, log_of_kafka, engine, dead_letters, SystemClock(), mirror, store.statistics
    )
    limits, slots = limits_of(settings.driver), slot_limits_of(settings.driver)
    driver = Driver(
        parts,
        uuid.uuid4().hex[:12],
        limits,
        slots,
        name=driver_name(settings),
        lease_s=settings.driver.lease,
    )
    driver.reporter.tracing = traces
    made = Assembly(driver, store, engine, connections, settings.driver.drain_timeout)
    try:
        _refuse_sqlite_on_a_cluster(session.sparkContext.master, connections.database_url)
        deploy(settings, module, store)
        wanted = {each.use_case: each for each in store.deployments()}
        for name, use_case in module.use_cases.items():
            made.take(use_case, wanted[name])
        engine.warm_up()
        calm_garbage_collection()
        yield made
    finally:
        driver.close()
        engine.close()
        dead_letters.close()
        log_of_kafka.close()
        store.close()
        session.stop()
        if traces is not None:
            traces.close()
        # What stays frozen is never freed, and libraries call it a leak when Python ends.
        gc.unfreeze()


def limits_of(settings: DriverSettings) -> Limits:
    """The planner's limits, as configured."""
    return Limits(
        bin_budget_s=settings.bin_budget,
        bins_per_wave=settings.bins_per_wave,
        slice_records=settings.slice_records,
        slice_bytes=settings.slice_bytes,
    )


def mirror_of(settings: DriverSettings, connections: Connections) -> GroupMirror | None:
    """Where positions are shown to other tools, if anywhere."""
    return GroupMirror(connections.kafka, settings.mirror_prefix) if settings.mirror else None


def slot_limits_of(settings: DriverSettings) -> SlotLimits | None:
    """Between how many slots to choose by load; None where their number is fixed.

    Raises:
        ConfigError: the least is more than the most.
    """
    if settings.most_slots is None:
        return None
    return SlotLimits(
        settings.least_slots, settings.most_slots, settings.target_delay, settings.bin_budget
    )


def _elastic(settings: DriverSettings) -> dict[str, str]:
    if settings.most_slots is None:
        return {}
    return elastic_options(settings.least_slots, settings.most_slots)


def _refuse_sqlite_on_a_cluster(master: str | None, database_url: str) -> None:
    """``master`` is None as long as only ``spark-submit`` knows it."""
    if database_url.startswith("sqlite") and master and not on_this_machine(master):
        raise ConfigError(
            f"the store is SQLite, which lives on one machine, but the master is "
            f"{master}: name a PostgreSQL store (postgresql+psycopg://...)"
        )
