"""Whose schema is looked at next and for how long, so that a few tenants do not hold up all others.

There are few judges, and what one schema takes is its author's choice. So a tenant has one judge at
a time, and what it sends meanwhile waits for its turn, in order and not for ever; one whose schema
took long shares all judges but one with others of that kind for a while; and one whose schema had
to be ended rests before it is looked at again. Where there is one judge alone, none can be kept
free. A key for some subjects alone is a tenant here (``Caller.held_as``); whoever else belongs to
none is trusted with all, and just waits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.errors import Temporary

#: what takes longer than this is slow
_QUICK_S = 1.0
#: how long a tenant counts as slow
_REMEMBERED_S = 60.0
#: each holds a thread, of which forty answer all requests
_MOST_WAITING = 16


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
        most_waiting: int = _MOST_WAITING,
    ) -> None:
        """Nobody has a turn.

        Args:
            judges: how many there are.
            wait_s: how long a schema waits for its turn.
            rest_s: how long a tenant rests whose schema was ended.
            clock: seconds.
            most_waiting: how many wait at a time for another schema of their tenant.
        """
        self._wait_s = wait_s
        self._rest_s = rest_s
        self._clock = clock
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        #: by tenant, those whose turn it is or will be, in order
        self._turns: dict[str, deque[object]] = {}
        #: until when a tenant counts as slow, and until when it rests
        self._slow: dict[str, float] = {}
        self._resting: dict[str, float] = {}
        self._slow_turns = threading.BoundedSemaphore(max(1, judges - 1))

    @property
    def waiting(self) -> int:
        """How many wait for another schema of their tenant."""
        return sum(len(turns) - 1 for turns in [*self._turns.values()])

    @contextmanager
    def of(self, tenant: str | None) -> Iterator[float]:
        """The turn of a tenant; how long may still be waited then.

        Raises:
            JudgesBusy: it is not its turn, and was not for as long as is waited.
        """
        if tenant is None:
            yield self._wait_s
            return
        until_s = self._clock() + self._wait_s
        with self._one_of(tenant, until_s), self._slow_turn_of(tenant, until_s):
            yield max(0.0, until_s - self._clock())

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

    @contextmanager
    def _one_of(self, tenant: str, until_s: float) -> Iterator[None]:
        """The turn of one schema among those of its tenant."""
        me = object()
        with self._lock:
            turns = self._turns.get(tenant, deque())
            if turns and self.waiting >= self._most_waiting:
                raise JudgesBusy(f"another schema of {tenant} is looked at, and many wait")
            self._turns.setdefault(tenant, turns).append(me)
        try:
            with self._lock:
                left_s = until_s - self._clock()
                if not self._changed.wait_for(lambda: turns[0] is me, max(0.0, left_s)):
                    raise JudgesBusy(f"another schema of {tenant} is looked at")
                self._refuse_resting(tenant)
            yield
        finally:
            with self._lock:
                turns.remove(me)
                if not turns:
                    del self._turns[tenant]
                self._changed.notify_all()

    def _refuse_resting(self, tenant: str) -> None:
        now = self._clock()
        self._resting = {name: until for name, until in self._resting.items() if until > now}
        if tenant in self._resting:
            seconds = self._resting[tenant] - now
            raise JudgesBusy(
                f"a schema of {tenant} took more than there is; the next in {seconds:.0f} s"
            )

    @contextmanager
    def _slow_turn_of(self, tenant: str, until_s: float) -> Iterator[None]:
        """One of the turns that all slow tenants share, if it is one."""
        with self._lock:
            now = self._clock()
            self._slow = {name: until for name, until in self._slow.items() if until > now}
            is_slow = tenant in self._slow
        if is_slow and not self._slow_turns.acquire(timeout=max(0.0, until_s - now)):
            raise JudgesBusy("as many schemas that may take long as can be looked at are")
        try:
            yield
        finally:
            if is_slow:
                self._slow_turns.release()
