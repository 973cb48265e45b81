"""SIGTERM ends a driver in its time, also while no Kafka broker answers."""

from __future__ import annotations

import os
import signal
import time

import pytest
from test_run import Service

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

DRAIN_S = 10.0
#: Spark's end, and Python's, on a busy machine
ENDS_S = 15.0


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
