"""Requests that were answered, so that one sent twice is stored once.

A sender that lost the answer sends again, with the same ``Idempotency-Key``. What was stored the
first time is answered from here; only what was not, because Kafka did not take it, is tried again.
Between the two is what nobody knows yet, since Kafka was silent for too long: the client goes on
with those records, and a repeat waits for what becomes of them, and sends nothing beside them.

This is the memory of one gateway process, of bounded size and age. Another process, or this one
after a restart, does not know: for that each record carries the key as a header, so that a use case
can drop what was sent twice.

Source of the answers: draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from headrace.connectors.kafka.ingest import Result, Stored
from headrace.gateway.events import EventFault, Request, RequestRefused
from headrace.gateway.rates import BUSY_RETRY_S, TooMuch
from headrace.policies.holding import may_hold

#: an entry without its results, and a result, in Python
_ENTRY_BYTES = 600
_RESULT_BYTES = 200
_FULL = EventFault(
    503, "busy", "too many requests with an Idempotency-Key wait for Kafka; nothing is stored"
)
#: tenant, type, key, and which of the tenants of this name it is
Scope = tuple[str, str, str, int]
#: what became of an item for good; None: it may be tried again, or nobody knows yet
Settled = Stored | EventFault | None


class Sending(Protocol):
    """Records on their way, such as ``connectors.kafka.ingest.Sending``."""

    @property
    def results(self) -> Sequence[Result | None]:
        """A result for each record; None as long as it is not known."""

    @property
    def fates(self) -> asyncio.Future[list[Result]]:
        """Done when all are known."""

    async def wait(self) -> None:
        """Until all are known, but no longer than a sender is kept waiting."""


def fingerprint_of(request: Request) -> bytes:
    """The same for the same request: body, key, and the headers that show in records."""
    parts = [request.body, (request.key or "").encode()]
    for name in sorted(request.headers):
        if name.startswith("ce-") or name in ("content-type", "x-partition-key"):
            parts += [name.encode(), request.headers[name].encode()]
    hashed = blake2b(digest_size=16)
    for part in parts:
        # With its length, or two requests could come to the same bytes.
        hashed.update(b"%d:" % len(part))
        hashed.update(part)
    return hashed.digest()


@dataclass(slots=True)
class Answered:
    """One request: running, on its way, or what became of its items."""

    fingerprint: bytes
    #: when it began, or more was known of what became of it: from then on it is kept
    since_s: float
    #: bytes it takes, about
    size: int
    running: bool = True
    #: by item; empty until it ran once
    results: list[Settled] = field(default_factory=list)
    #: its events whose fate is not looked at yet, and the item that each is
    sending: Sending | None = None
    numbers: list[int] = field(default_factory=list)
    #: the last one whose end is waited for
    waited_for: Sending | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody knows yet what became of some of it."""
        return self.sending is not None and not self.sending.fates.done()


