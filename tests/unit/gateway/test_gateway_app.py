"""What senders see: answers, refusals, and that nothing is told as stored that is not."""

import asyncio
import json

import pytest
from gateway_parts import FakeRecords, client_of, in_loop, parts

from headrace.connectors.kafka.ingest import Stored
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    SinkRefused,
    SinkUnavailable,
    TopicMissing,
)
from headrace.gateway.app import ACCESS
from headrace.gateway.rates import RequestRoom
from headrace.gateway.removed import RemovedTenants
from headrace.model.records import Deployment
from headrace.model.streams import State, Tenant
from headrace.testing.memory_store import MemoryStore

VISITS = "/v1/events/visit"
FORMS = "/v1/events/form"
GONE = BrokerUnavailable("Kafka did not acknowledge it within 10 s, so it may be stored or not")
FULL = SinkUnavailable("the queue to Kafka is full")


def kind(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == answer.status_code
    return told["type"].removeprefix("urn:headrace:problem:")


@in_loop
async def test_one_event_is_answered_with_its_place():
    rules, records, topics = parts()
    async with client_of(rules, records, topics) as client:
        answer = await client.post(VISITS, json={"page": "/"}, params={"key": "ada"})
    assert answer.status_code == 202
    assert answer.json() == {"topic": "acme.visits", "partition": 0, "offset": 0}
    ((topic, record),) = records.stored
    assert (topic, record.value, record.key) == ("acme.visits", b'{"page":"/"}', b"ada")


@in_loop
async def test_a_batch_is_answered_item_by_item():
    rules, records, topics = parts()
    async with client_of(rules, records, topics) as client:
        whole = await client.post(FORMS, json=[{"id": 1}, {"id": 2}])
        some = await client.post(FORMS, json=[{"id": "x"}, {"id": 3}])
        none = await client.post(FORMS, json=[{}, {}])
    assert whole.status_code == 202
    assert whole.json()["items"] == [{"status": 202, "partition": 0, "offset": n} for n in (0, 1)]
    assert some.status_code == 207
    assert (some.json()["accepted"], some.json()["refused"]) == (1, 1)
    bad, good = some.json()["items"]
    assert (bad["status"], bad["pointer"], good["offset"]) == (422, "/id", 2)
    assert kind(none) == "nothing-stored"
    assert [item["status"] for item in none.json()["items"]] == [422, 422]
    assert len(records.stored) == 3


def test_what_kafka_stored_without_saying_where_is_told_as_stored():
    @in_loop
    async def play():
        rules, records, topics = parts()
        async with client_of(rules, records, topics) as client:
            records.errors = {b"1": Stored(0, None)}
            single = await client.post(VISITS, content=b"1", headers=JSON)
            records.errors = {b"1": Stored(0, None)}
            some = await client.post(VISITS, content=b"[1,2]", headers=JSON)
            told = (await client.get("/v1/openapi.json")).json()
        assert single.status_code == some.status_code == 202
        assert single.json() == {"topic": "acme.visits", "partition": 0, "offset": None}
        assert [item["offset"] for item in some.json()["items"]] == [None, 0]
        answers = told["paths"]["/v1/events/{type}"]["post"]["responses"]["202"]["content"]
        place, _ = answers["application/json"]["schema"]["anyOf"]
        assert place["properties"]["offset"]["type"] == ["integer", "null"]

    play()


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (GONE, 503, "not-acknowledged"),
        (FULL, 503, "busy"),
        (SinkRefused("topic acme.visits takes no record of this size"), 422, "refused"),
        (TopicMissing("topic acme.visits is not there"), 404, "unknown-topic"),
        (ConfigError("we may not write to topic acme.visits"), 503, "unavailable"),
    ],
)
def test_what_kafka_did_not_store_is_never_told_as_stored(error, status, word):
    @in_loop
    async def play():
        rules, records, topics = parts()
        async with client_of(rules, records, topics) as client:
            records.errors = {b"1": error}
            single = await client.post(VISITS, content=b"1", headers=JSON)
            records.errors = {b"1": error}
            some = await client.post(VISITS, content=b"[1,2]", headers=JSON)
            records.errors = {b"1": error, b"2": error}
            none = await client.post(VISITS, content=b"[1,2]", headers=JSON)
        assert (single.status_code, kind(single)) == (status, word)
        assert some.status_code == 207
        assert [item["status"] for item in some.json()["items"]] == [status, 202]
        assert none.status_code == status
        assert (
            ("Retry-After" in single.headers) == ("Retry-After" in none.headers) == (status == 503)
        )

    play()


