"""A message that its topic refuses, while a broker that hangs has messages of others in hand.

The client of Kafka numbers all of its messages anew when one of them fails for good. A broker knows
a message that comes again by its number, so what the one that hangs has in hand would come a second
time under another.
"""

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from three_brokers import ThreeBrokers

from headrace.connectors.kafka.ingest import Ingest
from headrace.errors import BrokerUnavailable, SinkRefused
from headrace.gateway.events import Event
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import KafkaTopic
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
VISITS, FORMS = "bolt.visits", "acme.forms"
#: one tenant's on the broker that hangs, and another one's that is compacted
SCORES = ("bolt.scores", "acme.scores")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with ThreeBrokers(tmp_path_factory.mktemp("brokers")) as made:
        alone = {"min.insync.replicas": "1"}
        # A topic that is compacted takes no record without a key.
        compacted = {**alone, "cleanup.policy": "compact"}
        topics = [
            *(
                NewTopic(topic, 1, replica_assignment=[[3]], config=alone)
                for topic in (VISITS, SCORES[0])
            ),
            *(
                NewTopic(topic, 1, replica_assignment=[[1]], config=compacted)
                for topic in (FORMS, SCORES[1])
            ),
        ]
        admin = AdminClient({"bootstrap.servers": made.bootstrap_servers})
        for future in admin.create_topics(topics).values():
            future.result(60)
        yield made


@contextmanager
def hanging(broker):
    """It answers nobody, until the block ends."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def values_until(brokers, topic, last):
    topics, give_up_s = KafkaTopics(brokers.bootstrap_servers), time.monotonic() + 60
    values = []
    while last not in values and time.monotonic() < give_up_s:
        values = [message.value() for message in topics.messages(topic)]
    return values


def test_what_one_topic_refuses_stores_nothing_of_another_twice(brokers):
    async def play():
        line = Ingest(
            {"bootstrap.servers": brokers.bootstrap_servers},
            delivery_timeout_s=2.0,
            most_bytes=1 << 20,
        )
        for topic in (VISITS, FORMS):
            await line.begin(topic, [Event(b"before", b"k", [])]).fates
        with hanging(brokers.brokers[2]):
            hung = line.begin(VISITS, [Event(b"once", b"k", [])])
            await hung.wait()
            (refused,) = await line.begin(FORMS, [Event(b"no key", None, [])]).fates
            (unknown,) = await asyncio.wait_for(hung.fates, 30)
        assert isinstance(refused, SinkRefused)
        assert isinstance(unknown, BrokerUnavailable)
        after = line.begin(VISITS, [Event(b"after", b"k", [])])
        await asyncio.wait_for(after.fates, 60)
        await line.begin(FORMS, [Event(b"after", b"k", [])]).fates
        await line.close()

    with ThreadPoolExecutor(1) as threads:  # a browser's tests leave a loop in this one
        threads.submit(asyncio.run, play()).result()
    values = values_until(brokers, VISITS, b"after")
    assert sorted(values) == [b"after", b"before", b"once"]


def effect(tenant, value, key):
    piece = Slice(LaneId("score", tenant, f"{tenant}.visits[0]"), f"{tenant}.visits", 0, 9, epoch=1)
    output = pa.table({"value": [value], "key": pa.array([key], pa.string())})
    return Effect((piece,), (9,), output, may_repeat=False)


def test_what_one_topic_refuses_makes_no_effect_of_at_most_once_twice(brokers):
    # A try has to end before its message is given up, as it does where a connection is cut.
    config = {"bootstrap.servers": brokers.bootstrap_servers, "socket.timeout.ms": "3000"}
    writer = KafkaTopic("{tenant}.scores").open(Site(Connections(config, ""), None))

    def write(*effects):
        return [outcome.error is None for outcome in writer.write(effects)]

    assert write(effect("bolt", "before", "k"), effect("acme", "before", "k")) == [True, True]
    goes_on = threading.Event()
    with hanging(brokers.brokers[2]):
        # Long enough for a try to end, and for another one to be begun.
        threading.Timer(6.0, goes_on.set).start()
        found = []
        writing = threading.Thread(
            target=lambda: found.extend(
                write(effect("bolt", "once", "k"), effect("acme", "no key", None))
            )
        )
        writing.start()
        assert goes_on.wait(30)
    writing.join(60)
    assert not found[1]
    assert write(effect("bolt", "after", "k")) == [True]
    values = values_until(brokers, SCORES[0], b"after")
    assert values.count(b"once") == 1
