"""A wave that was handed to the engine and has not come back."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.waves import Wave


@dataclass(slots=True)
class Flight:
    """A wave that runs."""

    wave: Wave
    #: monotonic second of its start, or up to which it is known to have queued
    since_s: float
    #: bins of it that may hold their slots for long
    long_bins: int = 0
    #: it may be the first that its worker has of this version
    cold: bool = False
    #: it ran for too long, and the engine was told to end it
    cancelled: bool = False

    @property
    def predicted_s(self) -> float:
        """What its longest bin was predicted to take."""
        return max((bin_.predicted_s for bin_ in self.wave.bins), default=0.0)

    @property
    def shared(self) -> bool:
        """Whether others wait for the calls of one of its bins."""
        return any(bin_.in_company for bin_ in self.wave.bins)
