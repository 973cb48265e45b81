"""A tenant as its row has it, for all that read rows of tenants."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from headrace.model.streams import State, Tenant, Throttle
from headrace.store import stoppers
from headrace.store.moments import now_s


def of_row(row: Row[Any]) -> Tenant:
    """The tenant of a row."""
    throttle = Throttle(row.records_per_s, row.bytes_per_s, row.burst_s)
    by = stoppers.read(row.stopped_by)
    told = row.generation, row.added_again_s, row.reserved
    return Tenant(row.name, State(row.state), row.weight, throttle, by, *told)


def resumed_then(connection: Connection, state: State) -> dict[str, Any]:
    """What else is written of a tenant with a state: when it was resumed, see ``left_alone.py``."""
    return {"resumed_s": now_s(connection)} if state is State.ACTIVE else {}
