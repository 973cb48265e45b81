"""A clock that stands still until a test moves it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class FakeClock:
    """Implements ``headrace.ports.Clock``; both times move together."""

    wall_s: float = 1_700_000_000.0
    steady_s: float = 0.0

    def now_s(self) -> float:
        """Seconds since 1970."""
        return self.wall_s

    def monotonic_s(self) -> float:
        """Seconds since the test began."""
        return self.steady_s

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.wall_s += seconds
        self.steady_s += seconds
