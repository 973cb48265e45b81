"""Of the cookies of a request, the session's alone goes on.

Whoever sends cookies is not known yet, and what reads them for all routes (Starlette, with Python's
own unquoting) takes seconds for 32 KB of quoted text, at a door that answers others meanwhile
(CVE-2024-7592). A session is a text that nobody has to quote, so what is quoted is none of ours.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.doors.guard import SESSION_COOKIE, SESSION_COOKIE_OVER_TLS

_OURS = (SESSION_COOKIE.encode(), SESSION_COOKIE_OVER_TLS.encode())


class OwnCookies:
    """ASGI middleware: what is behind it sees no cookie of others."""

    def __init__(self, app: ASGIApp) -> None:
        """Take what answers."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on."""
        if scope["type"] == "http" and any(name == b"cookie" for name, _ in scope["headers"]):
            shown = [value for name, value in scope["headers"] if name == b"cookie"]
            others = [header for header in scope["headers"] if header[0] != b"cookie"]
            ours = [cookie for value in shown for cookie in value.split(b";") if _is_ours(cookie)]
            scope = {**scope, "headers": [*others, (b"cookie", b";".join(ours))]}
        await self._app(scope, receive, send)


def _is_ours(cookie: bytes) -> bool:
    name, _, value = cookie.partition(b"=")
    return name.strip() in _OURS and b'"' not in value
