"""No tenant fills the store with schemas, memory with what they come to, or time with lists."""

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from registry_parts import AVRO, MORE, OF_A_TEAM, OF_ACME_VISITS, World
from structlog.testing import capture_logs

from headrace.model.credentials import Role
from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry import app, judging
from headrace.schema_registry import judges as judges_of
from headrace.schema_registry.at_once import AtOnce
from headrace.schema_registry.forms import KnownForms
from headrace.schema_registry.judges import JudgesApart, JudgesHere
from headrace.schema_registry.rooms import RoomLimits
from headrace.schema_registry.rules.texts import BadSchema, Form

SUBJECT = "acme.visits-value"
VERSIONS = f"/subjects/{SUBJECT}/versions"


def fixed(number):
    return f'{{"type":"fixed","name":"F{number}","size":1}}'


def registered(world, number, role, subject=SUBJECT):
    body = {"schema": fixed(number)}
    world.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    return world.ask("POST", f"/subjects/{subject}/versions", body, role=role)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (RoomLimits(tenant_versions=3), "tenant_versions"),
        (RoomLimits(tenant_bytes=3 * len(fixed(0))), "tenant_bytes"),
    ],
)
def test_a_tenant_has_room_for_so_much_under_all_its_subjects_together(limits, told):
    world = World(limits)
    for number, subject in enumerate([SUBJECT, "acme.orders-key", SUBJECT]):
        assert registered(world, number, Role.SENDER, subject).status_code == 200
    for role in (Role.SENDER, Role.TENANT):
        answer = registered(world, 3, role, "acme.visits-key")
        assert (answer.status_code, answer.json()["error_code"]) == (422, 42205)
        message = answer.json()["message"]
        assert "tenant acme may have" in message
        assert told in message
        assert "Delete versions for good" in message
    assert registered(world, 0, Role.SENDER).json()["version"] == 1
    assert registered(world, 3, Role.OPERATOR, "acme.visits-key").status_code == 200


def test_a_tenant_sets_something_for_so_many_subjects_as_it_may_have_versions():
    world = World(RoomLimits(tenant_versions=2))

    def put(subject, role=Role.TENANT, body=None):
        body = body or {"compatibility": "NONE"}
        return world.ask("PUT", f"/config/acme.visits-{subject}", body, role=role)

    assert put("A").status_code == 200
    assert put("B", body={"normalize": True}).status_code == 200
    answer = put("C")
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42205)
    assert "tenant acme may have settings of 2 subjects (tenant_versions)" in answer.text
    assert "DELETE /config/{subject}" in answer.text
    assert put("B").status_code == 200
    assert world.ask("DELETE", "/config/acme.visits-A", role=Role.TENANT).status_code == 200
    assert put("C").status_code == 200
    assert put("D", Role.OPERATOR).status_code == 200


def test_what_a_tenant_deletes_for_good_is_given_back():
    world = World(RoomLimits(tenant_versions=1))
    assert registered(world, 0, Role.TENANT).status_code == 200
    first = f"{VERSIONS}/1"
    assert world.ask("DELETE", first, role=Role.TENANT).status_code == 200
    assert registered(world, 1, Role.TENANT).status_code == 422
    assert world.ask("DELETE", f"{first}?permanent=true", role=Role.TENANT).status_code == 200
    assert registered(world, 1, Role.TENANT).status_code == 200


