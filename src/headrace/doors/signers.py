"""The public keys by which tokens of an issuer are checked, read where it publishes them.

An issuer that does not answer for a while must not lock everybody out: its last keys stay for a
day. Only one thread asks it at a time, and not more often than every half minute, so that tokens
with made-up key ids are no way to hammer it.

Anybody can make tokens that nobody knows, as many as a door has threads, and all credentials need
these. So who comes while somebody asks is told by the keys that are there, and to come again if
theirs is none of them. Where there are none at all, a few wait for the answer. All of an answer,
however it comes, has some seconds, in a thread of its own: each wait of its connection has what is
left of them, so that an issuer that drips keeps no thread. One that waits for a name server has no
such end, and is left behind. What an issuer publishes can be anything; only keys that can be read
are believed, and if it publishes none, none are. It may lead elsewhere, to an address as safe as
its own.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jwt
import structlog

from headrace.databases.deadline import Deadline
from headrace.databases.sockets import connecting_in_time
from headrace.doors.problems import Problem
from headrace.process.daemon_threads import DaemonThreads
from headrace.settings.doors import is_safe

log = structlog.get_logger(__name__)

#: age from which the issuer's keys are asked for again
_FRESH_S: Final = 300.0
#: age from which they are asked for if a token names one that is not among them
_SETTLED_S: Final = 30.0
_USABLE_S: Final = 24 * 3600.0
#: for all of an answer
_ANSWER_WAIT_S: Final = 5.0
_MOST_BYTES: Final = 2**20
#: half of the threads that a door has for credentials of all kinds
_MOST_WAITING: Final = 20
#: an RSA key signs by any of these
_OF_RSA: Final = ("RS", "PS")
#: answers that may still be on their way when another is asked for
_MOST_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Signer:
    """A key that an issuer publishes for signatures."""

    key_id: str | None
    key: Any = field(repr=False)
    #: what it signs by, as it is published or as its curve has it
    algorithm: str
    #: it is published for that one alone
    is_bound: bool

    def signs_by(self, algorithm: str) -> bool:
        """Whether it may; PyJWT looks at the kind of a key alone, and not at what it is for."""
        is_rsa = self.algorithm.startswith(_OF_RSA) and not self.is_bound
        return algorithm == self.algorithm or (is_rsa and algorithm.startswith(_OF_RSA))


class Signers:
    """The public keys of an issuer, as it published them last. Safe in several threads."""

    def __init__(self, source: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Take an address or a file; ``clock`` gives seconds that never go back."""
        self._source = source
        self._clock = clock
        self._keys: dict[str | None, list[Signer]] = {}
        self._read_at_s = self._asked_at_s = float("-inf")
        self._asking = threading.Lock()
        self._waiting = threading.BoundedSemaphore(_MOST_WAITING)
        self._threads = DaemonThreads(_MOST_THREADS, "issuer-keys")

    def find(self, key_id: str | None, algorithm: str) -> Signer | None:
        """The key of this id that signs so; of no id if the issuer has a single one.

        Keys of two kinds may have one id; of two that sign alike the last one counts.

        Raises:
            Problem: 503, this one is not known, and the issuer does not answer or is being asked.
        """
        now_s = self._clock()
        lacks = self._known(key_id, algorithm) is None and now_s - self._read_at_s >= _SETTLED_S
        is_asked = True
        if lacks or now_s - self._read_at_s >= _FRESH_S:
            is_asked = self._ask(now_s)
        is_usable = now_s - self._read_at_s <= _USABLE_S
        found = self._known(key_id, algorithm) if is_usable else None
        if found is None and not (is_asked and self._has_answered):
            raise Problem(
                503,
                "unavailable",
                "the keys of the token's issuer cannot be read at the moment",
                headers={"Retry-After": str(int(_SETTLED_S)) if is_asked else "1"},
            )
        return found

    def _known(self, key_id: str | None, algorithm: str) -> Signer | None:
        keys = reversed(self._keys.get(key_id, []))
        return next((key for key in keys if key.signs_by(algorithm)), None)

    @property
    def _has_answered(self) -> bool:
        """Whether the issuer did when it was asked last."""
        return self._read_at_s >= self._asked_at_s

    def _ask(self, now_s: float) -> bool:
        """Read the keys, if they may be asked for; whether nobody else is about it."""
        if not self._has_turn():
            return False
        try:
            if now_s - self._asked_at_s < _SETTLED_S:
                return True
            self._asked_at_s = now_s
            found = self._read()
            keys: dict[str | None, list[Signer]] = {}
            for key in found:
                keys.setdefault(key.key_id, []).append(key)
            if len(found) == 1:
                keys[None] = found
            self._keys, self._read_at_s = keys, now_s
            if not keys:
                log.warning("the issuer of tokens publishes no key that can be read: no token is")
        except Exception as exc:  # whatever is published there, or answers in its place
            why = str(exc) or type(exc).__name__
            log.warning("the keys of the issuer of tokens cannot be read", error=why)
        finally:
            self._asking.release()
        return True

    def _has_turn(self) -> bool:
        if self._asking.acquire(blocking=False):
            return True
        if self._keys or not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._asking.acquire(timeout=_ANSWER_WAIT_S)
        finally:
            self._waiting.release()

    def _read(self) -> list[Signer]:
        if isinstance(self._source, Path):
            published = json.loads(self._source.read_text(encoding="utf-8"))
        else:
            published = json.loads(self._fetched(self._source))
        keys = published.get("keys") if isinstance(published, dict) else None
        if not isinstance(keys, list):
            raise jwt.PyJWKSetError(f"{self._source} holds no JSON object with a list 'keys'")
        return [key for one in keys for key in _readable(one)]

    def _fetched(self, url: str) -> bytes:
        until_s = time.monotonic() + _ANSWER_WAIT_S
        answer = self._threads.submit(_answer, url, until_s)
        try:
            return answer.result(_ANSWER_WAIT_S)
        except TimeoutError as exc:
            answer.cancel()
            raise TimeoutError(f"{url} does not answer within {_ANSWER_WAIT_S:g} s") from exc


