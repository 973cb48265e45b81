"""`GET /v1/live`: what changes, as it changes, to every page that is open.

A thousand pages must not cost a thousand looks, and one that does not read must not cost memory.
So one task looks once a second while anybody is connected and hands the state to the `Feed`; each
client has a place of its own in it, a number, and nothing is queued for it. Bytes go out in small
pieces, and the next one only when the one before has left; a client that takes none for a while is
cut off by the door (`doors/protocol.py`), and there are only so many places.

While nobody is connected it looks now and then, so that alerts which need some looks are there when
somebody comes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import structlog
from fastapi import APIRouter, Request, Response
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from headrace.console.access import Entered, GuardedRoute
from headrace.console.feed import NOTHING, Feed
from headrace.console.problems import refusals
from headrace.console.watcher import Watcher
from headrace.doors.guard import calling
from headrace.doors.outage import Outage
from headrace.doors.problems import Problem
from headrace.errors import HeadraceError

log = structlog.get_logger(__name__)
router = APIRouter(route_class=GuardedRoute, tags=["live"])

_MEANWHILE = "what is asked of it is refused with 503"

EVERY_S = 1.0
#: the same while nobody is connected
IDLE_S = 10.0
#: a comment keeps proxies from closing a connection on which nothing happens
PING_S = 15
#: so that what waits for a client in the server is never much
PIECE_BYTES = 16_384
#: connections of one tenant
MOST_OF_ONE = 50

Check = Callable[[], Awaitable[object]]


class Live:
    """The clients, and the task that looks for them. Used on the event loop alone."""

    def __init__(self, watcher: Watcher, most_clients: int) -> None:
        """Take what to look with; `run` begins it."""
        self._watcher = watcher
        self._most_clients = most_clients
        self._feed = Feed()
        self._moved = asyncio.Event()
        self._called = asyncio.Event()
        self._places: Counter[str | None] = Counter()
        self._fresh = False
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def clients(self) -> int:
        """How many are connected."""
        return self._places.total()

    async def run(self) -> None:
        """Look, as long as the app runs."""
        self._loop = asyncio.get_running_loop()
        outage, troubled = Outage(), False
        while True:
            try:
                snapshot = await run_in_threadpool(self._watcher.view)
            except HeadraceError as error:
                troubled = True
                if outage.begins():
                    log.warning(
                        "the store does not answer, the live view stands still",
                        error=str(error),
                        meanwhile=_MEANWHILE,
                    )
            else:
                troubled = False
                if outage.ends():
                    log.info("the store answers again")
                if self.clients:
                    self._feed.take(snapshot)
                    self._tell()
            self._fresh = bool(self.clients) and not troubled
            self._called.clear()
            if self.clients:
                await asyncio.sleep(EVERY_S)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._called.wait(), IDLE_S)

    def close(self) -> None:
        """Let all clients go; they come back by themselves when the service does."""
        self._closed = True
        self._tell()

    def end(self) -> None:
        """The same, from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and all clients with it
                self._loop.call_soon_threadsafe(self.close)

    def _tell(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def take_place(self, tenant: str | None) -> None:
        """Count a client in.

        Raises:
            Problem: 503, there is no room.
        """
        crowded = tenant is not None and self._places[tenant] >= MOST_OF_ONE
        if self._closed or crowded or self.clients >= self._most_clients:
            raise Problem(
                503,
                "busy",
                "as many live views as there is room for are open; close one, or try again later",
                headers={"Retry-After": "10"},
            )
        self._places[tenant] += 1

    def leave_place(self, tenant: str | None) -> None:
        """Count a client out."""
        self._places[tenant] -= 1
        if not self._places[tenant]:
            del self._places[tenant]

    async def events(self, tenant: str | None, check: Check) -> AsyncIterator[bytes]:
        """What a client gets, until its credential does not work any more.

        That is asked at each look, before anything of it is shown, and mostly answered from memory.
        A tenant that is added under the name of a removed one may be another customer, so a view of
        the one before ends before it shows anything of the next.
        """
        given = NOTHING
        first: int | None = None
        is_first = True
        if not self._fresh:
            # What is known is as old as the last client.
            self._called.set()
            await self._moved.wait()
        while not self._closed:
            moved = self._moved
            if given != self._feed.number:
                generation = self._feed.generation(tenant)
                # None of one that is gone already: whoever comes under its name is another.
                first, is_first = generation if is_first else first, False
                if generation not in (None, first):
                    return
                events = self._feed.since(given, tenant)
                given = self._feed.number
                for start in range(0, len(events), PIECE_BYTES):
                    yield events[start : start + PIECE_BYTES]
                continue
            await moved.wait()
            try:
                await check()
            except (Problem, HeadraceError):
                return


class LiveResponse(EventSourceResponse):
    """The stream of one client, in a place of its own."""

    def __init__(self, live: Live, tenant: str | None, check: Check) -> None:
        """Take whose it is."""
        super().__init__(live.events(tenant, check), ping=PING_S, sep="\n")
        self._live = live
        self._tenant = tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until somebody has enough."""
        try:
            self._live.take_place(self._tenant)
        except Problem as full:
            await full.response()(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._live.leave_place(self._tenant)


@router.get(
    "/v1/live",
    response_class=Response,
    status_code=200,
    responses={
        200: {
            "description": "Server-sent events `tenants`, `drivers`, `waves`, `use-cases` and "
            "`alerts`: first everything, then what changed.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **refusals(),
    },
)
async def live_view(request: Request, caller: Entered) -> LiveResponse:
    """What changes, as it changes; a tenant sees its own.

    `tenants`, `waves` and `use-cases` carry `whole`, `items` and `gone`; `drivers` is the summary;
    `alerts` carries all `items`.
    """
    live = request.app.state.live
    assert isinstance(live, Live), "the app was made with one"

    async def check() -> object:
        return await calling(request)

    return LiveResponse(live, caller.tenant, check)
