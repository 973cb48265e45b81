"""Several who take each other for dead write by Kafka transactions, and several redrive at once.

Workers and operators are killed and put to sleep, answers to commits are lost on their way, and the
broker is killed. A reader of committed messages says what became of it.
"""

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from bad_line import BadLine
from matrix import ROW, SEEDS
from transfer_process import LANES, Table

from headrace.connectors.kafka import KafkaDeadLetters
from headrace.embedded import EmbeddedKafka
from headrace.embedded.addresses import HOST, free_ports
from headrace.errors import BrokerUnavailable
from headrace.testing.dead_letters_contract import letter
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = ROW
HERE = Path(__file__).parent
FOR_S = 60.0 * min(SEEDS, 10)
#: of Kafka's protocol, where a request says what it is: the end of a transaction
END_OF_TRANSACTION = b"\x00\x1a"


class DeafLine(BadLine):
    """A line that lets some commits through and is cut before they are answered."""

    chance = random.Random(7)
    lost = 0

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            if target.getpeername()[1] == self._server_port:
                source = Deaf(source, self)
        super()._pass_on(source, target)


class Deaf:
    """A connection that ends behind the end of a transaction, at times."""

    def __init__(self, connection, line):
        self._connection, self._line, self._over = connection, line, False

    def recv(self, size):
        if self._over:
            # The broker has it by now; its answer goes nowhere.
            time.sleep(0.05)
            self._line.lost += 1
            return b""
        piece = self._connection.recv(size)
        ends = piece[4:6] == END_OF_TRANSACTION
        self._over = ends and self._line.chance.random() < 0.05
        return piece

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def __hash__(self):
        return hash(self._connection)

    def __eq__(self, other):
        return self._connection == getattr(other, "_connection", other)


class Processes:
    """So many of a kind, each replaced when it has ended."""

    def __init__(self, log, count, program, *arguments):
        self._log, self._program, self._arguments = log, program, arguments
        self._started = 0
        self.alive = [self.start() for _ in range(count)]

    def start(self):
        self._started += 1
        command = [sys.executable, HERE / self._program, *self._arguments, str(self._started)]
        return subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def replace_ended(self):
        self.alive = [one if one.poll() is None else self.start() for one in self.alive]

    def end(self):
        for one in self.alive:
            one.kill()
            one.wait()


@pytest.fixture
def line(tmp_path):
    (port,) = free_ports(1)
    made = DeafLine(port)
    told = {"advertised.listeners": f"PLAINTEXT://{HOST}:{made.port}"}
    with EmbeddedKafka(tmp_path / "kafka", port=port, quick_start=True, properties=told) as broker:
        made.broker = broker
        yield made
    made.close()


def harass(kinds, line, more):
    """Kill, put to sleep, wake up, and kill the broker, until the time is over."""
    chance, asleep, done = random.Random(5), [], Counter()
    until_s = time.monotonic() + FOR_S
    broker_s = time.monotonic() + FOR_S / 3
    while time.monotonic() < until_s:
        time.sleep(0.5)
        for kind in kinds:
            kind.replace_ended()
            victim, fate = chance.choice(kind.alive), chance.random()
            if fate < 0.06:
                victim.kill()
                done["killed"] += 1
            elif fate < 0.2:
                victim.send_signal(signal.SIGSTOP)
                asleep.append((time.monotonic() + chance.choice([1, 4, 25]), victim))
                done["asleep"] += 1
        if chance.random() < 0.1:
            more()
        if time.monotonic() > broker_s:
            line.broker.kill()
            line.cut()
            line.broker.start()
            done["broker"] += 1
            broker_s += FOR_S / 3
        for wakes_s, sleeper in [*asleep]:
            if time.monotonic() > wakes_s:
                sleeper.send_signal(signal.SIGCONT)
                asleep.remove((wakes_s, sleeper))
    for _, sleeper in asleep:
        sleeper.send_signal(signal.SIGCONT)
    time.sleep(3.0)
    return done


def messages_of(topics, topic):
    """What is there once the broker answers, as it may just have come up."""
    until_s = time.monotonic() + 60.0
    while True:
        try:
            return topics.messages(topic)
        except BrokerUnavailable:
            if time.monotonic() > until_s:
                raise


def test_readers_of_committed_messages_see_each_once_and_in_order(line, tmp_path):
    servers = f"{HOST}:{line.port}"
    topics, table = KafkaTopics(servers), Table(tmp_path / "table.db")
    table.make()
    source, output = topics.make(LANES), topics.make()
    with (tmp_path / "log").open("wb") as log:
        workers = Processes(
            log, 3, "transfer_process.py", servers, tmp_path / "table.db", source, output
        )
        try:
            done = harass([workers], line, lambda: None)
        finally:
            workers.end()
    place, _ = table.due()
    seen = [message.value().decode() for message in messages_of(topics, output)]
    told = (line.lost, done["killed"], done["asleep"], done["broker"])
    assert place, told
    assert all(told), told
    for lane in range(LANES):
        offsets = [int(said.split(":")[1]) for said in seen if said.startswith(f"{lane}:")]
        # The last wave may be there already.
        assert offsets == list(range(len(offsets)))
        assert len(offsets) >= place


def test_letters_redriven_by_two_at_once_go_back_once(line, tmp_path):
    servers = f"{HOST}:{line.port}"
    topics = KafkaTopics(servers)
    topic = topics.make(2)
    kept = 0

    def keep():
        nonlocal kept
        with closing(KafkaDeadLetters(topics.config)) as letters:
            # The last ones once more, as a worker that knows nothing of the others.
            again = range(max(0, kept - 20), kept + 30)
            letters.keep([letter(topic, at, partition=at % 2, value=b"%d" % at) for at in again])
        kept += 30

    keep()
    with (tmp_path / "log").open("wb") as log:
        operators = Processes(log, 2, "redrive_process.py", servers, topic)
        try:
            done = harass([operators], line, keep)
        finally:
            operators.end()
        last = operators.start()
        assert last.wait(300) == 0
    told = (line.lost, done["killed"], done["asleep"], done["broker"])
    back = [(message.partition(), int(message.value())) for message in messages_of(topics, topic)]
    assert sorted(offset for _, offset in back) == list(range(kept))
    assert all(told), told
