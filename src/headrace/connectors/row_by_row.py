"""Writing effects to a target that judges row by row: what becomes of those that it does not take.

An effect is not taken whole or not at all there: rows that were not taken are named. Those that may
be taken later are offered again; where a row is refused for good, the one of its key before it is
sent in its place, as if there had been no other. But not where both are told to be as new: under
the version of a whole effect the older one would stand in the way of what comes behind it, when its
record is handled again. Then the effect is refused, and written in parts that have versions of
their own. When nobody answers, or too many are not taken, nothing more is asked in that call.

How a change is sent, and what an answer means, is the target's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.connectors.changes import Change
from headrace.connectors.outcomes import failed, of_no_record
from headrace.errors import HeadraceError, SinkUnavailable, TargetMissing, Temporary
from headrace.ports import Effect, RefusedRow, Written

#: rows that are not taken now before no more are offered
_MOST_REFUSALS: Final = 64


#: what became of each change, of which no two are of one key of one effect, or raises what became
#: of all; with the use case
Send = Callable[[Sequence[Change], str], Sequence[HeadraceError | None]]


def write(
    effects: Sequence[Effect],
    changes: Callable[[Effect], list[Change]],
    send: Send,
    where: str,
    *,
    by_tenant: bool = False,
) -> list[Written]:
    """Write all rows that can be written; see ``SinkWriter.write``.

    Args:
        effects: what is to be written.
        changes: makes the newest change of each key of an effect.
        send: sends these.
        where: what messages call the target.
        by_tenant: each tenant has a part of the target, which may be closed alone.
    """
    outcomes: dict[int, Written] = {}
    newest: list[Change] = []
    for number, effect in enumerate(effects):
        if effect.output.num_columns == effect.output.num_rows == 0:
            continue
        try:
            made = changes(effect)
        except Exception as error:  # whatever it is, it is this effect's alone
            outcomes[number] = failed(error, where)
        else:
            whose = effect.slices[0].lane.tenant if by_tenant else ""
            for change in made:
                change.effect, change.whose = number, whose
            newest += made
    call = _sent(newest, effects, send, where)
    return [
        outcomes.get(number) or _outcome(effect, call, number)
        for number, effect in enumerate(effects)
    ]


class Waits(SinkUnavailable):
    """A row was not offered, since one of its key before it, in the same effect, was not taken."""


class GivenUp:
    """Whether no more is offered in this call, and why."""

    def __init__(self, where: str) -> None:
        self._stopped, self._refusals = False, 0
        # What is not offered is never told as written, whatever the reason turns out to be.
        self.why: HeadraceError = SinkUnavailable(f"{where}: it was not offered")

    def look_at(self, error: HeadraceError) -> None:
        """Take note of what a row met."""
        if not isinstance(error, Temporary | TargetMissing):
            return
        self.why = error
        self._refusals += 1
        if self._refusals >= _MOST_REFUSALS or isinstance(error, TargetMissing):
            self.stop()

    def stop(self) -> None:
        """Offer no more."""
        self._stopped = True

    def __bool__(self) -> bool:
        return self._stopped


@dataclass(slots=True)
class _Call:
    """What was not taken, by effect and row."""

    refused: dict[int, dict[int, HeadraceError]] = field(default_factory=dict)
    #: effects that are to be written in parts
    in_parts: set[int] = field(default_factory=set)

    def instead(self, change: Change, error: HeadraceError) -> Change | None:
        """Write down what a change met; the older one of its key that is to be sent instead."""
        if isinstance(error, Temporary | TargetMissing):
            self._name(change.effect, change.all_of_its_key, error)
            return None
        self._name(change.effect, [change], error)
        older = change.older
        if older is None:
            return None
        if older.newness == change.newness:
            self.in_parts.add(change.effect)
            return None
        older.effect, older.whose = change.effect, change.whose
        return older

    def _name(self, effect: int, changes: Iterable[Change], error: HeadraceError) -> None:
        self.refused.setdefault(effect, {}).update((change.row, error) for change in changes)


def _sent(changes: list[Change], effects: Sequence[Effect], send: Send, where: str) -> _Call:
    call = _Call()
    while changes:
        told: Sequence[HeadraceError | None]
        try:
            told = send(changes, effects[changes[0].effect].slices[0].lane.use_case)
        except Exception as error:  # what all of them met is none of theirs
            told = [of_no_record(error, where)] * len(changes)
        changes = [
            older
            for change, error in zip(changes, told, strict=True)
            if error is not None and (older := call.instead(change, error)) is not None
        ]
    return call


def _outcome(effect: Effect, call: _Call, number: int) -> Written:
    refused = call.refused.get(number)
    if not refused:
        return Written()
    missing = [error for error in refused.values() if isinstance(error, TargetMissing)]
    first = missing[0] if missing else refused[min(refused)]
    is_whole = number in call.in_parts or len(refused) == effect.output.num_rows
    if missing or not effect.may_repeat or is_whole:
        return failed(first)
    return Written(refused=tuple(_named(row, refused[row]) for row in sorted(refused)))


def _named(row: int, error: HeadraceError) -> RefusedRow:
    return RefusedRow(row, None if isinstance(error, Waits) else failed(error).error)
