"""State of keys by HTTP: how much there is, and its rows.

How much a tenant has is a figure like others. What is in a row is its data, as a record of a
failure is: an operator sees it and the tenant itself, and not who may only look.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Query, Response

from headrace.console.access import Entered, GuardedRoute
from headrace.console.answers import PageAsked, Paging, answer
from headrace.console.desk import AtDesk, Desk
from headrace.console.problems import not_there, refusals
from headrace.console.requests import StateTableName, TenantAsked, TenantName, UseCaseName
from headrace.console.rows import Values
from headrace.console.shapes import Listed, StateOfStream, StateOfTable, StateRowShape
from headrace.doors.problems import Problem
from headrace.model.state import StateRow, StateSize
from headrace.model.streams import StreamId
from headrace.operating.state_keys import keys_asked

router = APIRouter(route_class=GuardedRoute, tags=["state"])

_STATE = "/v1/streams/{tenant}/{use_case}/state"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Keys of one question."""

    key: Annotated[
        list[str] | None,
        Query(max_length=100, description="As text, and as a number where it is one."),
    ] = None
    key_hex: Annotated[
        list[str] | None, Query(max_length=100, description="Other bytes, two digits each.")
    ] = None

    def keys(self) -> list[bytes] | None:
        """In bytes; None: all are wanted."""
        return keys_asked(self.key or (), self.key_hex or ())


@router.get("/v1/state", response_model=Listed[StateOfStream], responses=refusals())
def list_state(
    desk: AtDesk, caller: Entered, paging: PageAsked, tenant: TenantAsked = None
) -> Response:
    """Streams that keep state, and how much, by tenant and use case; a tenant sees its own."""
    after = paging.after(str, str)
    if caller.tenant is not None and tenant not in (None, caller.tenant):
        return answer({"items": [], "next": None})
    found = desk.store.kept_state.sizes(caller.tenant or tenant)
    behind = (
        (stream, size)
        for stream, size in found.items()
        if after is None or (stream.tenant, stream.use_case) > after
    )

    def shown(row: tuple[StreamId, StateSize]) -> Values:
        stream, size = row
        return {"tenant": stream.tenant, "use_case": stream.use_case, **size._asdict()}

    return paging.page(behind, lambda row: [row[0].tenant, row[0].use_case], shown)


@router.get(_STATE, response_model=Listed[StateOfTable], responses=refusals(404))
def list_tables(desk: AtDesk, tenant: TenantName, use_case: UseCaseName) -> Response:
    """The tables of state of one stream that have rows, and how much is in each."""
    tables = desk.store.kept_state.tables(_known(desk, tenant, use_case))
    items = [{"table": name, **size._asdict()} for name, size in tables.items()]
    return answer({"items": items, "next": None})


@router.get(
    f"{_STATE}/{{table}}", response_model=Listed[StateRowShape], responses=refusals(404, 409)
)
def show_state(
    desk: AtDesk,
    tenant: TenantName,
    use_case: UseCaseName,
    table: StateTableName,
    paging: PageAsked,
    wanted: Annotated[_Wanted, Depends()],
) -> Response:
    """Rows of a table, by partition and key: those of the keys that are named, or all."""
    stream = _known(desk, tenant, use_case)
    found = desk.store.kept_state.rows(
        stream, table, wanted.keys(), after=_after(paging), most=paging.limit + 1
    )
    return paging.page(found, lambda row: [row.part, row.key.hex()], _shown)


def _after(paging: Paging) -> tuple[str, bytes] | None:
    """Part and key of the last row that was shown, as a database takes them."""
    found = paging.after(str, str)
    if found is None:
        return None
    part, digits = found
    with suppress(ValueError):
        if part.isprintable():
            return part, bytes.fromhex(digits)
    raise Problem(422, "invalid", "cursor: this is not the `next` of a page of this list")


def _shown(row: StateRow) -> Values:
    # As it was written: a number with more digits than a double has stays what it is.
    return {"part": row.part, "key_hex": row.key.hex(), "row": orjson.Fragment(row.value)}


def _known(desk: Desk, tenant: str, use_case: str) -> StreamId:
    stream = StreamId(use_case, tenant)
    if stream not in desk.watcher.view().stream_of:
        raise not_there("stream", stream)
    return stream