JSON = {"content-type": "application/json"}


@in_loop
async def test_a_sender_is_told_what_it_is_not_given():
    rules, records, topics = parts()
    async with client_of(rules, records, topics) as client:
        unknown = await client.post("/v1/events/nothing", json={})
        form = await client.post(VISITS, data={"a": 1})
        no_topic = await client.post(VISITS, json={}, headers={"authorization": "sender bolt"})
        topics.up = False
        no_kafka = await client.post(VISITS, json={})
        wrong = await client.get(VISITS)
    assert (unknown.status_code, kind(unknown)) == (404, "unknown-type")
    known = ", ".join(sorted(rules.types))
    assert unknown.json()["detail"] == f"there is no such type of event; known: {known}"
    assert form.status_code == 415
    assert "application/x-ndjson" in form.headers["Accept-Post"]
    assert (no_topic.status_code, kind(no_topic)) == (404, "unknown-topic")
    assert (no_kafka.status_code, no_kafka.headers["Retry-After"]) == (503, "1")
    assert "secret" not in no_kafka.text
    assert wrong.status_code == 405
    assert records.stored == []


@in_loop
async def test_what_is_wrong_between_us_and_kafka_is_not_told_to_strangers():
    rules, records, topics = parts()

    async def refuse(_):
        raise ConfigError("Kafka at secret:9092 refuses our credentials")

    topics.is_there = refuse
    async with client_of(rules, records, topics) as client:
        answer = await client.post(VISITS, json={})
    assert (answer.status_code, kind(answer)) == (503, "unavailable")
    assert "secret" not in answer.text


@pytest.mark.parametrize("who", ["operator", "viewer", "sender", "sender a.b", "sender A"])
def test_who_has_no_tenant_sends_nothing(who):
    @in_loop
    async def play():
        rules, records, topics = parts()
        topics.names |= {"a.b.visits", "A.visits"}
        async with client_of(rules, records, topics) as client:
            answer = await client.post(VISITS, json={}, headers={"authorization": who})
        assert answer.status_code == 403
        assert records.stored == []

    play()


@in_loop
async def test_a_tenant_that_was_removed_sends_nothing():
    rules, records, topics = parts()

    async def is_removed(name):
        return name == "acme"

    async with client_of(rules, records, topics, is_removed=is_removed) as client:
        assert (await client.post(VISITS, json={})).status_code == 403
    assert records.stored == []


@in_loop
async def test_nobody_sends_as_all_customers():
    store = MemoryStore()
    store.registry.deploy(Deployment("count", "m.py", "00", "impressions"))
    rules, records, topics = parts()
    topics.names.add("everyone.visits")
    known = {"is_removed": RemovedTenants(store)}
    shown = {"Authorization": "sender everyone"}
    async with client_of(rules, records, topics, **known) as client:
        refused = await client.post(VISITS, json={}, headers=shown)
    assert refused.status_code == 403
    assert refused.json()["detail"].startswith("everyone stands for all customers together")
    assert records.stored == []


@in_loop
async def test_nothing_but_the_credential_names_the_tenant():
    rules, records, topics = parts()
    topics.names.add("bolt.visits")
    claims = {"X-Tenant": "bolt", "tenant": "bolt", "X-Forwarded-Client-Cert": "Subject=CN=bolt"}
    async with client_of(rules, records, topics) as client:
        await client.post(VISITS + "?tenant=bolt", json={"tenant": "bolt"}, headers=claims)
        for path in ("bolt.visit", "..%2Fbolt", "visit%00", "..%2f..%2fbolt.visits"):
            assert (await client.post(f"/v1/events/{path}", json={})).status_code == 404
    assert [topic for topic, _ in records.stored] == ["acme.visits"]


