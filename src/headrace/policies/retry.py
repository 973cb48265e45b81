"""How long to wait before a temporary trouble is tried again.

A server that is down comes back sooner when it is not asked all the time, and a thousand lanes
that failed together must not come back together. So the wait doubles with every try in a row, up
to a limit, and chance picks a point below it: "full jitter" of M. Brooker, "Exponential Backoff
And Jitter", AWS Architecture Blog, 2015.

It does not decide whether to try again: what is temporary is tried for ever, and the error's
class says which it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import ConfigError

#: part of the first wait that chance cannot take away, so that no run of luck makes a hot loop
_FLOOR_SHARE = 0.25
#: doublings after which any sensible limit is reached; more would overflow
_MOST_DOUBLINGS = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """How waits grow: about ``first_s`` after the first trouble, never more than ``most_s``."""

    first_s: float
    most_s: float

    def __post_init__(self) -> None:
        """Refuse waits that would make a hot loop or shrink.

        Raises:
            ConfigError: not ``0 < first_s <= most_s``.
        """
        if not 0.0 < self.first_s <= self.most_s:
            raise ConfigError(
                f"backoff: first_s {self.first_s} and most_s {self.most_s} must be above 0, "
                "and the first no more than the most"
            )

    @property
    def least_s(self) -> float:
        """The shortest wait there is."""
        return self.first_s * _FLOOR_SHARE

    def wait_s(self, tries: int, chance: float) -> float:
        """Seconds to wait after a trouble, between ``least_s`` and ``most_s``.

        Args:
            tries: troubles in a row before this one; 0 for the first.
            chance: evenly drawn from ``[0, 1)``; the caller draws it.
        """
        doublings = min(max(tries, 0), _MOST_DOUBLINGS)
        ceiling_s = min(self.most_s, self.first_s * 2.0**doublings)
        return max(self.least_s, ceiling_s * chance)
