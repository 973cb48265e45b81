"""What senders are told: where each event is, or why it is not stored.

One event is answered with its place, or with a problem (RFC 9457). A batch is answered item by
item, in the order it was sent: 202 if all are stored, 207 if some are, and a problem that holds the
same items if none is, so that a client that looks at the status alone does the right thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from headrace.connectors.kafka.ingest import Stored
from headrace.doors.problems import MEDIA_TYPE, Problem
from headrace.gateway.events import EventFault, RequestRefused
from headrace.gateway.intake import Taken
from headrace.gateway.rates import BUSY_RETRY_S, TooMuch
from headrace.gateway.reading import MEDIA_TYPES

_JSON = "application/json"


class GatewayResponse(NamedTuple):
    """A response."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def problem_of(refused: RequestRefused) -> Problem:
    """A request refused as a whole."""
    fault = refused.fault
    wait_s = refused.retry_after_s if isinstance(refused, TooMuch) else None
    return _problem(fault, _headers(fault.status, wait_s))


def answer_of(taken: Taken) -> GatewayResponse:
    """The answer to what was taken."""
    headers = {"Idempotent-Replayed": "true"} if taken.replayed else {}
    if taken.batch.single:
        (outcome,) = taken.outcomes
        return _single(taken, outcome, headers)
    accepted = sum(1 for outcome in taken.outcomes if isinstance(outcome, Stored))
    items = list(map(_item, taken.outcomes))
    content = {
        "topic": taken.topic,
        "accepted": accepted,
        "refused": len(items) - accepted,
        "items": items,
    }
    if accepted:
        status = 202 if accepted == len(items) else 207
        return GatewayResponse(status, orjson.dumps(content), {**headers, "content-type": _JSON})
    return _none_stored(
        [outcome for outcome in taken.outcomes if isinstance(outcome, EventFault)], content
    )


def _single(
    taken: Taken, outcome: Stored | EventFault, headers: Mapping[str, str]
) -> GatewayResponse:
    if isinstance(outcome, EventFault):
        return _said(_problem(outcome, _headers(outcome.status, None)))
    place = {"topic": taken.topic, "partition": outcome.partition, "offset": outcome.offset}
    return GatewayResponse(202, orjson.dumps(place), {**headers, "content-type": _JSON})


def _none_stored(faults: list[EventFault], content: dict[str, Any]) -> GatewayResponse:
    statuses = {fault.status for fault in faults}
    status = 503 if 503 in statuses else statuses.pop() if len(statuses) == 1 else 422
    detail = f"none of {len(faults)} events is stored; the first: {faults[0].detail}"
    problem = Problem(
        status, "nothing-stored", detail, headers=_headers(status, None), extra=content
    )
    return _said(problem)


def _item(outcome: Stored | EventFault) -> dict[str, object]:
    if isinstance(outcome, Stored):
        return {"status": 202, "partition": outcome.partition, "offset": outcome.offset}
    return _problem(outcome, {}).body()


def _problem(fault: EventFault, headers: Mapping[str, str]) -> Problem:
    extra: dict[str, object] = {}
    if fault.pointer is not None:
        extra["pointer"] = fault.pointer
    if fault.errors:
        extra["errors"] = [{"pointer": at, "detail": why} for at, why in fault.errors]
    return Problem(fault.status, fault.kind, fault.detail, headers=headers, extra=extra)


def _said(problem: Problem) -> GatewayResponse:
    headers = {**(problem.headers or {}), "content-type": MEDIA_TYPE}
    return GatewayResponse(problem.status_code, orjson.dumps(problem.body()), headers)


def _headers(status: int, wait_s: int | None) -> dict[str, str]:
    if status in (429, 503):
        return {"Retry-After": str(wait_s or BUSY_RETRY_S)}
    return {"Accept-Post": ", ".join(MEDIA_TYPES)} if status == 415 else {}
