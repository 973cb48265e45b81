"""A stream of all customers divided among topics of theirs, on real servers, over reshards."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict

import pytest
from confluent_kafka.admin import AdminClient
from split_app import App

from headrace.connectors.kafka import create_topics
from headrace.model.streams import State, StreamId, Tenant
from headrace.splitting import ByField, split
from headrace.store import open_store
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = pytest.mark.kafka


class Service:
    """A stream of all, and its customers."""

    def __init__(self, kafka, kinesis, folder):
        self.servers, self.kinesis = kafka.bootstrap_servers, kinesis
        mark = uuid.uuid4().hex[:8]
        self.stream, self.url = f"all-{mark}", f"sqlite:///{folder}/store.db"
        self.names = [f"{name}-{mark}" for name in ("acme", "bolt", "corp")]
        self.topics, self.sent = KafkaTopics(self.servers), defaultdict(list)
        self.shards = kinesis.service()
        kinesis.client.create_stream(StreamName=self.stream, ShardCount=2)
        self.shards.settle(self.stream)
        store = open_store(self.url)
        for name in self.names:
            store.registry.add_tenant(Tenant(name))
        store.close()

    def make(self, *names):
        create_topics(self.topics.config, {f"{name}.visits": 2 for name in names})

    def send(self, rounds):
        """Some records of each customer under three keys."""
        for _ in range(rounds):
            for name in self.names:
                number = len(self.sent[name])
                key = f"{name}-{number % 3}"
                value = json.dumps({"customer": name, "number": number}).encode()
                self.sent[name].append((key.encode(), value))
                self.kinesis.client.put_record(StreamName=self.stream, Data=value, PartitionKey=key)

    def split(self):
        """Split the open shard with the lowest keys."""
        one = self._open[0]
        middle = (one.keys.first + one.keys.last + 1) // 2
        self.shards.split(self.stream, one.number, middle)

    def merge(self):
        one, other = self._open[:2]
        self.shards.merge(self.stream, one.number, other.number)

    @property
    def _open(self):
        found = (one for one in self.shards.shards(self.stream) if not one.closed)
        return sorted(found, key=lambda one: one.keys)

    def app(self):
        made = split(
            topic=f"clicks:{self.stream}", to="{tenant}.visits", tenant=ByField("/customer")
        )
        return App(self.servers, self.url, made, others={"clicks": self.kinesis.server})

    def found(self, name, topic="visits"):
        there = AdminClient(self.topics.config).list_topics(timeout=10).topics
        name = f"{name}.{topic}"
        return self.topics.messages(name) if name in there else []

    def are_there(self, *names):
        return all(len(self.found(name)) >= len(self.sent[name]) for name in names)

    def judge(self, *names):
        """Each record once, as it was, and those of a key in their order."""
        for name in names or self.names:
            told = [(one.key(), one.value()) for one in self.found(name)]
            assert sorted(told) == sorted(self.sent[name]), name
            for key in {key for key, _ in told}:
                own = [row for row in told if row[0] == key]
                assert own == [row for row in self.sent[name] if row[0] == key], (name, key)


@pytest.fixture
def service(kafka, kinesis, tmp_path):
    made = Service(kafka, kinesis, tmp_path)
    yield made
    kinesis.client.delete_stream(StreamName=made.stream)


def test_each_customer_has_its_records_once_and_in_order_over_reshards_and_a_lost_attempt(service):
    acme, *others = service.names
    service.make(*others)
    service.send(20)
    lost = service.app()
    # What it sends stands in Kafka, and nobody comes to know of it.
    lost.turns_until(lambda: any(service.found(name) for name in others))
    lost.close()
    service.split()
    service.send(20)
    app = service.app()
    app.turns_until(lambda: service.are_there(*others))
    service.judge(*others)
    parked = StreamId("split-parked", acme)
    app.turns_until(lambda: f"topic {acme}.visits: it is not there" in app.note(parked))
    service.merge()
    service.send(20)
    app.turns_until(lambda: service.are_there(*others))
    service.make(acme)
    app.store.registry.set_stream_state(parked, State.ACTIVE)
    service.send(10)
    app.turns_until(lambda: service.are_there(*service.names))
    app.close()
    service.judge()
    told = dict(service.found(others[0])[0].headers())
    assert told["headrace.split.lane"].decode().startswith(f"clicks:{service.stream}[")
    assert int(told["headrace.split.place"]) >= 0
