"""Sending the visits at a steady pace, from wherever an earlier run stopped.

Most go to Kafka, some tenants' to the gateway (`poster.py`). The producer is idempotent and sends a
lane's visits in order, so whatever is in a lane is a prefix of what belongs there. That makes going
on simple: a lane's end offset says how many visits to skip.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.connectors.kafka import delivery_error, make_producer
from headrace.demo.avro_visits import AvroVisits
from headrace.demo.poster import POSTED, Poster
from headrace.demo.visits import Visit, counted, read_visits, unsent
from headrace.errors import BrokerUnavailable, HeadraceError
from headrace.ports import Log

#: for a broker that has just come back
_KNOWS_WITHIN_S = 30.0


@dataclass(slots=True)
class Feeder:
    """Sends the visits from a thread of its own."""

    config: Mapping[str, str]
    log: Log
    rate_per_s: float
    poster: Poster
    #: makes the bytes of those that go to Kafka
    written: AvroVisits
    total: int = 0
    _left: int = 0
    _error: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin where Kafka says an earlier run stopped."""
        visits = list(read_visits())
        left = self._unsent(visits)
        timed = [(number / self.rate_per_s, visit) for number, visit in enumerate(left)]
        ours = [entry for entry in timed if entry[1].tenant not in POSTED]
        self.total, self._left = len(visits), len(ours)
        self.written.prepare(visit for _, visit in ours)
        self.poster.start([entry for entry in timed if entry[1].tenant in POSTED], self._stop)
        self._thread = threading.Thread(target=self._send, args=(ours,), name="feeder", daemon=True)
        self._thread.start()

    def _unsent(self, visits: list[Visit]) -> list[Visit]:
        """What Kafka does not have; it is asked until it knows, since a broker may just be up."""
        until_s = time.monotonic() + _KNOWS_WITHIN_S
        while True:
            try:
                return unsent(visits, counted(self.log))
            except BrokerUnavailable:
                if time.monotonic() > until_s or self._stop.wait(0.2):
                    raise

    @property
    def error(self) -> Exception | None:
        """Why no more is sent."""
        return self._error or self.poster.error

    @property
    def sent(self) -> int:
        """Visits that are acknowledged."""
        return self.total - self._left - self.poster.left

    @property
    def share(self) -> float:
        """Share of all visits that Kafka has acknowledged."""
        return self.sent / self.total if self.total else 0.0

    @property
    def done(self) -> bool:
        """Everything is in Kafka."""
        return self.total > 0 and self.sent >= self.total

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self.poster.join(timeout_s=10)

    def _send(self, visits: list[tuple[float, Visit]]) -> None:
        producer = make_producer(self.config)
        began_s = time.monotonic()
        for due_s, visit in visits:
            early_s = began_s + due_s - time.monotonic()
            if early_s > 0 and self._stop.wait(early_s):
                break
            try:
                value = self.written.value(visit, self._stop)
            except HeadraceError as error:
                self._error = error
                break
            if value is None:
                break
            producer.produce(
                visit.topic,
                value=value,
                key=visit.lead.encode(),
                partition=visit.partition,
                on_delivery=self._acknowledged,
            )
            producer.poll(0)
        if producer.flush(30) and self._error is None:
            self._error = BrokerUnavailable("Kafka did not acknowledge all visits within 30 s")

    def _acknowledged(self, error: Any, message: object) -> None:
        problem = delivery_error(error, message)
        if problem is not None:
            self._error = BrokerUnavailable(f"a visit was not stored: {problem}")
        else:
            self._left -= 1
