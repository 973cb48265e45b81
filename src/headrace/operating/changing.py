"""The state of many tenants: what would become of whom, and what is wrong with which.

As with adding (``adding.py``), who has to mend a list wants to hear of all that is wrong in it at
once, each by its place, before anything is done. So the list is held against what is there here,
for terminal and HTTP alike; the store then changes all or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.errors import ConfigError, no_tenant, tenant_removed
from headrace.model.streams import State, Tenant
from headrace.store.tenants import check_name


@dataclass(slots=True)
class StateChange:
    """What becomes of tenants that are to have a state."""

    state: State
    #: all of them, as they are now
    wanted: list[Tenant] = field(default_factory=list)
    #: names whose state would be another
    changed: list[str] = field(default_factory=list)
    #: names that have this state already
    already: list[str] = field(default_factory=list)
    #: place in the list -> why that one cannot have it
    faults: dict[int, str] = field(default_factory=dict)

    def values(self) -> dict[str, object]:
        """It, for programs."""
        return {"state": self.state.value, "changed": self.changed, "already": self.already}


def state_change(names: Sequence[str], state: State, known: Iterable[Tenant]) -> StateChange:
    """Hold the names of tenants that are to have a state against those that were ever added."""
    tenants = {tenant.name: tenant for tenant in known}
    found, seen = StateChange(state), set[str]()
    for place, name in enumerate(names):
        tenant = tenants.get(name)
        if tenant is None:
            found.faults[place] = _unknown(name)
        elif name in seen:
            found.faults[place] = f"tenant {name} is in the list twice; leave one out"
        elif tenant.state is State.REMOVED and state is not State.REMOVED:
            found.faults[place] = str(tenant_removed(name))
        else:
            found.wanted.append(tenant)
            (found.already if tenant.state is state else found.changed).append(name)
        seen.add(name)
    return found


def _unknown(name: str) -> str:
    """What is said of somebody who was never added; a name that cannot be is not sent on as it is.

    It may be of a file from elsewhere, and hold what a terminal obeys.
    """
    try:
        check_name(name)
    except ConfigError as error:
        return str(error)
    return str(no_tenant(name))
