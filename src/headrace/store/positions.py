"""The compare-and-set that everything exact rests on.

Several processes may believe that they hold a lane: a driver that was thought dead, a task that
Spark started again. So a position moves only from exactly where it was, and only under the epoch
that is written beside it::

    UPDATE headrace_positions
    SET next_offset = :to, ordinal = ordinal + :passed, moved_to = :to, moved_s = :now
    WHERE use_case = .. AND tenant = .. AND lane = ..
      AND next_offset = :from AND epoch = :epoch

No row updated means: done before, fenced or sought. A wave commits thousands of moves at once, and
each needs its own answer. On SQLite that is a loop inside the process; on PostgreSQL it is one
statement with arrays that returns the numbers of the moves that matched, since a thousand round
trips would cost a second. It locks rows in the order of their keys, so that two commits of
overlapping lanes wait for each other and never lock each other out; SQLite has one writer anyway.

Reading positions and giving lanes their first one is not here (``lanes.py``).
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Connection

from headrace.model.places import text_of
from headrace.model.records import Move, ReadRange
from headrace.model.state import StateChanges, StateLoaded
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, advance_groups
from headrace.store import reads, state
from headrace.store.database import Database, open_database
from headrace.store.faults import translated
from headrace.store.moments import POSTGRES_NOW_S, SQLITE_NOW_S

_MOVE_ONE = """
UPDATE headrace_positions
SET next_offset = ?, ordinal = ordinal + ?, moved_to = ?, moved_s = :now
WHERE use_case = ? AND tenant = ? AND lane = ? AND next_offset = ? AND epoch = ?
"""
_STANDS = """
SELECT 1 FROM headrace_positions
WHERE use_case = ? AND tenant = ? AND lane = ? AND next_offset = ? AND epoch = ?
"""
# Under READ COMMITTED the conditions are checked again on the row as it is once its lock is had,
# and it stays so: the update needs to look at the key only.
_MOVE_ALL = """
WITH moves AS (
    SELECT * FROM unnest(
        %s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[],
        %s::bigint[]
    ) AS m (number, use_case, tenant, lane, from_offset, to_offset, epoch, passed)
), locked AS (
    SELECT m.*
    FROM headrace_positions p JOIN moves m USING (use_case, tenant, lane)
    WHERE p.next_offset = m.from_offset AND p.epoch = m.epoch
    ORDER BY p.use_case, p.tenant, p.lane
    FOR UPDATE OF p
)
UPDATE headrace_positions p
SET next_offset = m.to_offset, ordinal = p.ordinal + m.passed,
    moved_to = m.to_offset, moved_s = :now
FROM locked m
WHERE p.use_case = m.use_case AND p.tenant = m.tenant AND p.lane = m.lane
RETURNING m.number
"""
_ON_SQLITE = _MOVE_ONE.replace(":now", SQLITE_NOW_S)
_ON_POSTGRES = _MOVE_ONE.replace(":now", POSTGRES_NOW_S).replace("?", "%s")
_ALL_ON_POSTGRES = _MOVE_ALL.replace(":now", POSTGRES_NOW_S)


class SqlPositions:
    """``headrace.ports.HostPositions`` on one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __repr__(self) -> str:
        return f"SqlPositions({self._database.address.shown})"

    def begin(self) -> AbstractContextManager[Connection]:
        """A write transaction of the store: commits on leaving, rolls back on an exception.

        Errors that the caller's own statements raise pass as they are.

        Raises:
            StoreUnavailable: nothing was done.
            OutcomeUnknown: on leaving; the commit may or may not have happened, and the positions
                tell which.
        """
        return self._database.guest()

    def advance_in(self, connection: Connection, moves: Sequence[Move]) -> list[bool]:
        """Move positions in the caller's transaction; one answer for each move, in order."""
        with translated(self._database.address):
            return advance(connection, moves)

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """Move positions in a transaction of its own; durable on return.

        Raises:
            StoreUnavailable: nothing was moved.
            OutcomeUnknown: all was moved, or nothing; the same moves again answer False if it was.
        """
        if not moves:
            return []
        with self._database.write() as connection:
            return advance(connection, moves)

    def advance_groups(
        self, groups: Sequence[Sequence[Move]], states: Sequence[StateChanges | None] = ()
    ) -> list[bool]:
        """Move positions in one transaction, those of a group all or none, with their state.

        Raises:
            StoreUnavailable: nothing was moved.
            OutcomeUnknown: as with ``advance``.
        """
        return advance_groups(self, groups, states)

    def save_state_in(self, connection: Connection, states: Sequence[StateChanges]) -> None:
        """Change state in the caller's transaction."""
        with translated(self._database.address):
            state.save(connection, states)

    def load_state(self, at: Move, table: str, keys: Sequence[bytes]) -> StateLoaded | None:
        """Rows of a table by their keys; None where the lane is elsewhere.

        Raises:
            StoreUnavailable: nobody knows.
        """
        with self._database.read() as connection:
            return state.load(connection, at, table, keys)

    def sample_state(self, use_case: str, table: str) -> tuple[bytes, bytes] | None:
        """Key and row of one of a table, of whichever stream.

        Raises:
            StoreUnavailable: nobody knows.
        """
        with self._database.read() as connection:
            return state.sample(connection, use_case, table)

    def stand(self, moves: Sequence[Move]) -> list[bool]:
        """Whether each of these would be made now; nothing is moved.

        Raises:
            StoreUnavailable: nobody knows.
        """
        if not moves:
            return []
        with self._database.read() as connection:
            return _stand(connection, moves)

    def reads_of(self, slices: Sequence[Slice]) -> list[ReadRange | None]:
        """What was written down of reading these before.

        Raises:
            StoreUnavailable: nobody knows.
        """
        if not slices:
            return []
        with self._database.read() as connection:
            return reads.find(connection, slices)

    def record_reads(self, new: Sequence[ReadRange]) -> list[ReadRange | None]:
        """Write down what was read of open slices; what is written down then.

        Raises:
            StoreUnavailable: nothing was written down.
            OutcomeUnknown: all was, or nothing; the same again answers what is.
        """
        if not new:
            return []
        with self._database.write() as connection:
            return reads.record(connection, new)


