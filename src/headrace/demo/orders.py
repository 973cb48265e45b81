"""The orders of the second act: eight quiet tenants all the time, and five troublesome ones later.

What is sent is a plain list, so that the report can hold the results against it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.connectors.kafka import make_producer
from headrace.errors import BrokerUnavailable

QUIET = tuple(f"quiet-{number}" for number in range(1, 9))
#: what each does, in the words of the report
TROUBLE = {
    "flooding": "sends 30,000 orders at once",
    "slow": "its CRM takes 20 ms for each order",
    "failing": "its CRM refuses every call",
    "hanging": "its CRM never answers",
    "poisoned": "every fifth order is no JSON",
}
QUIET_PER_S = 10
CALM_S = 12
TROUBLED_S = 16
FLOOD = 30_000
_TROUBLE_PER_S = {"slow": 10, "failing": 5, "hanging": 2, "poisoned": 10}


@dataclass(frozen=True, slots=True)
class Order:
    """One record to send."""

    #: seconds after the start; below 0: before it, to get everything going
    at_s: float
    tenant: str
    number: int

    @property
    def bad(self) -> bool:
        """Whether it is no order at all."""
        return self.tenant == "poisoned" and self.number % 5 == 4

    @property
    def value(self) -> bytes:
        """The record's value."""
        return b"<order/>" if self.bad else json.dumps({"number": self.number}).encode()


def orders() -> list[Order]:
    """Everything that is sent, in order of time."""
    return sorted(_orders(), key=lambda order: order.at_s)


def _orders() -> Iterator[Order]:
    for tenant in QUIET:
        yield Order(-1.0, tenant, -1)
        yield from _steady(tenant, QUIET_PER_S, 0.0, CALM_S + TROUBLED_S)
    for tenant, per_s in _TROUBLE_PER_S.items():
        yield from _steady(tenant, per_s, CALM_S, TROUBLED_S)
    yield from (Order(CALM_S, "flooding", number) for number in range(FLOOD))


def _steady(tenant: str, per_s: int, from_s: float, seconds: float) -> Iterator[Order]:
    for number in range(int(per_s * seconds)):
        yield Order(from_s + number / per_s, tenant, number)


@dataclass(slots=True)
class OrderFeeder:
    """Sends the orders from a thread of its own."""

    config: Mapping[str, str]
    sent: int = 0
    done: bool = False
    error: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _go: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Send the first ones, and wait for ``go``."""
        self._thread = threading.Thread(target=self._send, name="orders", daemon=True)
        self._thread.start()

    def go(self) -> None:
        """Send all the others, each at its time from now."""
        self._go.set()

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()
        self._go.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _send(self) -> None:
        producer = make_producer(self.config, queue_buffering_max_messages=2 * FLOOD)
        first = [order for order in orders() if order.at_s < 0]
        for order in first:
            producer.produce(f"{order.tenant}.orders", value=order.value)
        producer.flush(30)
        self._go.wait()
        began_s = time.monotonic()
        for order in orders()[len(first) :]:
            early_s = began_s + order.at_s - time.monotonic()
            if early_s > 0 and self._stop.wait(early_s):
                return
            producer.produce(f"{order.tenant}.orders", value=order.value)
            producer.poll(0)
            self.sent += 1
        if producer.flush(30):
            self.error = BrokerUnavailable("Kafka did not acknowledge all orders within 30 s")
        self.done = True
