"""The reserved tenant, in the store: there with the first use case whose topic names no tenant.

Whoever deploys such a use case should not have to add a tenant as well; so the tenant begins in the
transaction that writes the first of these down. What an operator does to it later stays: it is not
there again because a driver starts.
"""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from headrace.errors import name_is_a_customers, removed_for_all
from headrace.model.everyone import EVERYONE
from headrace.model.records import Deployment
from headrace.model.streams import State
from headrace.store import intents, tenants_again
from headrace.store.schema import tenants

_FRESH = {"state": State.ACTIVE.value, "weight": 1.0, "stopped_by": None}
_NO_LIMITS = {"records_per_s": None, "bytes_per_s": None, "burst_s": 1.0}


def begin(connection: Connection, deployment: Deployment, at_s: float) -> None:
    """See that the tenant is there, for a use case that was just deployed for the first time.

    One that a customer had, who was removed, begins anew: of that one nothing is left to it.

    Raises:
        ConfigError: somebody removed it, or it is a customer.
    """
    asked = select(tenants.c.state, tenants.c.reserved).where(tenants.c.name == EVERYONE)
    row = connection.execute(asked.with_for_update()).first()
    of = EVERYONE, deployment.use_case, deployment.topic
    if row is None:
        connection.execute(insert(tenants).values(name=EVERYONE, reserved=True, **_FRESH))
    elif row.reserved and row.state == State.REMOVED:
        raise removed_for_all(*of)
    elif not row.reserved and row.state != State.REMOVED:
        raise name_is_a_customers(*of)
    elif not row.reserved:
        ours = tenants.c.name == EVERYONE
        connection.execute(update(tenants).where(ours).values(reserved=True))
        tenants_again.begin_anew(connection, {EVERYONE: {**_FRESH, **_NO_LIMITS}}, at_s)
        intents.begin_anew(connection, {EVERYONE})
