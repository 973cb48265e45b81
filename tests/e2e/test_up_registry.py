"""Avro without a word in the YAML file: `up --registry` tells the drivers where schemas are."""

import json
import stat
import sys
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from service import Service, ended

from headrace.cli.kept_ports import KeptPorts
from headrace.connectors.kafka import create_topics, producer_config
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

VISIT = {"type": "record", "name": "Visit", "fields": [{"name": "lead", "type": "string"}]}
USE_CASES = f"""
from headrace import use_case
from headrace.formats import Avro, AvroOutput
from headrace.sinks import KafkaTopic

VISIT = {VISIT!r}

@use_case(
    topic="{{tenant}}.visits",
    decode=Avro(VISIT),
    sink=KafkaTopic("{{tenant}}.leads", partitions=1, encode=AvroOutput(VISIT)),
    guarantee="at-least-once",
)
def leads(table, context):
    return table.select(["lead"])
"""


class Asked:
    """What somebody with a key of their own does at the registry."""

    def __init__(self, service, url, *role):
        key = service.headrace("keys", "create", *role).stdout.strip()
        self.info = {"url": url, "basic.auth.user.info": f"any:{key}"}

    def encoded(self, topic, value):
        with SchemaRegistryClient(self.info) as client:
            write = AvroSerializer(client, json.dumps(VISIT))
            return write(value, SerializationContext(topic, MessageField.VALUE))

    def decoded(self, topic, value):
        with SchemaRegistryClient(self.info) as client:
            read = AvroDeserializer(client)
            return read(value, SerializationContext(topic, MessageField.VALUE))


def registry_of(service, process):
    """The addresses that `up` left, as soon as the registry is among them."""
    file = service.folder / ".headrace" / "up" / "servers.json"
    give_up_s = time.monotonic() + 90
    while not file.exists() or "registry_url" not in (told := json.loads(file.read_text())):
        assert process.poll() is None, service.log.read_text()
        assert time.monotonic() < give_up_s, service.log.read_text()
        time.sleep(0.1)
    return told


def until_it_reads(service):
    """Until the use case is deployed, so that it is known whose topics are."""
    give_up_s = time.monotonic() + 90
    while "acme.visits" not in service.headrace("streams", "list").stdout:
        assert time.monotonic() < give_up_s, service.log.read_text()
        time.sleep(0.2)


def leads(service, count):
    topics = KafkaTopics(service.config["bootstrap.servers"])
    give_up_s = time.monotonic() + 120
    while len(found := topics.messages("acme.leads")) < count:
        assert time.monotonic() < give_up_s, service.log.read_text()[-5000:]
        time.sleep(0.2)
    return [message.value() for message in found]


def send(service, value):
    create_topics(service.config, {"acme.visits": 1, "acme.leads": 1})
    producer = Producer(producer_config(service.config))
    producer.produce("acme.visits", value)
    assert producer.flush(30) == 0


def test_a_use_case_of_avro_runs_with_no_word_in_the_yaml_file_and_again_at_the_next_start(
    tmp_path,
):
    service = Service(tmp_path, "", "visits")
    (tmp_path / "use_cases.py").write_text(USE_CASES)
    (tmp_path / "headrace.yaml").write_text("module: use_cases.py\nmaster: local[2]\n")
    # Or another folder takes the usual one while this is down between its two starts.
    KeptPorts(tmp_path / ".headrace" / "up").take("schema registry")
    key_file = tmp_path / ".headrace" / "up" / "registry-key"
    kept = []
    up = (sys.executable, "-m", "headrace", "up", "-c", "headrace.yaml")
    # The second start goes on with the registry though nobody says it.
    for number, options in enumerate((("--registry",), ("--drivers", "2")), start=1):
        process = service.run(*up, "--no-console", *options)
        told = registry_of(service, process)
        service.config = {"bootstrap.servers": told["bootstrap.servers"]}
        if number == 1:
            assert service.headrace("tenants", "add", "acme").returncode == 0
        until_it_reads(service)
        builds = Asked(service, told["registry_url"], "--role", "schemas", "--tenant", "acme")
        send(service, builds.encoded("acme.visits", {"lead": f"ada-{number}"}))
        written = leads(service, number)
        reads = Asked(service, told["registry_url"], "--role", "tenant", "--tenant", "acme")
        with pytest.raises(SchemaRegistryError, match="40301"):
            builds.encoded("acme.leads", {"lead": "ada"})
        assert reads.decoded("acme.leads", written[-1]) == {"lead": f"ada-{number}"}
        kept.append((told["registry_url"], key_file.read_text()))
        ended(process, service)
        assert ("the schema registry (--no-registry" in service.log.read_text()) is (number == 2)
        # An older file is that of the `up` before.
        (tmp_path / ".headrace" / "up" / "servers.json").unlink()
    assert kept[0] == kept[1]
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    password = kept[0][1].strip().partition(":")[2]
    logs = [service.log, *(tmp_path / ".headrace" / "fleet").rglob("*.log")]
    assert len(logs) > 2
    assert not any(password in log.read_text(errors="replace") for log in logs)


def test_a_driver_that_was_started_without_a_registry_says_so_to_whoever_deploys(tmp_path, kafka):
    service = Service(tmp_path, kafka.bootstrap_servers, f"t{time.time_ns()}")
    process = service.run()
    service.told(lambda report: True)
    settings = tmp_path / "headrace.yaml"
    settings.write_text(
        f"{settings.read_text()}registry: {{schema.registry.url: http://127.0.0.1:9}}\n"
    )
    (tmp_path / "use_cases.py").write_text(USE_CASES)
    done = service.headrace("use-cases", "deploy")
    assert done.returncode == 1
    assert "refuses it: leads: its records name schemas of a registry" in done.stdout + done.stderr
    assert "start this driver again" in done.stdout + done.stderr
    ended(process, service)