def _readable(published: Any) -> list[Signer]:
    """The key, or none: of another kind, for something else than signatures, or no key at all."""
    try:
        key = jwt.PyJWK.from_dict(published)
        key_id, uses = published.get("kid"), published.get("key_ops", ["verify"])
        is_for_signatures = key.public_key_use in (None, "sig") and "verify" in uses
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        return []
    if not is_for_signatures or not isinstance(key_id, str | None):
        return []
    return [Signer(key_id, key.key, key.algorithm_name, bool(published.get("alg")))]


def _answer(url: str, until_s: float) -> bytes:
    try:
        return _whole(url, until_s)
    except urllib.error.HTTPError as error:
        error.close()  # it is the answer, too
        raise


def _whole(url: str, until_s: float) -> bytes:
    read, deadline = bytearray(), Deadline()
    opener = urllib.request.build_opener(_Plain(deadline), _Tls(deadline), _Redirects())
    # Settings let no other scheme in than https, and http of this machine.
    with deadline.until(until_s), opener.open(url, timeout=_ANSWER_WAIT_S) as response:
        while piece := response.read1(65536):
            read += piece
            if len(read) > _MOST_BYTES:
                raise ValueError(f"{url} answers with more than {_MOST_BYTES} bytes")
    return bytes(read)


class _Opens(urllib.request.AbstractHTTPHandler):
    """Opens connections all of whose waits are over by one second."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def do_open(self, http_class: Any, *args: Any, **options: Any) -> Any:
        return super().do_open(connecting_in_time(http_class, self._deadline), *args, **options)


class _Plain(_Opens, urllib.request.HTTPHandler):
    pass


class _Tls(_Opens, urllib.request.HTTPSHandler):
    pass


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not is_safe(newurl):
            fp.close()
            raise ValueError(f"{req.full_url} leads to {newurl}, where anybody could answer")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
