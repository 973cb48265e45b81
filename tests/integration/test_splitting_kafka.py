"""A shared topic divided among tenants' topics on a real Kafka, some of which refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)
from split_app import App, pair

from headrace.connectors.kafka import create_topics
from headrace.embedded import EmbeddedKafka
from headrace.model.streams import State, StreamId, Tenant
from headrace.process.crash_points import VARIABLE
from headrace.splitting import ByKey
from headrace.store import open_store
from headrace.store.known_tenants import KEPT_S
from headrace.testing.kafka_topics import KafkaTopics, until

pytestmark = pytest.mark.kafka
PARTITIONS = 3
BEGAN_MS = 1_700_000_000_000


class Service:
    """An operator's shared topic, and its customers."""

    def __init__(self, kafka, folder):
        self.servers = kafka.bootstrap_servers
        self.mark = uuid.uuid4().hex[:8]
        self.url = f"sqlite:///{folder}/store.db"
        self.shared, self.strangers = f"shared-{self.mark}", f"strangers-{self.mark}"
        self.names = [f"{name}-{self.mark}" for name in ("acme", "bolt", "corp")]
        self.topics = KafkaTopics(self.servers)
        create_topics(self.topics.config, {f"{self.shared}.all": PARTITIONS, self.strangers: 1})
        self.producer = Producer({**self.topics.config, "partitioner": "murmur2_random"})
        self.sent = defaultdict(list)
        with_store = open_store(self.url)
        for name in (self.shared, *self.names):
            with_store.registry.add_tenant(Tenant(name))
        with_store.close()

    def make(self, *names, **config):
        create_topics(
            self.topics.config, {f"{name}.visits": 2 for name in names}, topic_config=config
        )

    def send(self, rounds, size=10, names=None, topic=None):
        """Some records of each tenant under three keys, interleaved over all partitions."""
        for _ in range(rounds):
            for name in names or self.names:
                number = len(self.sent[name])
                key = f"{name}-{number % 3}".encode()
                value = b"%d " % number + os.urandom(size)
                self.sent[name].append((key, value, BEGAN_MS + number))
                self.producer.produce(
                    topic or f"{self.shared}.all",
                    value,
                    key,
                    timestamp=BEGAN_MS + number,
                    headers=[("customer", name.encode()), ("headrace.split.place", b"7")],
                )
            self.producer.poll(0)
        assert self.producer.flush(30) == 0

    def takes(self, value, key, **said):
        """Whether the shared topic takes this record."""
        told = []
        self.producer.produce(
            f"{self.shared}.all", value, key, on_delivery=lambda no, _: told.append(no), **said
        )
        assert self.producer.flush(30) == 0
        return told == [None]

    def app(self, **more):
        return App(self.servers, self.url, pair(self.mark, **more))

    def found(self, topic):
        return self.topics.messages(topic)

    def judge(self, *names):
        """Each record once, as it was, and those of a key in their order."""
        for name in names or self.names:
            found = self.found(f"{name}.visits")
            told = [(m.key(), m.value(), m.timestamp()[1]) for m in found]
            assert sorted(told) == sorted(self.sent[name]), name
            for key in {row[0] for row in told}:
                own = [row for row in told if row[0] == key]
                assert own == [row for row in self.sent[name] if row[0] == key], (name, key)
                assert len({m.partition() for m in found if m.key() == key}) == 1


LARGE = {"max.message.bytes": "20000000"}
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}


def test_a_record_of_a_time_to_come_holds_up_nobody_but_its_customer(service):
    """Its topic refuses that, as any does that is made without a word; the shared one may not."""
    acme, *others = service.names
    service.make(*service.names)
    _set(service, f"{service.shared}.all", ANY_TIME)
    to_come = {"timestamp": int((time.time() + 200_000) * 1000)}
    # What a topic takes is changed a moment after the answer that it is.
    until(lambda: service.takes(b"late", b"", headers=[("customer", acme.encode())], **to_come))
    service.send(60)
    app = service.app()
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    service.judge(*others)
    parked = service.found(f"{acme}.visits.split.parked")
    assert parked[0].value() == b"late"
    assert parked[0].timestamp()[1] == to_come["timestamp"]
    app.close()


@pytest.fixture
def service(kafka, tmp_path):
    return Service(kafka, tmp_path)


def _limit(service, topic, most_bytes):
    """Let a topic take no larger messages."""
    _set(service, topic, {"max.message.bytes": str(most_bytes)})


def _set(service, topic, config):
    admin = AdminClient(service.topics.config)
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def test_each_customer_has_its_records_once_in_order_and_as_they_were(service):
    service.make(*service.names)
    service.send(200)
    app = service.app()
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    app.close()
    service.judge()
    message = service.found(f"{service.names[0]}.visits")[0]
    names = [name for name, _ in message.headers()]
    assert names == ["customer", "headrace.split.lane", "headrace.split.place", "headrace.slice"]
    told = dict(message.headers())
    assert told["headrace.split.lane"].decode().startswith(f"{service.shared}.all[")
    assert told["headrace.split.place"] != b"7" or message.offset() == 7