@dataclass(frozen=True)
class SqlPositionsFactory:
    """``headrace.ports.PositionsFactory``: carries nothing, so it travels anywhere."""

    def open(self, connections: Connections) -> SqlPositions:
        """The positions of the store at ``connections.database_url``; contacts nobody yet.

        A process has one pool of connections for each URL, and never one it got by a fork.
        """
        return SqlPositions(database_of(os.getpid(), connections.database_url))


_databases: dict[tuple[int, str], Database] = {}
_lock = threading.Lock()


def database_of(pid: int, url: str) -> Database:
    """The one that a process has for a URL, for whoever asks the store inside a task."""
    with _lock:
        known = _databases.get((pid, url))
        if known is None:
            known = _databases[(pid, url)] = open_database(url)
        return known


def advance(connection: Connection, moves: Sequence[Move]) -> list[bool]:
    """Move positions; one answer for each move, in order.

    Of two moves of one lane the first given is tried first.
    """
    assert connection.in_transaction(), "positions move only inside a transaction"
    if connection.dialect.name == "sqlite":
        return _one_by_one(connection, _ON_SQLITE, moves)
    if len(moves) == 1:
        return _one_by_one(connection, _ON_POSTGRES, moves)
    moved = {number for some in _rounds(moves) for number in _at_once(connection, some)}
    return [number in moved for number in range(len(moves))]


def _one_by_one(connection: Connection, statement: str, moves: Sequence[Move]) -> list[bool]:
    # The driver's own cursor: SQLAlchemy's work for a statement costs ten times the statement.
    cursor = connection.connection.cursor()
    answers = []
    try:
        for move in moves:
            at, to = text_of(move.from_offset), text_of(move.to_offset)
            row = (to, move.passed, to, *move.lane, at, move.epoch)
            cursor.execute(statement, row)
            answers.append(cursor.rowcount == 1)
    finally:
        cursor.close()
    return answers


def _stand(connection: Connection, moves: Sequence[Move]) -> list[bool]:
    is_sqlite = connection.dialect.name == "sqlite"
    statement = _STANDS if is_sqlite else _STANDS.replace("?", "%s")
    rows = ((*move.lane, text_of(move.from_offset), move.epoch) for move in moves)
    return [connection.exec_driver_sql(statement, row).first() is not None for row in rows]


_Numbered = list[tuple[int, Move]]


def _at_once(connection: Connection, numbered: _Numbered) -> Iterable[int]:
    rows = [
        (
            number,
            *move.lane,
            text_of(move.from_offset),
            text_of(move.to_offset),
            move.epoch,
            move.passed,
        )
        for number, move in numbered
    ]
    columns = tuple(list(column) for column in zip(*rows, strict=True))
    return connection.exec_driver_sql(_ALL_ON_POSTGRES, columns).scalars()


def _rounds(moves: Sequence[Move]) -> Iterable[_Numbered]:
    """Moves with their numbers, no lane twice in one round: a statement updates a row only once."""
    rounds: list[_Numbered] = []
    seen: Counter[LaneId] = Counter()
    for number, move in enumerate(moves):
        if seen[move.lane] == len(rounds):
            rounds.append([])
        rounds[seen[move.lane]].append((number, move))
        seen[move.lane] += 1
    return rounds
