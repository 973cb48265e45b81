"""Adding many tenants together: what would be done, and what is wrong with which.

Of ten thousand names three are there already, two come twice and one has a capital letter. Who has
to mend the list wants to hear of all six at once, each by its place, before anything is done. So
the list is held against what is there here, for terminal and HTTP alike; the store then adds it in
one change, and refuses it if somebody else was quicker.

Where a list comes from, and how a place in it is called, is not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import ConfigError
from headrace.model.streams import State, Tenant
from headrace.store.tenants import check, check_may_be_added


@dataclass(slots=True)
class Addition:
    """What becomes of tenants that are to be added."""

    #: those that can be, or are there
    wanted: list[Tenant] = field(default_factory=list)
    #: names that would be added, in their order
    names: list[str] = field(default_factory=list)
    #: those of them that had been removed, and begin anew
    again: list[str] = field(default_factory=list)
    #: those that are there, and stay as they are
    there: list[str] = field(default_factory=list)
    #: of those that are there and stay otherwise than the list says: what is otherwise
    differs: dict[str, str] = field(default_factory=dict)
    #: place in the list -> why that one cannot be added
    faults: dict[int, str] = field(default_factory=dict)
    #: the same of those that are there, where that is a fault
    there_faults: dict[int, str] = field(default_factory=dict)

    def values(self) -> dict[str, object]:
        """It, for programs."""
        return {
            "added": self.names,
            "again": self.again,
            "there": self.there,
            "differs": self.differs,
        }


def addition(
    wanted: Sequence[Tenant], known: Iterable[Tenant], said: Sequence[Collection[str]]
) -> Addition:
    """Hold tenants that are to be added against those that were ever added.

    Args:
        wanted: the tenants.
        known: those that were ever added.
        said: of each that is wanted: what the list says of it, see ``said_of``.
    """
    there = {tenant.name: tenant for tenant in known}
    found, first = Addition(), dict[str, int]()
    for place, tenant in enumerate(wanted):
        before = there.get(tenant.name)
        if (why := _fault(tenant, before)) is not None:
            found.faults[place] = why
        elif tenant.name in first:
            found.faults[place] = f"tenant {tenant.name} is in the list twice; leave one out"
        elif before is None or before.state is State.REMOVED:
            found.wanted.append(tenant)
            found.names.append(tenant.name)
            found.again += [] if before is None else [tenant.name]
        else:
            found.wanted.append(tenant)
            found.there.append(tenant.name)
            if what := _differs(before, tenant, said[place]):
                found.differs[tenant.name] = what
            is_there = f"tenant {tenant.name} is there already, {before.state}"
            found.there_faults[place] = f"{is_there}; leave it out, or skip those"
        first.setdefault(tenant.name, place)
    return found


def said_of(row: Mapping[str, Any]) -> frozenset[str]:
    """Which settings a listed tenant says, by name; a limit that is null says that there is none.

    Args:
        row: the tenant in the words of the control API.
    """
    limits: Mapping[str, Any] = row.get("throttle") or {}
    said = {key for key in ("state", "weight") if row.get(key) is not None}
    return frozenset(said | {key for key in limits if key != "burst_s" or limits[key] is not None})


def _differs(there: Tenant, listed: Tenant, said: Collection[str]) -> str:
    """What of a tenant that is there is otherwise than the list says; empty: nothing."""
    has, would = _settings(there), _settings(listed)
    return ", ".join(
        f"{has[key]} (listed: {would[key]})"
        for key in has
        if key in said and has[key] != would[key]
    )


def _settings(tenant: Tenant) -> dict[str, str]:
    limits = tenant.throttle
    numbers = {
        "weight": tenant.weight,
        "records_per_s": limits.records_per_s,
        "bytes_per_s": limits.bytes_per_s,
        "burst_s": limits.burst_s,
    }
    shown = {
        key: f"{key} {'none' if number is None else f'{number:.15g}'}"
        for key, number in numbers.items()
    }
    return {"state": tenant.state.value, **shown}


def _fault(tenant: Tenant, before: Tenant | None) -> str | None:
    try:
        check(tenant)
        if before is None or before.state is State.REMOVED:
            check_may_be_added(tenant.name, before)
    except ConfigError as error:
        return str(error)
    return None
