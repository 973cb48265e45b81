"""What the gateway counts, for Prometheus.

Types come from the configuration, so their names may be labels; tenants are many, and how much each
sends shows in its topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headrace.connectors.kafka.ingest import Stored
from headrace.gateway.events import EventFault
from headrace.gateway.rates import RequestRoom
from headrace.gateway.subjects import Subject

#: a request that waits for Kafka takes some milliseconds, one that times out ten seconds
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class GatewayMetrics:
    """Counters of one gateway process, in a registry of their own."""

    def __init__(self, room: RequestRoom, subjects: Mapping[str, Subject] | None = None) -> None:
        self._registry = CollectorRegistry()
        self._lines: dict[tuple[Counter | str, ...], Counter] = {}
        self._requests = Counter(
            "headrace_gateway_requests",
            "Requests with events, by HTTP status.",
            ["status"],
            registry=self._registry,
        )
        self._events = Counter(
            "headrace_gateway_events",
            "Events by type and result: stored, refused (the sender's fault) or failed (ours).",
            ["type", "result"],
            registry=self._registry,
        )
        self._bytes = Counter(
            "headrace_gateway_request_bytes",
            "Bytes of the bodies of requests, by type.",
            ["type"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "headrace_gateway_request_seconds",
            "From the beginning of a request to its answer.",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        under_way = Gauge(
            "headrace_gateway_under_way_bytes",
            "Bytes of requests that are being read or wait for Kafka.",
            registry=self._registry,
        )
        under_way.set_function(lambda: room.taken_bytes)
        self._tell_of(subjects or {})

    def _tell_of(self, subjects: Mapping[str, Subject]) -> None:
        """Which schemas are there, asked when metrics are."""
        schema = Gauge(
            "headrace_gateway_schema_id",
            "Id of the schema by which events of a type are written; -1: none is known yet.",
            ["type"],
            registry=self._registry,
        )
        failing = Gauge(
            "headrace_gateway_schema_look_failing",
            "1 where the last look for the schema of a type was of no use.",
            ["type"],
            registry=self._registry,
        )
        for name, subject in subjects.items():
            schema.labels(name).set_function(partial(_schema_id, subject))
            failing.labels(name).set_function(partial(_is_failing, subject))

    def answered(self, status: int, seconds: float) -> None:
        """A request has its answer."""
        self._of(self._requests, str(status)).inc()
        self._seconds.observe(seconds)

    def took(self, kind: str, body_bytes: int, outcomes: Sequence[Stored | EventFault]) -> None:
        """The events of a request have their fate."""
        faults = [outcome for outcome in outcomes if isinstance(outcome, EventFault)]
        failed = sum(1 for fault in faults if fault.status == 503)
        stored, refused = len(outcomes) - len(faults), len(faults) - failed
        for result, count in (("stored", stored), ("failed", failed), ("refused", refused)):
            if count:
                self._of(self._events, kind, result).inc(count)
        self._of(self._bytes, kind).inc(body_bytes)

    def _of(self, counter: Counter, *labels: str) -> Counter:
        """One line of a counter; to look it up each time is dear."""
        found = self._lines.get((counter, *labels))
        if found is None:
            found = self._lines[counter, *labels] = counter.labels(*labels)
        return found

    def exposition(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)


def _schema_id(subject: Subject) -> float:
    return -1 if subject.known is None else subject.known.id


def _is_failing(subject: Subject) -> float:
    return float(bool(subject.trouble))
