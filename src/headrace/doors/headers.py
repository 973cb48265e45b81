"""What browsers are told about every answer, and which names a door answers to.

Pages come from this server and nothing else does: no script or style from elsewhere, none inline,
no frame around them. Nothing is to be guessed about what an answer is, and addresses are not told
to others. A browser that was lured into taking this machine for another site's name (DNS
rebinding) sends that name, so only known names are answered.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.doors.problems import Problem

_OWN_ALONE = (
    b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    b"object-src 'none'"
)
_ALWAYS = (
    (b"content-security-policy", _OWN_ALONE),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # What is about tenants is kept by nobody on the way, unless a route says so.
    (b"cache-control", b"no-store"),
)
_OVER_TLS = (*_ALWAYS, (b"strict-transport-security", b"max-age=31536000"))


class SafeHeaders:
    """ASGI middleware: security headers on every answer; those that are there are kept."""

    def __init__(self, app: ASGIApp) -> None:
        """Take what answers."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wanted = _OVER_TLS if scope.get("scheme") == "https" else _ALWAYS

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                there = {name.lower() for name, _ in headers}
                missing = [header for header in wanted if header[0] not in there]
                message = {**message, "headers": [*headers, *missing]}
            await send(message)

        await self._app(scope, receive, answer)


class Hosts:
    """ASGI middleware: requests for other names than these are refused."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        """Take what answers, and the names, without ports; none: any name."""
        self._app = app
        self._names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http" or not self._names or _host(scope) in self._names:
            await self._app(scope, receive, send)
            return
        detail = "this server does not answer to that name; list it under doors.hosts"
        await Problem(421, "misdirected", detail).response()(scope, receive, send)


def _host(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"host"]
    if len(values) != 1:
        return ""
    text: str = values[0].decode("latin-1").lower()
    name, colon, port = text.rpartition(":")
    if colon and (port.isdigit() or not port):
        text = name
    return text.removeprefix("[").removesuffix("]")