def test_a_customer_without_a_topic_waits_alone_and_gets_all_in_order_later(service):
    acme, *others = service.names
    service.make(*others)
    service.send(100)
    app = service.app()
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    service.judge(*others)
    parked = StreamId("split-parked", acme)
    app.turns_until(lambda: f"topic {acme}.visits: it is not there" in app.note(parked))
    service.send(50)
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    service.make(acme)
    service.send(50)
    app.store.registry.set_stream_state(parked, State.ACTIVE)
    app.turns_until(
        lambda: app.is_done(service.shared, "split") and app.is_done(acme, "split-parked")
    )
    service.send(50)
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    app.close()
    service.judge()


def test_a_topic_that_takes_no_large_records_holds_up_nobody_else(service):
    acme, *others = service.names
    service.make(*service.names)
    _limit(service, f"{acme}.visits", 2_000)
    service.send(20)
    service.send(2, size=5_000)
    service.send(20)
    app = service.app()
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    service.judge(*others)
    _limit(service, f"{acme}.visits", 1_000_000)
    app.store.registry.set_stream_state(StreamId("split-parked", acme), State.ACTIVE)
    app.turns_until(lambda: app.is_done(acme, "split-parked"))
    app.close()
    service.judge()


def _widen(service, topic, partitions):
    admin = AdminClient(service.topics.config)
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result(30)


@pytest.mark.usefixtures("soon")
def test_what_comes_in_new_partitions_is_parked_in_new_ones_and_stays_in_order(service):
    acme, *others = service.names
    service.make(*others)
    service.send(20)
    app = service.app()
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    parked = f"{acme}.visits.split.parked"
    for topic, partitions in ((f"{service.shared}.all", 5), (parked, 7)):
        _widen(service, topic, partitions)
        # What was there before stays in its partition, whatever hash its key has by now.
        service.producer = Producer({**service.topics.config})
        for number in range(10):
            value = f"{topic} {number}".encode()
            service.sent[acme].append((b"new", value, BEGAN_MS + number))
            headers = [("customer", acme.encode())]
            more = {"partition": 4, "timestamp": BEGAN_MS + number, "headers": headers}
            service.producer.produce(f"{service.shared}.all", value, b"new", **more)
        assert service.producer.flush(30) == 0
        count = len(service.sent[acme])
        app.turns_until(lambda count=count: len(service.found(parked)) == count)
    assert {m.partition() for m in service.found(parked) if m.key() == b"new"} == {4}
    service.make(acme)
    app.store.registry.set_stream_state(StreamId("split-parked", acme), State.ACTIVE)
    app.turns_until(lambda: len(service.found(f"{acme}.visits")) == count)
    app.close()
    service.judge()


@pytest.mark.usefixtures("soon")
def test_keys_of_10_mb_go_through_or_wait_and_hold_up_nobody_else(service):
    acme, bolt, corp = service.names
    service.make(acme, corp, **{"max.message.bytes": "1000000"})
    service.make(bolt, **LARGE)
    _set(service, f"{service.shared}.all", LARGE)
    service.producer = Producer({**service.topics.config, "message.max.bytes": 20_000_000})
    service.send(10)
    key = os.urandom(10_000_000)  # which no compression makes smaller
    for name in (acme, bolt) * 2:
        row = (key, b"%d" % len(service.sent[name]), BEGAN_MS)
        # A limit holds a moment after the answer that it is.
        said = {"headers": [("customer", name.encode())], "timestamp": BEGAN_MS, "partition": 1}
        until(lambda row=row, said=said: service.takes(row[1], row[0], **said))
        service.sent[name].append(row)
    service.send(10)
    app = service.app()
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    service.judge(bolt, corp)
    parked = StreamId("split-parked", acme)
    app.turns_until(lambda: "too large" in app.note(parked))
    _set(service, f"{acme}.visits", LARGE)
    app.store.registry.set_stream_state(parked, State.ACTIVE)
    app.turns_until(lambda: app.is_done(acme, "split-parked"))
    app.close()
    service.judge()


def test_a_key_of_10_mb_that_is_to_name_a_customer_is_told_shortly_and_stops_its_partition(service):
    """Or, as the operator chose, is kept, and stops nobody."""
    service.make(*service.names)
    _set(service, f"{service.shared}.all", LARGE)
    service.producer = Producer({**service.topics.config, "message.max.bytes": 20_000_000})
    until(lambda: service.takes(b"", b"k" * 10_000_000, partition=1))
    for partition in range(PARTITIONS):
        for name in service.names:
            assert service.takes(b"1", name.encode(), partition=partition)
    app = service.app(tenant=ByKey(), unknown="refuse")
    app.turns_until(lambda: "is no tenant" in app.note(StreamId("split", service.shared)))
    assert len(app.note(StreamId("split", service.shared))) < 500
    app.turns_until(lambda: len(service.found(f"{service.names[0]}.visits")) == PARTITIONS - 1)
    app.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker that looks at rights: who has none on a topic that has some may not write there."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    rights = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}
    folder = tmp_path_factory.mktemp("guarded")
    with EmbeddedKafka(folder, quick_start=True, properties=rights) as broker:
        yield broker


