"""Tables of which each tenant has one, in a database of its own.

Whose they are is not known at a deploy. So a table is made, or looked at, by the task that first
writes to it, once in a process for each tenant. What one of these databases does costs the effects
of its own tenant: a table that does not fit, or a connection that is not there, stops that tenant's
lanes and no others.

They are written to one after the other, so one that does not answer holds up who shares the bin:
for a few seconds (`servers.IN_COMPANY`), and once. What it took is told as its own, and an error
after so long as one that hurts neighbours, upon which its stream runs in bins of its own until it
comes through. One that fails at once stays where it is: a server of all tenants that is down would
have as many bins otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.connectors.outcomes import failed
from headrace.connectors.sql.writer import SqlTableWriter
from headrace.errors import (
    ConfigError,
    HeadraceError,
    SinkUnavailable,
    TargetMissing,
    TenantsSinkSlow,
)
from headrace.ports import Effect, Written

#: seconds of a write that came to nothing which neighbours do not have to bear again
LONG_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class TenantsWriter:
    """Writes the effects of each tenant with a writer of its own."""

    #: of a tenant; raises what makes that impossible
    opened: Callable[[str], SqlTableWriter]
    #: what is known of the tables of a tenant
    forget: Callable[[str], None]

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        places: dict[str, list[int]] = {}
        for place, effect in enumerate(effects):
            places.setdefault(_tenant(effect), []).append(place)
        outcomes: dict[int, Written] = {}
        for tenant, mine in places.items():
            began_s = time.monotonic()
            told = self._write_of(tenant, [effects[place] for place in mine])
            took_s = time.monotonic() - began_s
            outcomes.update(
                (place, _charged(one, took_s, len(mine)))
                for place, one in zip(mine, told, strict=True)
            )
        return [outcomes[place] for place in range(len(effects))]

    def check_effect(self, effect: Effect) -> None:
        """See that the tenant's database takes the rows of an effect, and keep none of them.

        Raises:
            HeadraceError: it does not, or cannot be asked now.
        """
        self._opened(_tenant(effect)).check_effect(effect)

    def close(self) -> None:
        """Nothing to give up: connections are kept for the next bin."""

    def _write_of(self, tenant: str, effects: Sequence[Effect]) -> Sequence[Written]:
        try:
            writer = self._opened(tenant)
        except HeadraceError as error:
            return [failed(error)] * len(effects)
        told = writer.write(effects)
        if any(one.error and one.error.code == TargetMissing.__name__ for one in told):
            # When a person resumes its lanes, the table is looked at again, or made.
            self.forget(tenant)
        return told

    def _opened(self, tenant: str) -> SqlTableWriter:
        try:
            return self.opened(tenant)
        except ConfigError as error:
            # No record is to blame, and no other tenant.
            raise TargetMissing(f"tenant {tenant}: {error}") from error


def _charged(written: Written, took_s: float, of_so_many: int) -> Written:
    error = written.error
    if error is not None and took_s > LONG_S and error.code == SinkUnavailable.__name__:
        error = replace(error, code=TenantsSinkSlow.__name__)
    return replace(written, error=error, seconds=took_s / of_so_many)


def _tenant(effect: Effect) -> str:
    return effect.slices[0].lane.tenant
