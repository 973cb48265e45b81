"""Tenants: who they are, how they do, and what an operator sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headrace.console.access import Entered, GuardedRoute, sees, stopper_of
from headrace.console.answers import (
    IfMatch,
    IfNoneMatch,
    PageAsked,
    answer,
    check_match,
    etag_of,
)
from headrace.console.desk import AtDesk, Desk
from headrace.console.problems import no_tenant, refusals
from headrace.console.requests import (
    TenantName,
    TenantRequest,
    TenantsRequest,
    TenantStatesRequest,
)
from headrace.console.rows import Values, changeable
from headrace.console.shapes import Listed, TenantRow, TenantsAdded, TenantsChanged
from headrace.console.watcher import StoreView
from headrace.doors.problems import Problem
from headrace.model.credentials import Caller
from headrace.model.streams import State, Stopper, Tenant, Throttle
from headrace.operating.adding import addition, said_of
from headrace.operating.changing import state_change

router = APIRouter(route_class=GuardedRoute, tags=["tenants"])

#: how often a change is tried again that somebody else's came before
_TRIES = 5


@router.get("/v1/tenants", response_model=Listed[TenantRow], responses=refusals())
def list_tenants(
    desk: AtDesk,
    caller: Entered,
    paging: PageAsked,
    state: Annotated[State | None, Query(description="None: all but the removed ones.")] = None,
    q: Annotated[str | None, Query(max_length=63, description="A part of the name.")] = None,
) -> Response:
    """Tenants by name, with their figures; a tenant sees itself."""
    after = paging.after(str)
    snapshot = desk.watcher.view()

    def wanted() -> Iterator[Values]:
        for name, row in snapshot.tenant_rows.items():
            if after is not None and name <= after[0]:
                continue
            fits = row["state"] == state if state else row["state"] != State.REMOVED
            if fits and (not q or q in name) and sees(caller, name):
                yield row

    return paging.page(wanted(), lambda row: [row["name"]], lambda row: row)


@router.post("/v1/tenants", response_model=TenantsAdded, responses=refusals(409))
def post_tenants(request: Request, desk: AtDesk, asked: TenantsRequest) -> Response:
    """Add many tenants in one step: all of them or, if anything is wrong with one, none.

    One that was removed is added anew, as by `PUT`. Whatever is wrong is told of every item, by its
    JSON pointer, in `errors`.
    """
    wanted = [_as_asked(Tenant(item.name), item) for item in asked.items]
    said = [said_of(item.model_dump(exclude_unset=True)) for item in asked.items]
    planned = addition(wanted, desk.store.registry.tenants(), said)
    faults = {**planned.faults, **({} if asked.exists == "skip" else planned.there_faults)}
    if faults:
        raise _refused(faults, "items")
    request.state.noted = {"added": len(planned.names), "there": len(planned.there)}
    if not asked.dry_run:
        items = {item.name: item for item in asked.items}
        request.state.listed = {
            name: items[name].model_dump(mode="json", exclude={"name"}, exclude_unset=True)
            for name in planned.names
        }
        desk.store.registry.add_tenants(
            planned.wanted, skip_there=asked.exists == "skip", at_s=desk.clock.now_s()
        )
        desk.watcher.changed()
    return answer({**planned.values(), "dry_run": asked.dry_run})


@router.post("/v1/tenant-states", response_model=TenantsChanged, responses=refusals(409))
def post_tenant_states(request: Request, desk: AtDesk, asked: TenantStatesRequest) -> Response:
    """Suspend, resume or remove many tenants in one step: all or, if anything is wrong, none.

    Each as by its own path; one that has the state already is left as it is. Whatever is wrong is
    told of every name, by its JSON pointer, in `errors`.
    """
    planned = state_change(asked.names, State(asked.state), desk.store.registry.tenants())
    if planned.faults:
        raise _refused(planned.faults, "names")
    request.state.noted = {"state": asked.state, "changed": len(planned.changed)}
    if not asked.dry_run:
        request.state.listed = {name: {"state": asked.state} for name in planned.changed}
        desk.store.registry.set_tenant_states(planned.wanted, planned.state)
        desk.watcher.changed()
    return answer({**planned.values(), "dry_run": asked.dry_run})


def _refused(faults: Mapping[int, str], what: str) -> Problem:
    errors = [
        {"pointer": f"/{what}/{number}", "detail": why} for number, why in sorted(faults.items())
    ]
    detail = "; ".join(f"{fault['pointer']}: {fault['detail']}" for fault in errors[:3])
    return Problem(409, "conflict", detail, extra={"errors": errors})


@router.get("/v1/tenants/{tenant}", response_model=TenantRow, responses=refusals(404))
def show_tenant(desk: AtDesk, tenant: TenantName) -> Response:
    """One tenant. Its `ETag` is that of what can be set, so figures do not change it."""
    return _shown(desk.watcher.view(), tenant)


@router.put(
    "/v1/tenants/{tenant}",
    response_model=TenantRow,
    responses={201: {"model": TenantRow, "description": "Added"}, **refusals(404, 409, 412)},
)
def put_tenant(
    desk: AtDesk,
    tenant: TenantName,
    asked: TenantRequest,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Set state, weight and throttle, or add a tenant; what is left out stays as it is.

    A tenant that was removed is added anew: its streams have lost their positions and begin at
    `startingOffsets`, so what they had read may be read again, with all of its effects. It sees
    nothing of the failures, dead letters and history of the one before.

    With `If-Match` only if nobody changed it since it was read, with `If-None-Match: *` only if it
    is not there. The same request again changes nothing more.
    """
    for _ in range(_TRIES):
        before = _find(desk, tenant)
        there = before is not None and before.state is not State.REMOVED
        current = etag_of(changeable(before)) if before is not None and there else None
        check_match(current, if_match, if_none_match)
        if before is None or not there:
            # Two that add it at once: the second is refused with 409, and may read it then.
            added = _as_asked(Tenant(tenant), asked)
            desk.store.registry.add_tenant(added, at_s=desk.clock.now_s())
            return _shown(desk.watcher.changed(), tenant, 201)
        after = _as_asked(before, asked)
        if after == before or desk.store.registry.change_tenant(before, after):
            return _shown(desk.watcher.changed(), tenant)
    raise Problem(409, "conflict", f"tenant {tenant} is being changed by others; try again")


