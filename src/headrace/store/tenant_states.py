"""The state of many tenants, set together: all of them or none.

A list of customers is suspended for an evening, or removed for good. One by one that would be four
statements for each, and half of the list done when a name in it is wrong. So all are looked at
first, under lock, and then changed with a few statements for all.

Between the reading of a list and its change somebody may have removed one of it and added another
customer by its name. Such a one has another generation, and is nobody that the list means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, select, update

from headrace.errors import ConfigError, no_tenant, tenant_removed
from headrace.model.streams import State, Stopper, Tenant
from headrace.policies.stops import Stoppers, stopped
from headrace.store import stoppers
from headrace.store.pairs import portions
from headrace.store.schema import keys, tenants
from headrace.store.schema import streams as stream_rows
from headrace.store.tenant_rows import of_row, resumed_then


def set_states(connection: Connection, wanted: Sequence[Tenant], state: State) -> list[str]:
    """Suspend, resume or remove, in the name of an operator; the names whose state is another."""
    names = sorted({tenant.name for tenant in wanted})
    now: dict[str, Tenant] = {}
    for some in portions(names):
        asked = select(tenants).where(tenants.c.name.in_(some)).order_by(tenants.c.name)
        rows = connection.execute(asked.with_for_update())
        now |= {row.name: of_row(row) for row in rows}
    check_states(wanted, now, state)
    by_stoppers: dict[Stoppers, list[str]] = defaultdict(list)
    for name in names:
        left = stopped(now[name].stopped_by, Stopper.OPERATOR)
        by_stoppers[left if state is State.SUSPENDED else frozenset()].append(name)
    for left, same in by_stoppers.items():
        values = {
            "state": state.value,
            "stopped_by": stoppers.written(left),
            **resumed_then(connection, state),
        }
        for some in portions(same):
            connection.execute(update(tenants).where(tenants.c.name.in_(some)).values(values))
    if state is State.REMOVED:
        _leave_nothing(connection, names)
    return [tenant.name for tenant in wanted if now[tenant.name].state is not state]


def check_states(wanted: Sequence[Tenant], now: Mapping[str, Tenant], state: State) -> None:
    """Raise ``ConfigError`` unless each can have this state, and is still who was meant."""
    for tenant in wanted:
        known = now.get(tenant.name)
        if known is None:
            raise no_tenant(tenant.name)
        if known.generation != tenant.generation:
            raise ConfigError(
                f"tenant {tenant.name} was removed and added again meanwhile, and may be another "
                "customer; nothing is done: look at it, and try again"
            )
        if known.state is State.REMOVED and state is not State.REMOVED:
            raise tenant_removed(tenant.name)


def _leave_nothing(connection: Connection, names: Sequence[str]) -> None:
    """Remove the streams and the keys of tenants."""
    removed = {"state": State.REMOVED.value, "stopped_by": None}
    for some in portions(names):
        ours = stream_rows.c.tenant.in_(some)
        connection.execute(update(stream_rows).where(ours).values(removed))
        connection.execute(delete(keys).where(keys.c.tenant.in_(some)))
