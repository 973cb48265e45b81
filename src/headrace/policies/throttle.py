"""How much a throttled tenant may take now: a token bucket.

A limit such as 100 records a second has to hold over minutes, yet a tenant that was quiet for a
moment should not be held to a hundredth of a second. A bucket gains ``rate_per_s`` tokens every
second up to one burst, and each record (or byte) takes one: J. Turner, "New directions in
communications (or which way to the information age?)", IEEE Communications Magazine 24(10), 1986.

What a slice holds is known for sure only when it has been read, so a spend may go below zero: the
debt is paid back before anything else may be taken.

It does not slow a slice that runs; it only says how large the next one may be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: up to here a float counts each one; nobody waits for more
_MOST_TOKENS = 2.0**53


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Tokens of one tenant: records, or bytes."""

    rate_per_s: float
    #: what may be taken at ``at_s``; below zero is a debt
    tokens: float
    #: monotonic second up to which tokens were given
    at_s: float
    #: seconds' worth that it holds
    burst_s: float = 1.0

    @classmethod
    def full(cls, rate_per_s: float, now_s: float, burst_s: float = 1.0) -> TokenBucket:
        """A token bucket that nothing was taken from yet; ``rate_per_s`` is above 0."""
        empty = cls(rate_per_s, 0.0, now_s, burst_s)
        return replace(empty, tokens=empty.burst)

    @property
    def burst(self) -> float:
        """The most tokens it holds: ``burst_s`` seconds' worth, and room for at least one."""
        # Below 1 no whole record would ever fit; at 0.5/s one passes every two seconds.
        return min(max(1.0, self.rate_per_s * self.burst_s), _MOST_TOKENS)

    @property
    def is_full(self) -> bool:
        """Whether it holds what one holds that nothing was taken from yet."""
        return self.tokens >= self.burst

    def refilled(self, now_s: float) -> TokenBucket:
        """The bucket at ``now_s``.

        A clock that went back gives nothing and takes nothing: seconds already paid for are not
        paid for twice.
        """
        if now_s <= self.at_s:
            return self
        gained = (now_s - self.at_s) * self.rate_per_s
        return replace(self, tokens=min(self.burst, self.tokens + gained), at_s=now_s)

    def spend(self, amount: float) -> TokenBucket:
        """The bucket after ``amount`` was taken, which may be more than it had."""
        return replace(self, tokens=self.tokens - amount)

    def given_back(self, amount: float) -> TokenBucket:
        """The bucket after ``amount`` of what was taken came back; it holds no more than a burst.

        What does not fit would have run over in the meantime.
        """
        return replace(self, tokens=min(self.burst, self.tokens + amount))
