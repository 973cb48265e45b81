"""What drivers tell, in two tables of the store.

Figures are not exact, and must not be in the way of what is. So a report is one small row that its
driver replaces, history is written once a minute, and what is merged is merged in many short
transactions rather than a long one: a driver's commits wait behind each of them on SQLite.

History is bounded: a stream that is busy all day has 252 rows. Measured in SQLite, index and all,
1,000 of them take 67 MB with 3 records a minute each (270 bytes a row), 135 MB with 30, 178 MB
with 600, and never more than 260 MB: a full sketch has 900 bytes.

A row that this version cannot read is passed over: another version wrote it, or a disk broke it,
and neither is a reason to show nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from headrace.model.statistics import Point, Report, Spread
from headrace.model.streams import StreamId
from headrace.store.database import Database
from headrace.store.pairs import matching, portions
from headrace.store.report_form import Packer, unpacked
from headrace.store.schema import points as point_rows
from headrace.store.schema import reports as report_rows
from headrace.telemetry.history import (
    OLD_SPAN_S,
    began_s,
    dropped_before_s,
    old_before_s,
    shortest,
    thinned,
)

#: streams whose points are merged in one transaction
_STREAMS_AT_ONCE = 25


class SqlStatistics:
    """``headrace.ports.Statistics`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: by driver: of one at most, but in a test
        self._packers: defaultdict[str, Packer] = defaultdict(Packer)

    def publish(self, report: Report) -> None:
        """Replace what this driver told before."""
        told = self._packers[report.driver].packed(report)
        row = {"driver": report.driver, "at_s": report.at_s, "report": told}
        with self._database.write() as connection:
            _put(connection, report_rows, [row])

    def reports(self) -> list[Report]:
        """The latest report of each driver, by name."""
        asked = select(report_rows.c.report).order_by(report_rows.c.driver)
        with self._database.read() as connection:
            rows = connection.scalars(asked).all()
        told = (unpacked(row) for row in rows)
        return [report for report in told if report is not None]

    def forget(self, driver: str) -> None:
        """Drop the report of a driver that has left."""
        with self._database.write() as connection:
            connection.execute(delete(report_rows).where(report_rows.c.driver == driver))

    def keep(self, points: Collection[Point]) -> None:
        """Add history; a point of the same stream, beginning and span is replaced."""
        if points:
            with self._database.write() as connection:
                _keep(connection, points)

    def history(
        self, streams: Collection[StreamId] | None, from_s: float, until_s: float
    ) -> list[Point]:
        """Points that begin in ``[from_s, until_s)``, by stream and time."""
        within = select(point_rows).where(
            point_rows.c.from_s >= from_s, point_rows.c.from_s < until_s
        )
        asked = [within]
        if streams is not None:
            asked = [within.where(element) for element in matching(point_rows, streams)]
        with self._database.read() as connection:
            rows = [row for query in asked for row in connection.execute(query)]
        return shortest(_point(row) for row in rows)

    def thin(self, now_s: float) -> None:
        """Merge what is older into longer spans and drop what is too old."""
        old = (point_rows.c.span_s < OLD_SPAN_S) & (point_rows.c.from_s < old_before_s(now_s))
        names = select(point_rows.c.use_case, point_rows.c.tenant).where(old).distinct()
        with self._database.read() as connection:
            due = [StreamId(*row) for row in connection.execute(names)]
        for some in portions(sorted(due), _STREAMS_AT_ONCE):
            with self._database.write() as connection:
                _merge(connection, some, old)
        self._drop(dropped_before_s(now_s))

    def _drop(self, before_s: float) -> None:
        # A driver that was down for days finds many, so one span at a time; and one whose clock was
        # wrong finds few that are years apart, so from one that is there to the next.
        while (oldest_s := self._oldest_s()) is not None and oldest_s < before_s:
            until_s = min(oldest_s + OLD_SPAN_S, before_s)
            with self._database.write() as connection:
                connection.execute(delete(point_rows).where(point_rows.c.from_s < until_s))
        with self._database.write() as connection:
            connection.execute(delete(report_rows).where(report_rows.c.at_s < before_s))

    def _oldest_s(self) -> float | None:
        with self._database.read() as connection:
            oldest_s: float | None = connection.scalar(select(func.min(point_rows.c.from_s)))
            return oldest_s


def _merge(connection: Connection, streams: Sequence[StreamId], old: ColumnElement[bool]) -> None:
    """Replace old points of these streams by longer ones, together with what is there of these.

    Another driver may be at the same: each point is taken out by one of them and told on once.
    """
    found: list[Point] = []
    for ours in matching(point_rows, streams):
        taken = delete(point_rows).where(ours, old).returning(point_rows)
        fresh = [_point(row) for row in connection.execute(taken)]
        if not fresh:
            continue
        since_s = began_s(min(point.from_s for point in fresh), OLD_SPAN_S)
        until_s = max(point.from_s for point in fresh)
        within = point_rows.c.from_s.between(since_s, until_s)
        there = select(point_rows).where(ours, within, point_rows.c.span_s >= OLD_SPAN_S)
        found += [*fresh, *(_point(row) for row in connection.execute(there))]
    _keep(connection, thinned(found))


def _keep(connection: Connection, told: Collection[Point]) -> None:
    in_order = sorted(told, key=lambda point: (point.stream, point.span_s, point.from_s))
    _put(connection, point_rows, [_row(point) for point in in_order])


def _put(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Add rows, in place of those that have the same key."""
    if not rows:
        return
    to = postgresql if connection.dialect.name == "postgresql" else sqlite
    adding = to.insert(table)
    values = {
        column.name: adding.excluded[column.name] for column in table.c if not column.primary_key
    }
    keys = list(table.primary_key)
    connection.execute(adding.on_conflict_do_update(index_elements=keys, set_=values), rows)


def _row(point: Point) -> dict[str, object]:
    spread = point.delay
    return {
        "use_case": point.stream.use_case,
        "tenant": point.stream.tenant,
        "span_s": int(point.span_s),
        "from_s": int(point.from_s),
        "lag_records": point.lag_records,
        "lag_s": point.lag_s,
        "records_in": point.records_in,
        "records_out": point.records_out,
        "task_s": point.task_s,
        "delays": spread.count,
        "min_s": spread.min_s,
        "p50_s": spread.p50_s,
        "p95_s": spread.p95_s,
        "p99_s": spread.p99_s,
        "max_s": spread.max_s,
        "sketch": point.sketch,
    }


def _point(row: Row[Any]) -> Point:
    return Point(
        stream=StreamId(row.use_case, row.tenant),
        from_s=float(row.from_s),
        span_s=float(row.span_s),
        lag_records=row.lag_records,
        lag_s=row.lag_s,
        records_in=row.records_in,
        records_out=row.records_out,
        task_s=row.task_s,
        delay=Spread(row.delays, row.min_s, row.p50_s, row.p95_s, row.p99_s, row.max_s),
        sketch=bytes(row.sketch),
    )