def _allow(service, topic, *operations):
    rights = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    admin = AdminClient(service.topics.config)
    for done in admin.create_acls(rights).values():
        done.result(30)


def test_topics_that_may_not_be_written_to_hold_up_nobody_else(guarded, tmp_path):
    service = Service(guarded, tmp_path)
    *denied, corp = service.names
    service.make(*service.names)
    for name in denied:
        _allow(service, f"{name}.visits", AclOperation.DESCRIBE, AclOperation.READ)
    service.send(60)
    app = service.app()
    app.turns_until(lambda: app.is_done(service.shared, "split"))
    service.judge(corp)
    assert [len(service.found(f"{name}.visits")) for name in denied] == [0, 0]
    for name in denied:
        stream = StreamId("split-parked", name)
        app.turns_until(lambda stream=stream: "grant Write" in app.note(stream))
        _allow(service, f"{name}.visits", AclOperation.WRITE)
        app.store.registry.set_stream_state(stream, State.ACTIVE)
        app.turns_until(lambda name=name: app.is_done(name, "split-parked"))
    app.close()
    service.judge()


def test_two_shared_topics_for_the_same_customers_bring_each_record_once(service):
    acme, *others = service.names
    service.make(*others)
    shared = {f"split-{place}": f"{place}-{service.mark}" for place in ("eu", "us")}
    create_topics(service.topics.config, dict.fromkeys(shared.values(), PARTITIONS))
    pairs = [
        pair(service.mark, name=name, topic=topic, operator=None) for name, topic in shared.items()
    ]
    for topic in shared.values():
        service.send(30, topic=topic)
    app = App(service.servers, service.url, [made for two in pairs for made in two])
    app.turns_until(lambda: all(app.is_done("everyone", name) for name in shared))
    service.make(acme)
    for name in shared:
        app.store.registry.set_stream_state(StreamId(f"{name}-parked", acme), State.ACTIVE)
    app.turns_until(lambda: all(app.is_done(acme, f"{name}-parked") for name in shared))
    app.close()
    for name in service.names:
        found = [message.value() for message in service.found(f"{name}.visits")]
        assert sorted(found) == sorted(value for _, value, _ in service.sent[name]), name


@pytest.mark.parametrize("unknown", ["refuse", "dead-letter"])
def test_a_customer_who_is_removed_after_a_lost_attempt_costs_nobody_a_record_twice(
    service, unknown
):
    """Its records stand there; divided again they would be a stranger's, and stop the others'."""
    service.make(*service.names)
    service.send(10)
    app = service.app(unknown=unknown)
    app.turns_until(lambda: app.driver.board.flights)
    app.engine.finished(0)
    service.judge()
    app.close()
    store = open_store(service.url)
    store.registry.set_tenant_state(service.names[0], State.REMOVED)
    store.close()
    time.sleep(KEPT_S + 1)
    again = service.app(unknown=unknown)
    again.turns_until(lambda: again.is_done(service.shared, "split"))
    assert again.store.failures.every(only_open=True) == []
    assert again.store.progress.pending_intents() == []
    again.close()
    service.judge()
    there = AdminClient(service.topics.config).list_topics(timeout=10).topics
    assert f"{service.shared}.all.dlq" not in there


def test_killed_in_the_middle_of_a_slice_no_record_is_seen_twice(service, tmp_path):
    service.make(*service.names[1:])
    here = Path(__file__).parent
    command = [sys.executable, str(here / "split_app.py"), service.servers, service.url]
    for step in ("mid-write:2", "sink-written:2", "mid-commit:1", "mid-write:1"):
        service.send(100)
        stopped = tmp_path / step.replace(":", "-")
        environment = {**os.environ, VARIABLE: f"{step}:{stopped}"}
        process = subprocess.Popen([*command, service.mark], env=environment)
        deadline_s = time.monotonic() + 120
        while not (stopped.exists() and stopped.read_text()) and process.poll() is None:
            assert time.monotonic() < deadline_s, step
            time.sleep(0.05)
        assert process.poll() is None, f"it ended before {step}"
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert subprocess.run([*command, service.mark], timeout=120, check=False).returncode == 0
    service.judge(*service.names[1:])
    service.make(service.names[0])
    app = service.app()
    app.store.registry.set_stream_state(StreamId("split-parked", service.names[0]), State.ACTIVE)
    app.turns_until(lambda: app.is_done(service.names[0], "split-parked"))
    app.close()
    service.judge()
