"""Ids of many customers are asked for in one worker: none of them keeps the others from asking."""

import json
import threading
import time
from concurrent.futures import wait

import pytest
from replaying import INT, ReplayServer, hangs

from headrace.connectors.schema_registry import RegistrySchemas, lookups, registry_config
from headrace.errors import RegistryUnavailable
from headrace.policies import watchdog
from headrace.ports import Registering, SchemaKind, WrittenSchema

AVRO_INT = WrittenSchema(SchemaKind.AVRO, '"int"')
DENIED = (403, {"error_code": 40301, "message": "denied Read on Subject: evil-value"})
AWAY = (503, b"<html>no upstream for evil-value")
#: as they are outside of these tests
WAIT_S = lookups.WAIT_S
#: what comes is waited for, however busy the machine is
PATIENT_S = 20.0


@pytest.fixture
def server():
    made = ReplayServer()
    yield made
    made.close()


class Registry:
    """A client whose time a test says."""

    def __init__(self, url):
        self.now_s = 0.0
        config = registry_config({"schema.registry.url": url})
        self.client = RegistrySchemas(config, clock=lambda: self.now_s)

    def trouble(self, id_=7):
        with pytest.raises(RegistryUnavailable) as told:
            self.client.schema(id_)
        return told.value

    def refused(self, subject):
        with pytest.raises(RegistryUnavailable) as told:
            self.client.registered(subject, AVRO_INT, Registering())
        return told.value

    def finds(self, id_, within_s=PATIENT_S):
        """Asked for as a lane does that is told to come again."""
        give_up_s = time.monotonic() + within_s
        while True:
            try:
                return self.client.schema(id_)
            except RegistryUnavailable:
                assert time.monotonic() < give_up_s
                time.sleep(0.02)


@pytest.fixture
def registry(server, monkeypatch):
    monkeypatch.setattr(lookups, "WAIT_S", PATIENT_S)
    monkeypatch.setattr(lookups, "LOOKUP_S", PATIENT_S)
    for id_ in range(1, 100):
        server.says[f"/schemas/ids/{id_}"] = INT
    return Registry(server.url)


OF_ONE = {
    "no right": DENIED,
    "an error": (500, {"error_code": 50001, "message": "store"}),
    "not understood": (400, b""),
    "far too large": b" " * (17 * 1024 * 1024),
    "no schema": {"id": 7},
}


@pytest.mark.parametrize("case", OF_ONE)
def test_what_is_no_answer_to_one_id_pauses_that_id_alone(server, registry, case):
    server.says["/schemas/ids/7"] = OF_ONE[case]
    waits = []
    for id_ in range(10, 20):
        error = registry.trouble(7)
        waits.append(round(error.retry_after_s, 1))
        assert registry.client.schema(id_) == AVRO_INT
        registry.now_s += error.retry_after_s + 0.01
    assert waits[:5] == [1, 2, 4, 8, 15]
    assert max(waits) == 15


def test_an_id_that_is_refused_for_hours_is_never_taken_for_unknown(server, registry):
    server.says["/schemas/ids/7"] = DENIED
    for _ in range(10):
        registry.trouble(7)
        registry.now_s += 3600
    server.says["/schemas/ids/7"] = (404, {"error_code": 40403})
    assert "asked for again, for 60 s" in str(registry.trouble(7))


def test_what_is_no_answer_to_one_subject_pauses_that_subject_alone(server, registry):
    server.says["/subjects/evil-value/versions"] = DENIED
    server.says["/subjects/good-value/versions"] = {"id": 3}
    for _ in range(50):
        assert "evil-value" in str(registry.refused("evil-value"))
    assert len(server.heard) == 1
    assert registry.client.registered("good-value", AVRO_INT, Registering()).id == 3
    assert registry.client.schema(8) == AVRO_INT


@pytest.mark.parametrize("status", [401, 407, 429, 502, 503, 504])
def test_what_tells_of_who_asks_or_of_the_server_pauses_for_all(server, registry, status):
    server.says["/schemas/ids/7"] = (status, b"")
    registry.trouble(7)
    registry.trouble(8)
    assert len(server.heard) == 1


def test_a_text_that_is_referred_to_and_does_not_come_is_the_trouble_of_one_id(server, registry):
    refers = [{"name": "b", "subject": "b", "version": 1}]
    server.says["/schemas/ids/7"] = {**INT, "references": refers}
    server.says["/subjects/b/versions/1?deleted=true"] = (503, b"")
    registry.trouble(7)
    assert registry.client.schema(8) == AVRO_INT


