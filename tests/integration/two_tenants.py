"""A driver of two tenants on a real Kafka: acme, and bolt, whom nothing happens to.

The engine is the fake, which runs the real task code with the real reader; there is no Spark here.
"""

import time
import uuid

import pyarrow as pa

from headrace.connectors.kafka import KafkaLog, KafkaReaderFactory
from headrace.connectors.kafka.rounds import FetchTimeouts
from headrace.cycle.driver import Driver, DriverParts
from headrace.model.lane_names import number_of
from headrace.model.plans import Limits
from headrace.model.records import Deployment, FailureState
from headrace.model.streams import StreamId, Tenant
from headrace.ports import Connections
from headrace.process.clock import SystemClock
from headrace.sinks import ParquetFiles
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_contract.rows import numbered
from headrace.use_cases import use_case

ACME, BOLT = StreamId("keep", "acme"), StreamId("keep", "bolt")


class Service:
    """Its store, its topics, and the driver of the moment."""

    def __init__(self, folder, topics, partitions=1, **deployed):
        self.topics = topics
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self.seen = {"acme": [], "bolt": []}
        #: what handlers were told of what was passed over
        self.told = []
        url = f"sqlite:///{folder}/store.db"
        self.connections = Connections(topics.config, url, warehouse=str(folder))
        self.store = open_store(url)
        self.log = KafkaLog(topics.config)
        self.keep = use_case(
            topic=self.reads(),
            sink=ParquetFiles("out"),
            name="keep",
            guarantee="at-least-once",
        )(self.note)
        self.deployment = Deployment("keep", "m.py", "0" * 64, self.keep.topic, **deployed)
        self.store.registry.deploy(self.deployment)
        for tenant in self.seen:
            topics.make_named(self.topic(tenant), partitions)
            self.store.registry.add_tenant(Tenant(tenant))
        self.engines = []
        self.start()

    def start(self):
        """Another process of the driver; the one before does nothing any more."""
        self.engine = InProcessEngine(
            self.connections,
            KafkaReaderFactory(FetchTimeouts(idle_s=3.0, look_s=0.2)),
            SqlPositionsFactory(),
            MemoryDeadLetters(),
        )
        self.engines.append(self.engine)
        parts = DriverParts(self.store, self.log, self.engine, MemoryDeadLetters(), SystemClock())
        self.driver = Driver(parts, f"run{len(self.engines)}", Limits())
        self.engine.take(self.keep, self.deployment)
        self.driver.take(self.keep, self.deployment)

    def begin(self):
        """Both have read what was there first."""
        self.send("acme", 5)
        self.send("bolt", 3)
        self.until(lambda: len(self.seen["acme"]) == 5 and len(self.seen["bolt"]) == 3)

    def reads(self):
        return f"{{tenant}}.{self.name}"

    def topic(self, tenant):
        return f"{tenant}.{self.name}"

    def note(self, table, context):
        lanes = table["partition"].to_pylist()
        self.seen[context.tenant] += zip(lanes, table["offset"].to_pylist(), strict=True)
        self.told += [piece.passed_over for piece in context.slices if piece.passed_over]
        return pa.table({"offset": table["offset"]})

    def send(self, tenant, records, partition=0):
        # A client takes the time 0 for none, and says now.
        self.topics.write(self.topic(tenant), partition, numbered(records, first=1))

    def until(self, holds, deadline_s=90.0):
        give_up_s = time.monotonic() + deadline_s
        while not holds():
            rows = [(str(row.stream), row.state, row.note) for row in self.driver.rows()]
            assert time.monotonic() < give_up_s, f"it did not happen in time: {rows}"
            self.driver.turn()

    def stream(self):
        return next(stream for stream in self.store.registry.streams() if stream.id == ACME)

    def notes(self):
        return [
            (
                number_of(failure.slice.lane.name),
                failure.slice.from_offset,
                failure.slice.until_offset,
            )
            for failure in self.store.failures.every(ACME)
            if failure.state is FailureState.SKIPPED
        ]

    def slice_in_flight(self):
        """A slice is on its way to the reader, and stays there while the engine is paused."""
        self.engine.paused = True
        self.until(lambda: self.engine.started and self.engine.started[-1].id in self.flights)

    def planned_and_then(self, change):
        """Do something to acme's topic while a slice of it is on its way to the reader."""
        self.slice_in_flight()
        change()
        self.engine.paused = False

    @property
    def flights(self):
        return self.driver.board.flights

    def bolt_is_undisturbed(self, sent=3):
        self.send("bolt", 2)
        self.until(lambda: len(self.seen["bolt"]) == sent + 2)
        assert self.seen["bolt"] == [(0, offset) for offset in range(sent + 2)]
        assert self.store.failures.every(BOLT) == []

    def close(self):
        for engine in self.engines:
            engine.close()
        self.log.close()
        self.store.close()
