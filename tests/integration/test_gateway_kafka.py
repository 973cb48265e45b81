"""The gateway as it is started, in front of a real Kafka: what it stores, and what it refuses."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import uuid
from pathlib import Path

import httpx
import pytest

from door_process import until
from gateway_process import GatewayProcess
from headrace.connectors.kafka import create_topics
from headrace.embedded import EmbeddedKafka
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = pytest.mark.kafka
VISITS = "/v1/events/visit"
FORMS = "/v1/events/form"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def gateway(kafka, tmp_path_factory):
    made = GatewayProcess(
        tmp_path_factory.mktemp("gateway"),
        kafka.bootstrap_servers,
        uuid.uuid4().hex[:8],
        ("acme", "bolt", "slow", "bare"),
        {"tenants": {"slow": {"records_per_s": 5}}, "request_bytes": "2m"},
    )
    names = [
        made.topic(tenant, kind)
        for tenant in ("acme", "bolt", "slow")
        for kind in ("visits", "forms")
    ]
    create_topics({"bootstrap.servers": kafka.bootstrap_servers}, dict.fromkeys(names, 3))
    with made:
        yield made
        assert made.stop() == 0, made.log()


@pytest.fixture
def client(gateway):
    with gateway.client() as made:
        yield made


@pytest.fixture
def new(kafka, gateway):
    """The records that a test has made: ``new()`` by offset, of the visits of a tenant."""
    topics = KafkaTopics(kafka.bootstrap_servers)

    def places(topic):
        return {
            (message.partition(), message.offset()): message for message in topics.messages(topic)
        }

    before = {
        gateway.topic(tenant): set(places(gateway.topic(tenant))) for tenant in ("acme", "bolt")
    }

    def found(tenant="acme"):
        topic = gateway.topic(tenant)
        return [message for place, message in places(topic).items() if place not in before[topic]]

    return found


def test_an_event_is_where_the_answer_says(client, new):
    answer = client.post(
        VISITS,
        json={"page": "/"},
        params={"key": "ada"},
        headers={"traceparent": PARENT, "Idempotency-Key": "k1"},
    )
    assert answer.status_code == 202
    (record,) = new()
    told = answer.json()
    assert (told["topic"], told["partition"], told["offset"]) == (
        record.topic(),
        record.partition(),
        record.offset(),
    )
    assert (record.key(), record.value()) == (b"ada", b'{"page":"/"}')
    assert dict(record.headers()) == {
        "traceparent": PARENT.encode(),
        "idempotency-key": b"k1",
    }


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b'[{"n":1},{"n":2},{"n":3}]'),
        ("application/x-ndjson", b'{"n":1}\n{"n":2}\n{"n":3}\n'),
    ],
)
def test_a_batch_comes_in_its_order(client, new, content_type, body):
    answer = client.post(
        VISITS, content=body, params={"key": "same"}, headers={"content-type": content_type}
    )
    assert answer.status_code == 202
    offsets = [item["offset"] for item in answer.json()["items"]]
    assert offsets == sorted(offsets)
    assert [message.value() for message in sorted(new(), key=lambda message: message.offset())] == [
        b'{"n":1}',
        b'{"n":2}',
        b'{"n":3}',
    ]


def test_each_form_of_a_cloudevent_makes_the_same_record(client, new):
    attributes = {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop",
        "type": "visit",
        "partitionkey": "ada",
    }
    envelope = {**attributes, "data": {"n": 1}}
    binary = {f"ce-{name}": value for name, value in attributes.items()}
    answers = [
        client.post(
            VISITS, content=b'{"n":1}', headers={**binary, "content-type": "application/json"}
        ),
        client.post(
            VISITS,
            content=json.dumps(envelope),
            headers={"content-type": "application/cloudevents+json"},
        ),
        client.post(
            VISITS,
            content=json.dumps([envelope]),
            headers={"content-type": "application/cloudevents-batch+json"},
        ),
    ]
    assert [answer.status_code for answer in answers] == [202] * 3
    records = new()
    assert len(records) == 3
    assert len({record.partition() for record in records}) == 1
    for record in records:
        assert (record.key(), record.value()) == (b"ada", b'{"n":1}')
        assert dict(record.headers()) == {
            "content-type": b"application/json",
            **{f"ce_{name}": value.encode() for name, value in attributes.items()},
        }


def test_a_body_of_unknown_length_is_taken(client, new):
    answer = client.post(
        VISITS, content=iter([b'{"n":', b"1}"]), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 202
    assert [message.value() for message in new()] == [b'{"n":1}']


def test_an_idempotency_key_makes_one_record(client, new):
    once = {"Idempotency-Key": uuid.uuid4().hex}
    first, again = (client.post(VISITS, json=[1, 2], headers=once) for _ in range(2))
    assert first.json() == again.json()
    assert len(new()) == 2


def test_a_tenant_cannot_send_for_another(client, gateway, new):
    foreign = {"X-Tenant": "bolt", "X-Forwarded-Client-Cert": 'Subject="CN=bolt"'}
    assert client.post(VISITS, json={}, headers=foreign).status_code == 202
    for path in ("/v1/events/..%2Fbolt.visits", "/v1/events/bolt.visits", "/v1/bolt/events/visit"):
        assert client.post(path, json={}).status_code == 404
    assert (len(new()), len(new("bolt"))) == (1, 0)


def test_without_a_key_that_works_nothing_is_sent(gateway, new):
    for credential in ({}, {"Authorization": "Bearer hr_00000000_" + "x" * 43}):
        answer = httpx.post(gateway.url + VISITS, json={}, headers=credential, timeout=60)
        assert answer.status_code == 401
    assert (
        httpx.post(
            gateway.url + VISITS, json={}, headers=gateway.credential("operator"), timeout=60
        ).status_code
        == 403
    )
    assert new() == []


def test_what_is_too_much_is_refused(client, new):
    assert client.post(VISITS, content=b"x" * 3_000_000).status_code == 413
    assert client.post(VISITS, content=iter([b"x" * 1_500_000] * 2)).status_code == 413
    assert client.post(VISITS, json="x" * 1_000_000).status_code == 413
    assert client.post(VISITS, json=[0] * 1001).status_code == 413
    assert (
        client.post(VISITS, content=b"a=1", headers={"content-type": "text/plain"}).status_code
        == 415
    )
    assert (
        client.post(
            VISITS, content=b"[" * 100_000, headers={"content-type": "application/json"}
        ).status_code
        == 400
    )
    assert client.post(FORMS, json={"id": "x"}).json()["pointer"] == "/id"
    assert new() == []


def test_a_tenant_over_its_rate_waits_and_others_do_not(gateway, client):
    with gateway.client("slow") as slow:
        assert slow.post(VISITS, json=[1] * 5).status_code == 202
        answers = []

        def refused():
            # The window is of the wall clock, which may pass into the next one at any moment.
            answers.append(slow.post(VISITS, json=[1] * 5))
            return answers[-1].status_code == 429

        until(refused, gateway.log)
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert len(answers) < 20
    assert client.post(VISITS, json=1).status_code == 202


def test_a_tenant_without_its_topic_is_told_and_no_topic_is_made(gateway, kafka):
    with gateway.client("bare") as bare:
        answer = bare.post(VISITS, json={})
    assert answer.status_code == 404
    assert "unknown-topic" in answer.json()["type"]
    topics = KafkaTopics(kafka.bootstrap_servers)
    assert topics.messages(gateway.topic("bare")) == []


def test_it_is_ready_and_shows_its_figures(client, gateway):
    assert client.get("/readyz").status_code == 200
    with gateway.client("operator") as operator:
        assert "headrace_gateway_events_total" in operator.get("/metrics").text


DOCS = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize("number", range(len(blocks("sh"))))
def test_the_commands_of_the_docs_send_events(gateway, new, number):
    command = blocks("sh")[number].replace("http://localhost:8601", gateway.url)
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "KEY": gateway.keys["acme"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["topic"] == gateway.topic()
    assert len(new()) == told.get("accepted", 1)


def test_the_python_of_the_docs_sends_events(gateway, new, monkeypatch):
    monkeypatch.setenv("KEY", gateway.keys["acme"])
    monkeypatch.setenv("GATEWAY", gateway.url)
    (code,) = blocks("python")
    exec(code, {})
    assert len(new()) == 2


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory):
    """One that may be stopped, as long as it goes on and has taken a record when a test is over."""
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka"), quick_start=True) as made:
        yield made


def own_gateway(tmp_path, kafka, **settings):
    mark = uuid.uuid4().hex[:8]
    made = GatewayProcess(tmp_path / "gateway", kafka.bootstrap_servers, mark, settings=settings)
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    create_topics(config, {made.topic("acme"): 1, made.topic("bolt"): 1})
    return made


def test_while_the_broker_stands_still_nothing_is_acknowledged(tmp_path, own_kafka):
    made = own_gateway(tmp_path, own_kafka, delivery_timeout="3s", under_way="400k")
    with made, made.client() as client, made.client("bolt") as other:
        assert client.post(VISITS, json="before").status_code == 202
        os.kill(own_kafka.pid, signal.SIGSTOP)
        try:
            answers = []
            large = threading.Thread(
                target=lambda: answers.append(client.post(VISITS, json="x" * 400_000))
            )
            large.start()
            until(lambda: under_way(made) > 0, made.log)
            refused = other.post(VISITS, json="y" * 15_000)
            assert refused.status_code == 503
            assert refused.json()["type"] == "urn:headrace:problem:busy"
            assert refused.headers["Retry-After"] == "1"
            large.join()
            assert answers[0].status_code == 503
            assert "may be stored or not" in answers[0].json()["detail"]
        finally:
            os.kill(own_kafka.pid, signal.SIGCONT)
        until(lambda: client.post(VISITS, json="after").status_code == 202, made.log)
        assert made.stop() == 0, made.log()
    values = [
        message.value()
        for message in KafkaTopics(own_kafka.bootstrap_servers).messages(made.topic())
    ]
    # What was not acknowledged may be stored or not, and the broker may take it up late.
    assert values[0] == b'"before"'
    assert b'"after"' in values
    assert set(values) <= {b'"before"', b'"after"', b'"%s"' % (b"x" * 400_000)}


@pytest.mark.parametrize("body", ['"once"', '["once", "too"]'])
def test_what_is_sent_again_after_an_unknown_outcome_is_stored_once(tmp_path, own_kafka, body):
    made = own_gateway(tmp_path, own_kafka, delivery_timeout="2s")
    once = {"Idempotency-Key": "k1", "content-type": "application/json"}

    def post():
        return client.post(VISITS, content=body, headers=once)

    with made, made.client() as client:
        # Connected, so that what is sent next is in the broker's hands when it stops.
        before = {"Idempotency-Key": "k0"}
        assert client.post(VISITS, json="before", headers=before).status_code == 202
        os.kill(own_kafka.pid, signal.SIGSTOP)
        try:
            for _ in range(2):
                answer = post()
                assert answer.status_code == 503
                assert "not-acknowledged" in answer.text
            assert under_way(made) == len(body)
        finally:
            os.kill(own_kafka.pid, signal.SIGCONT)
        answers = []

        def stored():
            answers.append(post())
            return answers[-1].status_code == 202

        until(stored, made.log)
        again = post()
        assert again.json() == answers[-1].json()
        assert again.headers["Idempotent-Replayed"] == "true"
        assert under_way(made) == 0
        assert made.stop() == 0, made.log()
    messages = KafkaTopics(own_kafka.bootstrap_servers).messages(made.topic())
    values = [message.value() for message in messages]
    assert values == [b'"before"', b'"once"', b'"too"'][: 2 + body.count(",")]


def test_sigterm_drains_what_is_under_way(tmp_path, own_kafka):
    made = own_gateway(tmp_path, own_kafka, delivery_timeout="20s")
    with made, made.client() as client:
        assert client.post(VISITS, json="before").status_code == 202
        os.kill(own_kafka.pid, signal.SIGSTOP)
        try:
            answers = []
            running = threading.Thread(
                target=lambda: answers.append(client.post(VISITS, json="running"))
            )
            running.start()
            until(lambda: under_way(made) > 0, made.log)
            made.signal(signal.SIGTERM)
            until(lambda: not listens(made), made.log)
            assert made.process.poll() is None
        finally:
            os.kill(own_kafka.pid, signal.SIGCONT)
        running.join()
        assert answers[0].status_code == 202, answers[0].text
        assert made.stop() == 0
        assert "drained" in made.log()
    values = [
        message.value()
        for message in KafkaTopics(own_kafka.bootstrap_servers).messages(made.topic())
    ]
    assert values == [b'"before"', b'"running"']


def under_way(made):
    with made.client("operator") as operator:
        text = operator.get("/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("headrace_gateway_under_way")]
    return float(line.split()[1])


def listens(made):
    try:
        httpx.get(f"{made.url}/livez", timeout=60)
    except httpx.TransportError:
        return False
    return True
