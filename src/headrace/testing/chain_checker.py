"""Whether the positions of a lane only ever grew by slices that join.

A position that jumps forward has lost records, and one that steps back will do them again; both are
easily overlooked when the last position is right. So every move is looked at: it begins exactly
where the one before ended, and never goes back. Who moved is not asked; seeks and skips are
decisions, and have to be told.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from headrace.testing.findings import Report


@dataclass(slots=True)
class OffsetChain:
    """Is told of every move of a position that was really made, in the order they were made.

    A lane is whatever has positions of its own, such as a ``LaneId``. The first move of a lane may
    begin anywhere unless ``sent`` said where.
    """

    _at: dict[Hashable, int] = field(default_factory=dict)
    _found: list[str] = field(default_factory=list)
    _moves: int = 0

    def sent(self, lane: Hashable, offset: int) -> None:
        """Somebody decided where the lane goes on."""
        self._at[lane] = offset

    def moved(self, lane: Hashable, from_offset: int, to_offset: int) -> None:
        """The position of a lane was moved."""
        self._moves += 1
        at = self._at.get(lane, from_offset)
        if from_offset > at:
            self._found.append(f"{lane}: gap from {at} to {from_offset}")
        elif from_offset < at:
            self._found.append(f"{lane}: {from_offset} to {to_offset} overlaps, it was at {at}")
        if to_offset < from_offset:
            self._found.append(f"{lane}: went from {from_offset} to {to_offset}")
        self._at[lane] = to_offset

    def report(self) -> Report:
        """What was found until now."""
        return Report("broken chain", self._moves, tuple(self._found))
