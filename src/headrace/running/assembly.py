"""Making a running driver out of settings: the one place where real parts are wired together.

The cycle knows only ports. Here SQLAlchemy, Kafka and Spark are chosen, and the driver turns until
it is asked to stop.

Not here: what the YAML file names, and how a driver takes what is deployed (`deploying/`), what a
turn does (`cycle/`), and what the terminal shows (`cli/`).
"""

from __future__ import annotations

import gc
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from headrace.connectors.by_topic import LogByTopic, ReadersByTopic, open_lease_mirror, open_log
from headrace.connectors.kafka import GroupMirror, KafkaDeadLettersFactory
from headrace.connectors.schema_registry import RegistrySchemasFactory
from headrace.cycle.driver import Driver, DriverParts
from headrace.deploying.offer import (
    Source,
    check_without_servers,
    connections_of,
    deployed_use_case,
    driver_name,
    source_of,
    with_seal_key,
)
from headrace.deploying.starting import begin
from headrace.deploying.taking import Taking
from headrace.errors import ConfigError, HeadraceError
from headrace.model.plans import Limits
from headrace.policies.elasticity import SlotLimits
from headrace.policies.watchdog import loading_s
from headrace.ports import Connections, PositionsMirror, Server, Store
from headrace.process.clock import SystemClock
from headrace.process.daemon_threads import DaemonThreads
from headrace.process.memory import collect_apart
from headrace.running.draining import Draining
from headrace.settings import DriverSettings, Settings
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.spark.session import (
    build_session,
    elastic_options,
    on_this_machine,
    stop_session,
)
from headrace.store import SqlPositionsFactory, SqlTenantsFactory, open_store
from headrace.telemetry import tracing

log = structlog.get_logger(__name__)

#: seconds for giving back what it holds when it ends; a supervisor kills it 30 s after its drain
_LEAVE_S = 6.0


@dataclass(slots=True)
class Assembly:
    """A driver with its real parts."""

    driver: Driver
    store: Store
    engine: SparkEngine
    connections: Connections
    drain_timeout_s: float
    source: Source
    taking: Taking = field(init=False)
    #: no `threading.Event`: a signal that comes while another one sets it would wait for ever
    _is_asked_to_stop: bool = False

    def __post_init__(self) -> None:
        """Let it take what is deployed."""
        load = partial(deployed_use_case, source=self.source)
        self.taking = Taking(self.driver, self.connections, load)

    def stop(self) -> None:
        """Ask the loop to drain and end. Safe to call from a signal handler or another thread."""
        self._is_asked_to_stop = True

    def run(self, on_turn: Callable[[Driver], None] | None = None) -> bool:
        """Turn until asked to stop, then drain; True if everything in flight ended by itself.

        What nothing runs of is given back either way.
        """
        self.taking.start()
        try:
            clean = self._turn(on_turn)
        finally:
            self.taking.stop()
        self._leave()
        return clean

    def _turn(self, on_turn: Callable[[Driver], None] | None) -> bool:
        clock = self.driver.parts.clock
        draining: Draining | None = None
        while not self.driver.drained:
            now_s = clock.monotonic_s()
            if self._is_asked_to_stop and draining is None:
                draining = Draining(self.driver, now_s + self.drain_timeout_s)
                draining.begin(now_s)
                self.driver.drain()
            if draining is None:
                self.taking.swap()
            elif now_s > draining.ends_s:
                log.warning("drain took too long; what still runs is cancelled")
                self.driver.cancel_all()
                return False
            else:
                draining.poll(now_s)
            self.driver.turn()
            if on_turn is not None:
                on_turn(self.driver)
        return True

    def _leave(self) -> None:
        """Give back what it holds, as far as the store takes it in time.

        Whoever asked it to end waits for it, and the others notice its silence anyhow.
        """
        left = DaemonThreads(1, "leaving").submit(self.driver.leave)
        try:
            left.result(_LEAVE_S)
        except TimeoutError:
            log.warning(
                "leases could not be given back: the store does not answer",
                seconds=_LEAVE_S,
                why="the others take its streams over once its lease is over",
            )
        except HeadraceError as error:
            log.warning("leases could not be given back", error=str(error))


