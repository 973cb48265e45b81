"""Who tried too often: an address that keeps showing wrong credentials waits.

A key cannot be guessed, but trying costs a look into the store each time, and a flood of tries is
a flood for the store. So failures are counted by address, and by address and prefix, minute by
minute. Never by prefix alone: prefixes are no secret, and anybody could lock a tenant out with its.

Counts are of this process and in memory. Of an IPv6 address the network (/64) counts, since its
owner has all the others of it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

from headrace.doors.minute import Minute
from headrace.doors.problems import too_many

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
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take how many may fail in a minute, and seconds that never go back."""
        self._minute = Minute(steady)
        self._most = per_minute
        self._most_of_one_key = of_one_key_per_minute

    def check(self, address: str, prefix: str) -> None:
        """Raise the 429 ``Problem`` if this address has to wait."""
        network = network_of(address)
        if (
            self._minute.count(network) >= self._most
            or self._minute.count((network, prefix)) >= self._most_of_one_key
        ):
            wait_s = self._minute.left_s()
            raise too_many("too many wrong credentials came from this address", wait_s)

    def failed(self, address: str, prefix: str, *, is_guess: bool = True) -> None:
        """Count a wrong credential, or one that has ended, which only counts for itself."""
        network = network_of(address)
        self._minute.add((network, prefix))
        if is_guess:
            self._minute.add(network)


def network_of(address: str) -> str:
    """What an address counts as: itself, or for IPv6 its network."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "unknown"
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network(((int(parsed) >> 64) << 64, 64)))
