"""Who is ready and who hangs, asked of each driver once a second, in a thread of its own.

A driver that hangs makes whoever asks it wait, and the supervisor must not: it has signals to obey
and a watchdog to feed. So the asking is done beside its loop, and what was found comes back as
events, each with the pid it is about; by then the driver may be another process.

A driver that has been without its store or Kafka for a while says so, and is not ready as long as
that lasts. It is not unhealthy: it goes on by itself.

A driver is *unhealthy* if it says so itself (`health.py`: its loop has not turned for a minute), or
if it has not answered for `SILENT_S`. Both must be seen `TIMES` times in a row, so that a machine
that was asleep does not wake up to a fleet being killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.fleet.health import HealthAnswer, ask
from headrace.fleet.states import Lacks, Ready, Unhealthy
from headrace.model.statistics import Missing

#: how often each driver is asked
EVERY_S = 0.5
#: Python on a busy machine may take half a minute to load what a driver needs
SILENT_S = 90.0
#: so often in a row
TIMES = 3
_OK, _UNAVAILABLE = 200, 503

#: what may be found out about a process
Found = Ready | Lacks | Unhealthy


@dataclass(slots=True)
class ProbedProcess:
    """A process that is asked how it is."""

    index: int
    pid: int
    port: int
    since_s: float
    ready: bool = False
    missing: tuple[Missing, ...] = ()
    bad: int = 0

    def heard(self, told: HealthAnswer | None, live: int | None, now_s: float) -> Found | None:
        """What an answer of ``/readyz``, and if that was not 200 of ``/livez``, means."""
        status = None if told is None else told.status
        if _OK in (status, live):
            self.since_s, self.bad = now_s, 0
            return self._said(told)
        silent_s = now_s - self.since_s
        self.bad += 1
        if self.bad < TIMES or (live != _UNAVAILABLE and silent_s < SILENT_S):
            return None
        self.bad = 0
        if live == _UNAVAILABLE:
            return Unhealthy(self.index, "its loop does not turn any more")
        return Unhealthy(self.index, f"no answer about its health for {silent_s:.0f} s")

    def _said(self, told: HealthAnswer | None) -> Ready | Lacks | None:
        """What is new in the word of one that lives."""
        if told is None:
            return None
        if told.status == _OK:
            news, self.ready, self.missing = not self.ready, True, ()
            return Ready(self.index) if news else None
        missing = _missing(told)
        if missing == self.missing:
            return None
        self.missing, self.ready = missing, self.ready and not missing
        return Lacks(self.index, missing)


def _missing(told: HealthAnswer) -> tuple[Missing, ...]:
    """The servers that a driver says it is without; an older one does not say."""
    found = told.facts.get("missing")
    if not isinstance(found, list):
        return ()
    try:
        return tuple(Missing(str(item["what"]), float(item["since_s"])) for item in found)
    except (TypeError, KeyError, ValueError):
        return ()


class Prober:
    """Asks all watched processes until closed; ``found(pid, event)`` is called from its thread."""

    def __init__(
        self,
        found: Callable[[int, Found], None],
        asked: Callable[[int, str], HealthAnswer | None] = ask,
    ) -> None:
        """Start asking; ``asked`` returns the answer of a port and path."""
        self._found, self._asked = found, asked
        self._watched: dict[int, ProbedProcess] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prober", daemon=True)
        self._thread.start()

    def watch(self, index: int, pid: int, port: int) -> None:
        """Ask this process from now on, in the place of the earlier one of this index."""
        self._watched[index] = ProbedProcess(index, pid, port, time.monotonic())

    def forget(self, index: int) -> None:
        """Ask no more."""
        self._watched.pop(index, None)

    def close(self) -> None:
        """Stop asking."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(EVERY_S):
            for process in list(self._watched.values()):
                told, live = self._asked(process.port, "/readyz"), None
                if told is None or told.status != _OK:
                    live = self._asked(process.port, "/livez")
                event = process.heard(told, live and live.status, time.monotonic())
                if event is not None:
                    self._found(process.pid, event)