def test_others_are_not_told_what_one_was_answered(server, registry):
    server.says["/schemas/ids/7"] = AWAY
    assert "evil-value" in str(registry.trouble(7))
    told = str(registry.trouble(8))
    assert f"{server.url}: HTTP 503" in told
    assert "evil" not in told
    assert "evil-value" in str(registry.trouble(7))


def test_whoever_failed_last_asks_after_the_others(server, registry):
    server.says["/schemas/ids/7"] = AWAY
    for id_ in range(10, 20):
        registry.trouble(7)
        registry.now_s += registry.trouble(id_).retry_after_s
        assert 0 < registry.trouble(7).retry_after_s <= 1
        assert registry.client.schema(id_) == AVRO_INT


def test_others_that_do_not_come_again_are_waited_for_no_longer_than_the_pause(server, registry):
    server.says["/schemas/ids/7"] = AWAY
    registry.trouble(7)
    registry.trouble(8)
    server.says["/schemas/ids/7"] = INT
    registry.now_s += 2.1
    assert registry.client.schema(7) == AVRO_INT


def test_a_call_with_half_a_second_outlives_a_registry_that_hangs(server, registry, monkeypatch):
    waits = []

    def counted_wait(futures, timeout):
        waits.append(timeout)
        return wait(futures, timeout)

    server.says["/schemas/ids/7"] = hangs
    registry.client.schema(8)
    monkeypatch.setattr(lookups, "WAIT_S", WAIT_S)
    monkeypatch.setattr(lookups, "wait", counted_wait)
    for id_ in (7, 9, 7, 8, 10):
        if id_ == 8:
            assert registry.client.schema(8) == AVRO_INT
        else:
            assert registry.trouble(id_).retry_after_s == lookups._SOON_S
    # What one of them waited nobody waits again for the same look.
    assert sum(waits) < WAIT_S + 0.01
    assert WAIT_S <= 0.8 * watchdog._LEAST_S


def test_what_is_found_while_nobody_waits_is_there_at_the_next_try(server, registry, monkeypatch):
    monkeypatch.setattr(lookups, "WAIT_S", 0.0)
    assert "not answered yet" in str(registry.trouble(7))
    assert registry.finds(7) == AVRO_INT
    assert server.paths() == ["/schemas/ids/7"]


def test_a_registry_that_hung_for_nobody_who_waits_pauses_for_all(server, registry, monkeypatch):
    monkeypatch.setattr(lookups, "WAIT_S", 0.0)
    monkeypatch.setattr(lookups, "LOOKUP_S", 0.3)
    server.says["/schemas/ids/7"] = hangs
    assert "not answered yet" in str(registry.trouble(7))
    give_up_s = time.monotonic() + PATIENT_S
    while "does not answer" not in (told := str(registry.trouble(8))):
        assert "not answered yet" in told
        assert time.monotonic() < give_up_s
        time.sleep(0.02)
    monkeypatch.setattr(lookups, "LOOKUP_S", PATIENT_S)
    registry.now_s += 1.1
    assert registry.finds(8) == AVRO_INT


def test_many_ids_in_one_call_share_its_wait(server, registry, monkeypatch):
    def comes_slowly(handler):
        time.sleep(0.1)
        content = json.dumps(INT).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    ids = range(1, 20)
    server.says.update({f"/schemas/ids/{id_}": comes_slowly for id_ in ids})
    monkeypatch.setattr(lookups, "WAIT_S", WAIT_S)
    with pytest.raises(RegistryUnavailable, match="not answered yet"):
        [registry.client.schema(id_) for id_ in ids]
    assert len(server.heard) <= WAIT_S / 0.1 + 1
    for id_ in ids:
        registry.finds(id_)
    assert len(server.heard) == len(ids)


def test_a_registry_that_hangs_costs_a_few_threads(server, registry, monkeypatch):
    monkeypatch.setattr(lookups, "LOOKUP_S", 0.05)
    before = set(threading.enumerate())
    for id_ in range(10, 40):
        server.says[f"/schemas/ids/{id_}"] = hangs
        registry.trouble(id_)
        registry.now_s += 100
    began = [made.name for made in set(threading.enumerate()) - before]
    assert 1 <= len([name for name in began if name.startswith("headrace-registry")]) <= 8
