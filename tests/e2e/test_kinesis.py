"""Streams of Kinesis beside a topic of Kafka, in a whole service: split, merged and killed."""

import json
import os
import signal
import time
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer
from service import Service, ended

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

KEYS = [f"user-{number}" for number in range(8)]
CLICKS = """

@use_case(
    topic="clicks:{tenant}.clicks",
    sink=SqlTable("clicks", columns={"tenant": "text", "key": "text", "number": "bigint"}),
    guarantee="exactly-once",
    bad_record="dead-letter",
)
def count(table, context):
    rows = table.num_rows
    return pa.table({
        "tenant": pa.array([context.tenant] * rows, pa.string()),
        "key": pa.array([key.decode() for key in table["key"].to_pylist()], pa.string()),
        "number": pa.array([int(value) for value in table["value"].to_pylist()], pa.int64()),
    })
"""


@dataclass
class Stream:
    """A tenant's stream, and the last number that each key was written with."""

    service: object
    name: str
    written: dict[str, int] = field(default_factory=dict)

    def put(self, records):
        """So many more of each key."""
        for _ in range(records):
            for key in KEYS:
                number = self.written[key] = self.written.get(key, 0) + 1
                self.put_one(key, b"%d" % number)

    def put_one(self, key, value):
        self.service.client.put_record(StreamName=self.name, Data=value, PartitionKey=key)

    def split(self, number):
        keys = next(one.keys for one in self.open_shards if one.number == number)
        self.service.split(self.name, number, (keys.first + keys.last + 1) // 2)

    def merge_the_last(self):
        *_, one, other = self.open_shards
        self.service.merge(self.name, one.number, other.number)

    @property
    def open_shards(self):
        """Those that take records, in the order of their keys."""
        found = (one for one in self.service.shards(self.name) if not one.closed)
        return sorted(found, key=lambda one: one.keys)


class ClicksService(Service):
    """It also counts clicks, which are in Kinesis."""

    def __init__(self, folder, kafka, kinesis):
        super().__init__(folder, kafka.bootstrap_servers, f"t{time.time_ns()}")
        server, yaml = kinesis.server, folder / "headrace.yaml"
        yaml.write_text(
            f"{yaml.read_text()}connections:\n  clicks:\n    url: {server.url}\n"
            "    user: ${CLICKS_USER}\n    password: ${CLICKS_PASSWORD}\n"
        )
        self.streams, self.processes = {}, []
        for tenant, shards in (("acme", 2), ("bolt", 1)):
            name = f"{tenant}.clicks"
            kinesis.client.create_stream(StreamName=name, ShardCount=shards)
            self.streams[tenant] = Stream(kinesis.service(), name)
            self.streams[tenant].service.settle(name)

    def run(self):
        self.processes.append(super().run())
        return self.processes[-1]

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def write(self, version):
        super().write(version)
        with (self.folder / "use_cases.py").open("a") as file:
            file.write(CLICKS)

    def done(self, *words):
        result = self.headrace(*words)
        assert result.returncode == 0, f"{words}: {result.stderr}{result.stdout}"
        return result.stdout

    def clicks(self):
        """What is in the table, in the order in which it came there."""
        return self.read("SELECT tenant, key, number FROM clicks ORDER BY rowid")

    @property
    def expected(self):
        return {
            (tenant, key, number)
            for tenant, stream in self.streams.items()
            for key, last in stream.written.items()
            for number in range(1, last + 1)
        }

    def until_all_came(self, timeout_s=120.0):
        """Wait, and judge: nothing lost, nothing twice, each key in its order."""
        deadline = time.monotonic() + timeout_s
        while len(self.clicks()) < len(self.expected):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)
        found = self.clicks()
        assert set(found) == self.expected
        assert len(found) == len(self.expected)
        last = {}
        for tenant, key, number in found:
            assert number == last.get((tenant, key), 0) + 1
            last[tenant, key] = number


@pytest.fixture
def service(tmp_path, kafka, kinesis, monkeypatch):
    monkeypatch.setenv("CLICKS_USER", kinesis.server.user)
    monkeypatch.setenv("CLICKS_PASSWORD", kinesis.server.password)
    made = ClicksService(tmp_path, kafka, kinesis)
    names = [stream.name for stream in made.streams.values()]
    yield made
    made.end()
    for name in names:
        kinesis.client.delete_stream(StreamName=name)
    # It is going for a moment, and the next test makes one of the same name.
    gone = kinesis.client.get_waiter("stream_not_exists")
    for name in names:
        gone.wait(StreamName=name, WaiterConfig={"Delay": 0.1, "MaxAttempts": 300})


