"""What changed since somebody last looked: one state for all clients, encoded once.

A page wants everything once and then only what changed. To keep what each client still has to get
would cost memory for each that does not read. So nothing is kept for a client but the number of
the state it was given last; every row knows the number of the state in which it changed, and what
a client is to get is made from the two. A client that was slow so skips states and misses no row.
What many clients need at the same number is made once.

Pure: no clock and no threads. How it reaches clients is in ``live``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace.console.rows import Values
from headrace.console.watcher import StoreView

#: a client that is so many states behind gets everything anew
REMEMBERED = 60
#: no client has got anything yet
NOTHING = -1
#: different encodings kept of one state
_MOST_KEPT = 64


@dataclass(slots=True)
class _Rows:
    """Rows by key, and the number of the state in which each changed last."""

    rows: dict[str, Values] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)

    def take(self, rows: Mapping[str, Values], number: int) -> None:
        for key, row in rows.items():
            if self.rows.get(key) != row:
                self.changed[key] = number
                self.gone.pop(key, None)
        for key in self.rows.keys() - rows.keys():
            self.gone[key] = number
            del self.changed[key]
        self.gone = {key: at for key, at in self.gone.items() if at > number - REMEMBERED}
        self.rows = dict(rows)

    def since(self, number: int) -> tuple[list[Values], list[str]]:
        items = [self.rows[key] for key, at in self.changed.items() if at > number]
        return items, [key for key, at in self.gone.items() if at > number]


class Feed:
    """The latest state, for everybody or for one tenant. Used on the event loop alone."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.number = NOTHING
        self._tenants = _Rows()
        self._waves = _Rows()
        self._use_cases = _Rows()
        self._alerts: tuple[Values, ...] = ()
        self._alerts_changed = 0
        self._summary: Values = {}
        self._encoded: dict[tuple[str | None, int], bytes] = {}

    def take(self, snapshot: StoreView) -> None:
        """Have a new state."""
        self.number += 1
        here = {
            name: row for name, row in snapshot.tenant_rows.items() if row["state"] != "removed"
        }
        self._tenants.take(here, self.number)
        self._waves.take({wave["wave"]: wave for wave in snapshot.wave_rows}, self.number)
        self._use_cases.take(snapshot.use_case_rows_in_use, self.number)
        if snapshot.alert_rows != self._alerts:
            self._alerts, self._alerts_changed = snapshot.alert_rows, self.number
        self._summary = snapshot.summary
        self._encoded.clear()

    def generation(self, tenant: str | None) -> int | None:
        """Which of the tenants of its name a tenant is; None if it is not there."""
        row = None if tenant is None else self._tenants.rows.get(tenant)
        return None if row is None else row["generation"]

    def since(self, number: int, tenant: str | None) -> bytes:
        """Events for who has the state of this number (or ``NOTHING``).

        Args:
            number: of the state that was given last.
            tenant: who sees itself only; None sees everybody.

        Returns:
            Server-sent events; empty if nothing changed that concerns them.
        """
        known = number if number > self.number - REMEMBERED else NOTHING
        found = self._encoded.get((tenant, known))
        if found is None:
            events = self._of_all(known) if tenant is None else self._of_one(known, tenant)
            found = b"".join(_event(name, data) for name, data in events)
            if len(self._encoded) < _MOST_KEPT:
                self._encoded[(tenant, known)] = found
        return found

    def _of_all(self, known: int) -> Iterable[tuple[str, Values]]:
        whole = known == NOTHING
        yield "drivers", self._summary
        items, gone = self._tenants.since(known)
        if whole or items or gone:
            yield "tenants", {"whole": whole, "items": items, "gone": gone}
        for name, rows in (("waves", self._waves), ("use-cases", self._use_cases)):
            items, gone = rows.since(known)
            if whole or items or gone:
                yield name, {"whole": whole, "items": items, "gone": gone}
        if whole or self._alerts_changed > known:
            yield "alerts", {"items": self._alerts}

    def _of_one(self, known: int, tenant: str) -> Iterable[tuple[str, Values]]:
        whole = known == NOTHING
        row = self._tenants.rows.get(tenant)
        changed = row is not None and self._tenants.changed[tenant] > known
        gone = [tenant] if self._tenants.gone.get(tenant, NOTHING) > known else []
        if whole or changed or gone:
            items = [row] if changed else []
            yield "tenants", {"whole": whole, "items": items, "gone": gone}
        if whole or self._alerts_changed > known:
            yield (
                "alerts",
                {"items": [alert for alert in self._alerts if alert["tenant"] == tenant]},
            )


def _event(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data))