@contextmanager
def assembled(
    settings: Settings,
    folder: Path,
    app_name: str = "headrace",
    *,
    anew: bool = False,
    stay: bool = False,
) -> Iterator[Assembly]:
    """A driver on the servers that the settings name; everything is closed at the end.

    Args:
        settings: the YAML file.
        folder: where it is.
        app_name: what Spark calls it.
        anew: deploy the use cases of the file as they are now, also those that are deployed.
        stay: go on with what was deployed before, where that cannot be.

    Raises:
        ConfigError: something in the settings cannot be, such as SQLite with a cluster master.
        StoreTooNew: the store was written by a later version.
    """
    connections = connections_of(settings, folder)
    _refuse_sqlite_on_a_cluster(settings.master, connections.database_url, connections.servers)
    limits, slots = limits_of(settings.driver), slot_limits_of(settings.driver)
    with ExitStack() as stack:
        # What stays frozen is never freed, and libraries call it a leak when Python ends.
        stack.callback(gc.unfreeze)
        store = stack.enter_context(closing(open_store(connections.database_url)))
        before = {deployment.use_case for deployment in store.registry.deployments()}
        names = begin(settings, folder, store, anew=anew, stay=stay)
        connections = with_seal_key(connections, store)
        whole_log = stack.enter_context(closing(open_log(connections)))
        options = {**_elastic(settings.driver), **settings.spark}
        priorities = {name: settings.of_use_case(name).priority for name in names}
        session = build_session(app_name, settings.master, options, priorities)
        stack.callback(stop_session, session)
        _refuse_sqlite_on_a_cluster(
            session.sparkContext.master, connections.database_url, connections.servers
        )
        traces = tracing.opened("headrace-driver")
        if traces is not None:
            stack.callback(traces.close)
        letters = KafkaDeadLettersFactory()
        tools = TaskTools(
            connections,
            ReadersByTopic(),
            SqlPositionsFactory(),
            letters,
            RegistrySchemasFactory(),
            SqlTenantsFactory(),
            traced=traces is not None,
        )
        engine = stack.enter_context(closing(SparkEngine(session, tools)))
        dead_letters = stack.enter_context(closing(letters.open(connections)))
        mirrors = mirrors_of(settings.driver, connections, whole_log)
        for mirror in mirrors:
            if mirror is not None:
                stack.callback(mirror.close)
        groups, leases = mirrors
        parts = DriverParts(
            store, whole_log, engine, dead_letters, SystemClock(), groups, store.statistics, leases
        )
        name, lease_s = driver_name(settings), settings.driver.lease
        driver = Driver(
            parts,
            uuid.uuid4().hex[:12],
            limits,
            slots,
            name=name,
            lease_s=lease_s,
            load_s=loading_s(settings.deploy_timeout),
            bounds=settings.paces(),
            own_servers=connections.own_servers,
        )
        stack.enter_context(closing(driver))
        driver.reporter.tracing = traces
        source, drain_timeout_s = source_of(settings, folder), settings.driver.drain_timeout
        made = Assembly(driver, store, engine, connections, drain_timeout_s, source)
        made.taking.poll(names)
        made.taking.swap()
        made.taking.refuse_idleness(may_wait=bool(before & names))
        engine.warm_up()
        collect_apart()
        yield made


def refuse_early(settings: Settings, folder: Path, database_url: str) -> None:
    """Refuse what needs no server to be seen wrong.

    Args:
        settings: the YAML file.
        folder: where it is.
        database_url: the store that there will be.

    Raises:
        ConfigError: why.
    """
    _refuse_sqlite_on_a_cluster(settings.master, database_url, settings.servers())
    slot_limits_of(settings.driver)
    check_without_servers(settings, folder)


def limits_of(settings: DriverSettings) -> Limits:
    """The planner's limits, as configured."""
    return Limits(
        bin_budget_s=settings.bin_budget,
        bins_per_wave=settings.bins_per_wave,
        slice_records=settings.slice_records,
        slice_bytes=settings.slice_bytes,
    )


def mirrors_of(
    settings: DriverSettings, connections: Connections, whole_log: LogByTopic
) -> tuple[PositionsMirror | None, PositionsMirror | None]:
    """Where positions in Kafka are shown to other tools, if anywhere, and where those in Kinesis.

    Raises:
        ConfigError: a connection is not there, or is none of DynamoDB.
    """
    groups, leases = None, None
    if settings.mirror:
        groups = GroupMirror(connections.kafka, settings.mirror_prefix)
    if settings.mirror_leases is not None:
        at, prefix = settings.mirror_leases, settings.mirror_prefix
        leases = open_lease_mirror(whole_log, connections, at, prefix)
    return groups, leases


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


def _refuse_sqlite_on_a_cluster(
    master: str | None, database_url: str, servers: Mapping[str, Server]
) -> None:
    """``master`` is None as long as only ``spark-submit`` knows it."""
    if not master or on_this_machine(master):
        return
    urls = {"the store": database_url}
    urls |= {f"connection {name}": server.url for name, server in servers.items()}
    for whose, url in urls.items():
        if url.startswith("sqlite"):
            raise ConfigError(
                f"{whose} is SQLite, which lives on one machine, but the master is {master}: "
                "name a PostgreSQL database (postgresql+psycopg://...)"
            )
