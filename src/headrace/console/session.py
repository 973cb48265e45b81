"""Who calls, and the cookie that pages have instead of a key."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from headrace.console.access import OWN_SEEING, Entered, GuardedRoute, count_change
from headrace.console.answers import answer
from headrace.console.problems import refusals
from headrace.console.requests import SessionRequest
from headrace.console.shapes import Me
from headrace.doors.guard import (
    SESSION_S,
    Guard,
    forbidden,
    over_tls,
    refuse_forged,
    session_cookie,
)
from headrace.doors.problems import Problem
from headrace.model.credentials import Caller

router = APIRouter(route_class=GuardedRoute, tags=["session"])


@router.post("/v1/session", response_model=Me, responses=refusals())
async def begin_session(request: Request, asked: SessionRequest) -> Response:
    """Exchange a key for a cookie of 12 hours that no script can read; it ends with its key."""
    # Or a page of another site could log a browser in as its own author.
    refuse_forged(request)
    guard = request.app.state.guard
    if not isinstance(guard, Guard):
        raise Problem(403, "forbidden", "nobody is asked for a key here, so there are no sessions")
    address = request.client.host if request.client else ""
    caller, cookie = await run_in_threadpool(guard.session, asked.key, address=address)
    request.state.caller = caller
    count_change(request, caller)
    if caller.role not in OWN_SEEING:
        raise forbidden(caller, OWN_SEEING)
    response = _me(caller)
    response.set_cookie(
        session_cookie(request),
        cookie,
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=over_tls(request),
    )
    return response


@router.delete("/v1/session", status_code=204, responses=refusals())
async def end_session(request: Request) -> Response:
    """Take the cookie back from this browser."""
    response = Response(status_code=204)
    response.delete_cookie(
        session_cookie(request), httponly=True, samesite="strict", secure=over_tls(request)
    )
    return response


@router.get("/v1/me", response_model=Me, responses=refusals())
async def show_me(caller: Entered) -> Response:
    """Who calls, with which role."""
    return _me(caller)


def _me(caller: Caller) -> Response:
    return answer({"name": caller.name, "role": caller.role.value, "tenant": caller.tenant})
