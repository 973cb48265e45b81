"""Writing effects: each row a statement of its own, so many at once, in any order.

Order does not matter, since each has its timestamp. A cluster judges row by row, so an effect is
not taken whole or not at all: rows that were not taken are named. Those that may be taken later are
offered again; where a row is refused for good, the one of its key before it is sent in its place,
as if there had been no other. When nobody answers, or too many are not taken, nothing more is asked
in that call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.connectors.cassandra.library import is_silence, library, translated
from headrace.connectors.cassandra.rows import Change, Rows
from headrace.connectors.cassandra.servers import Cluster
from headrace.connectors.outcomes import failed
from headrace.errors import HeadraceError, SinkUnavailable, TargetMissing, Temporary
from headrace.ports import Effect, RefusedRow, Written
from headrace.process.crash_points import reached

#: statements that are on their way at once, of one writer
AT_ONCE: Final = 64
#: rows that are not taken now before no more are offered
_MOST_REFUSALS: Final = 64


@dataclass(slots=True)
class _Key:
    """What is to become of a key, by one effect: its changes, from the oldest to the newest."""

    effect: int
    changes: list[Change]


@dataclass(slots=True)
class _Call:
    """What was not taken, by effect and row."""

    refused: dict[int, dict[int, HeadraceError]] = field(default_factory=dict)

    def goes_on(self, key: _Key, error: HeadraceError | None) -> bool:
        """Write down what became of a key; whether an older change of it is to be sent instead."""
        if error is None:
            return False
        if isinstance(error, Temporary | TargetMissing):
            self._name(key.effect, key.changes, error)
            return False
        self._name(key.effect, [key.changes.pop()], error)
        return bool(key.changes)

    def _name(self, effect: int, changes: Sequence[Change], error: HeadraceError) -> None:
        self.refused.setdefault(effect, {}).update((change.row, error) for change in changes)


class CassandraWriter:
    """Writes the effects of a bin."""

    def __init__(self, rows: Rows, cluster: Cluster) -> None:
        self._rows = rows
        self._cluster = cluster

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all rows that can be written; see ``SinkWriter.write``."""
        outcomes: dict[int, Written] = {}
        keys: list[_Key] = []
        for number, effect in enumerate(effects):
            try:
                made = self._changes(effect)
            except Exception as error:  # whatever it is, it is this effect's alone
                outcomes[number] = failed(error, self._rows.where)
            else:
                keys.extend(_Key(number, changes) for changes in made)
        call = self._send(keys, effects)
        return [
            outcomes.get(number) or _outcome(effect, call.refused.get(number, {}))
            for number, effect in enumerate(effects)
        ]

    def close(self) -> None:
        """Nothing to give up: the client is kept for the next bin."""

    def _changes(self, effect: Effect) -> list[list[Change]]:
        if effect.output.num_columns == effect.output.num_rows == 0:
            return []
        return self._rows.changes(effect.output, effect.version)

    def _send(self, keys: list[_Key], effects: Sequence[Effect]) -> _Call:
        call = _Call()
        while keys:
            use_case = effects[keys[0].effect].slices[0].lane.use_case
            told = self._sent_or_not(keys, use_case)
            keys = [key for key, error in zip(keys, told, strict=True) if call.goes_on(key, error)]
        return call

    def _sent_or_not(self, keys: Sequence[_Key], use_case: str) -> list[HeadraceError | None]:
        try:
            return self._sent(keys, use_case)
        except (Temporary, TargetMissing) as error:
            return [error] * len(keys)

    def _sent(self, keys: Sequence[_Key], use_case: str) -> list[HeadraceError | None]:
        """What became of the newest change of each key."""
        given_up, told = _GivenUp(self._rows.where), list[HeadraceError | None]()
        session = self._cluster.session()
        offered = self._offered(keys, given_up, use_case)
        try:
            for taken, result in library().concurrent.execute_concurrent(
                session, offered, AT_ONCE, raise_on_first_error=False, results_generator=True
            ):
                error = None if taken else translated(result, self._rows.where)
                told.append(error)
                if error is not None:
                    given_up.look_at(error)
                    if is_silence(result):
                        # Those that are on their way would be waited for as long again.
                        break
        finally:
            given_up.stop()
        return told + [given_up.why] * (len(keys) - len(told))

    def _offered(
        self, keys: Sequence[_Key], given_up: _GivenUp, use_case: str
    ) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """The statements, each when there is room for it; prepared before the first is taken."""
        says = self._rows.description
        put, delete = self._cluster.prepared(says.put), None
        if says.delete_by is not None:
            delete = self._cluster.prepared(says.delete)

        def each() -> Iterator[tuple[Any, tuple[Any, ...]]]:
            for number, key in enumerate(keys):
                if given_up:
                    return
                if number == min(1, len(keys) - 1):
                    # One is on its way: some there and some not is the worst that may be left.
                    reached("mid-write", use_case)
                newest = key.changes[-1]
                yield (delete if newest.gone else put), newest.values

        return each()


class _GivenUp:
    """Whether no more is offered in this call, and why."""

    def __init__(self, where: str) -> None:
        self._stopped, self._refusals = False, 0
        # What is not offered is never told as written, whatever the reason turns out to be.
        self.why: HeadraceError = SinkUnavailable(f"{where}: it was not offered")

    def look_at(self, error: HeadraceError) -> None:
        if not isinstance(error, Temporary | TargetMissing):
            return
        self.why = error
        self._refusals += 1
        if self._refusals >= _MOST_REFUSALS or isinstance(error, TargetMissing):
            self.stop()

    def stop(self) -> None:
        self._stopped = True

    def __bool__(self) -> bool:
        return self._stopped


def _outcome(effect: Effect, refused: dict[int, HeadraceError]) -> Written:
    if not refused:
        return Written()
    missing = [error for error in refused.values() if isinstance(error, TargetMissing)]
    first = missing[0] if missing else refused[min(refused)]
    if missing or not effect.may_repeat or len(refused) == effect.output.num_rows:
        return failed(first)
    return Written(
        refused=tuple(RefusedRow(row, failed(refused[row]).error) for row in sorted(refused))
    )
