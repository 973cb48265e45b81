"""Gateway and broker are killed while senders post: what was acknowledged is in Kafka.

A sender that got no answer sends the same again with the same Idempotency-Key, as senders should.
A killed gateway has forgotten the key, so a record may be there twice then; its header tells.
"""

import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from door_process import until
from gateway_process import GatewayProcess
from headrace.connectors.kafka import create_topics
from headrace.embedded import EmbeddedKafka
from headrace.embedded.addresses import free_ports
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
SENDERS = 4
BATCH = 20
#: acknowledged events between two kills
ENOUGH = 400


@pytest.fixture
def kafka(tmp_path):
    """A broker of its own that comes back at the same address."""
    (port,) = free_ports(1)
    with EmbeddedKafka(tmp_path / "kafka", port, quick_start=True) as made:
        yield made


@pytest.fixture
def gateway(kafka, tmp_path):
    settings = {"delivery_timeout": "5s", "rate": {"records_per_s": None, "bytes_per_s": None}}
    made = GatewayProcess(tmp_path / "gateway", kafka.bootstrap_servers, "kills", settings=settings)
    create_topics({"bootstrap.servers": kafka.bootstrap_servers}, {made.topic(): 3})
    with made:
        yield made


class Senders:
    """Some who post without end, and never take an answer for more than it says."""

    def __init__(self, gateway):
        self._gateway = gateway
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(SENDERS)
        #: by value: where the answer said that it is
        self.acknowledged = {}
        #: values of which no answer said anything
        self.unanswered = 0

    def __enter__(self):
        self._running = [self._pool.submit(self._send, number) for number in range(SENDERS)]
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._pool.shutdown()
        for sending in self._running:
            sending.result()

    def _send(self, sender):
        number = 0
        while not self._ended.is_set():
            values = [f"{sender}-{number}-{n}" for n in range(BATCH)]
            self._until_acknowledged(values, f"{sender}-{number}")
            number += 1

    def _until_acknowledged(self, values, key):
        with self._gateway.client() as client:
            for _ in range(200):
                try:
                    answer = client.post(
                        "/v1/events/visit", json=values, headers={"Idempotency-Key": key}
                    )
                except httpx.TransportError:
                    self.unanswered += 1
                    time.sleep(0.1)
                    continue
                self._note(values, answer)
                if answer.status_code == 202 or self._ended.is_set():
                    return
                assert answer.status_code in (207, 409, 503), answer.text
                time.sleep(0.1)
        raise AssertionError("never acknowledged")

    def _note(self, values, answer):
        told = answer.json()
        for value, item in zip(values, told.get("items", []), strict=False):
            if item["status"] == 202:
                place = (told["topic"], item["partition"], item["offset"])
                self.acknowledged[f'"{value}"'.encode()] = place

    def more(self, what):
        """Wait until so many more are acknowledged."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) >= before + ENOUGH, what, 120)


def judged(gateway, senders):
    """Every acknowledged event is where it was said to be; returns how often each is there."""
    found = {}
    often = defaultdict(list)
    for message in KafkaTopics(gateway.bootstrap_servers).messages(gateway.topic()):
        found[(message.topic(), message.partition(), message.offset())] = message.value()
        often[message.value()].append(dict(message.headers())["idempotency-key"])
    lost = [value for value, place in senders.acknowledged.items() if found.get(place) != value]
    assert senders.acknowledged
    assert lost == []
    for keys in often.values():
        assert len(set(keys)) == 1, "whoever reads one twice cannot tell"
    return often


def test_no_acknowledged_event_is_lost_when_the_gateway_is_killed(gateway):
    with Senders(gateway) as senders:
        for _ in range(2):
            senders.more(gateway.log)
            gateway.kill()
            gateway.start()
        senders.more(gateway.log)
    assert senders.unanswered > 0, "the kills hit nobody"
    judged(gateway, senders)


def test_no_acknowledged_event_is_lost_when_the_broker_is_killed(gateway, kafka):
    with Senders(gateway) as senders:
        for _ in range(2):
            senders.more(gateway.log)
            kafka.kill()
            kafka.start()
        senders.more(gateway.log)
    judged(gateway, senders)
    assert gateway.stop() == 0
