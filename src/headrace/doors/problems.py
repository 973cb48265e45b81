"""How a door says no: RFC 9457 problems, one shape for every refusal.

A client has to know from the answer alone whether to correct itself, to wait or to call somebody,
and an answer must not tell a stranger what is inside. So each refusal has a stable ``type``, and
every other exception is turned into one here: those of Headrace by their place in the error tree,
unknown ones into a 500 that says nothing but a number to look for in the log.

Who may do what is decided elsewhere (``guard``).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from headrace.doors.faults import fault_of, place_of
from headrace.errors import (
    ConfigError,
    HeadraceError,
    NotAllowed,
    StoreUnusable,
    Temporary,
    UnknownName,
)
from headrace.model.credentials import Caller

log = structlog.get_logger(__name__)

#: of one request, that are told
_MOST_FAULTS = 20

MEDIA_TYPE = "application/problem+json"
_URN = "urn:headrace:problem:"
#: names of problems that have no better one, by status
_KINDS = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    408: "too-slow",
    409: "conflict",
    412: "moved-on",
    413: "too-large",
    415: "unsupported-media-type",
    421: "misdirected",
    422: "invalid",
    429: "rate-limited",
    431: "header-too-large",
    500: "internal",
    503: "unavailable",
}
_WAIT_S = 1
#: what an error tells who types commands; a tenant has none
_COMMAND = re.compile(r"[;,]?(?: or)?(?: use)? 'headrace .*", re.DOTALL)


class Problem(HTTPException):
    """A refusal, to be raised wherever a request is answered.

    It is an ``HTTPException``, since FastAPI lets only those pass where it reads a body.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Take the status, what follows ``urn:headrace:problem:``, and a sentence for people."""
        super().__init__(status, detail, dict(headers or {}))
        self.kind = kind
        self.extra = dict(extra or {})

    def body(self) -> dict[str, object]:
        """The members of the JSON object; those of RFC 9457 cannot be overwritten."""
        return self.extra | {
            "type": _URN + self.kind,
            "title": self.kind.replace("-", " ").capitalize(),
            "status": self.status_code,
            "detail": self.detail,
        }

    def response(self) -> Response:
        """The answer."""
        content = orjson.dumps(self.body())
        return Response(content, self.status_code, self.headers, MEDIA_TYPE)


def too_many(detail: str, retry_after_s: float) -> Problem:
    """A 429 that says how long to wait."""
    return Problem(429, "rate-limited", detail, headers=_retry_after(retry_after_s))


def no_customers(name: str) -> Problem:
    """The refusal of a credential of a name that no customer has."""
    why = "stands for all customers together, and no credential is of it"
    return Problem(403, "forbidden", f"{name} {why}")


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route gives FastAPI as ``responses``, to declare the problems it answers with."""
    member = {"type": "string"}
    schema = {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": member,
            "title": member,
            "status": {"type": "integer"},
            "detail": member,
        },
    }
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def problem_of(error: HeadraceError) -> Problem:
    """What callers are told of an error of Headrace."""
    match error:
        case UnknownName():
            return Problem(404, "unknown-name", str(error))
        case NotAllowed():
            return Problem(403, "forbidden", str(error))
        case Temporary() | StoreUnusable():
            # Whatever is wrong with the store is none of the caller's doing, nor its business.
            headers = _retry_after(getattr(error, "retry_after_s", None) or _WAIT_S)
            number = _noted(error)
            detail = f"this does not work at the moment; try again (incident {number})"
            return Problem(503, "unavailable", detail, headers=headers)
        case ConfigError():
            return Problem(409, "conflict", str(error))
        case _:
            return _internal(error)


def install_problems(app: FastAPI) -> None:
    """Let an application answer every exception with a problem."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HeadraceError, _troubled)
    app.add_exception_handler(Exception, _failed)


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, Problem):
        return error.response()
    assert isinstance(error, HTTPException)
    kind = _KINDS.get(error.status_code, "refused")
    return Problem(error.status_code, kind, error.detail, headers=error.headers).response()


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [fault_of(problem, error.body) for problem in islice(error.errors(), _MOST_FAULTS)]
    detail = "; ".join(f"{place_of(error)}: {error['detail']}" for error in errors[:3])
    return Problem(422, "invalid", detail, extra={"errors": errors}).response()


async def _troubled(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadraceError)
    problem = problem_of(error)
    caller = getattr(request.state, "caller", None)
    if isinstance(caller, Caller) and caller.tenant is not None:
        problem.detail = _COMMAND.sub("; an operator can do more", problem.detail)
    return problem.response()


async def _failed(_: Request, error: Exception) -> Response:
    return _internal(error).response()


def _internal(error: Exception) -> Problem:
    number = _noted(error)
    return Problem(500, "internal", f"something is wrong here; the log has it as {number}")


def _noted(error: Exception) -> str:
    """Log an error whose text callers do not see; the number that they see instead."""
    number = secrets.token_hex(4)
    log.error("request failed", incident=number, error=type(error).__name__, exc_info=error)
    return number


def _retry_after(wait_s: float) -> dict[str, str]:
    # Whole seconds, and never 0, which many clients take for "at once, for ever".
    return {"Retry-After": str(max(1, round(wait_s + 0.499)))}
