"""The control API, put together: what an operator sees and does, by HTTP.

Each group of routes has a file of its own; who may call them is one table (`access`), what was
attempted is noted around all of them (`audit`), and what everybody looks at is looked at once
(`watcher`). Decisions are not made here: `operating` and the store know what each one means.

Listening, TLS and limits on what may come in are in `doors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool

from headrace.console import (
    audit,
    failures,
    health,
    history,
    keys,
    live,
    overview,
    session,
    state,
    static,
    streams,
    tenants,
)
from headrace.console.access import ChangeLimit
from headrace.console.audit import Audited
from headrace.console.desk import Desk
from headrace.console.history import SparkKeeper
from headrace.console.live import Live
from headrace.console.metrics import Metrics
from headrace.console.places import Places
from headrace.console.refused import RefusedLog
from headrace.console.watcher import Watcher
from headrace.doors.guard import Doorkeeper
from headrace.doors.problems import install_problems
from headrace.doors.readiness import Readiness
from headrace.doors.watch import Backend, watching
from headrace.operating.tools import DecisionTools
from headrace.ports import Clock, Store

#: decisions that talk to Kafka at the same time; a redrive may take minutes
AT_KAFKA = 4
#: a name nobody has, asked for to see whether anybody answers
_NOBODY = "headrace-is-anybody-there"

_ROUTERS: tuple[APIRouter, ...] = (
    session.router,
    overview.router,
    tenants.router,
    history.router,
    streams.router,
    state.router,
    failures.router,
    keys.router,
    audit.router,
    live.router,
    health.router,
    static.router,
)


@dataclass(frozen=True)
class ApiParts:
    """What the control API is made of."""

    store: Store
    tools: DecisionTools
    guard: Doorkeeper
    #: what keys are made with
    secret: bytes = field(repr=False)
    clock: Clock
    most_clients: int = 1000
    #: what names of consumer groups begin with, as the mirror of positions has them
    group_prefix: str = "headrace."
    most_metric_tenants: int = 2000
    #: ids of schemas that drivers tell are those of the store
    own_registry: bool = True


def create_app(parts: ApiParts) -> FastAPI:
    """The app, to be served behind a door (`doors.door`); closes nothing that it was given."""
    app = FastAPI(
        title="Headrace control API",
        version=version("headrace"),
        description="Tenants, streams, failures, use cases, waves and keys of a Headrace service.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_living,
        redirect_slashes=False,
    )
    app.state.pages = static.read_pages()
    install_problems(app)
    for router in _ROUTERS:
        app.include_router(router)
    app.add_middleware(Audited)
    equip(app, parts)
    return app


def equip(app: FastAPI, parts: ApiParts) -> None:
    """Give an app its parts, or others, before it is served."""
    watcher = Watcher(parts.store, parts.clock)
    app.state.desk = Desk(
        parts.store,
        parts.tools,
        parts.secret,
        parts.clock,
        watcher,
        Places(AT_KAFKA),
        parts.own_registry,
    )
    app.state.guard = parts.guard
    app.state.readiness = Readiness(_asking(parts.store), parts.clock.monotonic_s)
    app.state.patience = ChangeLimit()
    app.state.refused = RefusedLog(parts.clock.monotonic_s)
    app.state.live = Live(watcher, parts.most_clients)
    app.state.sparks = SparkKeeper(parts.store.statistics)
    app.state.metrics = Metrics(
        parts.store.statistics,
        group_prefix=parts.group_prefix,
        most_tenants=parts.most_metric_tenants,
        now_s=parts.clock.now_s,
    )


def _asking(store: Store) -> Callable[[], Awaitable[bool]]:
    async def answers() -> bool:
        await run_in_threadpool(store.revision)
        return True

    return answers


def _kafka(tools: DecisionTools) -> Backend:
    def look() -> None:
        with tools.log() as log:
            log.topics([_NOBODY])

    async def answers() -> bool:
        await run_in_threadpool(look)
        return True

    meanwhile = "decisions that need it are refused with 503, the rest goes on"
    return Backend("Kafka", answers, meanwhile)


@asynccontextmanager
async def _living(app: FastAPI) -> AsyncIterator[None]:
    view: Live = app.state.live
    task = asyncio.create_task(view.run())
    try:
        async with watching(_kafka(app.state.desk.tools)):
            yield
    finally:
        view.close()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
