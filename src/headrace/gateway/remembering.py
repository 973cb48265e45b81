"""Requests that were answered, so that one sent twice is stored once.

A sender that lost the answer sends again, with the same ``Idempotency-Key``. What was stored the
first time is answered from here; only what was not, because Kafka did not take it, is tried again.

This is the memory of one gateway process, of bounded size and age. Another process, or this one
after a restart, does not know: for that each record carries the key as a header, so that a use case
can drop what was sent twice.

Source of the answers: draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from headrace.gateway.events import Fault, Refused, Request
from headrace.kafka.ingest import Stored

#: an entry without its results, and a result, in Python
_ENTRY_BYTES = 600
_RESULT_BYTES = 200
#: tenant, type, key
Scope = tuple[str, str, str]
#: what became of an item for good; None: it may be tried again
Settled = Stored | Fault | None


def fingerprint_of(request: Request) -> bytes:
    """The same for the same request: body, key, and the headers that show in records."""
    hashed = blake2b(request.body, digest_size=16)
    for name in sorted(request.headers):
        if name.startswith("ce-") or name in ("content-type", "x-partition-key"):
            hashed.update(f"\n{name}:{request.headers[name]}".encode())
    hashed.update(f"\n{request.key}".encode())
    return hashed.digest()


@dataclass(slots=True)
class Answered:
    """One request: running, or what became of its items."""

    fingerprint: bytes
    began_s: float
    running: bool = True
    #: by item; empty until it ran once
    results: list[Settled] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes it takes, about."""
        return _ENTRY_BYTES + len(self.results) * _RESULT_BYTES


class Memory:
    """What was answered lately, the oldest forgotten first. For one event loop.

    Args:
        window_s: how long an answer is kept.
        most_bytes: what all answers may take.
    """

    def __init__(self, window_s: float, most_bytes: int) -> None:
        self._window_s = window_s
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: OrderedDict[Scope, Answered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, scope: Scope, fingerprint: bytes, now_s: float) -> Answered:
        """The entry of a request that begins now; ``end`` it, whatever comes of it.

        Raises:
            Refused: the key was used for another request, or that request is still running.
        """
        self._forget(now_s)
        found = self._entries.get(scope)
        if found is None:
            found = self._entries[scope] = Answered(fingerprint, now_s)
            self._bytes += found.size
            return found
        if found.fingerprint != fingerprint:
            raise Refused(
                Fault(
                    422,
                    "idempotency-key-reused",
                    "this Idempotency-Key was sent with another request; take a new "
                    "one for each request",
                )
            )
        if found.running:
            raise Refused(
                Fault(
                    409, "still-running", "the request with this Idempotency-Key is still running"
                )
            )
        found.running = True
        return found

    def end(self, scope: Scope, entry: Answered, results: Sequence[Settled]) -> None:
        """Keep what became of the items; with none of them settled nothing is kept."""
        entry.running = False
        self._bytes -= entry.size
        entry.results = list(results)
        self._bytes += entry.size
        if all(each is None for each in results):
            self._drop(scope)

    def _forget(self, now_s: float) -> None:
        while self._entries:
            scope, oldest = next(iter(self._entries.items()))
            fresh = now_s - oldest.began_s < self._window_s
            if oldest.running or (fresh and self._bytes <= self._most_bytes):
                # One that runs is among the newest, or others wait behind it for a moment.
                return
            self._drop(scope)

    def _drop(self, scope: Scope) -> None:
        entry = self._entries.pop(scope, None)
        if entry is not None:
            self._bytes -= entry.size