def test_a_rate_is_told_with_the_time_to_come_again(monkeypatch):
    # The window is of the wall clock, which may pass into the next one at any moment.
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    asyncio.run(over_its_rate())


async def over_its_rate():
    rules, records, topics = parts()
    slow = {"authorization": "sender slow"}
    async with client_of(rules, records, topics) as client:
        assert (await client.post(VISITS, json=[1, 2, 3], headers=slow)).status_code == 202
        refused = await client.post(VISITS, json={}, headers=slow)
        other = await client.post(VISITS, json={})
    assert (refused.status_code, kind(refused)) == (429, "rate-limited")
    assert int(refused.headers["Retry-After"]) >= 1
    assert other.status_code == 202
    assert len(records.stored) == 4


@in_loop
async def test_without_room_a_request_is_refused_at_once():
    rules, records, topics = parts(room=RequestRoom(40))
    records.gate = asyncio.Event()
    async with client_of(rules, records, topics) as client:
        first = asyncio.create_task(client.post(VISITS, json="x" * 30))
        while not rules.room.taken_bytes:
            await asyncio.sleep(0)
        second = await client.post(VISITS, json="x" * 30)
        records.gate.set()
        assert (await first).status_code == 202
        assert (await client.post(VISITS, json="x" * 30)).status_code == 202
    assert (second.status_code, kind(second), second.headers["Retry-After"]) == (503, "busy", "1")
    assert rules.room.taken_bytes == 0


@in_loop
async def test_the_same_key_stores_once_and_answers_the_same():
    rules, records, topics = parts()
    once = {"Idempotency-Key": "k1"}
    async with client_of(rules, records, topics) as client:
        first = await client.post(FORMS, json=[{"id": 1}, {}], headers=once)
        again = await client.post(FORMS, json=[{"id": 1}, {}], headers=once)
        other = await client.post(FORMS, json=[{"id": 2}], headers=once)
        single = await client.post(VISITS, json={}, headers=once)
    assert (again.status_code, again.json()) == (207, first.json())
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert other.status_code == 422
    assert single.status_code == 202
    assert [dict(record.headers)["idempotency-key"] for _, record in records.stored] == [
        b"k1/0",
        b"k1",
    ]


@in_loop
async def test_only_what_was_not_stored_is_sent_again():
    rules, records, topics = parts()
    records.errors = {b"2": FULL}
    once = {"Idempotency-Key": "k1"}
    async with client_of(rules, records, topics) as client:
        first = await client.post(VISITS, json=[1, 2, 3], headers=once)
        again = await client.post(VISITS, json=[1, 2, 3], headers=once)
    assert [item["status"] for item in first.json()["items"]] == [202, 503, 202]
    assert [item["offset"] for item in again.json()["items"]] == [0, 2, 1]
    assert [record.value for _, record in records.stored] == [b"1", b"3", b"2"]


ONCE = {"Idempotency-Key": "k1"}


def values(records):
    return [record.value for _, record in records.stored]


@in_loop
async def test_while_nobody_knows_what_became_of_a_request_its_repeat_stores_nothing():
    rules, records, topics = parts()
    records.silent = {b"2"}
    async with client_of(rules, records, topics) as client:
        first, again = [await client.post(VISITS, json=[1, 2], headers=ONCE) for _ in range(2)]
    for answer in (first, again):
        assert [item["status"] for item in answer.json()["items"]] == [202, 503]
        assert answer.json()["items"][1]["type"].endswith(":not-acknowledged")
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(records.sendings) == 1
    assert values(records) == [b"1"]


