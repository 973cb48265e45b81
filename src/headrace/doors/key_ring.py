"""Whether a key is right: looked up in the store, remembered for a moment.

An answer must not tell whether a key exists, nor whether it was used a moment ago. So every refusal
costs the same: a comparison with what is remembered, a look into the store, and a comparison with
what is there, each with a digest that nothing has where there is none; and all refusals read the
same. What is left is what the database itself takes to find a row or none.

A key that was right is believed for some seconds, so a revoked one works as much longer. After that
it is looked up again, by one of those who show it while the others go on; and while the store does
not answer it stays good for some minutes, so that events still come in. Whoever shows it is not
slowed by neighbours at the same address who guess.

How long ago something was looked up says a clock that never goes back: by the time of day a clock
that is set back would let a revoked key be believed for as long. When a key expires is a time of
day, and of what is remembered also a span of that clock, whichever ends first.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from headrace.doors.attempts import Attempts
from headrace.doors.outage import Outage
from headrace.doors.problems import Problem
from headrace.doors.remembered import Remembered
from headrace.errors import StoreUnavailable, StoreUnusable
from headrace.model.credentials import Key
from headrace.ports import Keys

log = structlog.get_logger(__name__)

#: how long a key that was right is believed
REMEMBERED_S = 5.0
#: the same while the store does not answer
USABLE_S = 300.0
_NOTHING_HAS_IT = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class _Known:
    """A key that was right when it was looked up."""

    key: Key
    #: of the steady clock; None: it does not expire
    ends_s: float | None

    def works(self, now_s: float, steady_s: float) -> bool:
        """Whether it opens a door, however the clock was set meanwhile."""
        return self.key.works(now_s) and (self.ends_s is None or steady_s < self.ends_s)


@dataclass(frozen=True, slots=True)
class Shown:
    """A credential that a key stands behind."""

    #: of the key
    prefix: str
    #: whether a digest is that of the key that was shown; takes the same time for every digest
    fits: Callable[[bytes], bool]


class KeyRing:
    """Looks keys up. Safe in several threads."""

    def __init__(
        self,
        keys: Keys,
        clock: Callable[[], float],
        attempts: Attempts,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take where keys are, the time in seconds since 1970, and who counts failures.

        ``steady`` gives seconds that never go back.
        """
        self._keys = keys
        self._clock = clock
        self._steady = steady
        self._attempts = attempts
        self._remembered: Remembered[_Known] = Remembered()
        self._asked_for: set[str] = set()
        self._lock = threading.Lock()
        self._outage = Outage()

    def known(self, shown: Shown, within_s: float = REMEMBERED_S) -> Key | None:
        """The key, if it was right so long ago at most; None says nothing."""
        found, steady_s = self._remembered.get(shown.prefix), self._steady()
        if found is None or steady_s - found[1] >= within_s:
            return None
        known = found[0]
        works = known.works(self._clock(), steady_s)
        return known.key if shown.fits(known.key.digest) and works else None

    def checked(self, shown: Shown, address: str) -> Key:
        """The key, if it is right; looks into the store.

        Raises:
            Problem: 401, or 429 if too many wrong ones came from this address.
            StoreUnavailable, StoreUnusable: nobody can say.
        """
        found = self._remembered.get(shown.prefix)
        is_remembered = shown.fits(_NOTHING_HAS_IT if found is None else found[0].key.digest)
        if found is not None and is_remembered:
            return self._again(*found)
        self._attempts.check(address, shown.prefix)
        key, now_s = self._keys.find(shown.prefix), self._clock()
        self._answered()
        fits = shown.fits(_NOTHING_HAS_IT if key is None else key.digest)
        if key is not None and fits and key.works(now_s):
            self._remember(key, now_s)
            return key
        # Who still uses a key that has ended is a nuisance, but nobody who guesses.
        self._attempts.failed(address, shown.prefix, is_guess=key is None or not fits)
        raise unknown_credential()

    def _again(self, known: _Known, at_s: float) -> Key:
        """Look up a key that was right at ``at_s`` of the steady clock."""
        key, now_s, steady_s = known.key, self._clock(), self._steady()
        is_usable = steady_s - at_s < USABLE_S and known.works(now_s, steady_s)
        if not self._begin(key.prefix) and is_usable:
            return key
        try:
            found = self._keys.find(key.prefix)
        except (StoreUnavailable, StoreUnusable) as error:
            if not is_usable:
                raise
            if self._outage.begins():
                log.warning("keys are believed without the store", error=str(error))
            return key
        finally:
            self._end(key.prefix)
        self._answered()
        if found is None or found.digest != key.digest or not found.works(now_s):
            self._remembered.drop(key.prefix)
            raise unknown_credential()
        self._remember(found, now_s)
        return found

    def _answered(self) -> None:
        if self._outage.ends():
            log.info("keys are looked up in the store again")

    def _remember(self, key: Key, now_s: float) -> None:
        steady_s, ends_at_s = self._steady(), key.expires_at_s
        ends_s = None if ends_at_s is None else steady_s + ends_at_s - now_s
        self._remembered.put(key.prefix, _Known(key, ends_s), steady_s)

    def _begin(self, prefix: str) -> bool:
        with self._lock:
            if prefix in self._asked_for:
                return False
            self._asked_for.add(prefix)
            return True

    def _end(self, prefix: str) -> None:
        with self._lock:
            self._asked_for.discard(prefix)


def unknown_credential() -> Problem:
    """The refusal of a credential, in the same words whatever is wrong with it."""
    return unauthorized("this credential is not known, or does not work any more")


def unauthorized(detail: str) -> Problem:
    """A 401."""
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})
