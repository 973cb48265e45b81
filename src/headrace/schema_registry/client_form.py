"""What the doors take and say, in the form that Confluent's clients have for it.

These clients send user and password (``basic.auth.user.info``), and read refusals as ``error_code``
and ``message``. The doors know bearers and problems (RFC 9457), and several of their parts refuse.
So one layer around all of them turns the one into the other: a password is a key, whatever the user
is called, and a problem is an error with the status as its code.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PROBLEM = b"application/problem+json"
_MEDIA_TYPE = b"application/vnd.schemaregistry.v1+json"
_CODES = {403: 40301, 413: 42209, 503: 50002, 500: 50001}


class ClientForm:
    """ASGI middleware, the outermost one."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand around ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = [_as_bearer(name, value) for name, value in scope["headers"]]
        await self._app({**scope, "headers": headers}, receive, _Answer(send).send)


class _Answer:
    """Passes an answer on; a problem in the other form."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kinds = (value for name, value in message["headers"] if name == b"content-type")
            if next(kinds, b"").startswith(_PROBLEM):
                self._start = message
                return
        if self._start is None or message["type"] != "http.response.body":
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False) or self._is_whole():
            start, self._start = self._start, None
            body = _error(start["status"], bytes(self._body))
            await self._send({**start, "headers": _headers(start, len(body))})
            await self._send({**message, "body": body})

    def _is_whole(self) -> bool:
        """A refusal may keep its client for a moment; its body comes at once."""
        return self._body.endswith(b"}")


def _error(status: int, body: bytes) -> bytes:
    try:
        problem: dict[str, Any] = orjson.loads(body)
    except orjson.JSONDecodeError:
        problem = {}
    message = problem.get("detail") or problem.get("title") or f"HTTP {status}"
    if status == 401:
        message += "; here a key is shown as the password of any user too"
    return orjson.dumps({"error_code": _CODES.get(status, status), "message": message})


def _headers(start: Message, length: int) -> list[tuple[bytes, bytes]]:
    ours = {b"content-type": _MEDIA_TYPE, b"content-length": str(length).encode()}
    kept = [(name, value) for name, value in start["headers"] if name.lower() not in ours]
    # The doors ask for a bearer; whoever reads one header alone is to read this one.
    offered = [(b"www-authenticate", b'Basic realm="headrace"')] if start["status"] == 401 else []
    return [*offered, *kept, *ours.items()]


def _as_bearer(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    scheme, _, rest = value.partition(b" ")
    if name.lower() != b"authorization" or scheme.lower() != b"basic":
        return name, value
    try:
        _, colon, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
    except binascii.Error:
        return name, value
    is_shown = colon and password and all(33 <= byte < 127 for byte in password)
    return (name, b"Bearer " + password) if is_shown else (name, value)
