"""Since when a tenant's name is that of the tenant who has it now, remembered for a moment.

A token is signed elsewhere and names a tenant. Whether that is the tenant of today, or one before
it, only the store knows; and as with keys (``key_ring``), it is not asked at each request, and a
store that does not answer keeps nobody out for some minutes who was let in before.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from headrace.doors.key_ring import REMEMBERED_S, USABLE_S
from headrace.doors.outage import Outage
from headrace.doors.remembered import Remembered
from headrace.errors import StoreUnavailable, StoreUnusable
from headrace.ports import Keys

log = structlog.get_logger(__name__)


class Names:
    """Asks the store for one name at a time. Safe in several threads."""

    def __init__(self, keys: Keys, steady: Callable[[], float]) -> None:
        """Take whom to ask, and seconds that never go back."""
        self._keys = keys
        self._steady = steady
        self._remembered: Remembered[float | None] = Remembered()
        self._outage = Outage()

    def __call__(self, tenant: str) -> float | None:
        """Seconds since 1970; None: no other tenant had it before.

        Raises:
            StoreUnavailable, StoreUnusable: nobody can say.
        """
        found, now_s = self._remembered.get(tenant), self._steady()
        if found is not None and now_s - found[1] < REMEMBERED_S:
            return found[0]
        try:
            since_s = self._keys.added_again_s(tenant)
        except (StoreUnavailable, StoreUnusable) as error:
            if found is None or now_s - found[1] >= USABLE_S:
                raise
            if self._outage.begins():
                log.warning("tokens are believed without the store", error=str(error))
            return found[0]
        if self._outage.ends():
            log.info("tokens are compared with the store again")
        self._remembered.put(tenant, since_s, now_s)
        return since_s
