"""Who sends what takes long to read holds up no other tenant."""

import asyncio
import json
import threading

import pytest
from gateway_parts import TYPES, client_of, in_loop, parts

from headrace.gateway import readers
from headrace.gateway.event_types import EventType
from headrace.gateway.events import EventLimits, Request
from headrace.gateway.readers import SHORT_S, expected_s
from headrace.gateway.reading import read
from headrace.gateway.subjects import Subject
from headrace.ports import SchemaKind, WrittenSchema
from headrace.testing.schemas_fake import MemorySchemas

JSON = {"Content-Type": "application/json"}
LONG = b'{"id": 1, "text": "' + b"a" * 9_000 + b'"}'


def request(body, content_type="application/json"):
    return Request({"content-type": content_type}, body)


def test_a_batch_as_most_are_is_read_at_once():
    batch = b'{"lead": "ada", "page": "/prices", "at": 1795409105}\n' * 1000
    assert expected_s(request(batch), TYPES["visit"]) < SHORT_S


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"[" + b"[]," * 300_000 + b"1]", "visit"),
        (b"[1234567890123456789" + b",1" * 400_000 + b"]", "visit"),
        (b'{"id": 1, "x": [' + b"1," * 20_000 + b"1]}", "form"),
    ],
    ids=["brackets", "long numbers", "a schema"],
)
def test_what_takes_long_is_known_by_its_looks(body, kind):
    assert expected_s(request(body), TYPES[kind]) > 0.05


def test_a_schema_of_a_subject_costs_by_the_value():
    kind = EventType("visit", "visits", subject=Subject("visits-value"))
    batch = b'{"lead": "ada", "page": "/prices", "at": 1795409105}\n' * 1000
    assert expected_s(request(batch), kind) < SHORT_S
    assert expected_s(request(b"[" + b"1," * 100_000 + b"1]"), kind) > 0.05


def subject_with(schema):
    subject = Subject("visits-value")
    registry = MemorySchemas()
    registry.add(WrittenSchema(SchemaKind.JSON, json.dumps(schema)), "visits-value")
    subject.look(registry)
    assert subject.known
    return EventType("visit", "visits", subject=subject)


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"items": {"allOf": [{"multipleOf": 0.1}] * 150}}, b"[" + b"1," * 200 + b"1]"),
        ({"multipleOf": 0.1, "allOf": [{"multipleOf": 0.2}] * 150}, b"1\n" * 200),
        ({"items": {"pattern": r"^\w*(\w{0,100}a){20}[!-/]"}}, b'"' + b"a" * 400 + b'"'),
    ],
    ids=["values", "lines", "pattern"],
)
def test_a_small_event_takes_long_where_its_schema_asks_much(schema, body):
    assert len(body) < 1000
    assert expected_s(request(body), subject_with(schema)) > SHORT_S
    assert expected_s(request(body), subject_with({"type": "string"})) < SHORT_S


def test_what_a_schema_asks_of_values_in_base64_is_not_taken_for_little():
    body = b'{"data_base64": "' + b"MSwx" * 200 + b'"}'
    heavy = subject_with({"items": {"allOf": [{"multipleOf": 0.1}] * 150}})
    assert expected_s(request(body, "application/cloudevents+json"), heavy) > SHORT_S


@pytest.mark.parametrize("name", [b"data_base64", b"data\\u005fbase64"])
@pytest.mark.parametrize("form", ["cloudevents", "cloudevents-batch"])
def test_what_is_in_base64_may_be_all_brackets(name, form):
    body = b'[{"' + name + b'": "' + b"W10s" * 50_000 + b'"}]'
    assert expected_s(request(body, f"application/{form}+json"), TYPES["visit"]) > SHORT_S


def test_a_large_body_is_not_even_looked_at_on_the_loop(monkeypatch):
    threads = []

    def seen(request, kind, limits):
        threads.append(threading.current_thread())
        return read(request, kind, limits)

    monkeypatch.setattr(readers, "read", seen)
    monkeypatch.setattr(readers, "expected_s", None)

    @in_loop
    async def play():
        large = request(b'"' + b"a" * 400_000 + b'"')
        batch = await readers.Readers().read("acme", large, TYPES["visit"], EventLimits())
        assert [event.value for event in batch.items] == [large.body]

    play()
    assert threads[0] is not threading.main_thread()


class Held:
    """``read``, which waits until it is let go, where it is not called on the event loop."""

    def __init__(self, monkeypatch):
        self.gate, self.begun = threading.Event(), []
        monkeypatch.setattr(readers, "read", self)

    def __call__(self, request, kind, limits):
        if threading.current_thread() is not threading.main_thread():
            self.begun.append(request.headers["x-partition-key"])
            assert self.gate.wait(120)
        return read(request, kind, limits)


@pytest.fixture
def held(monkeypatch):
    held = Held(monkeypatch)
    yield held
    held.gate.set()


def test_others_are_answered_while_one_is_read_and_a_tenant_reads_one_at_a_time(held):
    @in_loop
    async def play():
        rules, records, topics = parts()
        topics.names |= {"bolt.forms", "slow.forms"}
        async with client_of(rules, records, topics) as client:

            def sent(tenant, name, body):
                headers = {**JSON, "Authorization": f"sender {tenant}", "X-Partition-Key": name}
                post = client.post("/v1/events/form", content=body, headers=headers)
                return asyncio.create_task(post)

            first = [sent("acme", "1", LONG), sent("acme", "2", LONG)]
            await until(lambda: held.begun == ["1"])
            assert (await sent("acme", "short", b'{"id": 1}')).status_code == 202
            assert (await sent("slow", "short", b'{"id": 1}')).status_code == 202
            others = sent("bolt", "3", LONG)
            await until(lambda: held.begun == ["1", "3"])
            held.gate.set()
            answers = [await task for task in (*first, others)]
        assert [answer.status_code for answer in answers] == [202] * 3
        assert sorted(held.begun) == ["1", "2", "3"]

    play()


async def until(is_so):
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)
