"""A tenant as its row has it, for all that read rows of tenants."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from headrace.model.streams import State, Tenant, Throttle
from headrace.store import stoppers


def of_row(row: Row[Any]) -> Tenant:
    """The tenant of a row."""
    throttle = Throttle(row.records_per_s, row.bytes_per_s, row.burst_s)
    by = stoppers.read(row.stopped_by)
    told = row.generation, row.added_again_s, row.reserved
    return Tenant(row.name, State(row.state), row.weight, throttle, by, *told)
