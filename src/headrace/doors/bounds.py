"""How much may come in: bytes, seconds and requests at once.

A stranger must not be able to fill memory or to hold a place for ever. So a body is refused by its
announced length before a byte of it is read, and again while it comes, since a chunked one
announces nothing; it has to be there by a deadline; and beyond a number of requests the next one
is told to come again, of which everybody has a part (``places``). What concerns the connection
(slow headers, readers that do not read) is in ``protocol``.

Whatever an application does with a body that was refused half-way, the answer is this one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.doors.places import PLACE, Place, Places
from headrace.doors.problems import Problem

#: how long a client that was refused may go on sending
_LINGER_S = 2.0


class _Refused(Exception):
    """Ends an application that reads a body which is not to be read."""


class Bounds:
    """ASGI middleware that bounds requests."""

    def __init__(
        self,
        app: ASGIApp,
        max_body_bytes: int = 1024 * 1024,
        body_deadline_s: float = 30.0,
        most_requests: int = 1000,
    ) -> None:
        """Take the application and its limits.

        Args:
            app: what answers.
            max_body_bytes: largest body.
            body_deadline_s: seconds until a body is there, from when it is asked for.
            most_requests: requests that are answered at once.
        """
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._body_deadline_s = body_deadline_s
        self._places = Places(most_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._places.are_taken:
            busy = "as many requests as may run at once do; try again"
            headers = {"Retry-After": "1", "Connection": "close"}
            problem = Problem(503, "unavailable", busy, headers=headers)
            await _refuse(problem, scope, receive, send)
        elif _announced_bytes(scope) > self._max_body_bytes:
            await _refuse(self._too_large(), scope, receive, send)
        else:
            client = scope.get("client")
            place = self._places.take(client[0] if client else "")
            try:
                refusal = await self._bounded(place, {**scope, PLACE: place}, receive, send)
            finally:
                place.leave()
            if refusal is not None:
                await _refuse(refusal, scope, receive, send)

    async def _bounded(
        self, place: Place, scope: Scope, receive: Receive, send: Send
    ) -> Problem | None:
        """Have it answered; the refusal that is still to be said, if it is one."""
        body = _Body(receive, self._max_body_bytes, self._body_deadline_s, self._too_large(), place)
        has_begun = False

        async def answer(message: Message) -> None:
            nonlocal has_begun
            if not has_begun and body.refusal is None:
                body.refusal = place.waits()
            if body.refusal is None or has_begun:
                has_begun = True
                await send(message)

        try:
            await self._app(scope, body.receive, answer)
        except _Refused:
            pass
        except Exception:
            if body.refusal is None:
                raise
        return None if has_begun else body.refusal

    def _too_large(self) -> Problem:
        # The rest of the body would be taken for the next request, so the connection ends.
        return Problem(
            413,
            "too-large",
            f"a body may have {self._max_body_bytes} bytes",
            headers={"Connection": "close"},
            extra={"max_bytes": self._max_body_bytes},
        )


class _Body:
    """Reads a body for an application, up to its limits."""

    def __init__(
        self,
        receive: Receive,
        max_bytes: int,
        deadline_s: float,
        too_large: Problem,
        place: Place,
    ) -> None:
        self.refusal: Problem | None = None
        self._place = place
        self._receive = receive
        self._max_bytes = max_bytes
        self._deadline_s = deadline_s
        self._too_large = too_large
        self._bytes = 0
        self._is_whole = False
        self._ends_at_s: float | None = None

    async def receive(self) -> Message:
        if self._is_whole:
            # From here on it is only about whether the client is still there.
            return await self._receive()
        full = self._place.waits()
        if full is not None:
            raise self._refuse(full)
        loop = asyncio.get_running_loop()
        if self._ends_at_s is None:
            self._ends_at_s = loop.time() + self._deadline_s
        try:
            async with asyncio.timeout_at(self._ends_at_s):
                message = await self._receive()
        except TimeoutError:
            raise self._refuse(
                Problem(
                    408,
                    "too-slow",
                    f"a body has to be there within {self._deadline_s:g} s",
                    headers={"Connection": "close"},
                )
            ) from None
        self._count(message)
        return message

    def _count(self, message: dict[str, Any] | Message) -> None:
        self._bytes += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if self._bytes > self._max_bytes:
            raise self._refuse(self._too_large)

    def _refuse(self, problem: Problem) -> _Refused:
        self.refusal = problem
        return _Refused()


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer at once, then take in what the client still sends, for a moment.

    A connection closed under a client that still sends is reset, and it may never see the answer.
    """
    response = problem.response()
    headers = response.raw_headers
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    if all(name != b"expect" for name, _ in scope["headers"]):
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while (await receive()).get("more_body", False):
                    pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _announced_bytes(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            # The HTTP parser has refused what is no number.
            return int(value)
    return 0
