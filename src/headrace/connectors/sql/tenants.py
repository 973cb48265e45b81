"""Tables of which each tenant has one, in a database of its own (``connectors/tenants.py``)."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headrace.connectors.sql.writer import SqlTableWriter
from headrace.connectors.tenants import TenantsWriter
from headrace.ports import Effect


@dataclass(slots=True)
class SqlTenantsWriter(TenantsWriter[SqlTableWriter]):
    """Writes the effects of each tenant to its own database, in one bin."""

    def check_effect(self, effect: Effect) -> None:
        """See that the tenant's database takes the rows of an effect, and keep none of them.

        Raises:
            HeadraceError: it does not, or cannot be asked now.
        """
        until_s = time.monotonic() + self._moment_s()
        self._opened(effect.slices[0].lane.tenant, until_s).check_effect(effect)
