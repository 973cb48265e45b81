"""Who tried too often: an address that keeps showing wrong credentials waits.

A key cannot be guessed, but trying costs a look into the store each time, and a flood of tries is
a flood for the store. So failures are counted by address, and by address and prefix, over a moving
minute. Never by prefix alone: prefixes are no secret, and anybody could lock a tenant out with its.

Counts are of this process and in memory. Of an IPv6 address the network (/64) counts, since its
owner has all the others of it too.
"""

from __future__ import annotations

import math
import time
from ipaddress import IPv6Address, ip_address, ip_network

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from headrace.doors.problems import Problem, too_many

#: wrong credentials that an address may show in a minute
FAILURES_PER_MINUTE = 30
#: of one key
FAILURES_OF_ONE_KEY_PER_MINUTE = 10


class Attempts:
    """Failures by address. Safe in several threads."""

    def __init__(
        self,
        per_minute: int = FAILURES_PER_MINUTE,
        of_one_key_per_minute: int = FAILURES_OF_ONE_KEY_PER_MINUTE,
    ) -> None:
        """Take how many may fail in a minute."""
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._any = RateLimitItemPerMinute(per_minute, namespace="address")
        self._same = RateLimitItemPerMinute(of_one_key_per_minute, namespace="key")

    def check(self, address: str, prefix: str) -> None:
        """Raise the 429 ``Problem`` if this address has to wait."""
        for item, names in self._counted(address, prefix):
            if not self._limiter.test(item, *names):
                raise self._wait(item, names)

    def failed(self, address: str, prefix: str, *, is_guess: bool = True) -> None:
        """Count a wrong credential, or one that has ended, which only counts for itself."""
        for item, names in self._counted(address, prefix):
            if is_guess or item is self._same:
                self._limiter.hit(item, *names)

    def _counted(self, address: str, prefix: str) -> list[tuple[RateLimitItem, tuple[str, ...]]]:
        network = _network(address)
        return [(self._any, (network,)), (self._same, (network, prefix))]

    def _wait(self, item: RateLimitItem, names: tuple[str, ...]) -> Problem:
        ends_at_s = self._limiter.get_window_stats(item, *names).reset_time
        wait_s = max(1, math.ceil(ends_at_s - time.time()))
        return too_many("too many wrong credentials came from this address", wait_s)


def _network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return "unknown"
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network(((int(parsed) >> 64) << 64, 64)))
