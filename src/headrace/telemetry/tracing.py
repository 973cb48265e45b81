"""Traces from the gateway to the committed slice, where somebody asks for them.

A trace answers what figures cannot: where did *this* event spend its time? OpenTelemetry is how
services tell, so its own variables turn this on: ``OTEL_EXPORTER_OTLP_ENDPOINT``, or
``OTEL_TRACES_EXPORTER`` with ``otlp`` or ``console``. Without them nothing of it is even imported.
It needs the extra ``tracing``; without that, a warning says so and there are no traces.

A request at the gateway is a span, and the sender's trace goes on in it; its records carry the
span's ``traceparent``. A slice is a span of its own, made by the driver at the commit, with links
to some of the records in it: a batch has many parents, and none of them owns it. Handlers of form
``wave`` have none.

What a span looks like is in `spans`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import structlog

from headrace.model.receipts import Receipt

log = structlog.get_logger(__name__)

#: traceparents that a receipt carries at most, and so links of a span
MOST_LINKS = 8
_NAMES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class RequestSpan(Protocol):
    """A request at the gateway that is being answered."""

    def headers(self) -> Mapping[str, str]:
        """What its records are to carry: ``traceparent``, and ``tracestate`` if there is one."""

    def answered(self, status: int, topic: str, events: int) -> None:
        """What became of it."""


class Tracing(Protocol):
    """Tells spans. Safe in several threads; never raises for an exporter that is away."""

    def request(
        self, kind: str, tenant: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[RequestSpan]:
        """The span of a request for events of a type, as part of the sender's trace."""

    def committed(self, receipt: Receipt, wave: str, at_s: float) -> None:
        """A slice is committed; told if its records belong to traces."""

    def close(self) -> None:
        """Hand over what was not told yet."""


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").lower()
    return exporter != "none" and bool(exporter or any(environment.get(name) for name in _NAMES))


def opened(service: str, environment: Mapping[str, str] = os.environ) -> Tracing | None:
    """Traces under this name of a service; None if nobody asks for them, or they cannot be had."""
    if not is_wanted(environment):
        return None
    try:
        from headrace.telemetry.spans import exported  # noqa: PLC0415 - of an extra, and seldom wanted
    except ImportError:
        log.warning("no traces: they need 'pip install headrace[tracing]'")
        return None
    return exported(service, environment.get("OTEL_TRACES_EXPORTER", "otlp").lower())
