"""What OpenAPI says of the gateway: forms of requests, examples, answers.

Bodies are read raw (`app`), so no model tells this by itself. Tests hold it against the gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from headrace.doors.problems import MEDIA_TYPE, problem_responses
from headrace.gateway.reading import JSON, LINES, STRUCTURED, STRUCTURED_MANY
from headrace.gateway.subjects import Subject

EVENTS_PATH = "/v1/events/{type}"
OPENAPI_PATH = "/v1/openapi.json"

#: how to show a credential
SECURITY = {"key": {"type": "http", "scheme": "bearer", "description": "An API key, or a JWT."}}
#: of routes that ask for one
WITH_KEY: dict[str, Any] = {"security": [{"key": []}]}

DESCRIPTION: dict[str, Any] = {
    "title": "Headrace ingest gateway",
    "version": version("headrace"),
    "summary": "Events of tenants into their Kafka topics.",
    "description": (
        "An event is acknowledged when Kafka has acknowledged it on all replicas in sync. "
        "The tenant comes from the credential, and so does the topic. "
        "Refusals are problems (RFC 9457)."
    ),
    "openapi_url": OPENAPI_PATH,
    "docs_url": None,
    "redoc_url": None,
    "redirect_slashes": False,
    # The gateway has its own spans and figures; FastAPI would look at each request for its own.
    "telemetry": {"tracing": False, "metrics": False, "logs": False},
}


def description_of(subjects: Mapping[str, Subject]) -> dict[str, Any]:
    """The description, and by type which schemas of a registry events have to keep."""
    told = [DESCRIPTION["description"]]
    for name, subject in sorted(subjects.items()):
        which = "newest version" if subject.version is None else f"version {subject.version}"
        told.append(
            f"Events of type `{name}` are checked against the {which} of the schema of "
            f"subject `{subject.name}`, and stored as what that describes."
        )
    return {**DESCRIPTION, "description": " ".join(told)}


_VISIT = {"lead": "ada", "page": "/prices"}
_CLOUD = {
    "specversion": "1.0",
    "id": "7f1",
    "source": "/shop",
    "type": "visit",
    "partitionkey": "ada",
    "data": _VISIT,
}
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer", "minimum": 0}
_OFFSET = {
    "type": ["integer", "null"],
    "minimum": 0,
    "description": "Null: it is stored, but Kafka's word for where was lost with a broker.",
}
_ENVELOPE = {
    "type": "object",
    "required": ["specversion", "id", "source", "type", "data"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "data": {},
    },
}
_PLACE = {
    "type": "object",
    "required": ["topic", "partition", "offset"],
    "properties": {"topic": _TEXT, "partition": _NUMBER, "offset": _OFFSET},
}
_ITEM = {
    "type": "object",
    "description": "Its place, or a problem with `type`, `title`, `detail`, `pointer`.",
    "required": ["status"],
    "properties": {"status": _NUMBER, "partition": _NUMBER, "offset": _OFFSET, "detail": _TEXT},
}
_ITEMS = {
    "type": "object",
    "required": ["topic", "accepted", "refused", "items"],
    "properties": {
        "topic": _TEXT,
        "accepted": _NUMBER,
        "refused": _NUMBER,
        "items": {"type": "array", "items": _ITEM},
    },
}


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": schema}


_KEY = {"type": "string", "maxLength": 1024}
_PARAMETERS = [
    {
        "name": "type",
        "in": "path",
        "required": True,
        "description": "Type of the events, as the gateway's settings name it.",
        "schema": _TEXT,
        "example": "visit",
    },
    {
        "name": "key",
        "in": "query",
        "description": "Partition key of all events of the request.",
        "schema": _KEY,
    },
    _header("X-Partition-Key", "The same; goes before `key`.", _KEY),
    _header(
        "Idempotency-Key",
        "The same key with the same request is stored once and answered the same.",
        {"type": "string", "pattern": "^[!-~]{1,255}$"},
    ),
    _header("traceparent", "W3C trace context, kept on the records.", _TEXT),
]
_BODY = {
    "required": True,
    "content": {
        JSON: {
            "schema": {},
            "examples": {
                "one": {"summary": "One event", "value": _VISIT},
                "many": {"summary": "A batch", "value": [_VISIT, _VISIT]},
            },
        },
        **{
            name: {"schema": _TEXT, "example": '{"lead":"ada"}\n{"lead":"bob"}\n'} for name in LINES
        },
        STRUCTURED: {"schema": _ENVELOPE, "example": _CLOUD},
        STRUCTURED_MANY: {
            "schema": {"type": "array", "items": _ENVELOPE, "minItems": 1},
            "example": [_CLOUD],
        },
    },
}


def _problems() -> dict[int | str, dict[str, Any]]:
    """Problems of all kinds; where several items were refused, with the items."""
    found = problem_responses(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503)
    for status in (429, 503):
        found[status]["headers"] = {
            "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        }
    assert all(MEDIA_TYPE in response["content"] for response in found.values())
    return found


EVENTS: dict[str, Any] = {
    "status_code": 202,
    "tags": ["events"],
    "operation_id": "send_events",
    "summary": "Send events",
    "response_description": "All events are stored.",
    "openapi_extra": {
        "parameters": _PARAMETERS,
        "requestBody": _BODY,
        **WITH_KEY,
        "responses": {
            "202": {"content": {JSON: {"schema": {"anyOf": [_PLACE, _ITEMS]}}}},
        },
    },
    "responses": {
        207: {
            "description": "Some events are stored; see the items.",
            "content": {JSON: {"schema": _ITEMS}},
        },
        **_problems(),
    },
}
