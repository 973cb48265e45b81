"""Whose schema is looked at next and for how long, so that a few tenants do not hold up all others.

There are few judges, and what one schema takes is its author's choice. So a tenant has one judge at
a time; one whose schema took long shares all judges but one with others of that kind for a while;
and one whose schema had to be ended rests before it is looked at again. Where there is one judge
alone, none can be kept free. Whoever belongs to no tenant is an operator, and just waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.errors import Temporary

#: what takes longer than this is slow
_QUICK_S = 1.0
#: how long a tenant counts as slow
_REMEMBERED_S = 60.0


class JudgesBusy(Temporary):
    """As many schemas as can be looked at are; this one has to wait."""


@dataclass(slots=True)
class Looked:
    """For how long judges have looked for one request; to wait for one is no part of it."""

    seconds: float = 0.0


class Turns:
    """Gives turns to tenants. Safe in several threads."""

    def __init__(
        self,
        judges: int,
        wait_s: float,
        rest_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nobody has a turn.

        Args:
            judges: how many there are.
            wait_s: how long a slow tenant waits for its turn.
            rest_s: how long one rests whose schema was ended.
            clock: seconds.
        """
        self._wait_s = wait_s
        self._rest_s = rest_s
        self._clock = clock
        self._lock = threading.Lock()
        #: who is looked at for now
        self._tenants: set[str] = set()
        #: until when a tenant counts as slow, and until when it rests
        self._slow: dict[str, float] = {}
        self._resting: dict[str, float] = {}
        self._slow_turns = threading.BoundedSemaphore(max(1, judges - 1))

    @contextmanager
    def of(self, tenant: str | None) -> Iterator[None]:
        """The turn of a tenant.

        Raises:
            JudgesBusy: it is not its turn.
        """
        if tenant is None:
            yield
            return
        is_slow = self._begin(tenant)
        try:
            if is_slow and not self._slow_turns.acquire(timeout=self._wait_s):
                raise JudgesBusy("as many schemas that may take long as can be looked at are")
            try:
                yield
            finally:
                if is_slow:
                    self._slow_turns.release()
        finally:
            with self._lock:
                self._tenants.discard(tenant)

    def took(self, tenant: str | None, seconds: float, *, ended: bool) -> None:
        """Note how long a judge looked, and whether it had to be ended."""
        if tenant is None:
            return
        with self._lock:
            now = self._clock()
            if ended or seconds > _QUICK_S:
                self._slow[tenant] = now + _REMEMBERED_S
            if ended:
                self._resting[tenant] = now + self._rest_s

    def _begin(self, tenant: str) -> bool:
        """Begin a turn; whether it is that of a slow tenant."""
        with self._lock:
            now = self._clock()
            self._slow = {name: until for name, until in self._slow.items() if until > now}
            self._resting = {name: until for name, until in self._resting.items() if until > now}
            if tenant in self._tenants:
                raise JudgesBusy(f"another schema of {tenant} is looked at")
            if tenant in self._resting:
                seconds = self._resting[tenant] - now
                raise JudgesBusy(
                    f"a schema of {tenant} took more than there is; the next in {seconds:.0f} s"
                )
            self._tenants.add(tenant)
            return tenant in self._slow
