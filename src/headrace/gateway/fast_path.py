"""Requests that send events, answered before a web framework is asked where they go.

Most requests are one small event. To hand such a one through FastAPI's layers (exceptions, exit
stacks, router, dependencies) takes as long as all that the gateway does with it. So its route is
looked for here, where there is one to look for, and the very function that FastAPI has for the
route is called. FastAPI keeps everything else: other routes, what is refused because of its path or
method, and OpenAPI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.doors.problems import Problem, problem_of
from headrace.errors import HeadraceError
from headrace.gateway.openapi import EVENTS_PATH

_BEGINNING = EVENTS_PATH.removesuffix("{type}")


class FastPath:
    """ASGI middleware, the innermost: answers requests that send events."""

    def __init__(self, app: ASGIApp, *, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
        """Take who answers all other requests, and the function of the route."""
        self._app = app
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        name = _type_of(scope)
        if name is None:
            await self._app(scope, receive, send)
            return
        scope["path_params"] = {"type": name}
        try:
            response = await self._endpoint(Request(scope, receive))
        except Problem as problem:
            response = problem.response()
        except HeadraceError as error:
            response = problem_of(error).response()
        await response(scope, receive, send)


def _type_of(scope: Scope) -> str | None:
    """The type of event that a request sends; None if it is about something else."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    path: str = scope["path"]
    name = path.removeprefix(_BEGINNING)
    return None if name == path or not name or "/" in name else name
