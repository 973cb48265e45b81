"""Traces are off unless somebody asks, and then lead from a request to the committed slice."""

import asyncio
import sys
import threading

import httpx
import pyarrow as pa
import pytest
from opentelemetry.sdk.trace.export import (
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headrace.connectors.kafka.ingest import Stored
from headrace.doors import door
from headrace.gateway.app import gateway_app
from headrace.gateway.opening import rules_of
from headrace.model.credentials import Caller, Role
from headrace.model.receipts import Receipt, SliceError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Written
from headrace.settings.doors import DoorsSettings
from headrace.settings.gateway import GatewaySettings
from headrace.spark.portions import Portion
from headrace.spark.tally import Tally, traceparents_of
from headrace.telemetry import spans as spans_by_sdk
from headrace.telemetry import tracing
from headrace.telemetry.report import Reporter
from headrace.telemetry.spans import Spans

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"
PIECE = Slice(LaneId("score", "acme", "acme.visits[2]"), "acme.visits", 5, 9, 1)


@pytest.fixture
def told():
    """Spans, and what they told."""
    exporter = InMemorySpanExporter()
    spans = Spans("headrace-test", SimpleSpanProcessor(exporter))
    yield spans, exporter.get_finished_spans
    spans.close()


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
    ],
)
def test_traces_are_wanted_when_the_environment_says_so(environment, wanted):
    assert tracing.is_wanted(environment) is wanted


def test_without_the_extra_there_are_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "headrace.telemetry.spans", None)
    assert tracing.opened("x", {"OTEL_TRACES_EXPORTER": "otlp"}) is None


def test_nothing_is_opened_that_nobody_wants():
    assert tracing.opened("x", {}) is None


def receipt(**more):
    return Receipt(PIECE, 9, True, records=4, seconds=0.5, **more)


def test_a_slice_is_linked_to_the_traces_of_its_records(told):
    spans, finished = told
    spans.committed(receipt(traceparents=(PARENT, UNSAMPLED, "rubbish")), "w1", 1000.0)
    (span,) = finished()
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE, TRACE]
    assert span.parent is None
    assert (span.start_time, span.end_time) == (999_500_000_000, 1_000_000_000_000)
    assert span.attributes["headrace.tenant"] == "acme"
    assert span.attributes["headrace.wave"] == "w1"
    assert span.attributes["messaging.batch.message_count"] == 4
    assert span.status.is_unset


def test_a_slice_that_nobody_records_is_not_told(told):
    spans, finished = told
    spans.committed(receipt(traceparents=(UNSAMPLED,)), "w1", 1000.0)
    spans.committed(receipt(), "w1", 1000.0)
    assert finished() == ()


def test_a_slice_with_an_error_says_so(told):
    spans, finished = told
    error = SliceError(temporary=False, code="HandlerError", message="secret")
    spans.committed(receipt(traceparents=(PARENT,), error=error), "w1", 1000.0)
    (span,) = finished()
    assert span.status.description == "HandlerError"


def test_a_turn_that_tells_slices_does_not_wait_for_an_exporter_that_hangs(monkeypatch):
    class Hangs(SpanExporter):
        def export(self, _):
            assert released.wait(30), "nobody released it"
            return SpanExportResult.SUCCESS

    released = threading.Event()
    monkeypatch.setattr(spans_by_sdk, "OTLPSpanExporter", Hangs)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    spans = tracing.opened("x", {"OTEL_TRACES_EXPORTER": "otlp"})
    for _ in range(100):
        spans.committed(receipt(traceparents=(PARENT,)), "w1", 1000.0)
    assert not released.is_set()
    released.set()
    spans.close()


def headers_of(*rows):
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    made = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    return pa.table({"headers": pa.array(made, kind)})


def test_traceparents_are_found_in_headers_each_once():
    table = headers_of(
        None,
        [("a", b"b")],
        [("traceparent", b"x")],
        [("traceparent", b"x")],
        [("traceparent", b"y"), ("c", None)],
        [("traceparent", None)],
        [("traceparent", b"z")],
    )
    assert traceparents_of(table, 8) == ["x", "y", "z"]
    assert traceparents_of(table, 2) == ["x", "y"]
    assert traceparents_of(headers_of(None, None), 8) == []


def portion():
    headers = headers_of([("traceparent", PARENT.encode())]).column("headers")
    records = pa.table({"headers": headers, "timestamp": pa.array([0], pa.timestamp("ms", "UTC"))})
    return Portion((PIECE,), (PIECE,), (6,), records)


@pytest.mark.parametrize(("traced", "carried"), [(True, (PARENT,)), (False, ())])
def test_receipts_carry_traces_only_where_they_are_wanted(traced, carried):
    tally = Tally([PIECE], 0.0, traced=traced)
    tally.wrote(portion(), Written(), 0)
    (found,) = tally.receipts()
    assert found.traceparents == carried


def test_the_driver_tells_of_committed_slices_that_belong_to_traces():
    class Told(list):
        def committed(self, *what):
            self.append(what)

    reporter = Reporter(tracing=Told())
    reporter.committed(receipt(), 1000.0, "w1")
    reporter.committed(receipt(traceparents=(PARENT,)), 1001.0, "w2")
    assert reporter.tracing == [(receipt(traceparents=(PARENT,)), "w2", 1001.0)]


class Records:
    def __init__(self):
        self.stored = []

    async def store(self, _topic, records):
        self.stored += records
        return [Stored(0, 0) for _ in records]

    async def close(self):
        pass


class Topics:
    async def is_there(self, _topic):
        return True

    async def broker_answers(self):
        return True

    def close(self):
        pass


class Doorkeeper:
    async def of(self, _request):
        return Caller("key:x", Role.SENDER, "acme")


def posted(spans, headers, body):
    """What a record carries of a request, and the answer."""
    rules = rules_of(GatewaySettings.model_validate({"types": {"visit": {"topic": "visits"}}}))
    records = Records()
    app = gateway_app(rules, records, Topics(), tracing=spans)
    door.install_door(
        app, Doorkeeper(), DoorsSettings(hosts=["x"]), "127.0.0.1", door.RequestLimits()
    )

    async def play():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.post("/v1/events/visit", json=body, headers=headers)

    answer = asyncio.run(play())
    return [dict(record.headers).get("traceparent") for record in records.stored], answer


def test_a_request_goes_on_with_its_senders_trace(told):
    spans, finished = told
    carried, answer = posted(spans, {"traceparent": PARENT, "tracestate": "a=b"}, [1, 2])
    (span,) = finished()
    assert answer.status_code == 202
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT[36:52]
    own = f"00-{TRACE}-{span.context.span_id:016x}-01".encode()
    assert carried == [own, own]
    assert span.attributes["http.response.status_code"] == 202
    assert span.attributes["messaging.batch.message_count"] == 2


def test_a_request_without_a_trace_begins_one(told):
    spans, finished = told
    (carried,), _ = posted(spans, {"traceparent": "rubbish", "tracestate": "a=b"}, {})
    (span,) = finished()
    assert carried.decode().split("-")[1] == f"{span.context.trace_id:032x}"


def test_a_refusal_is_no_error_of_ours(told):
    spans, finished = told
    _, answer = posted(spans, {"content-type": "text/plain"}, {})
    (span,) = finished()
    assert answer.status_code == 415
    assert not span.events
    assert span.status.is_unset


def test_without_traces_the_senders_own_is_kept():
    carried, _ = posted(None, {"traceparent": PARENT}, {})
    assert carried == [PARENT.encode()]
