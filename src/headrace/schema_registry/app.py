"""The registry over HTTP: from a request to an answer that Confluent's clients read.

A request goes: which route, who calls (``doors``), may they, whose is the subject, then the answer
(``answers``) in a thread, since the store is asked. There is one way in, so no route can be reached
around it. A refusal of the doors is said in the doors' own form, and put into the registry's on its
way out (``ClientForm``), whoever refused.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import orjson
import structlog
from fastapi import Depends, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from headrace.doors.guard import Doorkeeper, allowed, calling
from headrace.doors.minute import Minute
from headrace.doors.problems import Problem, too_many
from headrace.doors.readiness import Readiness
from headrace.doors.watch import Backend, watching
from headrace.errors import (
    ConfigError,
    HeadraceError,
    StoreUnavailable,
    StoreUnusable,
    Temporary,
)
from headrace.model.credentials import Caller, Change, Role, names
from headrace.ports import Store
from headrace.schema_registry import refusals
from headrace.schema_registry.access import Route, routes_of, segments_of
from headrace.schema_registry.answers import Raw
from headrace.schema_registry.asked import Asked, query_of, subject_of
from headrace.schema_registry.at_once import PAUSE_S, AtOnce
from headrace.schema_registry.judges import Judges, JudgesBusy
from headrace.schema_registry.metrics import NO_ROUTE, RegistryMetrics
from headrace.schema_registry.owners import Owners
from headrace.schema_registry.refusals import Refusal
from headrace.schema_registry.registry import SchemaRegistry
from headrace.schema_registry.rooms import RoomLimits
from headrace.schema_registry.wanted import EVERYTHING, Sight

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
#: what a tenant, or a key like one, may try to change in a minute: each attempt is a line in the
#: audit log
CHANGES_PER_MINUTE = 600
#: how many look-ups and checks a tenant may ask for in a minute: each has a schema looked at
LOOKS_PER_MINUTE = 600
#: who reads what is counted
SEEING = (Role.OPERATOR, Role.VIEWER)
_MOST_DETAIL = 2_000
#: characters of a path that are noted; the name of a subject has 400
_MOST_PATH = 600
_NO_MEMORY = Refusal(503, 50002, "there is not enough memory for that now; ask for less, or again")
_UNKNOWN = Refusal(500, 50001, "something is wrong here; the log has it")


@dataclass(frozen=True)
class RegistryParts:
    """What the registry is made of."""

    store: Store
    guard: Doorkeeper
    judges: Judges
    owners: Owners
    limits: RoomLimits = field(default_factory=RoomLimits)
    clock: Callable[[], float] = time.time


def registry_app(parts: RegistryParts) -> FastAPI:
    """The application, without the door around it (`doors.door`); ends the judges with itself."""
    readiness = Readiness(_answers(parts.store))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        meanwhile = "requests are answered with 503"
        try:
            async with watching(Backend("the store", _answers(parts.store), meanwhile)):
                yield
        finally:
            parts.judges.close()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.guard = parts.guard
    figures = RegistryMetrics(parts.judges.busy)
    registry = SchemaRegistry(parts.store.schema_subjects, parts.judges, parts.limits)
    desk = _Desk(parts, registry, figures)

    async def livez(_: Request) -> Response:
        return _json({"live": True})

    async def readyz(_: Request) -> Response:
        if await readiness.now():
            return _json({"ready": True})
        return _refused(Refusal(503, 50001, "the store does not answer"))

    async def metrics(_: Annotated[Caller, Depends(allowed(*SEEING))]) -> Response:
        return Response(figures.exposition(), media_type=CONTENT_TYPE_LATEST)

    async def answer(request: Request) -> Response:
        return await desk.answer(request)

    app.add_route("/livez", livez, ["GET"])
    app.add_route("/readyz", readyz, ["GET"])
    app.get("/metrics")(metrics)
    app.add_route("/{path:path}", answer, ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"])
    return app


@dataclass(frozen=True)
class _Desk:
    parts: RegistryParts
    registry: SchemaRegistry
    figures: RegistryMetrics
    changes: Minute = field(default_factory=Minute)
    looks: Minute = field(default_factory=Minute)
    at_once: AtOnce = field(default_factory=AtOnce)

    async def answer(self, request: Request) -> Response:
        since_s = time.perf_counter()
        name, status = NO_ROUTE, 500
        try:
            route, parts = _route(request)
            name = f"{route.method} {route.path}"
            response = await self._of_route(request, route, parts)
            status = response.status_code
        except Refusal as refusal:
            response, status = _refused(refusal), refusal.status
        except Problem as problem:
            status = problem.status_code
            raise
        finally:
            self.figures.answered(name, status, time.perf_counter() - since_s)
        return response

    async def _of_route(self, request: Request, route: Route, parts: dict[str, str]) -> Response:
        try:
            caller = await calling(request)
            body = await request.body() if request.method in ("POST", "PUT") else b""
        except ClientDisconnect:
            return _refused(Refusal(400, 400, "the request ended before its body did"))
        except (StoreUnavailable, StoreUnusable) as error:
            return _refused(_told(error))
        held = caller.held_as
        if held is not None:
            await self._count(request, route, held)
        async with self.at_once.of(held, lists=route.lists):
            return await run_in_threadpool(self._answered, request, route, parts, caller, body)

    def _answered(
        self, request: Request, route: Route, parts: dict[str, str], caller: Caller, body: bytes
    ) -> Response:
        # Until it is answered nobody knows that it was not done.
        status = 500
        try:
            response = self._tried(request, route, parts, caller, body)
            status = response.status_code
        finally:
            if route.changes:
                self._note(request, caller, parts.get("subject"), status)
        return response

    def _tried(
        self, request: Request, route: Route, parts: dict[str, str], caller: Caller, body: bytes
    ) -> Response:
        try:
            sight = self._sight(caller)
            _refuse_role(route, caller.role)
            if route.lists and request.method == "HEAD":
                return _without_body()
            if "subject" in parts:
                parts = {**parts, "subject": subject_of(parts["subject"])}
                self._refuse_of_another(sight, route, parts["subject"])
            query = query_of(request.scope["query_string"])
            media = request.headers.get("content-type", "")
            asked = Asked(caller, sight, parts, query, body, media)
            return _json(route.handle(self.registry, asked))
        except Refusal as refusal:
            return _refused(refusal)
        except HeadraceError as error:
            return _refused(_told(error))
        except MemoryError:
            log.error("request failed", error="there was not enough memory for it")
            return _refused(_NO_MEMORY)
        except Exception as error:
            log.exception("request failed", error=type(error).__name__)
            return _refused(_UNKNOWN)

    def _sight(self, caller: Caller) -> Sight:
        tenant, bound = caller.tenant, caller.subjects
        if tenant is None and bound is None:
            return replace(EVERYTHING, may_number=caller.role is Role.OPERATOR)
        held = caller.held_as
        if tenant is None:
            sees = partial(names, bound)
            return Sight(None, sees, may_number=False, held_as=held, pattern=bound)
        owners = self.parts.owners
        return Sight(
            tenant,
            lambda subject: names(bound, subject) and owners.owner(subject) == tenant,
            may_number=False,
            held_as=held,
            seen_topics=lambda: owners.seen(tenant),
            sent_topics=lambda: owners.sent(tenant),
        )

    def _refuse_of_another(self, sight: Sight, route: Route, subject: str) -> None:
        sees, tenant = sight.sees(subject), sight.tenant
        if not route.changes:
            if not sees:
                raise refusals.no_subject(subject)
        elif tenant is not None and self.parts.owners.changer(subject) != tenant:
            raise refusals.denied(f"subject {subject} is of no topic that this tenant sends to")
        elif not sees:
            raise refusals.denied(f"subject {subject} is none of those that this key is for")

    async def _count(self, request: Request, route: Route, held: str) -> None:
        if route.changes and self.changes.add(held) > CHANGES_PER_MINUTE:
            await asyncio.sleep(PAUSE_S)
            raise too_many(f"too many changes of {held} in a minute", self.changes.left_s())
        looks = route.looks or route.lists or _asks_for_descriptor(request)
        if looks and self.looks.add(held) > LOOKS_PER_MINUTE:
            await asyncio.sleep(PAUSE_S)
            raise too_many(f"too many look-ups of {held} in a minute", self.looks.left_s())

    def _note(self, request: Request, caller: Caller, subject: str | None, status: int) -> None:
        action = f"{request.method} {request.scope['path'][:_MOST_PATH]}"
        tenant = caller.tenant
        try:
            if tenant is None and subject is not None:
                tenant = self._owner(subject)
            query = request.scope["query_string"].decode("latin-1")[:_MOST_DETAIL]
            detail = orjson.dumps({"registry": True, "query": query}).decode()
            self.parts.store.audit.note(
                Change(self.parts.clock(), caller.name, action, tenant, status, detail)
            )
        except HeadraceError as error:
            # What was asked has been done or refused by now; to say otherwise would be a lie.
            log.error("change not noted in the store", action=action, error=str(error))
        log.info("change", who=caller.name, action=action, tenant=tenant, status=status)

    def _owner(self, name: str) -> str | None:
        """Whose the subject is that a path names; nobody's where no subject can have the name."""
        try:
            return self.parts.owners.owner(subject_of(name))
        except Refusal:
            return None


