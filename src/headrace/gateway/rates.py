"""How much a tenant may send, and how much all may have under way.

One tenant's flood is not to fill the gateway for the others. So each has a rate, in records and in
bytes, and a part of the memory and of the places that requests under way may take: from the moment
a body is read until Kafka has acknowledged it. Beyond its rate a tenant is told when to come again
(429); beyond the memory everybody is (503), at once, since to queue would only fill more of it.

What was answered since Kafka was silent, and goes on, keeps its part until its fate is known. A
tenant whose topic takes nothing waits for it with every request it sends. That is why places are
counted beside bytes: small requests would else hold all of them. And it is why a tenant's part of
the bytes is one of what the others leave: a few such tenants would else hold all of these.

Rates are counted by a sliding window of a second (``limits``' sliding-window counter), which costs
the same for one event or a thousand. They are of this process: two gateways let through twice that.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from headrace.gateway.events import EventFault, RequestRefused
from headrace.policies.holding import may_hold

#: seconds after which somebody who met full memory may try again
BUSY_RETRY_S = 1


class TooMuch(RequestRefused):
    """Not now; ``retry_after_s`` says when."""

    def __init__(self, fault: EventFault, retry_after_s: int) -> None:
        super().__init__(fault)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Rate:
    """The most of a second; None is no limit."""

    records_per_s: int | None = None
    bytes_per_s: int | None = None


class Rates:
    """What each tenant sent in the last second.

    Args:
        default: for tenants that have none of their own.
        of_tenants: by name.
    """

    def __init__(self, default: Rate, of_tenants: Mapping[str, Rate]) -> None:
        self._default = default
        self._of_tenants = dict(of_tenants)
        self._windows = SlidingWindowCounterRateLimiter(MemoryStorage())

    def spend_bytes(self, tenant: str, amount: int) -> None:
        """Count bytes; ``RequestRefused`` if they are too many."""
        most = self._of_tenants.get(tenant, self._default).bytes_per_s
        self._spend(tenant, "bytes", most, amount)

    def spend_records(self, tenant: str, amount: int) -> None:
        """Count records; ``RequestRefused`` if they are too many."""
        most = self._of_tenants.get(tenant, self._default).records_per_s
        self._spend(tenant, "records", most, amount)

    def _spend(self, tenant: str, unit: str, most: int | None, amount: int) -> None:
        if most is None:
            return
        if amount > most:
            raise RequestRefused(
                EventFault(
                    413,
                    "over-rate",
                    f"{amount} {unit} in one request, and {tenant} "
                    f"may send {most} a second; send less at once",
                )
            )
        window = RateLimitItemPerSecond(most, 1)
        if not self._windows.hit(window, tenant, unit, cost=amount):
            reset_s = self._windows.get_window_stats(window, tenant, unit).reset_time
            raise TooMuch(
                EventFault(429, "rate-limited", f"{tenant} may send {most} {unit} a second"),
                max(1, math.ceil(reset_s - time.time())),
            )


class RequestRoom:
    """Memory and places for what is under way. For one event loop.

    Args:
        most_bytes: for all tenants; one may have a quarter of what the others leave.
        most_requests: of all tenants; whoever lets requests in counts them, and here one tenant may
            have a quarter, of those that are not answered yet a quarter of what the others leave.
    """

    def __init__(self, most_bytes: int, most_requests: int = 1000) -> None:
        self._most = most_bytes
        self._most_requests = most_requests
        self._most_requests_of_tenant = max(1, most_requests // 4)
        self._taken: Counter[str] = Counter()
        # No Counter: that is slow for whoever is not in it, which is nearly everybody, each time.
        self._requests: dict[str, int] = {}
        #: those that are not answered yet
        self._asked: dict[str, int] = {}
        self._asked_by_all = 0
        self.taken_bytes = 0

    @contextmanager
    def taken(self, tenant: str, amount: int) -> Iterator[RequestShare]:
        """Take a place and so many bytes, or more by and by, until the block ends, or longer.

        Who has nothing under way is let in with more than their part, if enough is left.

        Raises:
            TooMuch: there is no room.
        """
        running, asked = self._requests.get(tenant, 0), self._asked.get(tenant, 0)
        if running >= self._most_requests_of_tenant or not may_hold(
            self._most_requests, self._asked_by_all, asked, 1
        ):
            raise _busy()
        share = RequestShare(self, tenant)
        self._requests[tenant] = running + 1
        self._asked[tenant] = asked + 1
        self._asked_by_all += 1
        try:
            share.grow(amount)
            yield share
        finally:
            self._answered(tenant)
            if share.until is None or share.until.done():
                self._give_back(tenant, share.bytes)
            else:
                share.until.add_done_callback(lambda _: self._give_back(tenant, share.bytes))

    def _take(self, tenant: str, amount: int, own: int) -> None:
        """Take more for somebody who has ``own`` bytes already."""
        # A request counts as one piece, also where it takes room as it comes.
        others, others_of_tenant = self.taken_bytes - own, self._taken[tenant] - own
        if not may_hold(self._most, others, others_of_tenant, own + amount):
            raise _busy()
        self._taken[tenant] += amount
        self.taken_bytes += amount

    def _answered(self, tenant: str) -> None:
        self._asked_by_all -= 1
        self._asked[tenant] -= 1
        if not self._asked[tenant]:
            del self._asked[tenant]

    def _give_back(self, tenant: str, amount: int) -> None:
        self.taken_bytes -= amount
        self._taken[tenant] -= amount
        self._requests[tenant] -= 1
        if not self._requests[tenant]:
            del self._requests[tenant], self._taken[tenant]


def _busy() -> TooMuch:
    fault = EventFault(503, "busy", "too much is under way at the moment; send it again")
    return TooMuch(fault, BUSY_RETRY_S)


class RequestShare:
    """What one request has of the room."""

    def __init__(self, room: RequestRoom, tenant: str) -> None:
        self._room = room
        self._tenant = tenant
        self.bytes = 0
        self.until: asyncio.Future[Any] | None = None

    def grow(self, amount: int) -> None:
        """Take more; ``TooMuch`` if there is none."""
        self._room._take(self._tenant, amount, self.bytes)
        self.bytes += amount

    def keep_until(self, done: asyncio.Future[Any]) -> None:
        """Give it back no sooner than this is done: the request is answered, and goes on."""
        self.until = done
