"""Adding many tenants together: what would be done, and what is wrong with which.

Of ten thousand names three are there already, two come twice and one has a capital letter. Who has
to mend the list wants to hear of all six at once, each by its place, before anything is done. So
the list is held against what is there here, for terminal and HTTP alike; the store then adds it in
one change, and refuses it if somebody else was quicker.

Where a list comes from, and how a place in it is called, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
    #: of those that are there and stay otherwise than they would be added: what is otherwise
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


def addition(wanted: Sequence[Tenant], known: Iterable[Tenant]) -> Addition:
    """Hold tenants that are to be added against those that were ever added."""
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
            if what := _differs(before, tenant):
                found.differs[tenant.name] = what
            is_there = f"tenant {tenant.name} is there already, {before.state}"
            found.there_faults[place] = f"{is_there}; leave it out, or skip those"
        first.setdefault(tenant.name, place)
    return found


def _differs(there: Tenant, listed: Tenant) -> str:
    """What of a tenant that is there is otherwise than it would be added; empty: nothing."""
    pairs = zip(_settings(there), _settings(listed), strict=True)
    return ", ".join(f"{has} (listed: {would})" for has, would in pairs if has != would)


def _settings(tenant: Tenant) -> tuple[str, ...]:
    limits = tenant.throttle
    said = {
        "weight": tenant.weight,
        "records_per_s": limits.records_per_s,
        "bytes_per_s": limits.bytes_per_s,
        "burst_s": limits.burst_s,
    }
    shown = [f"{key} {'none' if value is None else f'{value:.15g}'}" for key, value in said.items()]
    return (tenant.state.value, *shown)


def _fault(tenant: Tenant, before: Tenant | None) -> str | None:
    try:
        check(tenant)
        if before is None or before.state is State.REMOVED:
            check_may_be_added(tenant.name, before)
    except ConfigError as error:
        return str(error)
    return None
