"""Every way into and out of the quarantine, by the commands a person types.

One service runs for all tests: real Kafka, real Spark, and for each transition a use case of its
own, so that none meets what another left behind.
"""

import os
import re
import signal
import sqlite3
import time

import pytest
from confluent_kafka import Consumer, Producer
from service import Service

from headrace.connectors.kafka import create_topics, producer_config

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

SOURCE = """
import os
import time
from pathlib import Path

import pyarrow as pa
from headrace import use_case
from headrace.sinks import SqlTable

VERSION = {version}
SEEN = SqlTable(
    "seen",
    columns={{"use_case": "text", "tenant": "text", "value": "text", "version": "bigint"}},
)


def rows(table, context):
    values = [value.decode() for value in table["value"].to_pylist()]
    count = len(values)
    return pa.table({{
        "use_case": pa.array([context.use_case] * count, pa.string()),
        "tenant": pa.array([context.tenant] * count, pa.string()),
        "value": pa.array(values, pa.string()),
        "version": pa.array([VERSION] * count, pa.int64()),
    }})


def made(name, topic, refuse, **options):
    def handler(table, context):
        for row, value in enumerate(table["value"].to_pylist()):
            refuse(row, value, context)
        return rows(table, context)

    given = {{"sink": SEEN, "guarantee": "exactly-once", **options}}
    return use_case(name=name, topic="{{tenant}}." + topic + "-{uid}", **given)(handler)


def bad(row, value, context):
    if value.startswith(b"bad") and VERSION == 1:
        raise context.bad_record(row, "not " + value.decode())


def nothing(_row, _value, _context):
    pass


def hangs(_row, value, _context):
    if value == b"hang":
        time.sleep(600)


def exits(_row, value, _context):
    if value == b"exit":
        os._exit(3)


def needs_a_server(_row, value, _context):
    if value == b"needy" and not Path({folder!r}, "server-is-up").exists():
        raise ConnectionError("no server")


strict = made("strict", "strict", bad)
lenient = made("lenient", "shared", bad, bad_record="dead-letter")
other = made("other", "shared", nothing)
fragile = made("fragile", "fragile", bad, bad_record="fail")
hanging = made("hanging", "hanging", hangs)
deadly = made("deadly", "deadly", exits)
needy = made("needy", "needy", needs_a_server)
"""
SETTINGS = """
use_cases:
  hanging: {handler_timeout: 1s, retries: 0}
  deadly: {retries: 0}
  needy: {retries: 100}
"""