class IdempotencyMemory:
    """What was answered lately, the oldest forgotten first. For one event loop.

    Where it is full, a tenant that has more than a quarter of it loses its own oldest for what it
    sends: it must not take from others what they were promised. What runs, or goes on, cannot be
    forgotten, and of that a tenant may have a quarter of what the others leave: one whose topic
    takes nothing is told to come again, and the others are not.

    Args:
        window_s: how long an answer is kept.
        most_bytes: what all answers may take.
        steady: monotonic seconds.
    """

    def __init__(
        self, window_s: float, most_bytes: int, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._window_s = window_s
        self._steady = steady
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: dict[Scope, Answered] = {}
        #: what may be forgotten, the oldest first, of all and by tenant
        self._over: OrderedDict[Scope, Answered] = OrderedDict()
        self._over_of: dict[str, OrderedDict[Scope, Answered]] = {}
        #: bytes by tenant, and those that cannot be forgotten; nobody is in it who has nothing
        self._bytes_of: Counter[str] = Counter()
        self._held_of: Counter[str] = Counter()
        self._held = 0

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, scope: Scope, fingerprint: bytes, now_s: float, items: int = 1) -> Answered:
        """The entry of a request that begins now; ``end`` it, whatever comes of it.

        Args:
            scope: whose it is.
            fingerprint: of the request.
            now_s: monotonic.
            items: how many it has.

        Raises:
            RequestRefused: the key was used for another request, that request is still running, or
                too many of its tenant cannot be forgotten.
        """
        self._forget(now_s)
        found = self._entries.get(scope)
        if found is None:
            return self._new(scope, Answered(fingerprint, now_s, _size(items)))
        if found.fingerprint != fingerprint:
            raise RequestRefused(
                EventFault(
                    422,
                    "idempotency-key-reused",
                    "this Idempotency-Key was used for another request",
                )
            )
        if found.running:
            raise RequestRefused(
                EventFault(
                    409, "still-running", "the request with this Idempotency-Key is still running"
                )
            )
        found.running = True
        if scope in self._over:
            self._take_out(scope)
            self._hold(scope, found)
        return found

    def knows(self, scope: Scope) -> bool:
        """Whether a request with this key came before."""
        return scope in self._entries

    def end(self, scope: Scope, entry: Answered, results: Sequence[Settled]) -> None:
        """Keep what became of the items; with none settled or on its way nothing is kept."""
        entry.running = False
        if entry.results != list(results):
            entry.results, entry.since_s = list(results), self._steady()
        if entry.sending is not None and entry.sending is not entry.waited_for:
            entry.waited_for = entry.sending
            entry.sending.fates.add_done_callback(lambda _: self._known(scope, entry))
        self._let_go(scope, entry)
        if entry.sending is None and all(result is None for result in results):
            self._drop(scope)
        self._make_room(scope[0])

    def _new(self, scope: Scope, entry: Answered) -> Answered:
        own = self._held_of[scope[0]]
        if not may_hold(self._most_bytes, self._held, own, entry.size):
            raise TooMuch(_FULL, BUSY_RETRY_S)
        self._entries[scope] = entry
        self._bytes += entry.size
        self._bytes_of[scope[0]] += entry.size
        self._hold(scope, entry)
        self._make_room(scope[0])
        return entry

    def _hold(self, scope: Scope, entry: Answered) -> None:
        """It cannot be forgotten for now."""
        self._held += entry.size
        self._held_of[scope[0]] += entry.size

    def _known(self, scope: Scope, entry: Answered) -> None:
        """What became of what it sent is known now; who sends it again is to be told."""
        entry.since_s = self._steady()
        self._let_go(scope, entry)

    def _let_go(self, scope: Scope, entry: Answered) -> None:
        """It can be forgotten, unless it runs again, goes on, or was."""
        known = self._entries.get(scope) is entry and scope not in self._over
        if entry.running or entry.is_open or not known:
            return
        self._held -= entry.size
        self._held_of[scope[0]] -= entry.size
        self._over[scope] = entry
        self._over_of.setdefault(scope[0], OrderedDict())[scope] = entry

    def _take_out(self, scope: Scope) -> None:
        del self._over[scope], self._over_of[scope[0]][scope]
        if not self._over_of[scope[0]]:
            del self._over_of[scope[0]]

    def _make_room(self, tenant: str) -> None:
        """Drop the oldest of a tenant that has more than a quarter, as long as all is full."""
        while tenant in self._over_of and self._bytes > self._most_bytes:
            if self._bytes_of[tenant] <= self._most_bytes // 4:
                return
            self._drop(next(iter(self._over_of[tenant])))

    def _forget(self, now_s: float) -> None:
        """Drop the oldest, as long as they are too old or take too much."""
        while self._over:
            scope, oldest = next(iter(self._over.items()))
            if now_s - oldest.since_s < self._window_s and self._bytes <= self._most_bytes:
                return
            self._drop(scope)

    def _drop(self, scope: Scope) -> None:
        """Forget what may be forgotten."""
        self._take_out(scope)
        entry, tenant = self._entries.pop(scope), scope[0]
        self._bytes -= entry.size
        self._bytes_of[tenant] -= entry.size
        if not self._bytes_of[tenant]:
            del self._bytes_of[tenant], self._held_of[tenant]


def _size(items: int) -> int:
    return _ENTRY_BYTES + items * _RESULT_BYTES