@in_loop
async def test_a_single_event_of_which_nobody_knows_is_503_and_may_be_asked_for_again():
    rules, records, topics = parts()
    records.silent = {b"1"}
    async with client_of(rules, records, topics) as client:
        for _ in range(2):
            answer = await client.post(VISITS, json=1, headers=ONCE)
            assert (answer.status_code, kind(answer)) == (503, "not-acknowledged")
            assert "Retry-After" in answer.headers
    assert records.stored == []


@in_loop
async def test_what_turned_out_to_be_stored_is_the_answer_of_the_repeat():
    rules, records, topics = parts()
    records.silent = {b"2"}
    async with client_of(rules, records, topics) as client:
        await client.post(VISITS, json=[1, 2], headers=ONCE)
        records.sendings[0].tell([Stored(0, 0), Stored(0, 7)])
        again = await client.post(VISITS, json=[1, 2], headers=ONCE)
    assert again.status_code == 202
    assert [item["offset"] for item in again.json()["items"]] == [0, 7]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(records.sendings) == 1


@in_loop
async def test_what_turned_out_not_to_be_stored_is_stored_by_the_repeat():
    rules, records, topics = parts()
    records.silent = {b"2"}
    async with client_of(rules, records, topics) as client:
        await client.post(VISITS, json=[1, 2], headers=ONCE)
        records.sendings[0].tell([Stored(0, 0), TopicMissing("topic acme.visits is not there")])
        records.silent = set()
        again = await client.post(VISITS, json=[1, 2], headers=ONCE)
    assert again.status_code == 202
    assert values(records) == [b"1", b"2"]


@in_loop
async def test_what_nobody_will_ever_know_is_never_stored_beside_it():
    rules, records, topics = parts()
    records.errors = {b"2": GONE}
    async with client_of(rules, records, topics) as client:
        for _ in range(3):
            answer = await client.post(VISITS, json=[1, 2], headers=ONCE)
            assert [item["status"] for item in answer.json()["items"]] == [202, 503]
    assert values(records) == [b"1"]


@in_loop
async def test_a_request_that_goes_on_after_its_answer_has_its_room_until_its_fate_is_known():
    rules, records, topics = parts(room=RequestRoom(1000))
    records.silent = {b"1"}
    async with client_of(rules, records, topics) as client:
        for _ in range(3):
            await client.post(VISITS, json=1, headers=ONCE)
            assert rules.room.taken_bytes == 1
        records.sendings[0].tell([Stored(0, 0)])
        await asyncio.sleep(0)
        assert rules.room.taken_bytes == 0


@in_loop
async def test_without_a_key_nothing_goes_on_after_the_answer():
    rules, records, topics = parts()
    records.errors = {b"1": GONE}
    async with client_of(rules, records, topics) as client:
        first, again = [await client.post(VISITS, json=1) for _ in range(2)]
    assert (first.status_code, again.status_code) == (503, 202)
    assert records.sendings == []


@in_loop
async def test_what_met_a_missing_topic_is_stored_by_a_repeat_once_the_topic_is_made():
    rules, records, topics = parts()
    records.errors = {b"2": TopicMissing("topic acme.visits is not there")}
    once = {"Idempotency-Key": "k1"}
    async with client_of(rules, records, topics) as client:
        first = await client.post(VISITS, json=[1, 2], headers=once)
        again = await client.post(VISITS, json=[1, 2], headers=once)
    assert [item["status"] for item in first.json()["items"]] == [202, 404]
    assert [item["offset"] for item in again.json()["items"]] == [0, 1]
    assert [record.value for _, record in records.stored] == [b"1", b"2"]