class Ward(Service):
    """A running service with a use case for each transition."""

    def __init__(self, folder, bootstrap_servers):
        self.uid = f"{time.time_ns()}"
        super().__init__(folder, bootstrap_servers, self.uid)
        with (folder / "headrace.yaml").open("a") as yaml:
            yaml.write(SETTINGS)

    def write(self, version):
        source = SOURCE.format(version=version, uid=self.uid, folder=str(self.folder))
        (self.folder / "use_cases.py").write_text(source)

    def ok(self, *words):
        done = self.headrace(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self):
        self.process = self.run()

    def kill(self):
        """As kill -9 does, with the JVM and all workers: the session is the service's own."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def topic_of(self, tenant, topic):
        return f"{tenant}.{topic}-{self.uid}"

    def put(self, tenant, topic, *values, **more):
        producer = Producer(producer_config(self.config))
        for value in values:
            producer.produce(self.topic_of(tenant, topic), value, partition=0, **more)
        assert producer.flush(30) == 0

    def done(self, use_case, tenant=None):
        """What a use case did, in order."""
        found = self.seen()
        return [row[2] for row in found if row[0] == use_case and tenant in (None, row[1])]

    def seen(self):
        return self.query("SELECT use_case, tenant, value, version FROM seen ORDER BY rowid")

    def query(self, sql):
        try:
            connection = sqlite3.connect(f"file:{self.folder}/store.db?mode=ro", uri=True)
            try:
                return connection.execute(sql).fetchall()
            finally:
                connection.close()
        except sqlite3.OperationalError:
            return []

    def until_true(self, what, condition, timeout_s=90.0):
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            assert time.monotonic() < deadline, f"{what}\n{self.seen()}\n{self.log.read_text()}"
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        return found

    def until_done(self, use_case, tenant, *values):
        self.until_true(
            f"{use_case} of {tenant} is to have done {values}",
            lambda: self.done(use_case, tenant) == list(values),
        )

    def stopped(self, use_case, tenant, times=1):
        """The number of the open failure of a stream, once there is one that came so often."""
        sql = (
            "SELECT max(id) FROM headrace_failures WHERE state = 'open' "
            f"AND use_case = '{use_case}' AND tenant = '{tenant}' AND times >= {times}"
        )
        found = self.until_true(
            f"{use_case} of {tenant} is to be stopped",
            lambda: [row for row in self.query(sql) if row[0] is not None],
        )
        return found[0][0]

    def messages(self, topic, count):
        consumer = Consumer(
            {
                **self.config,
                "group.id": f"reader-{time.time_ns()}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found, deadline = [], time.monotonic() + 60
        try:
            while len(found) < count:
                assert time.monotonic() < deadline, found
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    found.append(message)
        finally:
            consumer.close()
        return found


@pytest.fixture(scope="module")
def ward(tmp_path_factory, kafka):
    made = Ward(tmp_path_factory.mktemp("ward"), kafka.bootstrap_servers)
    topics = ("strict", "shared", "fragile", "hanging", "deadly", "needy")
    create_topics(
        made.config,
        {made.topic_of(tenant, topic): 1 for tenant in ("acme", "bolt") for topic in topics},
    )
    made.ok("use-cases", "deploy")
    for tenant in ("acme", "bolt"):
        made.ok("tenants", "add", tenant)
    made.start()
    yield made
    if made.process.poll() is None:
        made.kill()


def test_a_bad_record_stops_its_lane_alone_until_a_person_decides(ward):
    ward.put("acme", "strict", b"a", b"bad", b"b")
    ward.put("bolt", "strict", b"x")
    number = ward.stopped("strict", "acme")
    ward.until_done("strict", "bolt", "x")
    assert ward.done("strict", "acme") == ["a"]
    listed = ward.ok("quarantine", "list")
    assert re.search(rf"^\s*{number}\s+acme/strict\s+0\s+1\b.*not bad", listed, re.MULTILINE)
    shown = ward.ok("quarantine", "show", str(number))
    assert "BadRecord" in shown
    assert "offset 1" in shown
    assert "bad" in shown

    ward.ok("quarantine", "retry", str(number))
    again = ward.stopped("strict", "acme", times=2)
    assert again == number
    assert ward.done("strict", "acme") == ["a"]

    ward.ok("quarantine", "skip", str(again), "--yes")
    ward.until_done("strict", "acme", "a", "b")
    ward.put("acme", "strict", b"c")
    ward.until_done("strict", "acme", "a", "b", "c")
    refused = ward.headrace("quarantine", "skip", str(again), "--yes")
    assert refused.returncode == 2
    assert "not open any more" in refused.stderr


def test_fail_stops_the_use_case_for_all_until_it_is_resumed(ward):
    ward.put("acme", "fragile", b"a", b"bad")
    number = ward.stopped("fragile", "acme")
    ward.put("bolt", "fragile", b"x")
    ward.put("bolt", "strict", b"y")
    ward.until_true("others go on", lambda: "y" in ward.done("strict", "bolt"))
    assert ward.done("fragile") == ["a"]
    assert "suspended" in ward.ok("streams", "list")

    ward.ok("quarantine", "skip", str(number), "--yes")
    assert "resumed: 2" in ward.ok("use-cases", "resume", "fragile")
    ward.until_done("fragile", "bolt", "x")
    ward.put("acme", "fragile", b"b")
    ward.until_done("fragile", "acme", "a", "b")


def test_a_handler_that_hangs_is_suspended_and_the_others_are_served(ward):
    ward.put("acme", "hanging", b"a", b"hang", b"b")
    ward.put("bolt", "hanging", b"x")
    number = ward.stopped("hanging", "acme")
    assert ward.done("hanging", "acme") == ["a"]
    ward.until_done("hanging", "bolt", "x")
    shown = ward.ok("quarantine", "show", str(number))
    assert "HandlerHung" in shown
    assert "offset 1" in shown
    ward.put("bolt", "hanging", b"y")
    ward.until_done("hanging", "bolt", "x", "y")


def test_a_handler_that_kills_its_worker_is_found_and_the_others_are_served(ward):
    ward.put("acme", "deadly", b"a", b"exit", b"b")
    ward.put("bolt", "deadly", b"x")
    number = ward.stopped("deadly", "acme")
    assert ward.done("deadly", "acme") == ["a"]
    ward.until_done("deadly", "bolt", "x")
    shown = ward.ok("quarantine", "show", str(number))
    assert "WorkerKilled" in shown
    assert "offset 1" in shown
    ward.ok("quarantine", "skip", str(number), "--yes")
    ward.until_done("deadly", "acme", "a", "b")


def test_a_driver_killed_while_a_lane_is_retried_goes_on_as_it_was(ward):
    ward.put("acme", "strict", b"bad-before-the-kill")
    number = ward.stopped("strict", "acme")
    done_before = ward.done("strict", "acme")
    ward.put("acme", "needy", b"a", b"needy", b"b")
    retried = f"{ward.topic_of('acme', 'needy')}[0] 1.."

    def held_back():
        return [line for line in ward.log.read_text().splitlines() if retried in line]

    ward.until_true("the lane is retried", held_back)
    ward.kill()
    tries = len(held_back())
    ward.start()
    ward.until_true("it is retried again", lambda: len(held_back()) > tries)
    assert ward.done("needy", "acme") == ["a"]
    assert ward.stopped("strict", "acme") == number
    assert ward.done("strict", "acme") == done_before

    (ward.folder / "server-is-up").touch()
    ward.until_done("needy", "acme", "a", "needy", "b")
    listed = ward.ok("quarantine", "list")
    assert "needy" not in listed


def test_a_dead_letter_keeps_its_bytes_and_is_sent_back_for_its_use_case_alone(ward):
    headers = [("trace", b"\x00\x01"), ("empty", None), ("trace", b"second")]
    ward.put("acme", "shared", b"a")
    ward.put("acme", "shared", b"bad", key=b"\xffkey", headers=headers)
    ward.put("acme", "shared", b"b")
    ward.until_done("lenient", "acme", "a", "b")
    ward.until_done("other", "acme", "a", "bad", "b")
    (letter,) = ward.messages(f"{ward.topic_of('acme', 'shared')}.dlq", 1)
    assert (letter.key(), letter.value()) == (b"\xffkey", b"bad")
    assert [header for header in letter.headers() if not header[0].startswith("__")][:3] == headers
    names = {name for name, _ in letter.headers()}
    assert {"__connect.errors.topic", "__connect.errors.offset"} <= names

    ward.write(version=2)
    ward.ok("use-cases", "deploy", "lenient")
    ward.until_true("it is taken over", lambda: "use case taken over" in ward.log.read_text())
    assert "1, refused" in ward.ok("quarantine", "redrive", "acme/lenient", "--yes")
    ward.until_done("lenient", "acme", "a", "b", "bad")
    assert ("lenient", "acme", "bad", 2) in ward.seen()
    assert "0, refused" in ward.ok("quarantine", "redrive", "acme/lenient", "--yes")
    ward.put("acme", "shared", b"last")
    ward.until_done("lenient", "acme", "a", "b", "bad", "last")
    ward.until_done("other", "acme", "a", "bad", "b", "last")
