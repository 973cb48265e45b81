"""What Prometheus is told of the registry, and who may read it."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest
from registry_parts import AVRO, BROKEN

from headrace.model.credentials import Role
from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry.judges import JudgesApart

VERSIONS = "/subjects/acme.visits-value/versions"
ROUTE = 'route="POST /subjects/{subject}/versions"'


def shown(world):
    return world.ask("GET", "/metrics").text


def test_requests_are_counted_by_route_and_status_and_not_by_who_asks_for_what(world):
    for subject in ("acme.visits-value", "bolt.visits-value"):
        world.put(subject)
    world.ask("POST", VERSIONS, {"schema": BROKEN})
    world.ask("POST", VERSIONS, {"schema": AVRO}, role=None)
    world.ask("GET", "/subjects/none/versions")
    world.ask("GET", "/nothing/at/all")
    text = shown(world)
    for labels, times in (
        (f'{ROUTE},status="200"', 2),
        (f'{ROUTE},status="409"', 1),
        (f'{ROUTE},status="401"', 1),
        ('route="GET /subjects/{subject}/versions",status="404"', 1),
        ('route="none",status="404"', 1),
    ):
        assert f"headrace_registry_requests_total{{{labels}}} {times}.0" in text
    assert "headrace_registry_request_seconds_count 6.0" in text
    assert "acme" not in text
    for result, times in (("registered", 2), ("incompatible", 1)):
        assert f'headrace_registry_registrations_total{{result="{result}"}} {times}.0' in text


def test_what_failed_is_counted_too(world, monkeypatch):
    def broken(_):
        raise RuntimeError("no answer")

    monkeypatch.setattr(world.store.schema_subjects, "seen", broken)
    world.ask("POST", VERSIONS, {"schema": AVRO})
    text = shown(world)
    assert f'headrace_registry_requests_total{{{ROUTE},status="500"}} 1.0' in text
    assert 'headrace_registry_registrations_total{result="failed"} 1.0' in text


@pytest.mark.parametrize("role", [*Role, None])
def test_metrics_are_for_who_sees_all_tenants(world, role):
    answer = world.ask("GET", "/metrics", role=role)
    if role in (Role.OPERATOR, Role.VIEWER):
        assert answer.headers["content-type"].startswith("text/plain")
    else:
        status = 401 if role is None else 403
        assert (answer.status_code, answer.json()["error_code"] // 100) == (
            status,
            4 if role is None else 403,
        )


def test_a_judge_that_looks_is_busy():
    judges = JudgesApart(1, deadline_s=120.0)
    (judge,) = judges._free.queue
    asked = threading.Thread(
        target=judges.form, args=(WrittenSchema(SchemaKind.AVRO, '"string"', ()),)
    )
    try:
        assert judges.busy() == 0
        with stopped(judge._process.pid):
            asked.start()
            give_up_s = time.monotonic() + 60
            while judges.busy() == 0 and time.monotonic() < give_up_s:
                time.sleep(0.01)
            assert judges.busy() == 1
        asked.join()
        assert judges.busy() == 0
    finally:
        judges.close()


@contextmanager
def stopped(pid):
    """A process that does nothing meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