def test_what_sinks_and_other_tenants_register_takes_no_room_of_a_tenant():
    world = World(RoomLimits(tenant_versions=1))
    for number in range(3):
        assert registered(world, number, Role.OPERATOR, "acme.scores-value").status_code == 200
        assert registered(world, number, Role.OPERATOR, "bolt.visits-value").status_code == 200
    assert registered(world, 0, Role.SENDER).status_code == 200


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (RoomLimits(tenant_versions=2), "2 versions of schemas (tenant_versions)"),
        (RoomLimits(tenant_bytes=2 * len(fixed(0))), "bytes of schemas (tenant_bytes)"),
    ],
)
def test_a_key_of_some_subjects_has_as_much_room_under_these_as_a_tenant(limits, told):
    world = World(limits)
    assert registered(world, 9, Role.OPERATOR, "bolt.visits-value").status_code == 200
    for number, subject in enumerate(["acme.a-value", "acme.b"]):
        assert registered(world, number, OF_A_TEAM, subject).status_code == 200
    answer = registered(world, 2, OF_A_TEAM, "acme.c-value")
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42205)
    assert "subjects acme.* may have" in answer.json()["message"]
    assert told in answer.json()["message"]
    assert registered(world, 0, OF_A_TEAM, "acme.a-value").json()["version"] == 1
    assert registered(world, 2, OF_ACME_VISITS).status_code == 200
    assert registered(world, 2, Role.OPERATOR, "acme.c-value").status_code == 200


def test_one_subject_has_room_for_so_much_whoever_registers():
    world = World(RoomLimits(subject_versions=2))
    for number in range(2):
        assert registered(world, number, Role.OPERATOR, "prices").status_code == 200
    answer = registered(world, 2, Role.OPERATOR, "prices")
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42205)
    assert "subject prices" in answer.json()["message"]
    world.ask("PUT", "/mode/prices?force=true", {"mode": "IMPORT"})
    body = {"schema": fixed(7), "id": 70}
    assert world.refused("POST", "/subjects/prices/versions", body) == (422, 42205)
    assert registered(world, 2, Role.OPERATOR, "costs").status_code == 200


def written(number, length=10):
    return WrittenSchema(SchemaKind.AVRO, f"{number:0{length}}")


def test_what_a_schema_came_to_counts_in_what_is_known():
    forms = KnownForms(most_of_one=10_000, most_of_all=50_000)
    for number in range(100):
        forms.put(written(number), Form("x" * 4_000, "y" * 4_000))
        forms.put(written(number), Form("x" * 4_000, "y" * 4_000))
        assert forms.size <= 50_000
    assert forms.get(written(99)) == Form("x" * 4_000, "y" * 4_000)
    assert forms.get(written(0)) is None
    forms.put(written(1_000), Form("x", "y", b"z" * 10_000))
    assert forms.get(written(1_000)) is None
    assert forms.get(written(99)) is not None


def test_a_small_schema_that_comes_to_a_large_text_is_refused(world, monkeypatch):
    monkeypatch.setattr(judging, "MOST_OF_FORM", 1_000)
    fields = ",".join(f'{{"name":"f{n}","type":"B"}}' for n in range(20))
    first = '{"name":"b","type":{"type":"fixed","name":"B","size":1}}'
    text = f'{{"type":"record","name":"M","namespace":"{"a" * 100}","fields":[{first},{fields}]}}'
    assert len(text) < 1_000
    answer = world.ask("POST", VERSIONS, {"schema": text})
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)
    assert "too large to be judged" in answer.json()["message"]


def test_where_there_is_no_memory_to_ask_a_judge_the_schema_is_refused_and_another_judge_comes():
    judges = JudgesApart(1, wait_s=20.0)
    good = WrittenSchema(SchemaKind.AVRO, '"int"')
    try:
        judge = judges._free.queue[-1]

        class Full:
            def send(self, _):
                raise MemoryError

            close = judge._ours.close

        judge._ours = Full()
        with pytest.raises(BadSchema, match="more than there is room for"):
            judges.form(good)
        assert judges.form(good).canonical == '"int"'
    finally:
        judges.close()


