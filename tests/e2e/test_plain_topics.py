"""A topic for all beside topics of tenants, in a whole service on a real broker."""

import json
import time

import pytest
from confluent_kafka import Producer
from service import Service, ended

from headrace.connectors.kafka import create_topics, producer_config

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

FOR_ALL = """

@use_case(
    topic="{topic}",
    sink=SqlTable("seen", columns={{"tenant": "text", "value": "text", "version": "bigint"}}),
    guarantee="exactly-once",
)
def count(table, context):
    return keep(table, context)
"""


class SharedService(Service):
    """It also counts what is in a topic for all."""

    def write(self, version: int) -> None:
        super().write(version)
        with (self.folder / "use_cases.py").open("a") as file:
            file.write(FOR_ALL.format(topic=self.for_all))

    @property
    def for_all(self) -> str:
        return f"all-{self.topic}"

    def send_to_all(self, *values: bytes) -> None:
        producer = Producer(producer_config(self.config))
        for number, value in enumerate(values):
            producer.produce(self.for_all, value, partition=number % 3)
        assert producer.flush(30) == 0

    def done(self, *words: str) -> str:
        result = self.headrace(*words)
        assert result.returncode == 0, f"{words}: {result.stderr}{result.stdout}"
        return result.stdout


def of_all(service):
    return sorted(value for tenant, value, _ in service.rows() if tenant == "everyone")


def test_a_topic_for_all_is_one_stream_that_nobody_adds_beside_those_of_tenants(tmp_path, kafka):
    service = SharedService(tmp_path, kafka.bootstrap_servers, f"t{time.time_ns()}")
    service.done("use-cases", "deploy")
    service.done("topics", "create", "count", "--inputs", "--partitions", "3")
    create_topics(service.config, {f"acme.{service.topic}": 1})
    service.done("tenants", "add", "acme")
    process = service.run()
    service.send_to_all(b"one", b"two", b"three")
    service.send("acme", b"visit")
    assert {tenant for tenant, _, _ in service.until(4)} == {"everyone", "acme"}
    assert of_all(service) == ["one", "three", "two"]
    streams = json.loads(service.done("streams", "list", "--json"))
    assert {row["stream"]: row["topic"] for row in streams} == {
        "everyone/count": service.for_all,
        "acme/keep": f"acme.{service.topic}",
    }

    service.done("tenants", "suspend", "everyone")
    service.send_to_all(b"four")
    service.send("acme", b"another")
    service.until(5)
    assert "four" not in of_all(service)
    service.done("tenants", "resume", "everyone")
    service.until(6)
    assert of_all(service) == ["four", "one", "three", "two"]

    service.done("tenants", "remove", "everyone", "--yes")
    ended(process, service)
    process = service.run()
    service.send("acme", b"last")
    service.until(7)
    listed = json.loads(service.done("streams", "list", "--json"))
    assert [row["stream"] for row in listed] == ["acme/keep"], "a restart brings nothing back"
    service.done("tenants", "add", "everyone", "--yes")
    service.until(11)
    assert of_all(service) == sorted(2 * ["four", "one", "three", "two"])
    ended(process, service)


def begins(service, said):
    """Let the use case of the topic for all begin there."""
    path = service.folder / "headrace.yaml"
    text = path.read_text().partition("use_cases:")[0]
    path.write_text(f"{text}use_cases:\n  count:\n    startingOffsets: {said}\n")
    service.done("use-cases", "deploy")


def note_of(service):
    (row,) = json.loads(service.done("streams", "list", "--json", "--tenant", "everyone"))
    return row["reason"]


def test_a_topic_for_all_begins_at_offsets_if_its_partitions_have_them(tmp_path, kafka):
    service = SharedService(tmp_path, kafka.bootstrap_servers, f"t{time.time_ns()}")
    create_topics(service.config, {service.for_all: 3})
    service.send_to_all(b"a0", b"b0", b"c0", b"a1", b"b1", b"c1")
    begins(service, json.dumps({service.for_all: {"0": 1, "1": 9, "2": -1}}))
    process = service.run()
    deadline = time.monotonic() + 120
    while "[1] at 9, and it holds 0 to 2" not in (note_of(service) or ""):
        assert process.poll() is None, service.log.read_text()
        assert time.monotonic() < deadline, note_of(service)
        time.sleep(0.5)
    assert service.rows() == []
    begins(service, json.dumps({service.for_all: {"0": 1, "1": -2, "2": -1}}))
    service.until(3)
    service.send_to_all(b"a2", b"b2", b"c2")
    service.until(6)
    assert of_all(service) == ["a1", "a2", "b0", "b1", "b2", "c2"]
    ended(process, service)
