"""Recorded slices that a decision gave up: where a lane was sent elsewhere they never run again.

A driver may keep them in memory, and the store beside what their neighbours still have to do; the
lane may come to stand at their very beginning. Then it goes on with other slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.places import Place
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.waves import Wave, planned_id

#: the wave it was planned in, and where it begins
_Recorded = tuple[str, LaneId, Place]


@dataclass(slots=True)
class GivenUp:
    """What was written down, and what became of it where a stream was sent elsewhere."""

    _recorded: dict[StreamId, set[_Recorded]] = field(default_factory=dict)
    _given_up: set[_Recorded] = field(default_factory=set)

    def recorded(self, wave: Wave) -> None:
        """A wave is written down, or may be."""
        for piece in wave.slices:
            of_stream = self._recorded.setdefault(piece.lane.stream, set())
            of_stream.add((planned_id(wave.id), *piece.begin))

    def sent(self, stream: StreamId, places: Mapping[LaneId, Place]) -> None:
        """It was decided where the lanes of a stream are; some may be no more."""
        before = self._recorded.get(stream, set())
        left = {known for known in before if places.get(known[1]) == known[2]}
        self._given_up |= before - left
        self._recorded[stream] = left

    def has(self, wave: Wave, piece: Slice) -> bool:
        """Whether a slice of a wave was given up."""
        return (planned_id(wave.id), *piece.begin) in self._given_up
