"""What drivers tell, kept where consoles and metrics can read it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from headrace.model.statistics import Point, Report
from headrace.model.streams import StreamId


class Statistics(Protocol):
    """The latest report of each driver, and a day of history.

    Nothing exact depends on it: what is not there yet, or any more, is left out. Safe in several
    threads and processes. A store that does not answer raises ``StoreUnavailable``.
    """

    def publish(self, report: Report) -> None:
        """Replace what this driver told before; called every second or two."""

    def reports(self) -> list[Report]:
        """The latest report of each driver, by name; also of those that are gone by now.

        How old one is, ``at_s`` says. One that a newer version wrote and this one cannot read is
        left out.
        """

    def forget(self, driver: str) -> None:
        """Drop the report of a driver that has left."""

    def keep(self, points: Collection[Point]) -> None:
        """Add history; a point of the same stream, beginning and span is replaced."""

    def history(
        self, streams: Collection[StreamId] | None, from_s: float, until_s: float
    ) -> list[Point]:
        """Points that begin in ``[from_s, until_s)``, by stream and time; of all streams if None.

        Where a time is covered by spans of several lengths, only the shortest are returned.
        """

    def thin(self, now_s: float) -> None:
        """Merge what is older into longer spans and drop what is too old; called once a minute."""
