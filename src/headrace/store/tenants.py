"""Tenants: who is served, with what weight and throttle.

A tenant's state and its streams' states are two decisions. Suspending a tenant leaves its streams
as they are, so that resuming it does not wake the one that was suspended for its errors; what runs
is what is active in both. Removing is the exception: it removes the streams and the API keys too.

A tenant that is added under the name of a removed one may be another customer. Its *generation* is
an epoch that no stream of that name ever had, and its streams begin there. So whatever carries an
epoch (a failure, a dead letter, a slice that still runs somewhere) tells whose it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, update

from headrace.errors import ConfigError, no_tenant, reserved_name, tenant_removed
from headrace.model.everyone import EVERYONE, has_stream, may_be_added
from headrace.model.some_names import some_of
from headrace.model.streams import TENANT_NAME, State, Stopper, StreamId, Tenant, Throttle
from headrace.policies.stops import resumed, stopped
from headrace.store import keys, stoppers, streams, tenants_again
from headrace.store.own_topics import refuse_shared
from headrace.store.schema import deployments, tenants
from headrace.store.schema import streams as stream_rows
from headrace.store.tenant_rows import of_row, resumed_then

#: beyond these, sums and products with those of others are infinite or nothing, and no plan is made
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
MOST_OF_THROTTLE = 1e15
#: of many names, those that a refusal tells
_NAMED = 3


def every(connection: Connection) -> list[Tenant]:
    """All tenants, by name."""
    return [of_row(row) for row in connection.execute(select(tenants).order_by(tenants.c.name))]


def add(connection: Connection, tenant: Tenant, at_s: float) -> None:
    """Add a tenant, or a removed one anew, with its streams."""
    check(tenant)
    row = connection.execute(select(tenants).where(tenants.c.name == tenant.name)).first()
    if row is not None and row.state != State.REMOVED:
        raise ConfigError(f"tenant {tenant.name} is there already, {row.state}")
    check_may_be_added(tenant.name, None if row is None else of_row(row))
    _refuse_shared(connection, [tenant.name])
    if row is None:
        _insert(connection, [tenant])
    else:
        tenants_again.begin_anew(connection, {tenant.name: _values(tenant)}, at_s)


class Added(NamedTuple):
    """What became of tenants that were to be added."""

    #: in the order in which they were given
    names: Sequence[str]
    #: those of them that had been removed
    again: Collection[str]


def add_many(
    connection: Connection, wanted: Sequence[Tenant], at_s: float, *, skip_there: bool
) -> Added:
    """Add tenants, removed ones anew, with a few statements for all of them."""
    names = {tenant.name for tenant in wanted}
    if len(names) < len(wanted):
        raise ConfigError("of tenants that are added together none may have the name of another")
    for tenant in wanted:
        check(tenant)
    rows = connection.execute(select(tenants))
    known = {row.name: of_row(row) for row in rows if row.name in names}
    there = sorted(one.name for one in known.values() if one.state is not State.REMOVED)
    if there and not skip_there:
        raise ConfigError(f"{_some(there)} there already")
    for name in names.difference(there):
        check_may_be_added(name, known.get(name))
    fresh = [tenant for tenant in wanted if tenant.name not in known]
    again = [tenant for tenant in wanted if tenant.name in known.keys() - set(there)]
    _refuse_shared(connection, [tenant.name for tenant in (*fresh, *again)])
    _insert(connection, fresh)
    tenants_again.begin_anew(connection, {tenant.name: _values(tenant) for tenant in again}, at_s)
    made = {tenant.name for tenant in (*fresh, *again)}
    return Added(
        [tenant.name for tenant in wanted if tenant.name in made],
        {tenant.name for tenant in again},
    )


def _refuse_shared(connection: Connection, names: Sequence[str]) -> None:
    for_all = select(deployments.c.use_case, deployments.c.topic).where(deployments.c.all_tenants)
    wanted = {
        StreamId(row.use_case, name): streams.topic_of(row.topic, name)
        for row in connection.execute(for_all)
        for name in names
        # Whoever is added and has the reserved name is the reserved one; see `check_may_be_added`.
        if has_stream(row.topic, reserved=name == EVERYONE)
    }
    refuse_shared(connection, wanted)


def _insert(connection: Connection, fresh: Sequence[Tenant]) -> None:
    if not fresh:
        return
    connection.execute(
        insert(tenants), [{"name": tenant.name, **_values(tenant)} for tenant in fresh]
    )
    for_all = select(deployments.c.use_case, deployments.c.topic).where(deployments.c.all_tenants)
    for row in connection.execute(for_all).all():
        rows = [
            streams.fresh(
                StreamId(row.use_case, tenant.name), streams.topic_of(row.topic, tenant.name), 0
            )
            for tenant in fresh
            if has_stream(row.topic, reserved=False)
        ]
        if rows:
            connection.execute(insert(stream_rows), rows)


def _some(names: Sequence[str]) -> str:
    shown = some_of(names, _NAMED)
    return f"tenants {shown} are" if len(names) > 1 else f"tenant {shown} is"


def set_state(connection: Connection, name: str, state: State, by: Stopper) -> None:
    """Suspend, resume or remove; removing also removes the streams."""
    asked = select(tenants.c.state, tenants.c.stopped_by).where(tenants.c.name == name)
    row = connection.execute(asked.with_for_update()).first()
    if row is None:
        raise no_tenant(name)
    before, left = stoppers.read(row.stopped_by), frozenset[Stopper]()
    if state is State.REMOVED:
        _remove_streams(connection, name)
    elif row.state == State.REMOVED:
        raise tenant_removed(name)
    if state is State.ACTIVE:
        left = resumed(before, by, f"tenant {name}")
    elif state is State.SUSPENDED:
        left = stopped(before, by)
    then = resumed_then(connection, state)
    _set(connection, name, state=state.value, stopped_by=stoppers.written(left), **then)
    if state is State.REMOVED:
        keys.drop_of(connection, name)


def set_weight(connection: Connection, name: str, weight: float) -> None:
    """Set the weight of a tenant that was not removed."""
    check_weight(name, weight)
    _refuse_removed(connection, name)
    _set(connection, name, weight=weight)


def set_throttle(connection: Connection, name: str, throttle: Throttle) -> None:
    """Set or lift the throttle of a tenant that was not removed."""
    check_throttle(name, throttle)
    _refuse_removed(connection, name)
    _set(connection, name, **asdict(throttle))


def change(connection: Connection, before: Tenant, after: Tenant) -> bool:
    """Set everything about a tenant at once; False if it is not as ``before``."""
    assert before.name == after.name, "a tenant keeps its name"
    check_weight(after.name, after.weight)
    check_throttle(after.name, after.throttle)
    _refuse_removed(connection, after.name)
    asked = select(tenants).where(tenants.c.name == after.name).with_for_update()
    if of_row(connection.execute(asked).one()) != before:
        return False
    _set(connection, after.name, weight=after.weight, **asdict(after.throttle))
    if (after.state, after.stopped_by) != (before.state, before.stopped_by):
        set_state(connection, after.name, after.state, Stopper.OPERATOR)
    return True


def _values(tenant: Tenant) -> dict[str, Any]:
    """What is kept of a tenant that is added, but for its name."""
    by_hand = {Stopper.OPERATOR} if tenant.state is State.SUSPENDED else set()
    return {
        "state": tenant.state.value,
        "weight": tenant.weight,
        "stopped_by": stoppers.written(frozenset(by_hand)),
        **asdict(tenant.throttle),
    }


def _remove_streams(connection: Connection, name: str) -> None:
    ours = stream_rows.c.tenant == name
    removed = {"state": State.REMOVED.value, "stopped_by": None}
    connection.execute(update(stream_rows).where(ours).values(removed))


def _set(connection: Connection, name: str, **values: Any) -> None:
    connection.execute(update(tenants).where(tenants.c.name == name).values(**values))


def _refuse_removed(connection: Connection, name: str) -> None:
    state = connection.scalar(select(tenants.c.state).where(tenants.c.name == name))
    if state is None:
        raise no_tenant(name)
    if state == State.REMOVED:
        raise tenant_removed(name)


def check_name(name: str) -> None:
    """Raise ``ConfigError`` if no tenant can have this name."""
    if not TENANT_NAME.fullmatch(name):
        raise ConfigError(
            f"tenant {name!r}: a name is 1 to 63 lower-case letters, digits and dashes, "
            "starting with a letter or digit"
        )


def check_may_be_added(name: str, known: Tenant | None) -> None:
    """Raise ``ConfigError`` if the name is reserved for who comes by itself.

    ``known`` is who has it, or had it, as the store says.
    """
    if not may_be_added(name, known):
        raise reserved_name(name)


def check(tenant: Tenant) -> None:
    """Raise ``ConfigError`` if a tenant cannot be added like this."""
    check_name(tenant.name)
    if tenant.state is State.REMOVED:
        raise ConfigError(f"tenant {tenant.name}: a tenant cannot be added as removed")
    check_weight(tenant.name, tenant.weight)
    check_throttle(tenant.name, tenant.throttle)


def check_weight(name: str, weight: float) -> None:
    """Raise ``ConfigError`` unless a weight is a number above 0 that a plan can reckon with."""
    if not (weight > 0 and math.isfinite(weight)):
        raise ConfigError(f"tenant {name}: weight {weight} is not a number above 0")
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise ConfigError(
            f"tenant {name}: weight {weight} is not from {LEAST_WEIGHT:f} to {MOST_WEIGHT:.0f}"
        )


def check_throttle(name: str, throttle: Throttle) -> None:
    """Raise ``ConfigError`` unless each limit is none, or a number above 0 that can be counted."""
    for unit, limit in asdict(throttle).items():
        if limit is not None and not (limit > 0 and math.isfinite(limit)):
            raise ConfigError(
                f"tenant {name}: throttle {unit} {limit} is not a number above 0; "
                "to stop a tenant suspend it"
            )
        if limit is not None and limit > MOST_OF_THROTTLE:
            raise ConfigError(
                f"tenant {name}: throttle {unit} {limit} is above {MOST_OF_THROTTLE:.0f}; leave it "
                "out for no limit"
            )
