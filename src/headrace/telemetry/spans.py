"""Spans by OpenTelemetry's SDK. Imported only where traces are wanted (`tracing`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
)
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headrace.model.lane_names import label_of
from headrace.model.places import text_of
from headrace.model.receipts import Receipt

_WORDS = TraceContextTextMapPropagator()
_NS = 1_000_000_000


class Spans:
    """``tracing.Tracing`` by a provider of its own, not the process's global one."""

    def __init__(self, service: str, processor: SpanProcessor) -> None:
        """Take the service's name, which ``OTEL_SERVICE_NAME`` overrides, and where spans go."""
        named = Resource({"service.name": service}).merge(Resource.create())
        if named.attributes["service.name"] == "unknown_service":
            named = named.merge(Resource({"service.name": service}))
        self._provider = TracerProvider(resource=named)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("headrace")

    @contextmanager
    def request(
        self, kind: str, tenant: str, headers: Mapping[str, str]
    ) -> Iterator[GatewayRequest]:
        """The span of a request for events of a type, as part of the sender's trace."""
        attributes = {"headrace.tenant": tenant, "headrace.event_type": kind}
        with self._tracer.start_as_current_span(
            f"send {kind}",
            _WORDS.extract(headers),
            SpanKind.SERVER,
            attributes,
            # A refusal is an answer, not a failure of ours.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield GatewayRequest(span)

    def committed(self, receipt: Receipt, wave: str, at_s: float) -> None:
        """A slice is committed; told if one of its records belongs to a trace that is recorded."""
        found = [
            _WORDS.extract({"traceparent": traceparent}) for traceparent in receipt.traceparents
        ]
        contexts = [get_current_span(context).get_span_context() for context in found]
        if not any(context.trace_flags.sampled for context in contexts):
            return
        piece = receipt.slice
        span = self._tracer.start_span(
            f"slice {piece.lane.use_case}",
            kind=SpanKind.CONSUMER,
            links=[Link(context) for context in contexts if context.is_valid],
            start_time=round((at_s - receipt.seconds) * _NS),
            attributes={
                "headrace.tenant": piece.lane.tenant,
                "headrace.use_case": piece.lane.use_case,
                "headrace.wave": wave,
                "messaging.system": "kafka",
                "messaging.destination.name": piece.lane_topic,
                "messaging.destination.partition.id": label_of(piece.lane.name),
                "messaging.batch.message_count": receipt.records,
                "headrace.from_offset": text_of(piece.from_offset),
                "headrace.reached": text_of(receipt.reached),
            },
        )
        if receipt.error is not None:
            span.set_status(StatusCode.ERROR, receipt.error.code)
        span.end(round(at_s * _NS))

    def close(self) -> None:
        """Hand over what was not told yet."""
        self._provider.shutdown()


class GatewayRequest:
    """``tracing.RequestSpan``."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def headers(self) -> Mapping[str, str]:
        """The place of this span in its trace."""
        carrier: dict[str, str] = {}
        _WORDS.inject(carrier, set_span_in_context(self._span))
        return carrier

    def answered(self, status: int, topic: str, events: int) -> None:
        """Note what became of the request."""
        self._span.set_attributes(
            {
                "http.response.status_code": status,
                "messaging.system": "kafka",
                "messaging.destination.name": topic,
                "messaging.batch.message_count": events,
            }
        )
        if status >= 500:
            self._span.set_status(StatusCode.ERROR)


def exported(service: str, exporter: str) -> Spans:
    """Spans to where the environment says, or to standard output for ``console``."""
    made: SpanExporter = ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter()
    return Spans(service, BatchSpanProcessor(made))
