"""Drivers and their streams: each method a transaction around a function of the room."""

from __future__ import annotations

from collections.abc import Collection

from headrace.model.records import Answer, Peer
from headrace.model.streams import StreamId
from headrace.store import answers, drivers
from headrace.store.database import Database
from headrace.store.revision import changing, try_to_change
from headrace.store.streams import hold


class SqlMembership:
    """``headrace.ports.Membership`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def join(
        self, driver: str, use_cases: Collection[str], *, process: str = "", again: bool = False
    ) -> int:
        """Be this driver from now on; return the number to beat with."""
        with changing(self._database) as connection:
            return drivers.join(connection, driver, use_cases, process=process, again=again)

    def beat(self, driver: str, number: int) -> list[Peer]:
        """Say that it lives; all drivers, or none if it was given up for dead."""
        with self._database.write() as connection:
            return drivers.beat(connection, driver, number)

    def adopt(self, heir: str, number: int, dead: Peer) -> bool:
        """Hand everything of a dead driver to its heir; False if it lives or has one already."""
        with self._database.write() as connection:
            may = try_to_change(connection)
            return may and drivers.adopt(connection, heir, number, dead)

    def release(self, driver: str, number: int, streams: Collection[StreamId]) -> None:
        """Make streams of a driver free for others."""
        with changing(self._database) as connection:
            drivers.release(connection, driver, number, streams)

    def leave(self, driver: str, number: int, running: Collection[StreamId] = ()) -> None:
        """Give everything back but what is running or unfinished, and be gone."""
        with changing(self._database) as connection:
            drivers.leave(connection, driver, number, running)

    def drivers(self) -> list[Peer]:
        """All drivers, by name."""
        with self._database.read() as connection:
            return drivers.every(connection)

    def hold(
        self,
        streams: Collection[StreamId],
        driver: str | None = None,
        number: int | None = None,
    ) -> dict[StreamId, int]:
        """Take the streams that no other driver holds; return their new epochs."""
        with self._database.write() as connection:
            if driver and number is not None and not drivers.is_still(connection, driver, number):
                return {}
            return hold(connection, streams, driver)

    def answer(self, driver: str, number: int, given: Collection[Answer]) -> bool:
        """Let these be all that a driver says to deployments; False if it is not there."""
        with self._database.write() as connection:
            if not drivers.is_still(connection, driver, number):
                return False
            answers.replace(connection, driver, given)
            return True

    def answers(self) -> list[Answer]:
        """What drivers say to deployments, by use case and driver."""
        with self._database.read() as connection:
            return answers.every(connection)
