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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.connectors.changes import Change
from headrace.connectors.outcomes import failed, of_no_record
from headrace.errors import HeadraceError, SinkUnavailable, TargetMissing, Temporary
from headrace.ports import Effect, RefusedRow, Written

#: rows that are not taken now before no more are offered
_MOST_REFUSALS: Final = 64


@dataclass(slots=True)
class Key:
    """What is to become of a key, by one effect: its changes, from the oldest to the newest."""

    effect: int
    changes: list[Change]
    #: whose part of the target it is in; empty where all have the same
    whose: str = ""

    @property
    def newest(self) -> Change:
        """The change that is sent."""
        return self.changes[-1]


#: what became of the newest change of each key, or raises what became of all; with the use case
Send = Callable[[Sequence[Key], str], Sequence[HeadraceError | None]]


def write(
    effects: Sequence[Effect],
    changes: Callable[[Effect], list[list[Change]]],
    send: Send,
    where: str,
    *,
    by_tenant: bool = False,
) -> list[Written]:
    """Write all rows that can be written; see ``SinkWriter.write``.

    Args:
        effects: what is to be written.
        changes: makes the changes of an effect, key by key.
        send: sends the newest change of each key.
        where: what messages call the target.
        by_tenant: each tenant has a part of the target, which may be closed alone.
    """
    outcomes: dict[int, Written] = {}
    keys: list[Key] = []
    for number, effect in enumerate(effects):
        if effect.output.num_columns == effect.output.num_rows == 0:
            continue
        try:
            made = changes(effect)
        except Exception as error:  # whatever it is, it is this effect's alone
            outcomes[number] = failed(error, where)
        else:
            whose = effect.slices[0].lane.tenant if by_tenant else ""
            keys.extend(Key(number, of_one, whose) for of_one in made)
    call = _sent(keys, effects, send, where)
    return [
        outcomes.get(number) or _outcome(effect, call, number)
        for number, effect in enumerate(effects)
    ]


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

    def goes_on(self, key: Key, error: HeadraceError | None) -> bool:
        """Write down what became of a key; whether an older change of it is to be sent instead."""
        if error is None:
            return False
        if isinstance(error, Temporary | TargetMissing):
            self._name(key.effect, key.changes, error)
            return False
        never = key.changes.pop()
        self._name(key.effect, [never], error)
        if key.changes and key.newest.newness == never.newness:
            self.in_parts.add(key.effect)
            return False
        return bool(key.changes)

    def _name(self, effect: int, changes: Sequence[Change], error: HeadraceError) -> None:
        self.refused.setdefault(effect, {}).update((change.row, error) for change in changes)


def _sent(keys: list[Key], effects: Sequence[Effect], send: Send, where: str) -> _Call:
    call = _Call()
    while keys:
        told: Sequence[HeadraceError | None]
        try:
            told = send(keys, effects[keys[0].effect].slices[0].lane.use_case)
        except Exception as error:  # what all of them met is none of theirs
            told = [of_no_record(error, where)] * len(keys)
        keys = [key for key, error in zip(keys, told, strict=True) if call.goes_on(key, error)]
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
    return Written(
        refused=tuple(RefusedRow(row, failed(refused[row]).error) for row in sorted(refused))
    )