class DiesWhenAsked:
    """The way to a judge that stands still, and dies with a question before it."""

    def __init__(self, ours, process, number):
        self._ours, self._process, self._number = ours, process, number

    def __getattr__(self, name):
        return getattr(self._ours, name)

    def send(self, question):
        self._ours.send(question)
        os.kill(self._process, self._number)
        os.kill(self._process, signal.SIGCONT)


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGSEGV, r"ended \(SIGSEGV\)$"), (signal.SIGKILL, r"ended \(SIGKILL\): it may take")],
)
def test_a_judge_that_dies_of_a_signal_is_told_as_what_it_is(number, told):
    judges = JudgesApart(1, wait_s=20.0)
    try:
        judge = judges._free.queue[-1]
        os.kill(judge._process.pid, signal.SIGSTOP)
        judge._ours = DiesWhenAsked(judge._ours, judge._process.pid, number)
        with pytest.raises(BadSchema, match=told):
            judges.form(WrittenSchema(SchemaKind.AVRO, '"int"'))
        assert judges.form(WrittenSchema(SchemaKind.AVRO, '"int"')).canonical == '"int"'
    finally:
        judges.close()


def test_a_judge_that_is_gone_before_it_was_asked_is_no_schemas_fault():
    judges = JudgesApart(1, wait_s=20.0)
    good = WrittenSchema(SchemaKind.AVRO, '"int"')
    try:
        process = judges._free.queue[-1]._process
        os.kill(process.pid, signal.SIGKILL)
        process.join(20)
        assert judges.form(good, "acme").canonical == '"int"'
    finally:
        judges.close()


def test_a_request_that_takes_more_memory_than_there_is_is_told_so(world, monkeypatch):
    def versions(*_):
        raise MemoryError

    monkeypatch.setattr(world.store.schema_subjects, "versions", versions)
    answer = world.ask("GET", "/schemas")
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50002)
    assert answer.headers["retry-after"] == "1"


def test_few_requests_of_a_tenant_are_answered_at_a_time_and_one_list_among_them():
    async def main():
        at_once, inside, most = AtOnce(3), [], Counter()

        async def ask(tenant, lists):
            async with at_once.of(tenant, lists=lists):
                inside.append((tenant, lists))
                most["acme"] = max(most["acme"], sum(who == "acme" for who, _ in inside))
                most["list"] = max(most["list"], inside.count(("acme", True)))
                most["bolt"] = max(most["bolt"], inside.count(("bolt", False)))
                most["all"] = max(most["all"], len(inside))
                await asyncio.sleep(0.01)
                inside.remove((tenant, lists))

        several = [ask("acme", lists=True) for _ in range(9)]
        several += [ask(who, lists=False) for who in ["acme"] * 9 + ["bolt"] * 2 + [None] * 5]
        await asyncio.gather(*several)
        assert most == {"acme": 3, "list": 1, "bolt": 2, "all": 10}
        assert at_once._turns == {}

    asyncio.run(main())


def test_lists_that_wait_keep_no_other_request_of_their_tenant_waiting():
    async def main():
        at_once, made = AtOnce(2), asyncio.Event()

        async def a_list():
            async with at_once.of("acme", lists=True):
                await made.wait()

        several = [asyncio.create_task(a_list()) for _ in range(5)]
        await asyncio.sleep(0)
        async with asyncio.timeout(60), at_once.of("acme", lists=False):
            pass
        made.set()
        await asyncio.gather(*several)

    asyncio.run(main())


HELD = pytest.mark.parametrize("who", [Role.TENANT, OF_A_TEAM])


@HELD
def test_who_asks_for_many_lists_at_once_has_one_made_after_the_other(world, monkeypatch, who):
    ours, most = world.store.schema_subjects, []
    real, going = ours.versions, threading.Semaphore(1)

    def versions(*asked):
        most.append(going.acquire(blocking=False))
        time.sleep(0.02)
        going.release()
        return real(*asked)

    monkeypatch.setattr(ours, "versions", versions)
    with world.client, ThreadPoolExecutor(8) as threads:
        asking = [
            threads.submit(world.ask, "GET", path, role=who)
            for path in ["/schemas", "/subjects"] * 4
        ]
        assert [one.result().status_code for one in asking] == [200] * 8
    assert all(most)


