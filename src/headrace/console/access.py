"""Who may call which route: one table, and nothing else opens.

A route that somebody adds and forgets to protect would be open to all. So a route says nothing
about itself: the table here does, and what is not in it is refused. The credential is looked at
before anything of the request is read, and an object of another tenant is not there: the answer is
the one for a name that nobody has.

Which rows of a list a tenant sees is the route's own work, with `sees`. Who may resume depends on
who has stopped besides: a route acts in the caller's name (`stopper_of`), and the store refuses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.doors.guard import calling, forbidden, own
from headrace.doors.minute import Minute
from headrace.doors.problems import Problem, too_many
from headrace.model.credentials import Caller, Role
from headrace.model.streams import Stopper

Roles = frozenset[Role]

#: no credential is asked for
OPEN: Roles = frozenset()
OPERATOR: Roles = frozenset({Role.OPERATOR})
#: whoever may see what concerns all tenants
SEEING: Roles = frozenset({Role.OPERATOR, Role.VIEWER})
#: the same, and a tenant what is its own
OWN_SEEING: Roles = SEEING | {Role.TENANT}
#: whoever may change something, a tenant what is its own
OWN_DOING: Roles = frozenset({Role.OPERATOR, Role.TENANT})

#: methods that change nothing
LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
#: of one tenant, or of whoever else is no operator: those and their scripts change what they like
CHANGES_PER_MINUTE = 300

_STREAM = "/v1/streams/{tenant}/{use_case}"

#: by method and path; a route that is not here is refused
RULES: dict[tuple[str, str], Roles] = {
    ("GET", "/livez"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/v1/openapi.json"): OPEN,
    ("GET", "/"): OPEN,
    ("GET", "/pages/{path:path}"): OPEN,
    ("POST", "/v1/session"): OPEN,
    ("DELETE", "/v1/session"): OWN_SEEING,
    ("GET", "/v1/me"): OWN_SEEING,
    ("GET", "/v1/live"): OWN_SEEING,
    ("GET", "/metrics"): SEEING,
    ("GET", "/v1/summary"): SEEING,
    ("GET", "/v1/tenants"): OWN_SEEING,
    ("POST", "/v1/tenants"): OPERATOR,
    ("POST", "/v1/tenant-states"): OPERATOR,
    ("GET", "/v1/tenants/{tenant}"): OWN_SEEING,
    ("PUT", "/v1/tenants/{tenant}"): OPERATOR,
    ("DELETE", "/v1/tenants/{tenant}"): OPERATOR,
    ("POST", "/v1/tenants/{tenant}/suspend"): OWN_DOING,
    ("POST", "/v1/tenants/{tenant}/resume"): OWN_DOING,
    ("GET", "/v1/tenants/{tenant}/history"): OWN_SEEING,
    ("GET", "/v1/sparks"): OWN_SEEING,
    ("GET", "/v1/streams"): OWN_SEEING,
    ("GET", _STREAM): OWN_SEEING,
    ("PUT", _STREAM): OWN_DOING,
    ("POST", f"{_STREAM}/suspend"): OWN_DOING,
    ("POST", f"{_STREAM}/resume"): OWN_DOING,
    ("PUT", f"{_STREAM}/positions"): OPERATOR,
    ("POST", f"{_STREAM}/redrive"): OWN_DOING,
    ("GET", "/v1/state"): OWN_SEEING,
    # Each row of a stream is counted for it.
    ("GET", f"{_STREAM}/state"): SEEING,
    # What is in a row is a tenant's data, as a record is, which who may only look does not see.
    ("GET", f"{_STREAM}/state/{{table}}"): OWN_DOING,
    ("GET", "/v1/use-cases"): SEEING,
    ("GET", "/v1/use-cases/{use_case}"): SEEING,
    ("GET", "/v1/failures"): OWN_SEEING,
    ("GET", "/v1/failures/{number}"): OWN_SEEING,
    ("POST", "/v1/failures/{number}/retry"): OWN_DOING,
    ("POST", "/v1/failures/{number}/skip"): OWN_DOING,
    ("GET", "/v1/waves"): SEEING,
    ("GET", "/v1/alerts"): OWN_SEEING,
    ("GET", "/v1/keys"): OPERATOR,
    ("POST", "/v1/keys"): OPERATOR,
    ("POST", "/v1/keys/{prefix}/rotate"): OPERATOR,
    ("DELETE", "/v1/keys/{prefix}"): OPERATOR,
    ("GET", "/v1/audit"): SEEING,
}


class GuardedRoute(APIRoute):
    """A route that is entered only as the table says."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with the look at the table before it."""
        handle = super().get_route_handler()

        async def entered(request: Request) -> Response:
            rule = RULES.get((request.method, self.path))
            if rule is None:
                raise Problem(403, "forbidden", "nobody has said who may call this route")
            if rule is not OPEN:
                await _enter(request, rule)
            return await handle(request)

        return entered

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say which methods there are: each has a route of its own."""
        if scope["method"] not in (self.methods or ()):
            there = (method for method, path in RULES if path == self.path)
            raise HTTPException(405, headers={"Allow": ", ".join(there)})
        await super().handle(scope, receive, send)


async def _enter(request: Request, rule: Roles) -> None:
    caller = await calling(request)
    if request.method not in LOOKS:
        # What its role may not do leaves a line in the log as well.
        count_change(request, caller)
    if caller.role not in rule:
        raise forbidden(caller, rule)
    tenant = request.path_params.get("tenant")
    if tenant is not None:
        own(caller, str(tenant))


def count_change(request: Request, caller: Caller) -> None:
    """Count an attempt to change something; raises ``Problem`` where there were too many."""
    patience: ChangeLimit = request.app.state.patience
    patience.count(caller)


class ChangeLimit:
    """How much may be tried to change in a minute, since each attempt is a line in the log."""

    def __init__(
        self,
        per_minute: int = CHANGES_PER_MINUTE,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take how many, and seconds that never go back."""
        self._most = per_minute
        self._minute = Minute(steady)

    def count(self, caller: Caller) -> None:
        """Count an attempt of a tenant, by whichever of its keys, or of another who may only look.

        Raises:
            Problem: 429, there were too many.
        """
        if caller.role is Role.OPERATOR:
            return
        who = ("key", caller.name) if caller.tenant is None else ("tenant", caller.tenant)
        if self._minute.add(who) > self._most:
            raise too_many(
                f"this {who[0]} has tried to change too much in a minute", self._minute.left_s()
            )


def entered_by(request: Request) -> Caller:
    """Who calls; the route was entered already."""
    caller = request.state.caller
    assert isinstance(caller, Caller), "an open route asks nobody who they are"
    return caller


Entered = Annotated[Caller, Depends(entered_by)]


def sees(caller: Caller, tenant: str | None) -> bool:
    """Whether a row that concerns ``tenant`` is shown to the caller; None concerns all."""
    return caller.tenant is None or caller.tenant == tenant


def stopper_of(caller: Caller) -> Stopper:
    """In whose name a caller stops and resumes."""
    return Stopper.TENANT if caller.role is Role.TENANT else Stopper.OPERATOR


def routes_of(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of every route there is, declared or not."""
    for route in iter_route_contexts(app.routes):
        for method in sorted(route.methods or ()):
            if route.path is not None and method != "HEAD":
                yield method, route.path
