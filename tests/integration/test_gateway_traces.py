"""An event's trace leads from the gateway's request over a real Kafka to the slice it was in."""

import time
import uuid

import httpx
import pyarrow as pa
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headrace import use_case
from headrace.connectors.kafka import (
    KafkaDeadLettersFactory,
    KafkaLog,
    KafkaReaderFactory,
    create_topics,
)
from headrace.connectors.kafka.ingest import Ingest
from headrace.connectors.kafka.ingest_topics import IngestTopics
from headrace.cycle.driver import Driver, DriverParts
from headrace.doors import door
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.doors.serving import Listening, serving
from headrace.gateway.app import gateway_app
from headrace.gateway.opening import rules_of
from headrace.model.credentials import Role
from headrace.model.records import Deployment
from headrace.model.streams import Tenant
from headrace.ports import Connections, Site
from headrace.process.clock import SystemClock
from headrace.settings.doors import DoorsSettings
from headrace.settings.gateway import GatewaySettings
from headrace.sinks import SqlTable
from headrace.store import SqlPositionsFactory, open_store
from headrace.telemetry.spans import Spans
from headrace.testing.engine_fake import InProcessEngine

pytestmark = pytest.mark.kafka
SECRET = b"s" * 40
TRACE = "0af7651916cd43dd8448eb211c80319c"
DEADLINE_S = 60.0


@pytest.fixture
def told():
    exporter = InMemorySpanExporter()
    spans = Spans("headrace-test", SimpleSpanProcessor(exporter))
    yield spans, lambda: {span.name: span for span in exporter.get_finished_spans()}
    spans.close()


@pytest.fixture
def store(tmp_path):
    made = open_store(f"sqlite:///{tmp_path}/store.db")
    made.registry.add_tenant(Tenant("acme"))
    yield made
    made.close()


@pytest.fixture
def name(kafka):
    """Of the tenant's topic, without the tenant."""
    made = f"traced-{uuid.uuid4().hex[:8]}"
    create_topics({"bootstrap.servers": kafka.bootstrap_servers}, {f"acme.{made}": 1})
    return made


@pytest.fixture
def post(kafka, store, name, told):
    """Sends an event with a trace of its own."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    text, key = new_key(Role.SENDER, "acme", "test", SECRET, time.time())
    store.keys.add(key)
    rules = rules_of(GatewaySettings.model_validate({"types": {"visit": {"topic": name}}}))
    records = Ingest(config, delivery_timeout_s=30.0, most_bytes=1 << 20)
    app = gateway_app(rules, records, IngestTopics(config), tracing=told[0])
    guard = Guard(store.keys, SECRET)
    door.install_door(app, guard, DoorsSettings(), "127.0.0.1", door.RequestLimits())
    with serving(app, Listening("127.0.0.1", 0)) as url:

        def send(parent):
            headers = {"Authorization": f"Bearer {text}", "traceparent": parent}
            answer = httpx.post(f"{url}/v1/events/visit", json={}, headers=headers, timeout=60)
            assert answer.status_code == 202, answer.text

        yield send


@pytest.fixture
def driver(kafka, store, name, tmp_path, told):
    """A driver of one use case over the topic, that tells spans."""

    @use_case(topic=f"{{tenant}}.{name}", sink=SqlTable("seen", columns={"tenant": "text"}))
    def seen(table, context):
        return pa.table({"tenant": [context.tenant] * table.num_rows})

    url = f"sqlite:///{tmp_path}/store.db"
    connections = Connections({"bootstrap.servers": kafka.bootstrap_servers}, url)
    letters = KafkaDeadLettersFactory()
    engine = InProcessEngine(
        connections, KafkaReaderFactory(), SqlPositionsFactory(), letters, traced=True
    )
    log = KafkaLog(connections.kafka)
    deployment = Deployment("seen", "m.py", "0" * 64, seen.topic)
    store.registry.deploy(deployment)
    made = Driver(DriverParts(store, log, engine, letters.open(connections), SystemClock()), "run")
    made.reporter.tracing = told[0]
    seen.sink.prepare(Site(connections, store.positions))
    engine.take(seen, deployment)
    made.take(seen, deployment)
    yield made
    made.close()
    log.close()


def test_the_slice_is_linked_to_the_request_of_its_event(post, driver, told):
    post(f"00-{TRACE}-b7ad6b7169203331-01")
    end_s = time.monotonic() + DEADLINE_S
    while "slice seen" not in told[1]():
        assert time.monotonic() < end_s, "no slice was told"
        driver.turn()
    spans = told[1]()
    request, piece = spans["send visit"], spans["slice seen"]
    (link,) = piece.links
    assert f"{link.context.trace_id:032x}" == TRACE
    assert link.context.span_id == request.context.span_id
    assert piece.attributes["headrace.tenant"] == "acme"
    assert piece.end_time >= request.start_time
