"""Which records a fault may have touched: what happened to the others has no excuse.

A handler that was killed may have been called twice, and a claim that was cut off may have lost a
record. Where no fault was, neither may be seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.lane_names import number_of
from headrace.model.places import number_at
from headrace.model.streams import Slice
from headrace.model.waves import Wave
from headrace.testing.ledger import Place
from headrace.testing.simulation.keys import those_in

#: offsets without records in a slice that does not say where it ends, at most
_GAPS = 20


@dataclass(eq=False, slots=True)
class Touched:
    """The book of use cases and places, in whichever topic of a name."""

    places: set[tuple[str, Place]] = field(default_factory=set)

    def piece(self, use_case: str, piece: Slice) -> None:
        """A fault may have touched a slice."""
        start, until = number_at(piece.from_offset), number_at(piece.until_offset)
        if piece.is_open:
            until = start + piece.records + _GAPS
        name = piece.lane.name
        for offset in those_in(name, range(start, until)):
            self.places.add((use_case, Place(piece.lane_topic, number_of(name), offset)))

    def wave(self, wave: Wave) -> None:
        """A fault may have touched any slice of a wave."""
        for piece in wave.slices:
            self.piece(wave.use_case, piece)
