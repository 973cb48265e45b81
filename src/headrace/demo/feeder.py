"""Sending the visits at a steady pace, from wherever an earlier run stopped.

Most go to the log itself, some tenants' to the gateway (`poster.py`). A log says which visits it
has; so going on is to send the others.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from headrace.demo.avro_visits import AvroVisits
from headrace.demo.logs import VisitsLog
from headrace.demo.poster import Poster
from headrace.demo.visits import Visit, read_visits
from headrace.errors import BrokerUnavailable, HeadraceError

#: for a broker that has just come back
_KNOWS_WITHIN_S = 30.0


@dataclass(slots=True)
class Feeder:
    """Sends the visits from a thread of its own."""

    log: VisitsLog
    rate_per_s: float
    #: sends those that come by the gateway
    poster: Poster | None
    #: makes the bytes of the others
    written: AvroVisits
    total: int = 0
    _left: int = 0
    _error: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin where the log says an earlier run stopped."""
        visits = list(read_visits())
        left = self._unsent(visits)
        timed = [(number / self.rate_per_s, visit) for number, visit in enumerate(left)]
        posted = self.log.posted
        ours = [entry for entry in timed if entry[1].tenant not in posted]
        self.total, self._left = len(visits), len(ours)
        self.written.prepare(visit for _, visit in ours)
        if self.poster is not None:
            self.poster.start([entry for entry in timed if entry[1].tenant in posted], self._stop)
        self._thread = threading.Thread(target=self._send, args=(ours,), name="feeder", daemon=True)
        self._thread.start()

    def _unsent(self, visits: list[Visit]) -> list[Visit]:
        """What the log does not have; asked until it knows, since a broker may just be up."""
        until_s = time.monotonic() + _KNOWS_WITHIN_S
        while True:
            try:
                return self.log.unsent(visits)
            except BrokerUnavailable:
                if time.monotonic() > until_s or self._stop.wait(0.2):
                    raise

    @property
    def error(self) -> Exception | None:
        """Why no more is sent."""
        return self._error or (self.poster.error if self.poster is not None else None)

    @property
    def sent(self) -> int:
        """Visits that are acknowledged."""
        return self.total - self._left - (self.poster.left if self.poster is not None else 0)

    @property
    def share(self) -> float:
        """Share of all visits that are acknowledged."""
        return self.sent / self.total if self.total else 0.0

    @property
    def done(self) -> bool:
        """Everything is in the log."""
        return self.total > 0 and self.sent >= self.total

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        if self.poster is not None:
            self.poster.join(timeout_s=10)

    def _send(self, visits: list[tuple[float, Visit]]) -> None:
        began_s = time.monotonic()
        try:
            for due_s, visit in visits:
                early_s = began_s + due_s - time.monotonic()
                if early_s > 0 and self._stop.wait(early_s):
                    break
                value = self.written.value(visit, self._stop)
                if value is None:
                    break
                self.log.send(visit, value, self._acknowledged)
            self.log.flush()
        except HeadraceError as error:
            self._error = self._error or error

    def _acknowledged(self, problem: str | None) -> None:
        if problem is not None:
            self._error = BrokerUnavailable(f"a visit was not stored: {problem}")
        else:
            self._left -= 1
