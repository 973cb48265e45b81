"""Order over all partitions while one of three brokers answers nobody, and is given up then.

Each partition has one copy, on a broker of its own. The broker with the oldest record is stopped in
the middle of a run: first it hangs, and when its session is over its partition has no leader. The
engine is the fake, which runs the real task code with the real reader; there is no Spark here.
"""

import os
import signal
import time
from contextlib import contextmanager

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from matrix import note
from three_brokers import ThreeBrokers

from headrace.connectors.kafka import KafkaLog, KafkaReaderFactory, producer_config
from headrace.connectors.kafka.rounds import FetchTimeouts
from headrace.cycle.driver import Driver, DriverParts
from headrace.model.plans import Limits
from headrace.model.records import Deployment
from headrace.model.streams import Order, Tenant
from headrace.ports import Connections
from headrace.process.clock import SystemClock
from headrace.sinks import ParquetFiles
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.ledger import Found, Ledger, Place
from headrace.use_cases import use_case

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.matrix]
TOPIC, PARTITIONS = "acme.visits", 3
#: longer than a broker's session, so that it is seen to hang and to be given up
STOPPED_S = 14.0


class Service:
    """A driver of one tenant, turned by hand."""

    def __init__(self, folder, bootstrap_servers):
        self.config = {"bootstrap.servers": bootstrap_servers}
        self.ledger, self.sent, self.made = Ledger(), 0, []
        self.ledger.topic("acme", TOPIC)
        url = f"sqlite:///{folder}/store.db"
        self.store, self.log = open_store(url), KafkaLog(self.config)
        self.engine = InProcessEngine(
            Connections(self.config, url, warehouse=str(folder)),
            KafkaReaderFactory(FetchTimeouts(idle_s=3.0, look_s=0.2)),
            SqlPositionsFactory(),
            MemoryDeadLetters(),
        )
        self.producer = Producer(producer_config(self.config))
        parts = DriverParts(self.store, self.log, self.engine, MemoryDeadLetters(), SystemClock())
        self.driver = Driver(parts, "run1", Limits())
        self._deploy()

    def _deploy(self):
        copies = [[number + 1] for number in range(PARTITIONS)]
        topic = NewTopic(
            TOPIC, PARTITIONS, replica_assignment=copies, config={"min.insync.replicas": "1"}
        )
        admin = AdminClient(self.config)
        admin.create_topics([topic])[TOPIC].result(60)
        merge = use_case(
            topic="{tenant}.visits",
            sink=ParquetFiles("out"),
            name="merge",
            guarantee="at-least-once",
            order="stream",
        )(self.note)
        deployment = Deployment("merge", "m.py", "0" * 64, merge.topic, order=Order.STREAM)
        self.store.registry.deploy(deployment)
        self.store.registry.add_tenant(Tenant("acme"))
        self.engine.take(merge, deployment)
        self.driver.take(merge, deployment)

    def note(self, table, context):
        self.made += table.select(["timestamp", "partition", "offset"]).to_pylist()
        return pa.table({"offset": table["offset"]})

    def send(self, *partitions):
        """A record to each, one after the other, each a second younger than the one before."""
        for partition in partitions:
            self.sent += 1
            self.producer.produce(
                TOPIC,
                b"x",
                partition=partition,
                timestamp=1_000_000 + 1000 * self.sent,
                on_delivery=self._delivered,
            )
            assert self.producer.flush(60) == 0

    def _delivered(self, error, message):
        assert error is None, error
        self.ledger.acknowledged(Place(TOPIC, message.partition(), message.offset()))

    def turn_for(self, seconds):
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.driver.turn()

    def until_all_is_done(self):
        give_up_s = time.monotonic() + 120.0
        while len(self.made) < self.sent:
            assert time.monotonic() < give_up_s, (self.driver.rows(), len(self.made), self.sent)
            self.driver.turn()

    @property
    def verdict(self):
        places = [Place(TOPIC, record["partition"], record["offset"]) for record in self.made]
        return self.ledger.judge([Found("acme", place) for place in places])

    def close(self):
        self.engine.close()
        self.log.close()
        self.store.close()


@contextmanager
def stopped(broker):
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_a_broker_that_answers_nobody_lets_no_younger_record_past_its_own(tmp_path):
    with ThreeBrokers(tmp_path / "kafka") as cluster:
        service = Service(tmp_path, cluster.bootstrap_servers)
        for round_number in range(PARTITIONS):
            service.send(0, 1, 2, 2, 1, 0)
            service.until_all_is_done()
            before = len(service.made)
            others = [partition for partition in range(PARTITIONS) if partition != round_number]
            service.send(round_number, *others, round_number, *others)
            with stopped(cluster.brokers[round_number]):
                service.turn_for(STOPPED_S)
                assert len(service.made) == before
                (row,) = service.driver.rows()
                assert row.state == "waiting", row
            service.until_all_is_done()
        stamps = [record["timestamp"] for record in service.made]
        assert stamps == sorted(stamps)
        assert service.verdict.clean, str(service.verdict)
        note(
            "order stream, each of three brokers answers nobody for a while",
            {"repeats": service.verdict},
            faults=PARTITIONS,
            records=service.sent,
        )
        service.close()
