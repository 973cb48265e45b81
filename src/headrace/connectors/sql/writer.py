"""Writing groups of effects, a transaction for each group.

Many tenants' effects share one transaction, since what costs is the commit. The whole group is
tried at once: one question who may write, one ``executemany``. Only if the database refuses a row
is the group halved, under savepoints, until the bad effect is alone: it costs its own tenant only,
and the others some twenty statements, not a savepoint each. If it refuses the commit, the halves
are transactions.

Where the rows go, and what decides whether they may, is a *place*: the store, where positions move
in the same transaction (`beside_positions.py`), or another database (`elsewhere.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from headrace.connectors.outcomes import failed
from headrace.connectors.sql.errors import translated
from headrace.connectors.sql.rows import Rows
from headrace.errors import (
    OutcomeUnknown,
    SinkRefused,
    SinkUnavailable,
    StoreUnavailable,
    TargetMissing,
)
from headrace.ports import Effect, Written
from headrace.process.crash_points import reached

SUPERSEDED = Written(superseded=True)


class PartlyAdmittedError(Exception):
    """Some slices of an effect may be written and some may not: it must be undone alone."""


class SentElsewhereError(Exception):
    """Lanes were sent elsewhere while their effects were written: nothing of them may be kept."""

    def __init__(self, effects: Collection[Effect]) -> None:
        super().__init__()
        self.ids = {id(effect) for effect in effects}


class Place(Protocol):
    """Where rows go, and what decides whether they may."""

    def begin(self) -> AbstractContextManager[Connection]:
        """A transaction: commits on leaving, rolls back on an exception."""

    def admit(self, connection: Connection, effects: Sequence[Effect]) -> list[Written | None]:
        """For each effect None, if its rows are to be written; else what became of it.

        Raises:
            PartlyAdmittedError: only a part of one may be written.
        """

    def wrote(self, effect: Effect) -> Written:
        """What is told of an effect whose rows were written."""

    def settle(self, connection: Connection, effects: Sequence[Effect]) -> None:
        """The last thing before the commit, with the effects whose rows were written.

        Raises:
            SentElsewhereError: some of them may not be, after all.
        """

    def is_done(self, connection: Connection, effect: Effect) -> bool:
        """Whether an effect that is not admitted now was written by our own commit."""


class SqlTableWriter:
    """Writes groups of effects, a transaction for each group."""

    def __init__(self, rows: Rows, place: Place) -> None:
        self._rows = rows
        self._place = place
        #: an effect was refused by its COMMIT. Else nothing that is checked there is asked before:
        #: a row may wait for one behind it
        self._is_refused_late = False

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        outcomes = dict(self._rows.wrong(effects))
        group = [effect for index, effect in enumerate(effects) if index not in outcomes]
        written = iter(self._written(group))
        return [outcomes.get(index) or next(written) for index in range(len(effects))]

    def check_effect(self, effect: Effect) -> None:
        """See that the database takes the rows of an effect, and keep none of them.

        Raises:
            HeadraceError: it does not, or cannot be asked now.
        """
        if effect.output.num_rows:
            self._rows.check_columns(effect.output.schema)
        with self._transaction() as connection:
            tried = connection.begin_nested()
            self._rows.insert(connection, [effect])
            if self._is_refused_late and connection.dialect.name == "postgresql":
                # What waits for the commit is asked now, since there is none.
                connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")
            tried.rollback()

    def close(self) -> None:
        """Nothing to give up: connections are kept for the next bin."""

    def _written(self, group: Sequence[Effect]) -> list[Written]:
        try:
            return self._write_group(group)
        except (SinkUnavailable, TargetMissing) as error:
            return [failed(error)] * len(group)

    def _write_group(self, group: Sequence[Effect]) -> list[Written]:
        if not group:
            return []
        try:
            return self._write_once(group)
        except SentElsewhereError as sent:
            rest = iter(self._write_group([e for e in group if id(e) not in sent.ids]))
            return [SUPERSEDED if id(e) in sent.ids else next(rest) for e in group]
        except SinkRefused as error:
            # All of it: by a constraint that is checked at the commit, or a trigger that rolls
            # everything back. So nothing of it is there, and the halves go by themselves.
            if len(group) == 1:
                self._is_refused_late = True
                return [failed(error)]
            half = len(group) // 2
            return self._written(group[:half]) + self._written(group[half:])

    def _write_once(self, group: Sequence[Effect]) -> list[Written]:
        written: list[Written] = []
        try:
            with self._transaction() as connection:
                written = self._write_and_settle(connection, group)
                reached("mid-write", group[0].slices[0].lane.use_case)
        except SinkUnavailable as error:
            if not isinstance(error.__cause__, OutcomeUnknown):
                raise
            if not all(effect.may_repeat for effect in group):
                raise SinkUnavailable(f"{error}; not written again: at most once") from error
            return self._write_again(group, written)
        return written

    def _write_again(self, group: Sequence[Effect], before: Sequence[Written]) -> list[Written]:
        """Write a group whose commit may have happened.

        Where the place knows what was written, what the lost commit did is found, not done again:
        to be admitted waits for the lost transaction to end, so the answers tell what became of it.
        """
        with self._transaction() as connection:
            after = self._write_and_settle(connection, group)
            return [
                first
                if first.committed and again.superseded and self._place.is_done(connection, effect)
                else again
                for effect, first, again in zip(group, before, after, strict=True)
            ]

    def _write_and_settle(self, connection: Connection, group: Sequence[Effect]) -> list[Written]:
        written = self._write_or_halve(connection, group)
        new = [e for e, outcome in zip(group, written, strict=True) if _is_new(outcome)]
        self._place.settle(connection, new)
        return written

    def _write_or_halve(self, connection: Connection, group: Sequence[Effect]) -> list[Written]:
        try:
            with connection.begin_nested():
                told = self._place.admit(connection, group)
                to_write = [e for e, known in zip(group, told, strict=True) if known is None]
                self._rows.insert(connection, to_write)
        except PartlyAdmittedError:
            if len(group) == 1:
                return [SUPERSEDED]
        except (SinkRefused, TargetMissing) as error:
            # A right may be one that some tenant's rows alone lack.
            if len(group) == 1:
                return [failed(error)]
        else:
            return [known or self._place.wrote(e) for e, known in zip(group, told, strict=True)]
        half = len(group) // 2
        first = self._write_or_halve(connection, group[:half])
        return first + self._write_or_halve(connection, group[half:])

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with told_as_sinks(self._rows.where), self._place.begin() as connection:
            yield connection


@contextmanager
def told_as_sinks(where: str) -> Iterator[None]:
    """Tell what a transaction meets in the words of sinks.

    Raises:
        SinkUnavailable: not now; caused by ``OutcomeUnknown`` if it may have been committed.
        SinkRefused: the database refuses something for good.
        TargetMissing: the table or a right to it is gone.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise SinkUnavailable(f"{where}: {error}", retry_after_s=error.retry_after_s) from error
    except DBAPIError as error:
        raise translated(error, where) from error


def _is_new(outcome: Written) -> bool:
    return outcome.error is None and not outcome.superseded and outcome.reached is None
