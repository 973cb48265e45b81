"""Requests that take long to read do not hold up those of other tenants.

A gateway answers everybody on one event loop. To read most requests takes less than a millisecond,
but a body of ten megabytes that is all members, or long numbers, or is held against a schema takes
seconds, and a tenant may send some each second; so may a small one that is held against a schema
which asks much. So what takes long by its looks is read in a
thread, one request of a tenant at a time, and at most a few of all: Python's threads share a core,
and what is short still has most of it. What no thread interrupts, the parsing of one JSON text, is
bounded by what the text is made of (``json_text``), and what judges one by what its schema asks
(``formats/json_weight``).

To look at it takes a while as well, so what is large is not looked at. What it looks like is a
guess from its length and what is in it. It need not be right, only tell milliseconds from seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from headrace.formats.json_weight import values_of
from headrace.gateway.event_types import EventType
from headrace.gateway.events import Batch, EventLimits, Request
from headrace.gateway.json_text import has_long_number, values_in
from headrace.gateway.reading import STRUCTURED, STRUCTURED_MANY, read
from headrace.gateway.subjects import Subject

#: what may take so long may do so in the loop
SHORT_S = 0.005
_THREADS = 2
#: not worth a look, but for what its schema asks
_SMALL_BYTES = 1000
#: not looked at in the loop: that takes four nanoseconds for a byte, and for so many a millisecond
_LARGE_BYTES = 256 * 1024
_BYTE_S = 15e-9
_BRACKET_S = 600e-9
_BYTE_OF_LONG_NUMBERS_S = 75e-9
_BYTE_OF_SCHEMA_S = 3e-6
#: of a value that is held against a subject's schema, and written as Avro
_VALUE_OF_SUBJECT_S = 700e-9
#: there brackets cannot be counted
_BYTE_OF_BASE64_S = 150e-9


class Readers:
    """Reads requests. For one event loop."""

    def __init__(self, threads: int = _THREADS) -> None:
        """Take how many requests that take long are read at once."""
        self._threads = anyio.CapacityLimiter(threads)
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    async def read(
        self, tenant: str, request: Request, kind: EventType, limits: EventLimits
    ) -> Batch:
        """The events of a request of a tenant, as ``reading.read`` has them.

        Raises:
            RequestRefused: the request as a whole cannot be taken.
        """
        is_large = len(request.body) > _LARGE_BYTES
        if not is_large and expected_s(request, kind) <= SHORT_S:
            return read(request, kind, limits)
        async with self._turn_of(tenant):
            return await anyio.to_thread.run_sync(
                read, request, kind, limits, limiter=self._threads
            )

    @asynccontextmanager
    async def _turn_of(self, tenant: str) -> AsyncIterator[None]:
        """One of a tenant waits for a thread, so that tenants take turns."""
        turn = self._turns.setdefault(tenant, asyncio.Lock())
        self._waiting[tenant] += 1
        try:
            async with turn:
                yield
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant], self._turns[tenant]


def expected_s(request: Request, kind: EventType) -> float:
    """About how long it takes to read a request, on a core of its own."""
    body, size = request.body, len(request.body)
    judged_s = _judged_s(request, kind.subject)
    if size <= _SMALL_BYTES:
        return judged_s
    brackets = body.count(b"[") + body.count(b"{")
    spent_s = judged_s + size * _BYTE_S + brackets * _BRACKET_S
    if kind.schema is not None:
        spent_s += size * _BYTE_OF_SCHEMA_S
    if kind.subject is not None:
        spent_s += values_in(body) * _VALUE_OF_SUBJECT_S
    if has_long_number(body):
        spent_s += size * _BYTE_OF_LONG_NUMBERS_S
    if _may_hold_base64(request):
        spent_s += size * _BYTE_OF_BASE64_S
    return spent_s


def _judged_s(request: Request, subject: Subject | None) -> float:
    """About how long a schema that somebody registered takes at most, which may be much for any."""
    weight = subject and subject.known and subject.known.writer.weight
    if not weight or not any(weight):
        return 0.0
    body, size = request.body, len(request.body)
    values = size if _may_hold_base64(request) else values_of(body) + body.count(b"\n")
    return weight.expected_s(values, size)


def _may_hold_base64(request: Request) -> bool:
    """Whether events may have their data in base64; any letter of the word may be an escape."""
    if request.media_type not in (STRUCTURED, STRUCTURED_MANY):
        return False
    return b"data_base64" in request.body or b"\\u" in request.body