@pytest.mark.parametrize("after_s", [0.0, 5.0])
def test_a_customer_who_got_a_name_again_is_not_answered_what_the_one_before_was(after_s):
    @in_loop
    async def play():
        rules, records, topics = parts()
        store = MemoryStore()
        store.registry.add_tenant(Tenant("acme"))
        tenants = RemovedTenants(store)
        once = {"Idempotency-Key": "k1"}
        known = {"is_removed": tenants, "generation": tenants.generation}
        async with client_of(rules, records, topics, **known) as client:
            await client.post(VISITS, json={}, headers=once)
            store.registry.set_tenant_state("acme", State.REMOVED)
            store.registry.add_tenant(Tenant("acme"))
            tenants._looked_s -= after_s
            again = await client.post(VISITS, json={}, headers=once)
            other = await client.post(VISITS, json={"a": 1}, headers={"Idempotency-Key": "k2"})
        assert (again.status_code, other.status_code) == (202, 202)
        assert "idempotent-replayed" not in again.headers
        assert len(records.stored) == 3

    play()


@in_loop
async def test_a_key_of_a_running_request_is_a_conflict():
    rules, records, topics = parts()
    records.gate = asyncio.Event()
    once = {"Idempotency-Key": "k1"}
    async with client_of(rules, records, topics) as client:
        first = asyncio.create_task(client.post(VISITS, json={}, headers=once))
        while not len(rules.memory):
            await asyncio.sleep(0)
        second = await client.post(VISITS, json={}, headers=once)
        records.gate.set()
        assert (await first).status_code == 202
    assert second.status_code == 409
    assert len(records.stored) == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_a_key_that_is_none_is_refused(key):
    @in_loop
    async def play():
        rules, records, topics = parts()
        async with client_of(rules, records, topics) as client:
            answer = await client.post(VISITS, json={}, headers={"Idempotency-Key": key})
        assert (answer.status_code, kind(answer)) == (422, "bad-idempotency-key")

    play()


@in_loop
async def test_it_is_ready_when_kafka_answers():
    rules, records, topics = parts()
    async with client_of(rules, records, topics) as client:
        assert (await client.get("/livez")).json() == {"live": True}
        assert (await client.get("/readyz")).json() == {"ready": True}
    topics.up = False
    async with client_of(rules, records, topics) as client:
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503


@in_loop
async def test_figures_are_shown_to_operators_and_viewers_alone():
    rules, records, topics = parts()
    async with client_of(rules, records, topics) as client:
        await client.post(FORMS, json=[{"id": 1}, {}])
        shown = await client.get("/metrics", headers={"authorization": "viewer"})
        refused = await client.get("/metrics")
    assert refused.status_code == 403
    for line in (
        'headrace_gateway_requests_total{status="207"} 1.0',
        'headrace_gateway_events_total{result="stored",type="form"} 1.0',
        'headrace_gateway_events_total{result="refused",type="form"} 1.0',
        'headrace_gateway_request_bytes_total{type="form"}',
        "headrace_gateway_request_seconds_count 1.0",
        "headrace_gateway_under_way_bytes 0.0",
    ):
        assert line in shown.text


@in_loop
async def test_openapi_says_who_may_what_of_every_route():
    rules, records, topics = parts()
    async with client_of(rules, records, topics) as client:
        told = (await client.get("/v1/openapi.json")).json()
    assert json.dumps(told)
    routes = {(method.upper(), path) for path, of in told["paths"].items() for method in of}
    assert routes | {("GET", "/v1/openapi.json")} == ACCESS.keys()
    assert told["components"]["securitySchemes"].keys() == {"key"}
    for path, of in told["paths"].items():
        for method, route in of.items():
            asks = ACCESS[method.upper(), path] is not None
            assert route.get("security", []) == ([{"key": []}] if asks else [])
    post = told["paths"]["/v1/events/{type}"]["post"]
    assert {"application/json", "application/cloudevents+json"} <= set(
        post["requestBody"]["content"]
    )
    assert {"202", "207", "401", "403", "404", "409", "413", "415", "422", "429", "503"} <= set(
        post["responses"]
    )


@in_loop
async def test_what_is_under_way_is_waited_for_at_the_end():
    rules, records, topics = parts()
    async with client_of(rules, records, topics) as client:
        app = client._transport.app
        async with app.router.lifespan_context(app):
            assert not records.closed
    assert isinstance(records, FakeRecords)
    assert records.closed
