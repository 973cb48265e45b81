"""Claims of at-most-once that may still be carried out after somebody looked where the lane is.

A server that lost the connection may go on with a COMMIT a moment later. Whoever reads positions in
between finds a lane where it was, and later finds it further on, as if somebody had worked there.
So of each slice that came back short, or not at all, it is remembered what of it may yet be
claimed. Whenever positions are read the lane is held against that: one that was moved under the
same epoch, while nothing of it ran, was claimed by nobody who is left.

A doubt is over when a later slice has moved the lane, as only one of two can have moved it from the
same place, and when the lane has another epoch. One that came back where it began, since it could
read nothing, says nothing of a claim before it. A lane that stands at an open failure is not
judged: a person may have moved it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headrace.board.lanes import Lane
from headrace.model.receipts import SliceError
from headrace.model.streams import LaneId, Position, Slice


@dataclass(frozen=True, slots=True)
class Doubt:
    """What of a slice may yet be claimed."""

    #: what was not claimed when somebody looked; once it was, what was claimed
    slice: Slice
    #: the wave that it, or the lane's last slice since, came back with
    wave: str
    #: why nobody knows
    error: SliceError


@dataclass(slots=True)
class ClaimsInDoubt:
    """All that a driver does not know of claims."""

    #: by lane: what may yet be claimed
    open: dict[LaneId, Doubt] = field(default_factory=dict)
    #: what was claimed after all, and is not told yet
    late: list[Doubt] = field(default_factory=list)

    def over(self, lane: LaneId) -> None:
        """A later slice has moved the lane, or tells who did."""
        self.open.pop(lane, None)

    def met(self, lane: LaneId, wave: str) -> None:
        """A later slice of the lane came back with this wave."""
        if lane in self.open:
            self.open[lane] = replace(self.open[lane], wave=wave)

    def begin(self, doubt: Doubt) -> None:
        """A slice came back, and what was not claimed of it may yet be."""
        self.open[doubt.slice.lane] = doubt

    def see(self, position: Position, lane: Lane) -> None:
        """A lane, as last seen, is at a position now."""
        doubt = self.open.get(position.lane)
        if doubt is None or lane.wave not in (None, doubt.wave):
            return  # of what runs its own receipt tells
        piece = doubt.slice
        if position.epoch != piece.epoch or lane.position > piece.from_offset:
            del self.open[position.lane]
        elif position.next_offset > piece.from_offset:
            del self.open[position.lane]
            if lane.failure is None:
                claimed = replace(piece, until_offset=position.next_offset)
                self.late.append(replace(doubt, slice=claimed))
