"""What concerns the service as a whole: its summary, use cases, waves and alerts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from headrace.console.access import Entered, GuardedRoute, sees
from headrace.console.answers import PageAsked, answer
from headrace.console.desk import AtDesk
from headrace.console.problems import not_there, refusals
from headrace.console.requests import UseCaseName
from headrace.console.rows import Values
from headrace.console.shapes import AlertRow, Listed, Summary, UseCaseRow, WaveRow
from headrace.model.statistics import Severity

router = APIRouter(route_class=GuardedRoute, tags=["overview"])


@router.get("/v1/summary", response_model=Summary, responses=refusals())
def show_summary(desk: AtDesk) -> Response:
    """Drivers, and the sums over all streams."""
    return answer(desk.watcher.view().summary)


@router.get("/v1/use-cases", response_model=Listed[UseCaseRow], responses=refusals())
def list_use_cases(
    desk: AtDesk,
    paging: PageAsked,
    every: Annotated[bool, Query(alias="all", description="Also reruns that are over.")] = False,
) -> Response:
    """Use cases by name, with the figures of all drivers together."""
    after = paging.after(str)
    snapshot = desk.watcher.view()
    found = snapshot.use_case_rows if every else snapshot.use_case_rows_in_use
    wanted = (row for name, row in found.items() if after is None or name > after[0])
    return paging.page(wanted, lambda row: [row["use_case"]], lambda row: row)


@router.get("/v1/use-cases/{use_case}", response_model=UseCaseRow, responses=refusals(404))
def show_use_case(desk: AtDesk, use_case: UseCaseName) -> Response:
    """One use case."""
    row = desk.watcher.view().use_case_rows.get(use_case)
    if row is None:
        raise not_there("use case", use_case)
    return answer(row)


@router.get("/v1/waves", response_model=Listed[WaveRow], responses=refusals())
def list_waves(
    desk: AtDesk,
    paging: PageAsked,
    use_case: Annotated[str | None, Query(max_length=73)] = None,
) -> Response:
    """Waves of the last minutes, newest first."""
    after = paging.after(float, str)
    wanted = (
        row
        for row in desk.watcher.view().wave_rows
        if use_case in (None, row["use_case"])
        and (after is None or (row["started_at_s"], row["wave"]) < after)
    )
    return paging.page(
        wanted, lambda row: [float(row["started_at_s"]), row["wave"]], lambda row: row
    )


@router.get("/v1/alerts", response_model=Listed[AlertRow], responses=refusals())
def list_alerts(
    desk: AtDesk,
    caller: Entered,
    paging: PageAsked,
) -> Response:
    """What a person should look at, the gravest first; a tenant sees what concerns it."""
    after = paging.after(int, str, str, str, str)
    own = (
        row
        for row in desk.watcher.view().alert_rows
        if sees(caller, row["tenant"]) and (after is None or _place(row) > after)
    )
    return paging.page(sorted(own, key=_place), _place, lambda row: row)


def _place(row: Values) -> tuple[int, str, str, str, str]:
    names = (row["kind"], row["tenant"] or "", row["use_case"] or "", row["driver"] or "")
    return (int(row["severity"] != Severity.CRITICAL), *names)
