"""Running waves on executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.model.receipts import Receipt, SliceError
from headrace.model.waves import Wave


@dataclass(frozen=True, slots=True)
class WaveResult:
    """A wave that ended."""

    wave: Wave
    #: one for each slice, in no order; empty when the job itself failed
    receipts: tuple[Receipt, ...]
    seconds: float
    #: the job failed as a whole: positions must be read back before these lanes are planned again
    error: SliceError | None = None


class Engine(Protocol):
    """Runs waves on executors.

    ``start`` never blocks; each started wave appears exactly once in ``finished``, whatever
    happens to it. Waves run at the same time.
    """

    @property
    def slots(self) -> int:
        """Tasks that can run at the same time."""

    def start(self, wave: Wave) -> None:
        """Run a wave of a use case that the engine was given; how, is its maker's affair."""

    def finished(self, timeout_s: float) -> list[WaveResult]:
        """Waves that ended since the last call; waits up to ``timeout_s`` for the first."""

    def began(self, wave_id: str) -> bool:
        """Whether any task of a running wave has begun; False while it queues for an executor."""

    def cancel(self, wave_id: str) -> None:
        """End a running wave soon; it comes back from ``finished`` with an error."""

    def close(self) -> None:
        """Stop. Running waves are cancelled."""