@HELD
@pytest.mark.parametrize("what", ["LOOKS_PER_MINUTE", "CHANGES_PER_MINUTE"])
def test_who_asks_too_much_is_told_so_after_a_pause(world, monkeypatch, what, who):
    monkeypatch.setattr(app, what, 0)
    monkeypatch.setattr(app, "PAUSE_S", 0.05)
    path = "/subjects" if what == "LOOKS_PER_MINUTE" else f"/config/{SUBJECT}"
    since_s = time.monotonic()
    method = "GET" if what == "LOOKS_PER_MINUTE" else "DELETE"
    assert world.refused(method, path, role=who) == (429, 429)
    assert time.monotonic() - since_s >= 0.05


@pytest.mark.parametrize("who", [Role.SENDER, OF_A_TEAM])
def test_so_many_lists_may_be_asked_for_in_a_minute(world, monkeypatch, who):
    monkeypatch.setattr(app, "LOOKS_PER_MINUTE", 2)
    for path in ("/schemas", "/subjects"):
        assert world.ask("GET", path, role=who).status_code == 200
    assert world.refused("GET", "/schemas", role=who) == (429, 429)
    for other in (Role.OPERATOR, Role.SCHEMAS, OF_ACME_VISITS if who is OF_A_TEAM else OF_A_TEAM):
        assert world.ask("GET", "/schemas", role=other).status_code == 200
    assert world.ask("GET", VERSIONS, role=who).status_code == 404


def test_judges_take_a_key_of_some_subjects_for_a_tenant_of_its_own(world, monkeypatch):
    asked, real = [], JudgesHere._ask

    def ask(judges, tenant, *about):
        asked.append(tenant)
        return real(judges, tenant, *about)

    monkeypatch.setattr(JudgesHere, "_ask", ask)
    for who in (OF_A_TEAM, OF_ACME_VISITS, Role.SCHEMAS):
        assert registered(world, len(asked), who).status_code == 200
    prefix = world.keys[OF_A_TEAM].split("_")[1]
    assert asked == [f"key:{prefix}", "acme", None]


@pytest.mark.parametrize("path", ["/schemas", "/subjects"])
def test_the_head_of_a_list_is_answered_without_the_list(world, monkeypatch, path):
    monkeypatch.setattr(world.store.schema_subjects, "versions", None)
    answer = world.ask("HEAD", path, role=Role.TENANT)
    assert (answer.status_code, answer.content) == (200, b"")
    assert "content-length" not in answer.headers


def test_a_list_of_a_tenant_reads_no_other_tenants_versions(world, monkeypatch):
    for subject in (SUBJECT, "acme.scores-value", "bolt.visits-value", "prices"):
        world.put(subject)
    world.put(SUBJECT, MORE)
    ours, found = world.store.schema_subjects, []
    real = ours.versions

    def versions(*asked):
        found.extend(real(*asked))
        return real(*asked)

    monkeypatch.setattr(ours, "versions", versions)
    names = world.ask("GET", "/subjects", role=Role.TENANT).json()
    assert names == ["acme.scores-value", SUBJECT]
    rows = world.ask("GET", "/schemas", role=Role.TENANT).json()
    assert [json.loads(row["schema"]) for row in rows][1:] == [json.loads(AVRO), json.loads(MORE)]
    assert {version.subject for version in found} == {*names}


def test_a_judge_that_cannot_be_started_is_told_once_and_tried_again(monkeypatch):
    monkeypatch.setattr(judges_of, "_AGAIN_S", 0.01)
    made, full = judges_of.made_folder, [OSError(28, "No space left on device")] * 3

    def no_room():
        if full:
            raise full.pop()
        return made()

    judges = JudgesApart(1, wait_s=20.0)
    try:
        monkeypatch.setattr(judges_of, "made_folder", no_room)
        with capture_logs() as lines:
            gone = judges._free.queue[-1]._process
            gone.kill()
            gone.join()
            assert judges.form(WrittenSchema(SchemaKind.AVRO, '"int"')).canonical == '"int"'
        assert [line["error"] for line in lines] == ["[Errno 28] No space left on device"]
    finally:
        judges.close()
