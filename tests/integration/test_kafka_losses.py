"""Records that a real Kafka lost, under a driver that runs: told exactly, and nobody else's matter.

The engine is the fake, which runs the real task code with the real reader; there is no Spark here.
"""

import time
import uuid

import pyarrow as pa
import pytest

from headrace.connectors.kafka import KafkaLog, KafkaReaderFactory
from headrace.connectors.kafka.rounds import FetchTimeouts
from headrace.cycle.clock import SystemClock
from headrace.cycle.driver import Driver, DriverParts
from headrace.model.lane_names import number_of
from headrace.model.plans import Limits
from headrace.model.records import Deployment, FailureState
from headrace.model.streams import DataLossPolicy, StreamId, Tenant
from headrace.ports import Connections
from headrace.sinks import ParquetFiles
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.kafka_topics import KafkaTopics
from headrace.testing.log_contract.rows import numbered
from headrace.use_cases import use_case

pytestmark = pytest.mark.kafka
FAIL, SKIP = DataLossPolicy.FAIL, DataLossPolicy.SKIP
ACME = StreamId("keep", "acme")


class Service:
    """A driver of two tenants on a real cluster: acme, and bolt, whom nothing happens to."""

    def __init__(self, folder, topics, policy):
        self.topics = topics
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self.seen = {"acme": [], "bolt": []}
        url = f"sqlite:///{folder}/store.db"
        connections = Connections(topics.config, url, warehouse=str(folder))
        self.store = open_store(url)
        self.log = KafkaLog(topics.config)
        self.engine = InProcessEngine(
            connections,
            KafkaReaderFactory(FetchTimeouts(idle_s=3.0, look_s=0.2)),
            SqlPositionsFactory(),
            MemoryDeadLetters(),
        )
        keep = use_case(
            topic=f"{{tenant}}.{self.name}",
            sink=ParquetFiles("out"),
            name="keep",
            guarantee="at-least-once",
        )(self.note)
        deployment = Deployment("keep", "m.py", "0" * 64, keep.topic, data_loss=policy)
        self.store.registry.deploy(deployment)
        for tenant in self.seen:
            topics.make_named(self.topic(tenant))
            self.store.registry.add_tenant(Tenant(tenant))
        parts = DriverParts(self.store, self.log, self.engine, MemoryDeadLetters(), SystemClock())
        self.driver = Driver(parts, "run1", Limits())
        self.engine.take(keep, deployment)
        self.driver.take(keep, deployment)

    def topic(self, tenant):
        return f"{tenant}.{self.name}"

    def note(self, table, context):
        lanes = table["partition"].to_pylist()
        self.seen[context.tenant] += zip(lanes, table["offset"].to_pylist(), strict=True)
        return pa.table({"offset": table["offset"]})

    def send(self, tenant, records, partition=0):
        self.topics.write(self.topic(tenant), partition, numbered(records))

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

    def planned_and_then(self, change):
        """Do something to acme's topic while a slice of it is on its way to the reader."""
        self.engine.paused = True
        self.until(lambda: self.engine.started and self.engine.started[-1].id in self.flights)
        change()
        self.engine.paused = False

    @property
    def flights(self):
        return self.driver.board.flights

    def bolt_is_undisturbed(self, sent=3):
        self.send("bolt", 2)
        self.until(lambda: len(self.seen["bolt"]) == sent + 2)
        assert self.seen["bolt"] == [(0, offset) for offset in range(sent + 2)]
        assert self.store.failures.every(StreamId("keep", "bolt")) == []

    def close(self):
        self.engine.close()
        self.log.close()
        self.store.close()


@pytest.fixture
def service(tmp_path, kafka):
    made = []

    def make(policy):
        service = Service(tmp_path, KafkaTopics(kafka.bootstrap_servers), policy)
        made.append(service)
        service.send("acme", 5)
        service.send("bolt", 3)
        service.until(lambda: len(service.seen["acme"]) == 5 and len(service.seen["bolt"]) == 3)
        return service

    yield make
    for driver in made:
        driver.close()


def expired(service):
    """Three records of acme that retention takes between plan and read, and two that stay."""

    def expire():
        service.topics.expire(service.topic("acme"), 0, 8)

    service.send("acme", 5)
    service.planned_and_then(expire)


def made_again(service, partitions=1):
    service.topics.delete(service.topic("acme"))
    service.topics = KafkaTopics(service.topics.config["bootstrap.servers"])
    service.topics.make_named(service.topic("acme"), partitions)
    service.send("acme", 3)


def test_what_retention_took_under_a_running_driver_is_skipped_by_exact_offsets(service):
    running = service(SKIP)
    expired(running)
    running.until(lambda: len(running.seen["acme"]) == 7)
    assert running.seen["acme"][5:] == [(0, 8), (0, 9)]
    assert running.notes() == [(0, 5, 8)]
    running.bolt_is_undisturbed()


def test_what_retention_took_under_a_running_driver_suspends_its_stream_with_the_offsets(service):
    running = service(FAIL)
    expired(running)
    running.until(lambda: running.stream().reason is not None)
    assert f"{running.topic('acme')}[0] lost offsets 5..8 to retention" in running.stream().reason
    assert len(running.seen["acme"]) == 5
    running.bolt_is_undisturbed()


def test_a_topic_made_again_under_a_running_driver_is_read_from_its_beginning(service):
    running = service(SKIP)
    made_again(running, partitions=2)
    running.send("acme", 2, partition=1)
    running.until(lambda: len(running.seen["acme"]) == 10)
    assert sorted(running.seen["acme"][5:]) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert running.notes() == [(0, 5, 5)]
    running.bolt_is_undisturbed()


def test_a_topic_made_again_under_a_running_driver_suspends_its_stream(service):
    running = service(FAIL)
    made_again(running)
    running.until(lambda: running.stream().reason is not None)
    assert "TopicRecreated" in running.stream().reason
    assert len(running.seen["acme"]) == 5
    running.bolt_is_undisturbed()


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_topic_deleted_under_a_task_is_waited_for_alone(service, policy):
    running = service(policy)
    running.send("acme", 1)
    running.planned_and_then(lambda: running.topics.delete(running.topic("acme")))
    running.until(
        lambda: any(row.stream == ACME and row.state == "waiting" for row in running.driver.rows())
    )
    assert running.store.failures.every(only_open=True) == []
    running.bolt_is_undisturbed()


def test_partitions_added_while_it_runs_are_read_from_their_beginning(service, monkeypatch):
    monkeypatch.setattr("headrace.cycle.topics.TOPICS_EVERY_S", 1.0)
    running = service(FAIL)
    running.topics.add_partitions(running.topic("acme"), 3)
    running.send("acme", 4, partition=2)
    running.until(lambda: len(running.seen["acme"]) == 9)
    assert running.seen["acme"][5:] == [(2, offset) for offset in range(4)]
    running.bolt_is_undisturbed()
