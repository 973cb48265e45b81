"""What drivers tell, kept in dictionaries; a part of the store in memory.

The same policy says what is merged and dropped as in a database, so a test of what a console shows
needs none.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from headrace.model.statistics import Point, Report
from headrace.model.streams import StreamId
from headrace.telemetry.history import (
    OLD_SPAN_S,
    dropped_before_s,
    old_before_s,
    shortest,
    thinned,
)


@dataclass(slots=True)
class KeptReports:
    """Everything that was told."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    reports: dict[str, Report] = field(default_factory=dict)
    #: by stream, span and beginning
    points: dict[tuple[StreamId, float, float], Point] = field(default_factory=dict)


class MemoryStatistics:
    """``headrace.ports.Statistics`` in memory."""

    def __init__(self, told: KeptReports | None = None) -> None:
        self._told = told or KeptReports()

    def publish(self, report: Report) -> None:
        """Replace what this driver told before."""
        with self._told.lock:
            self._told.reports[report.driver] = report

    def reports(self) -> list[Report]:
        """The latest report of each driver, by name."""
        with self._told.lock:
            return [report for _, report in sorted(self._told.reports.items())]

    def forget(self, driver: str) -> None:
        """Drop the report of a driver that has left."""
        with self._told.lock:
            self._told.reports.pop(driver, None)

    def keep(self, points: Collection[Point]) -> None:
        """Add history; a point of the same stream, beginning and span is replaced."""
        with self._told.lock:
            for point in points:
                self._told.points[point.stream, point.span_s, point.from_s] = point

    def history(
        self, streams: Collection[StreamId] | None, from_s: float, until_s: float
    ) -> list[Point]:
        """Points that begin in ``[from_s, until_s)``, by stream and time."""
        with self._told.lock:
            return shortest(
                point
                for point in self._told.points.values()
                if from_s <= point.from_s < until_s and (streams is None or point.stream in streams)
            )

    def thin(self, now_s: float) -> None:
        """Merge what is older into longer spans and drop what is too old."""
        with self._told.lock:
            points = self._told.points
            fresh = [
                point
                for point in points.values()
                if point.span_s < OLD_SPAN_S and point.from_s < old_before_s(now_s)
            ]
            long = [point for point in points.values() if point.span_s >= OLD_SPAN_S]
            for point in fresh:
                del points[point.stream, point.span_s, point.from_s]
            self.keep(thinned([*fresh, *long]))
            too_old_s = dropped_before_s(now_s)
            for key in [key for key, point in points.items() if point.from_s < too_old_s]:
                del points[key]
            for name in [
                name for name, report in self._told.reports.items() if report.at_s < too_old_s
            ]:
                del self._told.reports[name]
