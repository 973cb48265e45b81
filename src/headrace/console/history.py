"""What happened before the page was opened: a tenant's day, and half an hour of everybody."""

from __future__ import annotations

import math
import threading
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from headrace.console.access import Entered, GuardedRoute, sees
from headrace.console.answers import answer
from headrace.console.desk import AtDesk
from headrace.console.problems import no_tenant, refusals
from headrace.console.requests import TenantName
from headrace.console.rows import spread_row
from headrace.console.shapes import History, Sparks
from headrace.model.statistics import Point
from headrace.model.streams import StreamId
from headrace.ports import Statistics

router = APIRouter(route_class=GuardedRoute, tags=["history"])

#: minutes of a spark line
_MINUTES = 30
_SPAN_S = 60.0
#: a minute that was read so long ago is read again: its points may have come since
_LATE_S = 180.0
#: points come once a minute, so more often is of no use
_FRESH_S = 10.0
_DAY_S = 86_400.0

Moment = Annotated[float | None, Query(ge=0, le=1e11, allow_inf_nan=False)]


@router.get("/v1/tenants/{tenant}/history", response_model=History, responses=refusals(404))
def show_history(
    desk: AtDesk,
    caller: Entered,
    tenant: TenantName,
    from_s: Moment = None,
    until_s: Moment = None,
) -> Response:
    """Spans that begin in `[from_s, until_s)`, at most a day; left out: the last hour.

    A tenant that was added under the name of an earlier one sees what began since then.
    """
    snapshot = desk.watcher.view()
    streams = {stream.id for stream in snapshot.streams if stream.id.tenant == tenant}
    if tenant not in snapshot.tenant_of:
        raise no_tenant(tenant)
    end_s = desk.clock.now_s() if until_s is None else until_s
    start_s = max(end_s - 3600.0 if from_s is None else from_s, end_s - _DAY_S)
    since_s = desk.store.keys.added_again_s(tenant) or 0.0
    if caller.tenant is not None:
        start_s = max(start_s, since_s)
    points = desk.store.statistics.history(streams, start_s, end_s) if streams else []
    return answer({"items": [_row(point, since_s) for point in points]})


def _row(point: Point, since_s: float) -> dict[str, Any]:
    return {
        "use_case": point.stream.use_case,
        "from_s": point.from_s,
        "span_s": point.span_s,
        "lag_records": point.lag_records,
        "lag_s": point.lag_s,
        "records_in": point.records_in,
        "records_out": point.records_out,
        "task_s": point.task_s,
        "delay": spread_row(point.delay),
        "earlier_tenant": point.from_s < since_s,
    }


@router.get("/v1/sparks", response_model=Sparks, responses=refusals())
def show_sparks(request: Request, desk: AtDesk, caller: Entered) -> Response:
    """The last half hour by minute; tenants that did nothing are left out."""
    keeper = request.app.state.sparks
    assert isinstance(keeper, SparkKeeper), "the app was made with one"
    from_s, lines = keeper.read(desk.clock.now_s())
    shown = {name: line for name, line in lines.items() if sees(caller, name)}
    if caller.tenant is not None:
        since_s = desk.store.keys.added_again_s(caller.tenant) or 0.0
        earlier = max(0, math.ceil((since_s - from_s) / _SPAN_S))
        shown = {name: _since(line, earlier) for name, line in shown.items()}
    return answer({"from_s": from_s, "span_s": _SPAN_S, "tenants": shown})


_Line = dict[str, list[float | None]]


def _since(line: _Line, earlier: int) -> _Line:
    """A line without its first minutes, which are an earlier tenant's."""
    return {
        name: [None if at < earlier else value for at, value in enumerate(of)]
        for name, of in line.items()
    }


_Cell = tuple[float, float]  # worst lag_s, sum of out_per_s


class SparkKeeper:
    """Half an hour of every tenant, read minute by minute. Safe in several threads."""

    def __init__(self, statistics: Statistics) -> None:
        """Take what to read; contacts nobody yet."""
        self._statistics = statistics
        self._lock = threading.Lock()
        self._read_until_s = 0.0
        self._fresh_until_s = 0.0
        self._cells: dict[int, dict[str, _Cell]] = {}
        self._lines: dict[str, dict[str, list[float | None]]] = {}

    def read(self, now_s: float) -> tuple[float, dict[str, dict[str, list[float | None]]]]:
        """When the lines begin, and the line of each tenant.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        with self._lock:
            if now_s < self._read_until_s - _FRESH_S:
                # The clock was set back; what was read is of minutes that are still to come.
                self._read_until_s = self._fresh_until_s = 0.0
            first = int(now_s // _SPAN_S) - _MINUTES + 1
            if not now_s < self._fresh_until_s:
                self._read(first, now_s)
                self._lines = self._drawn(first)
                self._fresh_until_s = now_s + _FRESH_S
                self._first = first
            return self._first * _SPAN_S, self._lines

    def _read(self, first: int, now_s: float) -> None:
        start_s = max(first * _SPAN_S, (self._read_until_s - _LATE_S) // _SPAN_S * _SPAN_S)
        again = int(start_s // _SPAN_S)
        self._cells = {at: cell for at, cell in self._cells.items() if first <= at < again}
        of_stream: dict[tuple[int, StreamId], _Cell] = {}
        for point in self._statistics.history(None, start_s, now_s + _SPAN_S):
            key = (int(point.from_s // _SPAN_S), point.stream)
            of_stream[key] = (point.lag_s, point.records_out / max(point.span_s, 1.0))
        for (at, stream), (lag_s, out_per_s) in of_stream.items():
            cells = self._cells.setdefault(at, {})
            before = cells.get(stream.tenant, (0.0, 0.0))
            cells[stream.tenant] = (max(before[0], lag_s), before[1] + out_per_s)
        self._read_until_s = now_s

    def _drawn(self, first: int) -> dict[str, dict[str, list[float | None]]]:
        names = sorted({name for cells in self._cells.values() for name in cells})
        nothing: dict[str, _Cell] = {}
        minutes = [self._cells.get(first + number, nothing) for number in range(_MINUTES)]
        lines: dict[str, dict[str, list[float | None]]] = {}
        for name in names:
            found = [minute.get(name) for minute in minutes]
            lines[name] = {
                "lag_s": [pair and pair[0] for pair in found],
                "out_per_s": [pair and pair[1] for pair in found],
            }
        return lines
