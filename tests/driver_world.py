"""A driver on in-memory fakes: real store, planner and task code; no Kafka, Spark or waiting."""

from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from headrace.cycle.driver import Driver, DriverParts
from headrace.model.lane_names import number_of
from headrace.model.plans import Limits
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, StreamId, Tenant
from headrace.ports import Connections, Site
from headrace.sinks import ParquetFiles
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.at_once import at_once
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory, Row
from headrace.testing.wide_log import WideLog, WideReaderFactory
from headrace.use_cases import use_case

TOPIC = "{tenant}.visits"


@dataclass
class World:
    """Everything that outlives a driver, and the driver of the moment."""

    folder: object
    log: MemoryLog = field(default_factory=MemoryLog)
    clock: FakeClock = field(default_factory=FakeClock)
    lives: int = 0
    #: (tenant, offset) in the order in which handlers saw them
    seen: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        url = f"sqlite:///{self.folder}/store.db"
        self.store = open_store(url)
        self.connections = Connections(
            {}, url, warehouse=str(self.folder), seal_key=self.store.seal_key()
        )
        self.use_cases = [self.make()]
        self.driver = None
        self.dead_letters = MemoryDeadLetters()
        self.mirror = None
        self.statistics = None
        self.lease_mirror = None

    def make(self, handler=None, name="keep", sink=None, **options):
        def notes(table, context):
            self.seen.extend((context.tenant, offset) for offset in table["offset"].to_pylist())
            return pa.table({"offset": table["offset"]})

        chosen = {"topic": TOPIC, "guarantee": "at-least-once", **options}
        sink = sink or ParquetFiles("out")
        made = use_case(sink=sink, name=name, **chosen)(handler or notes)
        return made.within(self.connections.warehouse)

    def tenant(self, name, records=0, partitions=1):
        self.log.create_topic(f"{name}.visits", partitions)
        self.store.registry.add_tenant(Tenant(name))
        self.send(name, records)

    def send(self, name, records, partition=0):
        rows = [Row(b"x", timestamp_ms=int(self.clock.wall_s * 1000)) for _ in range(records)]
        if rows:
            self.log.append(f"{name}.visits", partition, rows)

    def deploy(self, **options):
        for case in self.use_cases:
            self.store.registry.deploy(
                Deployment(
                    case.name,
                    "m.py",
                    "0" * 64,
                    case.topic,
                    order=case.order,
                    buckets=case.divides_by,
                    bad_record=case.bad_record,
                    **options,
                )
            )

    def start(self, **chosen):
        """A new driver, as after a kill: nothing is left of the one before but store and log."""
        self.lives += 1
        self.engine = InProcessEngine(
            self.connections,
            self.readers(),
            SqlPositionsFactory(),
            self.dead_letters,
        )
        parts = DriverParts(
            self.store,
            self.log,
            self.engine,
            self.dead_letters,
            self.clock,
            self.mirror,
            self.statistics,
            self.lease_mirror,
        )
        chosen.setdefault("threads", at_once)
        self.driver = Driver(parts, f"run{self.lives}", Limits(), **chosen)
        self.driver.failing.chance = lambda: 0.5
        self.take()
        return self.driver

    def readers(self):
        """What reads the log."""
        wide = isinstance(self.log, WideLog)
        return WideReaderFactory(self.log) if wide else MemoryReaderFactory(self.log)

    def take(self):
        """Let the driver take its use cases as they are deployed."""
        for case in self.use_cases:
            deployment = next(
                d for d in self.store.registry.deployments() if d.use_case == case.name
            )
            self.engine.take(case, deployment)
            self.driver.take(case, deployment)

    def turns(self, count=6, seconds=0.1):
        for _ in range(count):
            self.driver.turn()
            self.clock.move(seconds)

    def killed_after_writing(self, **chosen):
        """A life that wrote its wave's effects and did not live to commit it."""
        self.start(**chosen)
        self.driver.turn()
        self.engine.finished(0)

    def site(self):
        return Site(self.connections, self.store.positions)

    def positions(self, use_case_name="keep"):
        found = {}
        for position in self.store.progress.load_positions():
            if position.lane.use_case == use_case_name:
                found[position.lane.tenant, number_of(position.lane.name)] = position.next_offset
        return found

    def row(self, tenant, use_case_name="keep"):
        stream = StreamId(use_case_name, tenant)
        return next(row for row in self.driver.rows() if row.stream == stream)

    def lane(self, tenant, partition=0):
        return LaneId("keep", tenant, f"{tenant}.visits[{partition}]")


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.store.close()
