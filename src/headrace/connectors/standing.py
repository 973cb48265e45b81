"""Whether lanes still stand where slices begin, under their epochs, asked of the store at once.

A sink that commits apart from the store asks just before it writes: one that wakes up after its
wave was settled, or its stream was sought, is told so, and writes nothing.

It asks by a move to where a lane is, which is a commit, and not by a look. A database that another
one has replaced still answers looks, from what it knew; a commit it cannot make, where that waits
for a standby (`synchronous_commit`). And any database has it wait for an heir who is taking over.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from headrace.ports import Effect, Positions, Written


def gone(positions: Positions, effects: Mapping[int, Effect]) -> dict[int, Written]:
    """Effects of which a lane is not where its slice begins, or another's by now; superseded.

    Raises:
        HeadraceError: the store does not answer.
    """
    stays = [move.stay() for effect in effects.values() for move in effect.moves]
    answers = iter(positions.advance(stays) if stays else ())
    return {
        index: Written(superseded=True)
        for index, effect in effects.items()
        if not all(list(islice(answers, len(effect.slices))))
    }
