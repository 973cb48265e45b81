"""Sending the visits to Kafka at a steady pace, from wherever an earlier run stopped.

The producer is idempotent and sends a lane's visits in order, so whatever is in a lane is a prefix
of what belongs there. That makes going on simple: a lane's end offset says how many visits to skip.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import Producer

from headrace.demo.visits import LANES, Visit, read_visits
from headrace.errors import BrokerUnavailable
from headrace.kafka import producer_config
from headrace.ports import Log, TopicPartition


def unsent(visits: list[Visit], ends: Mapping[TopicPartition, int]) -> list[Visit]:
    """The visits that are not in Kafka yet, in the order of the file."""
    seen = dict.fromkeys(LANES, 0)
    left = []
    for visit in visits:
        lane = TopicPartition(visit.topic, visit.partition)
        if seen[lane] >= ends.get(lane, 0):
            left.append(visit)
        seen[lane] += 1
    return left


@dataclass(slots=True)
class Feeder:
    """Sends the visits from a thread of its own."""

    config: Mapping[str, str]
    log: Log
    rate_per_s: float
    total: int = 0
    sent: int = 0
    error: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin where Kafka says an earlier run stopped."""
        visits = list(read_visits())
        left = unsent(visits, self.log.end_offsets(LANES))
        self.total, self.sent = len(visits), len(visits) - len(left)
        self._thread = threading.Thread(target=self._send, args=(left,), name="feeder", daemon=True)
        self._thread.start()

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

    def _send(self, visits: list[Visit]) -> None:
        producer = Producer(producer_config(self.config))
        began_s = time.monotonic()
        for number, visit in enumerate(visits):
            early_s = began_s + number / self.rate_per_s - time.monotonic()
            if early_s > 0 and self._stop.wait(early_s):
                break
            producer.produce(
                visit.topic,
                value=visit.as_json(),
                key=visit.lead.encode(),
                partition=visit.partition,
                on_delivery=self._acknowledged,
            )
            producer.poll(0)
        if producer.flush(30) and self.error is None:
            self.error = BrokerUnavailable("Kafka did not acknowledge all visits within 30 s")

    def _acknowledged(self, error: object, _message: object) -> None:
        if error is not None:
            self.error = BrokerUnavailable(f"a visit was not stored: {error}")
        else:
            self.sent += 1
