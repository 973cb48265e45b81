"""The delay that a visit typically has in the first act.

The demo makes some visits wait: those that come while Spark starts its workers, those of a tenant
that it suspends, and those of one that it adds late. Their delays are true and say nothing about a
service that runs; so they are left out, and it is said that they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from headrace.cycle.driver import Driver
from headrace.demo.scenario import HELD, KAFKA
from headrace.demo.visits import GUEST
from headrace.ports import WaveResult

#: after the first visit was done, until every worker is warm
WARM_S = 5.0


@dataclass(slots=True)
class TypicalDelays:
    """Delays of the visits that nobody made wait."""

    #: what visits go through
    log: str = KAFKA
    began_s: float | None = None
    delays: list[float] = field(default_factory=list)

    def add(self, result: WaveResult, now_s: float) -> None:
        """Take one wave that was just committed."""
        for receipt in result.receipts:
            if receipt.records and self.began_s is None:
                self.began_s = now_s
            if self.began_s is None or receipt.slice.lane.tenant in (*HELD, GUEST):
                continue
            from_s = self.began_s + WARM_S
            self.delays += [
                now_s - stamp_s for stamp_s in receipt.timestamps_s if stamp_s >= from_s
            ]

    @property
    def told(self) -> str:
        """What is shown with the report."""
        if not self.delays:
            return "typical delay: too few visits came once Spark was warm to tell"
        p50_s, p99_s = np.quantile(self.delays, [0.5, 0.99])
        return (
            f"typical delay of a visit, from {self.log} to done: p50 {p50_s:.2f} s, "
            f"p99 {p99_s:.2f} s; without those of the first {WARM_S:g} s, while Spark warms up, "
            f"and without {' and '.join(sorted(HELD))}, which the demo made wait"
        )


def listen(driver: Driver, hear: Callable[[WaveResult], None]) -> None:
    """Have each wave heard that the driver commits."""
    inner = driver.applier.on_result

    def on_result(result: WaveResult) -> None:
        inner(result)
        hear(result)

    driver.applier.on_result = on_result
