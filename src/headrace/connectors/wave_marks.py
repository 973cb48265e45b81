"""What an earlier attempt at a recorded wave has done, by the marks that it left.

A target that commits apart from the store keeps, with what is written, a mark for each lane: how
far it came, and of which wave. Where marks are kept, and who is shut out by them, is each target's
own; what they mean for the next attempt is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.model.places import Place
from headrace.model.waves import planned_id
from headrace.ports import Effect


class WaveMark(Protocol):
    """How far a lane came, and of which wave that was."""

    @property
    def wave_id(self) -> str:
        """The wave, or a part of it."""

    @property
    def reached(self) -> Place:
        """The next offset after what was written."""


def leaves_a_mark(effect: Effect) -> bool:
    """Whether an attempt at these slices may leave one; of merged lanes others may take more."""
    return effect.output.num_rows > 0 or len(effect.slices) > 1


def done_before(
    marks: Sequence[WaveMark | None], effect: Effect, wave_id: str
) -> tuple[Place, ...] | None:
    """How far the same wave came, if it had all lanes of an effect and came further in one.

    One that ended where the effect begins was of what the same wave wrote before it. A lane is once
    in a wave that was planned, whatever this was divided into since, so each part counts.
    """
    planned = planned_id(wave_id)
    ours = [
        mark.reached for mark in marks if mark is not None and planned_id(mark.wave_id) == planned
    ]
    starts = [piece.from_offset for piece in effect.slices]
    if len(ours) != len(starts) or not any(
        reached > start for reached, start in zip(ours, starts, strict=True)
    ):
        return None
    return tuple(ours)
