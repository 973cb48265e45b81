"""Rate limits in bytes: a driver starts nothing new of a tenant that still owes what it read.

How large records are is known when they are read, so a slice may bring more bytes than its tenant
had. What is read has to be paid then, before anything new. So what slices say that they read is
added up from outside, and held against one burst and what the rate gave since, whenever a driver
starts something new. What is still in flight is not counted, nor what was when the limit was set:
a tenant that owes nothing may start one slice of any size.

Not counted is what nobody heard of: what an attempt passed that died, and what was claimed and
lost. A driver pays for these by a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.model.streams import Tenant
from headrace.model.waves import Wave
from headrace.ports import WaveResult

#: offsets between which records are small, and then large
_ALIKE = 20
#: bytes of a header of a large one
_LARGE = 4_000


def header_of(offset: int) -> tuple[tuple[str, bytes | None], ...]:
    """What makes the record at an offset large, if it is."""
    return (("padding", bytes(_LARGE)),) if offset // _ALIKE % 2 else ()


@dataclass(eq=False, slots=True)
class _Account:
    """What one driver read of one tenant under one limit."""

    rate_per_s: float
    burst: float
    generation: int
    since_s: float
    read: int = 0

    def is_of(self, tenant: Tenant) -> bool:
        limit = tenant.throttle
        same = (limit.bytes_per_s, tenant.generation) == (self.rate_per_s, self.generation)
        return same and self.burst == _burst(limit.bytes_per_s or 0.0, limit.burst_s)

    def most(self, now_s: float) -> float:
        """The most that may have been read when something new starts."""
        return self.burst + (now_s - self.since_s) * self.rate_per_s


@dataclass(eq=False, slots=True)
class ByteRates:
    """The accounts of all drivers."""

    found: list[str]
    #: by driver's process and tenant
    _accounts: dict[tuple[object, str], _Account] = field(default_factory=dict)
    #: by driver's process and wave, who pays for its tenants
    _running: dict[tuple[object, str], dict[str, _Account]] = field(default_factory=dict)

    def started(
        self,
        driver: object,
        wave: Wave,
        turned_s: float,
        now_s: float,
        tenant_of: Callable[[str], Tenant | None],
        *,
        fresh: bool,
    ) -> None:
        """A driver starts a wave; what runs again does not wait until nothing is owed."""
        paying = self._running[driver, wave.id] = {}
        for name in {piece.lane.tenant for piece in wave.slices}:
            account = self._account(driver, name, tenant_of(name), turned_s)
            if account is None:
                continue
            paying[name] = account
            if fresh and account.read > account.most(now_s):
                self.found.append(
                    f"{name} read {account.read} bytes since {account.since_s:.2f}s, and "
                    f"{account.most(now_s):.0f} were allowed at {now_s:.2f}s"
                )

    def returned(self, driver: object, result: WaveResult) -> None:
        """A driver is told what came of a wave."""
        paying = self._running.pop((driver, result.wave.id), {})
        for receipt in result.receipts:
            account = paying.get(receipt.slice.lane.tenant)
            if account is not None:
                account.read += receipt.bytes

    def _account(
        self, driver: object, name: str, tenant: Tenant | None, since_s: float
    ) -> _Account | None:
        if tenant is None or tenant.throttle.bytes_per_s is None:
            self._accounts.pop((driver, name), None)
            return None
        known = self._accounts.get((driver, name))
        if known is None or not known.is_of(tenant):
            rate_per_s = tenant.throttle.bytes_per_s
            burst = _burst(rate_per_s, tenant.throttle.burst_s)
            known = _Account(rate_per_s, burst, tenant.generation, since_s)
            self._accounts[driver, name] = known
        return known


def _burst(rate_per_s: float, burst_s: float) -> float:
    return max(1.0, rate_per_s * burst_s)
