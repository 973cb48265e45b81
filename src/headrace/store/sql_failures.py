"""Kept failures: each method a transaction around a function of the room."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.records import Failure
from headrace.model.streams import LaneId, StreamId
from headrace.store import failures, stops, streams
from headrace.store.database import Database
from headrace.store.revision import changing


class SqlFailures:
    """``headrace.ports.Failures`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, new: Sequence[Failure], *, stop_use_case: bool = False) -> list[int]:
        """Keep open failures, which stop their lanes, or the use case; return their ids."""
        with changing(self._database) as connection:
            return failures.keep(connection, new, stop_use_case=stop_use_case)

    def stopped_lanes(self, driver: str) -> dict[LaneId, int]:
        """The open failure of each stopped lane of the streams that a driver holds."""
        with self._database.read() as connection:
            return stops.of_driver(connection, driver)

    def note(self, notes: Sequence[Failure]) -> None:
        """Keep failures that are over and stop nothing."""
        with self._database.write() as connection:
            # As whoever keeps one: their rows make room for each other.
            streams.lock_all(connection, {note.slice.lane.stream for note in notes})
            failures.note(connection, notes)

    def every(
        self,
        stream: StreamId | None = None,
        *,
        only_open: bool = False,
        with_records: bool = True,
        current: bool = False,
        after: int = 0,
        most: int | None = None,
    ) -> list[Failure]:
        """Kept failures, oldest first: those with an id above ``after``, ``most`` of them."""
        part = failures.Part(only_open, with_records, current, after, most)
        with self._database.read() as connection:
            return failures.every(connection, stream, part)

    def one(self, number: int, tenant: str | None = None) -> Failure:
        """One kept failure, of any tenant or of one."""
        with self._database.read() as connection:
            return failures.one(connection, number, tenant)

    def retry(self, number: int) -> None:
        """Let the lane of an open failure go on at its position."""
        with changing(self._database) as connection:
            failures.retry(connection, number)

    def skip(self, number: int) -> None:
        """Let the lane of an open failure go on behind it: one compare-and-set with it."""
        with changing(self._database) as connection:
            failures.skip(connection, number)
