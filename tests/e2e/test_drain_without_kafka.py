"""SIGTERM ends a driver in its time, also while no Kafka broker answers."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest
from test_run import Service

from headrace.embedded import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

DRAIN_S = 10.0
#: Spark's end, and Python's, on a busy machine
ENDS_S = 20.0


@pytest.fixture
def own_kafka(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka", quick_start=True) as made:
        yield made


def made(folder, servers):
    service = Service(folder, servers, "visits")
    with (folder / "headrace.yaml").open("a") as file:
        file.write(f"driver:\n  drain_timeout: {DRAIN_S:g}s\n")
    assert service.headrace("tenants", "add", "acme").returncode == 0
    return service


def until_said(service, word):
    deadline = time.monotonic() + 90
    while word not in (service.log.read_text() if service.log.exists() else ""):
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.1)


def ends_in_time(process, service):
    began = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    code = process.wait(120)
    took_s = time.monotonic() - began
    assert took_s < DRAIN_S + ENDS_S, service.log.read_text()
    return code


def test_a_driver_that_never_saw_kafka_ends_in_time(tmp_path):
    service = made(tmp_path, "127.0.0.1:1")
    process = service.run()
    until_said(service, "waiting for a server")
    time.sleep(3.0)
    assert ends_in_time(process, service) == 0


@pytest.mark.parametrize("kind", ["killed", "still"])
def test_a_driver_whose_kafka_is_gone_while_something_runs_ends_in_time(tmp_path, own_kafka, kind):
    service = made(tmp_path, own_kafka.bootstrap_servers)
    service.send("acme", b"a", b"b")
    process = service.run()
    service.until(2)
    service.send("acme", *[b"c"] * 50_000)
    broker = psutil.Process(own_kafka.pid)
    if kind == "killed":
        own_kafka.kill()
    else:
        broker.suspend()
    try:
        time.sleep(5.0)
        assert ends_in_time(process, service) in (0, 1)
    finally:
        if kind == "still":
            broker.resume()