@router.delete("/v1/tenants/{tenant}", status_code=204, responses=refusals(404, 409, 412))
def delete_tenant(desk: AtDesk, tenant: TenantName, if_match: IfMatch = None) -> Response:
    """Remove a tenant with its streams and keys; topics and results are left alone."""
    for _ in range(_TRIES):
        before = _known(desk, tenant)
        if before.state is State.REMOVED:
            return Response(status_code=204)
        check_match(etag_of(changeable(before)), if_match, None)
        if desk.store.registry.change_tenant(before, replace(before, state=State.REMOVED)):
            desk.watcher.changed()
            return Response(status_code=204)
    raise Problem(409, "conflict", f"tenant {tenant} is being changed by others; try again")


@router.post("/v1/tenants/{tenant}/suspend", response_model=TenantRow, responses=refusals(404, 409))
def suspend_tenant(desk: AtDesk, caller: Entered, tenant: TenantName) -> Response:
    """Plan nothing more of a tenant; what runs may end, and positions are kept."""
    return _set_state(desk, caller, tenant, State.SUSPENDED)


@router.post("/v1/tenants/{tenant}/resume", response_model=TenantRow, responses=refusals(404, 409))
def resume_tenant(desk: AtDesk, caller: Entered, tenant: TenantName) -> Response:
    """Go on with a suspended tenant where it stopped.

    A tenant resumes what it has suspended itself, and nothing else: 403 says who else has.
    """
    return _set_state(desk, caller, tenant, State.ACTIVE)


def _set_state(desk: Desk, caller: Caller, tenant: str, state: State) -> Response:
    desk.store.registry.set_tenant_state(_known(desk, tenant).name, state, by=stopper_of(caller))
    return _shown(desk.watcher.changed(), tenant)


def _as_asked(tenant: Tenant, asked: TenantRequest) -> Tenant:
    limit = asked.throttle
    state = tenant.state if asked.state is None else State(asked.state)
    by_hand = {Stopper.OPERATOR} if asked.state == "suspended" else set()
    return replace(
        tenant,
        state=state,
        stopped_by=tenant.stopped_by | by_hand if state is State.SUSPENDED else frozenset(),
        weight=tenant.weight if asked.weight is None else asked.weight,
        throttle=tenant.throttle
        if limit is None
        else Throttle(limit.records_per_s, limit.bytes_per_s, limit.burst_s),
    )


def _shown(snapshot: StoreView, name: str, status: int = 200) -> Response:
    tenant = snapshot.tenant_of.get(name)
    if tenant is None:
        raise no_tenant(name)
    return answer(snapshot.tenant_rows[name], status, etag=etag_of(changeable(tenant)))


def _known(desk: Desk, name: str) -> Tenant:
    found = _find(desk, name)
    if found is None:
        raise no_tenant(name)
    return found


def _find(desk: Desk, name: str) -> Tenant | None:
    """The tenant as it is now; a snapshot may be a second old."""
    return next((tenant for tenant in desk.store.registry.tenants() if tenant.name == name), None)