def test_streams_that_are_split_and_merged_while_a_driver_is_killed_come_once_and_in_order(service):
    service.done("use-cases", "deploy")
    for tenant in service.streams:
        service.done("tenants", "add", tenant)
    acme, bolt = service.streams["acme"], service.streams["bolt"]
    acme.put(3)
    process = service.run()
    service.until_all_came()
    service.send("acme", b"a visit")  # of Kafka
    bolt.put(5)
    acme.split(0)
    acme.put(5)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    acme.put(2)
    acme.merge_the_last()
    bolt.split(0)
    acme.put(4)
    bolt.put(4)
    process = service.run()
    service.until_all_came()
    service.until(1)
    acme.put(1)
    bolt.put(1)
    service.until_all_came()
    it_is_told(service)
    a_bad_record_is_kept_in_kafka(service)
    it_goes_on_where_somebody_says(service)
    ended(process, service)
    assert "not a secret" not in service.log.read_text()


def it_is_told(service):
    rows = {row["stream"]: row for row in json.loads(service.done("streams", "list", "--json"))}
    assert rows["acme/count"]["topic"] == "clicks:acme.clicks"
    assert rows["bolt/count"]["state"] == "active"
    assert "0 faults" in service.done("verify")


def a_bad_record_is_kept_in_kafka(service):
    acme = service.streams["acme"]
    acme.put_one(KEYS[0], b"no number")
    acme.put(1)
    service.until_all_came()
    consumer = Consumer({**service.config, "group.id": "letters", "auto.offset.reset": "earliest"})
    consumer.subscribe(["clicks--acme.clicks.dlq"])
    letter = None
    deadline = time.monotonic() + 60
    while letter is None:
        assert time.monotonic() < deadline
        letter = consumer.poll(0.5)
    assert (letter.key(), letter.value()) == (KEYS[0].encode(), b"no number")
    consumer.close()
    refused = service.headrace("quarantine", "redrive", "acme/count")
    assert refused.returncode != 0
    assert "clicks:acme.clicks is not in Kafka" in " ".join(refused.stderr.split())


def it_goes_on_where_somebody_says(service):
    bolt, before = service.streams["bolt"], len(service.clicks())
    came = len([row for row in service.clicks() if row[0] == "bolt"])
    service.done("streams", "seek", "bolt", "count", "--to", "TRIM_HORIZON", "--yes")
    deadline = time.monotonic() + 60
    while len(service.clicks()) < before + came:
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.2)
    service.done("streams", "seek", "bolt", "count", "--to", "LATEST", "--yes")
    bolt.put(1)
    while len(service.clicks()) < before + came + len(KEYS):
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.2)


def test_what_cannot_be_had_of_a_stream_is_refused_when_it_is_deployed(service):
    file, yaml = service.folder / "use_cases.py", service.folder / "headrace.yaml"
    whole, settings = file.read_text(), yaml.read_text()

    def refused(code, said):
        file.write_text(code)
        yaml.write_text(said)
        result = service.headrace("use-cases", "deploy")
        assert result.returncode != 0
        return " ".join(result.stderr.split())

    keyed = whole.replace('bad_record="dead-letter"', 'order="key"')
    assert "take order lane, which keeps that of each key" in refused(keyed, settings)
    nowhere = whole.replace("clicks:{tenant}", "nowhere:{tenant}")
    assert "there is no connection 'nowhere'" in refused(nowhere, settings)
    other = settings.replace("kinesis://", "dynamodb://")
    assert "connection clicks is no Kinesis" in refused(whole, other)


def test_a_service_that_reads_kinesis_alone_runs_without_a_kafka(service):
    yaml, file = service.folder / "headrace.yaml", service.folder / "use_cases.py"
    yaml.write_text(yaml.read_text().replace(service.config["bootstrap.servers"], "127.0.0.1:1"))
    head = file.read_text().partition("@use_case")[0]
    file.write_text(f"{head}{CLICKS.replace('dead-letter', 'suspend')}")
    service.done("use-cases", "deploy")
    service.done("tenants", "add", "acme")
    service.streams.pop("bolt")
    acme = service.streams["acme"]
    acme.put(2)
    process = service.run()
    service.until_all_came()
    assert "0 faults" in service.done("verify")
    acme.put(1)
    service.until_all_came()
    ended(process, service)
