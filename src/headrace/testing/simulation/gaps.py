"""What lanes passed over in a run, and whether handlers are told of it, and of nothing else.

It follows what was decided in the moment in which the store has it, and asks the store nothing. A
gap is *due* as long as its lane stands right behind it. A new slice that begins there has to say
it, and a lane may not go on from there by a record that its handler could take, before a call of
its handler was told. At-most-once moves a lane before it calls, so of that only its slices count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from headrace.model.places import Place
from headrace.model.records import Move
from headrace.model.streams import Gap, LaneId, Slice, StreamId


@dataclass(slots=True)
class Gaps:
    """Which lanes stand behind a gap, and who was told of it."""

    counts: Counter[str]
    #: what may not be
    found: list[str] = field(default_factory=list)
    _due: dict[LaneId, Gap] = field(default_factory=dict)
    _ever: set[tuple[LaneId, Gap]] = field(default_factory=set)
    _told: set[tuple[LaneId, Gap]] = field(default_factory=set)

    def passed(self, moves: Sequence[Move], *, elsewhere: bool) -> None:
        """Lanes were sent on, behind what is passed over; or into another topic."""
        for move in moves:
            if move.to_offset > move.from_offset and not elsewhere:
                known = self._due.get(move.lane)
                adjoins = known is not None and known.until_offset == move.from_offset
                begin = known.from_offset if known is not None and adjoins else move.from_offset
                gap = self._due[move.lane] = Gap(begin, move.to_offset)
                self._ever.add((move.lane, gap))
            elif move.to_offset < move.from_offset or elsewhere:
                self._due.pop(move.lane, None)

    def elsewhere(self, lanes: Collection[LaneId]) -> None:
        """Lanes were sent to where no gap is before them."""
        for lane in lanes:
            self._due.pop(lane, None)

    def stands(self, lane: LaneId, at: Place) -> None:
        """A lane was moved to here, which may be where it stood."""
        gap = self._due.get(lane)
        if gap is not None and gap.until_offset != at:
            del self._due[lane]

    def begins_anew(self, stream: StreamId) -> None:
        """All lanes of a stream have no place any more."""
        self.elsewhere([lane for lane in self._due if lane.stream == stream])

    def starts(self, piece: Slice) -> None:
        """A slice starts that was planned as its lane is now."""
        gap = self._due.get(piece.lane)
        behind = gap if gap is not None and gap.until_offset == piece.from_offset else None
        if piece.passed_over != behind:
            self.found.append(f"{piece} says {piece.passed_over}, its lane passed over {behind}")

    def heard(self, piece: Slice) -> None:
        """A handler is called with a part of this slice."""
        gap = piece.passed_over
        if gap is None:
            return
        if (piece.lane, gap) not in self._ever or gap.until_offset != piece.from_offset:
            self.found.append(f"the handler of {piece} is told of {gap}, which is not before it")
        self.counts["gaps told"] += (piece.lane, gap) not in self._told
        self._told.add((piece.lane, gap))

    def untold(self, move: Move) -> Gap | None:
        """What is right before a move, if no handler heard of it."""
        gap = self._due.get(move.lane)
        is_behind = gap is not None and gap.until_offset == move.from_offset
        return gap if is_behind and (move.lane, gap) not in self._told else None

    def goes_on(self, move: Move) -> None:
        """A handler was to be called before its lane was moved."""
        if gap := self.untold(move):
            self.found.append(f"{move.lane} goes on behind {gap}, and its handler was not told")
