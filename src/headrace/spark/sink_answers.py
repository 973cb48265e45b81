"""What a sink says it did, held against what it was asked to do.

A sink may be a user's own, and what it answers moves positions. One that answers for fewer effects
than it was given, forgets its ``return``, or says of one effect that it failed and that a row of it
was refused, must lose no record and stop no neighbour. So an answer that means nothing becomes the
error of its effect: the lane stops and the error says what was answered, no record is to blame.

Whether an answer is true is not looked at: nobody but the target knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, cast

from headrace.errors import TargetMissing
from headrace.model.places import Place
from headrace.model.receipts import SliceError
from headrace.ports import Effect, RefusedRow, Written
from headrace.spark.slice_errors import error_of

_SAYS: Final = "the sink's write() says what means nothing"
#: what became of an effect is one of these, or that it is written
_ENDS: Final = ("committed", "superseded", "error", "reached", "refused", "untried")


def answers_of(effects: Sequence[Effect], told: object) -> list[Written]:
    """One answer for each effect, in order; one that means nothing is an error.

    Raises:
        TargetMissing: there is not one answer for each effect, so nobody knows whose is whose.
    """
    answers = _listed(told)
    if answers is None or len(answers) != len(effects):
        count = type(told).__name__ if answers is None else len(answers)
        raise _nonsense(f"{count} in answer to {len(effects)} effects, and not a Written for each")
    return [_judged(effect, answer) for effect, answer in zip(effects, answers, strict=True)]


def _listed(told: object) -> list[object] | None:
    try:
        return list(cast("Iterable[object]", told))
    except TypeError:
        return None


def _judged(effect: Effect, written: object) -> Written:
    if not isinstance(written, Written):
        kind = type(written).__name__
        return Written(error=error_of(_nonsense(f"{kind} of an effect, and not a Written")))
    trouble = _trouble(effect, written)
    return Written(error=error_of(_nonsense(trouble))) if trouble else written


def _trouble(effect: Effect, written: Written) -> str:
    """What is wrong with an answer; empty if nothing is."""
    try:
        return _mixed(effect, written) or _odd_rows(effect, written)
    except Exception as error:  # an array, say, is neither equal to another thing nor not
        return f"what cannot be looked at, which raises {type(error).__name__}"


def _mixed(effect: Effect, written: Written) -> str:
    """What is said that cannot be so, or not together."""
    ends = [name for name in _ENDS if getattr(written, name) not in (False, None, (), [])]
    if len(ends) > 1:
        return f"{' and '.join(ends)} of one effect"
    error: object = written.error  # a user's class may give anything
    if not isinstance(error, SliceError | None):
        return f"{type(error).__name__} as an error; failed(it) makes an answer of it"
    if written.committed and not effect.move_positions:
        return "committed of an effect without positions to move"
    if written.untried and not effect.may_repeat:
        return "untried of an effect that comes only once"
    if not _is_within(effect, written.reached):
        return f"reached {written.reached!r}, which is not within the effect's slices"
    is_span = isinstance(written.seconds, int | float) and 0 <= written.seconds < math.inf
    return "" if is_span else f"{written.seconds!r} seconds"


def _is_within(effect: Effect, reached: object) -> bool:
    """Whether places are none, or one in each slice."""
    if reached is None:
        return True
    if not isinstance(reached, tuple) or len(reached) != len(effect.slices):
        return False
    return all(
        isinstance(place, Place) and piece.from_offset <= place <= piece.until_offset
        for piece, place in zip(effect.slices, reached, strict=True)
    )


def _odd_rows(effect: Effect, written: Written) -> str:
    refused: object = written.refused
    # What can be gone through once would be empty for whoever offers these rows again.
    is_listed = isinstance(refused, tuple | list)
    if not is_listed or not all(isinstance(row, RefusedRow) for row in written.refused):
        return "rows as refused that are no RefusedRow"
    rows = [row.row for row in written.refused]
    is_odd = any(type(row) is not int or not 0 <= row < effect.output.num_rows for row in rows)
    if is_odd or rows != sorted(set(rows)):
        return f"rows as refused that are not there, twice, or in no order: {rows[:5]}"
    if not all(isinstance(row.error, SliceError | None) for row in written.refused):
        return "rows as refused with errors that are none; failed(it).error makes one"
    return ""


def _nonsense(what: str) -> TargetMissing:
    return TargetMissing(f"{_SAYS}: {what}")
