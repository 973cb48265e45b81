"""The gateway over HTTP: routes, and what is written down of them for OpenAPI.

A request goes: who calls (`doors`), is there such a type, is there room for it, then `intake`.
Bodies are read raw and answers written raw: models for a thousand events a request would cost more
than all the rest. So what they look like is told to OpenAPI by hand (`openapi`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import Annotated, Any

import structlog
from fastapi import Depends, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect

from headrace.doors.guard import allowed, calling
from headrace.doors.problems import Problem, no_customers, problem_responses
from headrace.doors.readiness import Readiness
from headrace.doors.watch import Backend, watching
from headrace.errors import HeadraceError
from headrace.gateway import events, openapi
from headrace.gateway.answers import GatewayResponse, answer_of, problem_of
from headrace.gateway.fast_path import FastPath
from headrace.gateway.intake import Generations, Intake, IntakeRules, KnownTopics, Records
from headrace.gateway.metrics import GatewayMetrics
from headrace.gateway.rates import RequestRoom, RequestShare
from headrace.gateway.subjects import Subject, troubles_of
from headrace.model.credentials import Caller, Role
from headrace.model.everyone import EVERYONE
from headrace.telemetry.tracing import RequestSpan, Tracing

log = structlog.get_logger(__name__)

#: who sends events; operators and viewers belong to no tenant
SENDERS = (Role.SENDER, Role.TENANT)
SEEING = (Role.OPERATOR, Role.VIEWER)
#: who may do what, by method and path; None: anybody, also without a credential
ACCESS: dict[tuple[str, str], tuple[Role, ...] | None] = {
    ("POST", openapi.EVENTS_PATH): SENDERS,
    ("GET", "/metrics"): SEEING,
    ("GET", "/livez"): None,
    ("GET", "/readyz"): None,
    ("GET", openapi.OPENAPI_PATH): None,
}


def gateway_app(  # noqa: PLR0913 - parts of an application
    rules: IntakeRules,
    records: Records,
    topics: KnownTopics,
    *,
    is_removed: Callable[[str], Awaitable[bool]] | None = None,
    generation: Generations | None = None,
    tracing: Tracing | None = None,
    behind: Sequence[Backend] = (),
    looks: AbstractAsyncContextManager[None] | None = None,
) -> FastAPI:
    """The application, without the door that has to be put around it (`doors.door`).

    Args:
        rules: what is taken.
        records: where events go; closed when the application ends.
        topics: which topics there are; closed with it.
        is_removed: whether a tenant was removed; None: none ever is.
        generation: which of the tenants of a name there is now; None: there is only ever one.
        tracing: told of requests; closed with the application.
        behind: what is watched, and told of when it does not answer.
        looks: for the schemas of subjects, as long as the application runs.
    """
    subjects = rules.subjects
    figures = GatewayMetrics(rules.room, subjects)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with watching(*behind), looks or nullcontext():
                yield
        finally:
            await records.close()
            topics.close()
            if tracing is not None:
                await asyncio.to_thread(tracing.close)

    app = FastAPI(**openapi.description_of(subjects), lifespan=lifespan)
    intake = Intake(rules, records, topics, generation or _the_only_one)
    desk = _Desk(intake, rules.room, figures, is_removed or _never, tracing)
    _add_routes(app, desk, figures)
    _add_probes(app, Readiness(topics.broker_answers), subjects)
    # FastAPI keeps the document that it makes here, and answers with that.
    app.openapi().setdefault("components", {})["securitySchemes"] = openapi.SECURITY
    return app


async def _the_only_one(tenant: str, *, anew: bool = False) -> int:
    return 0


async def _never(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class _Desk:
    """Takes a request that has a caller."""

    intake: Intake
    room: RequestRoom
    figures: GatewayMetrics
    is_removed: Callable[[str], Awaitable[bool]]
    tracing: Tracing | None

    async def answer(self, request: Request, caller: Caller, name: str) -> GatewayResponse:
        """Take the events of a request; ``Problem`` if it is refused as a whole."""
        tenant = caller.tenant
        if caller.role not in SENDERS or tenant is None:
            raise Problem(403, "forbidden", "only keys of a tenant send events")
        if await self.is_removed(tenant):
            if tenant == EVERYONE:
                raise no_customers(tenant)
            raise Problem(403, "forbidden", "this tenant was removed")
        try:
            return await self._taken(request, tenant, name)
        except events.RequestRefused as refused:
            raise problem_of(refused) from refused
        except HeadraceError as error:
            # It names servers and settings, which are no sender's business.
            log.warning("events could not be taken", tenant=tenant, error=str(error))
            raise _away() from error
        except ClientDisconnect as gone:
            raise Problem(400, "bad-request", "the request ended before its body did") from gone

    async def _taken(self, request: Request, tenant: str, name: str) -> GatewayResponse:
        kind = self.intake.kind(name)
        headers = _headers(request)
        with (
            self.room.taken(tenant, _announced_bytes(request)) as share,
            self._span(name, tenant, headers) as span,
        ):
            if span is not None:
                headers.pop("tracestate", None)
                headers |= span.headers()
            asked = events.Request(headers, await _body(request, share), _key(request))
            taken = await self.intake.take(tenant, kind, asked)
            if taken.sending is not None:
                share.keep_until(taken.sending.fates)
            answer = answer_of(taken)
            if span is not None:
                span.answered(answer.status, taken.topic, len(taken.outcomes))
        self.figures.took(name, len(asked.body), taken.outcomes)
        return answer

    def _span(
        self, name: str, tenant: str, headers: dict[str, str]
    ) -> AbstractContextManager[RequestSpan | None]:
        if self.tracing is None:
            return nullcontext()
        return self.tracing.request(name, tenant, headers)


def _announced_bytes(request: Request) -> int:
    # The HTTP parser has refused what is no number.
    return int(request.headers.get("content-length", 0))


async def _body(request: Request, share: RequestShare) -> bytes:
    """The body; room for one of unknown length is taken as it comes."""
    if "content-length" in request.headers:
        return await request.body()
    chunks = []
    async for chunk in request.stream():
        share.grow(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def _away() -> Problem:
    return Problem(503, "unavailable", "Kafka does not answer", headers={"Retry-After": "1"})


def _headers(request: Request) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.raw}


def _key(request: Request) -> str | None:
    # A query is seldom there, and costs a parser.
    return request.query_params.get("key") if request.scope["query_string"] else None


def _sending(desk: _Desk, figures: GatewayMetrics) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        """Store one event, or a batch of them; answered when Kafka has acknowledged them."""
        began_s = time.perf_counter()
        status = 500
        try:
            caller = await calling(request)
            answer = await desk.answer(request, caller, request.path_params["type"])
            status = answer.status
            return Response(answer.body, status, answer.headers)
        except Problem as problem:
            status = problem.status_code
            raise
        finally:
            figures.answered(status, time.perf_counter() - began_s)

    return send


def _add_routes(app: FastAPI, desk: _Desk, figures: GatewayMetrics) -> None:
    send = _sending(desk, figures)
    app.post(openapi.EVENTS_PATH, **openapi.EVENTS)(send)
    app.add_middleware(FastPath, endpoint=send)

    @app.get(
        "/metrics",
        tags=["service"],
        responses=problem_responses(401, 403, 429),
        openapi_extra=openapi.WITH_KEY,
    )
    async def metrics(
        _: Annotated[Caller, Depends(allowed(*SEEING))],
    ) -> Response:
        """Counters of this process, for Prometheus."""
        return Response(figures.exposition(), media_type=CONTENT_TYPE_LATEST)


def _add_probes(app: FastAPI, readiness: Readiness, subjects: Mapping[str, Subject]) -> None:
    @app.get("/livez", tags=["service"])
    async def livez() -> dict[str, Any]:
        """Whether this process answers."""
        return {"live": True}

    @app.get("/readyz", tags=["service"], responses=problem_responses(503))
    async def readyz() -> dict[str, Any]:
        """Whether events can be stored: Kafka answers. `schemas` tells of types in trouble."""
        if not await readiness.now():
            raise _away()
        troubles = troubles_of(subjects)
        return {"ready": True, "schemas": troubles} if troubles else {"ready": True}
