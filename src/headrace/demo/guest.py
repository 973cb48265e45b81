"""The guest: whoever runs the demo, posts a visit by hand, and wants to see what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.connectors.sql.guests import in_sql
from headrace.demo.visits import GUEST
from headrace.model.streams import StreamId
from headrace.running.assembly import Assembly

_STREAM = StreamId("score", GUEST)


@dataclass(slots=True)
class GuestBook:
    """Tells when a guest's visit has had its effect."""

    made: Assembly
    tell: Callable[[str], None]
    _seen: int = 0

    def poll(self) -> None:
        """Called after every turn; asks the database only if something was committed."""
        meter = self.made.driver.reporter.meters.get(_STREAM)
        if meter is None or meter.records_total == self._seen:
            return
        self._seen = meter.records_total
        with in_sql(self.made.store.positions).begin() as connection:
            rows = connection.exec_driver_sql(
                "SELECT lead, score, visits FROM scores WHERE tenant = 'guest' ORDER BY lead"
            ).all()
        scores = ", ".join(f"{row[0]} has {row[1]} points after {row[2]} visits" for row in rows)
        self.tell(f"your visit is scored, kept and mailed: {scores}")
