"""Recorded slices that a decision gave up: where a lane was sent elsewhere they never run again.

A driver may keep them in memory, and the store beside what their neighbours still have to do; the
lane may come to stand at their very beginning. Then it goes on with other slices. Of merged lanes
one that was sent away takes all of them along, since what comes again may belong before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.places import Place
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.waves import Wave, planned_id


class _Recorded(NamedTuple):
    #: the wave it was planned in
    wave: str
    lane: LaneId
    begin: Place
    #: with other lanes of its stream
    merged: bool


@dataclass(slots=True)
class GivenUp:
    """What was written down, and what became of it where a stream was sent elsewhere."""

    _recorded: dict[StreamId, set[_Recorded]] = field(default_factory=dict)
    _given_up: set[_Recorded] = field(default_factory=set)

    def recorded(self, wave: Wave) -> None:
        """A wave is written down, or may be."""
        for piece in wave.slices:
            self._recorded.setdefault(piece.lane.stream, set()).add(_known(wave, piece))

    def sent(self, stream: StreamId, places: Mapping[LaneId, Place], *, turned: bool) -> None:
        """It was decided where the lanes of a stream are; some may be no more.

        Args:
            stream: whose lanes they are.
            places: where they are now.
            turned: what is read next may belong before what was recorded.
        """
        before = self._recorded.get(stream, set())
        there = {known for known in before if places.get(known.lane) == known.begin}
        left = {known for known in there if not (known.merged and turned)}
        self._given_up |= before - left
        self._recorded[stream] = left

    def has(self, wave: Wave, piece: Slice) -> bool:
        """Whether a slice of a wave was given up."""
        return _known(wave, piece) in self._given_up


def _known(wave: Wave, piece: Slice) -> _Recorded:
    merged = wave.merges_lanes
    return _Recorded(planned_id(wave.id), *piece.begin, merged)
