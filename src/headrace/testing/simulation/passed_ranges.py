"""What lanes passed over in a run, and whether handlers are told of it, and of nothing else.

It follows what was decided in the moment in which the store has it, and asks the store nothing. A
range is *due* as long as its lane stands right behind it. A new slice that begins there has to say
it, and a lane may not go on from there by a record that its handler could take, before a call of
its handler was told. At-most-once moves a lane before it calls, so of that only its slices count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from headrace.model.places import Place
from headrace.model.records import Move
from headrace.model.streams import LaneId, PassedRange, Slice, StreamId


@dataclass(slots=True)
class PassedRanges:
    """Which lanes stand behind a range that was passed over, and who was told of it."""

    counts: Counter[str]
    #: what may not be
    found: list[str] = field(default_factory=list)
    _due: dict[LaneId, PassedRange] = field(default_factory=dict)
    _ever: set[tuple[LaneId, PassedRange]] = field(default_factory=set)
    _told: set[tuple[LaneId, PassedRange]] = field(default_factory=set)

    def passed(self, moves: Sequence[Move], *, elsewhere: bool) -> None:
        """Lanes were sent on, behind what is passed over; or into another topic."""
        for move in moves:
            if move.to_offset > move.from_offset and not elsewhere:
                known = self._due.get(move.lane)
                adjoins = known is not None and known.until_offset == move.from_offset
                begin = known.from_offset if known is not None and adjoins else move.from_offset
                last = self._due[move.lane] = PassedRange(begin, move.to_offset)
                self._ever.add((move.lane, last))
            elif move.to_offset < move.from_offset or elsewhere:
                self._due.pop(move.lane, None)

    def elsewhere(self, lanes: Collection[LaneId]) -> None:
        """Lanes were sent to where nothing was passed over before them."""
        for lane in lanes:
            self._due.pop(lane, None)

    def stands(self, lane: LaneId, at: Place) -> None:
        """A lane was moved to here, which may be where it stood."""
        last = self._due.get(lane)
        if last is not None and last.until_offset != at:
            del self._due[lane]

    def begins_anew(self, stream: StreamId) -> None:
        """All lanes of a stream have no place any more."""
        self.elsewhere([lane for lane in self._due if lane.stream == stream])

    def starts(self, piece: Slice) -> None:
        """A slice starts that was planned as its lane is now."""
        last = self._due.get(piece.lane)
        behind = last if last is not None and last.until_offset == piece.from_offset else None
        if piece.passed_over != behind:
            self.found.append(f"{piece} says {piece.passed_over}, its lane passed over {behind}")

    def heard(self, piece: Slice) -> None:
        """A handler is called with a part of this slice."""
        last = piece.passed_over
        if last is None:
            return
        if (piece.lane, last) not in self._ever or last.until_offset != piece.from_offset:
            self.found.append(f"the handler of {piece} is told of {last}, which is not before it")
        self.counts["ranges told"] += (piece.lane, last) not in self._told
        self._told.add((piece.lane, last))

    def untold(self, move: Move) -> PassedRange | None:
        """What is right before a move, if no handler heard of it."""
        last = self._due.get(move.lane)
        is_behind = last is not None and last.until_offset == move.from_offset
        return last if is_behind and (move.lane, last) not in self._told else None

    def goes_on(self, move: Move) -> None:
        """A handler was to be called before its lane was moved."""
        if last := self.untold(move):
            self.found.append(f"{move.lane} goes on behind {last}, and its handler was not told")
