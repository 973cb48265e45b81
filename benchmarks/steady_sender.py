"""Requests over HTTP at a steady rate, by a sender that is not the slowest of all.

A sender that waits for each answer before it sends the next sends less when answers are late, and
so hides that they are. This one sends each request when it is due, or as soon as a connection is
free, and counts the delay from when it was due. It has to share a core with the broker, so it is
written on a protocol of asyncio and runs on uvloop: with streams, it was its own delay that was
measured.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import uvloop


class _Line(asyncio.Protocol):
    """A connection: one request, then its answer."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._got = b""
        self._answered: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not end or len(body) < int(length):
            return
        assert head[9:12] == b"202", self._got
        assert self._answered is not None
        self._got = b""
        self._answered()

    def send(self, request: bytes, answered: Callable[[], None]) -> None:
        assert self._transport is not None
        self._answered = answered
        self._transport.write(request)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()


def steady(
    port: int, requests: Sequence[bytes], *, count: int, per_s: float, connections: int
) -> list[float]:
    """Send so many requests to this machine, each when it is due.

    Returns:
        For each the seconds from when it was due until its answer was there.
    """
    return uvloop.run(_steady(port, requests, count, per_s, connections))


async def _steady(
    port: int, requests: Sequence[bytes], count: int, per_s: float, connections: int
) -> list[float]:
    loop = asyncio.get_running_loop()
    lines = [
        (await loop.create_connection(_Line, "127.0.0.1", port))[1] for _ in range(connections)
    ]
    free, due = deque(lines), deque[tuple[int, float]]()
    delays: list[float] = []
    over = loop.create_future()

    def answered(line: _Line, due_s: float) -> None:
        delays.append(time.perf_counter() - due_s)
        free.append(line)
        if len(delays) == count:
            over.set_result(None)
        send()

    def send() -> None:
        while due and free:
            number, due_s = due.popleft()
            line = free.popleft()
            line.send(requests[number % len(requests)], partial(answered, line, due_s))

    began_s = time.perf_counter()
    for number in range(count):
        due_s = began_s + number / per_s
        wait_s = due_s - time.perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        due.append((number, due_s))
        send()
    await over
    for line in lines:
        line.close()
    return delays
