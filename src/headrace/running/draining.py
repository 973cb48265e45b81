"""What is said while a driver drains.

Whoever asks a driver to end waits for what runs, and that may take half a minute: a silent terminal
looks as if nobody had heard. So it is said at once how long it takes at most and what a second
Ctrl-C does, and then now and then what is still waited for: how many slices, and whose calls have
run longest.

Nothing is ended here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from headrace.board import Flight
from headrace.cycle.driver import Driver

log = structlog.get_logger(__name__)

#: between two lines
TELL_EVERY_S = 3.0
#: waves, and streams of each, that are named
_NAMED = 3


@dataclass(slots=True)
class Draining:
    """A drain that is under way."""

    driver: Driver
    #: of the steady clock: when what still runs is cancelled
    ends_s: float
    _next_s: float = 0.0

    def begin(self, now_s: float) -> None:
        """Say what happens from now on."""
        log.info(
            "ends once what runs has ended",
            seconds=self.ends_s - now_s,
            why="asked to end; a second Ctrl-C waits for nothing",
        )
        self._next_s = now_s + TELL_EVERY_S

    def poll(self, now_s: float) -> None:
        """Say what is still waited for, if it is time to; called before each turn."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + TELL_EVERY_S
        log.info(
            "waits for what runs",
            seconds=round(self.ends_s - now_s, 1),
            why="; ".join(_waited_for(self.driver, now_s)),
        )


def _waited_for(driver: Driver, now_s: float) -> Iterator[str]:
    flights = sorted(driver.board.flights.values(), key=lambda flight: flight.since_s)
    if flights:
        slices = sum(1 for flight in flights for _ in flight.wave.slices)
        told = _first([_told(flight, now_s) for flight in flights])
        yield f"{slices} slice{'s' * (slices != 1)} run: {told}"
    if driver.failing.is_busy:
        yield "dead letters are written"
    if driver.late_claims.is_busy:
        yield "it is looked for what was claimed before an answer was lost"


def _told(flight: Flight, now_s: float) -> str:
    """A wave, by its first streams."""
    streams = sorted({piece.lane.stream for piece in flight.wave.slices})
    return f"{_first(list(map(str, streams)))} for {now_s - flight.since_s:.0f} s"


def _first(told: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(told) - _NAMED
    return ", ".join(told[:_NAMED]) + (f" and {more} more" if more > 0 else "")