def _route(request: Request) -> tuple[Route, dict[str, str]]:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    segments = segments_of(raw)
    if segments[:1] == ["contexts"] and len(segments) > 1:
        raise refusals.bad_subject(f"there is no context {segments[1][:60]}, only the default one")
    found = routes_of(segments)
    if not found:
        raise Refusal(404, 404, "HTTP 404 Not Found")
    method = "GET" if request.method == "HEAD" else request.method
    for route, parts in found:
        if route.method == method:
            return route, parts
    raise Refusal(405, 405, "HTTP 405 Method Not Allowed")


def _asks_for_descriptor(request: Request) -> bool:
    """Whether a judge has to make the answer, whatever the route."""
    return "serialized" in request.query_params.getlist("format")


def _refuse_role(route: Route, role: Role) -> None:
    if role not in route.roles:
        raise refusals.denied(f"role {role} may not do that")


def _told(error: HeadraceError) -> Refusal:
    """What clients are told of an error; servers and settings are not their business."""
    match error:
        case JudgesBusy():
            return Refusal(503, 50002, f"{error}; try again")
        case Temporary():
            log.warning("request failed", error=str(error))
            return Refusal(503, 50001, "the store does not answer; try again")
        case StoreUnusable():
            log.error("request failed: the store cannot be used", error=str(error))
            return Refusal(503, 50001, "the store cannot be used as it is; the log says why")
        case ConfigError():
            log.warning("request failed", error=str(error))
            return Refusal(422, 42201, str(error)[:500])
        case _:
            log.error("request failed", error=str(error))
            return _UNKNOWN


def _json(value: Any) -> Response:
    content = value.encode("utf-8", "surrogatepass") if isinstance(value, Raw) else _dumped(value)
    return Response(content, 200, {"Cache-Control": "no-store"}, MEDIA_TYPE)


def _without_body() -> Response:
    """What HEAD is answered with; how long the list is nobody has counted."""
    response = Response(None, 200, {"Cache-Control": "no-store"}, MEDIA_TYPE)
    del response.headers["content-length"]
    return response


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # Half a character in a text that is kept: it has no bytes in UTF-8, but JSON can say it.
        return json.dumps(value).encode()


def _refused(refusal: Refusal) -> Response:
    said = {"error_code": refusal.code, "message": str(refusal)}
    content = orjson.dumps({name: _whole(part) for name, part in said.items()})
    headers = {"Cache-Control": "no-store"}
    if refusal.status == 503:
        headers["Retry-After"] = "1"
    return Response(content, refusal.status, headers, MEDIA_TYPE)


def _whole(part: object) -> object:
    return part.encode(errors="backslashreplace").decode() if isinstance(part, str) else part


def _answers(store: Store) -> Callable[[], Any]:
    async def answers() -> bool:
        await run_in_threadpool(store.revision)
        return True

    return answers
