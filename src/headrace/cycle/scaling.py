"""How many slots the driver uses: few when there is little to do, more when work piles up.

Executors cost money while they idle. Once a second what was used and what waits is handed to
`policies/elasticity.py`, which says how many slots there should be, and the engine is asked for
them. Executors take seconds to come, so the driver plans on those that are there.

On a fixed number of executors nothing of this is needed: then the engine's own slots are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import structlog

from headrace.board import HeldStream
from headrace.model.streams import State
from headrace.policies.elasticity import Load, Scale, SlotLimits, scaled
from headrace.ports import WaveResult

log = structlog.get_logger(__name__)

EVERY_S = 1.0


@dataclass(slots=True)
class Scaling:
    """The slot target."""

    limits: SlotLimits
    scale: Scale = field(init=False)
    _busy_s: float = 0.0
    _looked_at_s: float = float("-inf")

    def __post_init__(self) -> None:
        """Begin with the least."""
        self.scale = Scale(self.limits.least)

    @property
    def slots(self) -> int:
        """Tasks that should be able to run at once."""
        return self.scale.slots

    def add(self, result: WaveResult) -> None:
        """Count the task-seconds of a wave that came back."""
        self._busy_s += sum(receipt.seconds for receipt in result.receipts)

    def poll(
        self, streams: Iterable[HeldStream], there: int, overhead_s: float, now_s: float
    ) -> bool:
        """Set the target anew, once a second.

        Args:
            streams: those that may have something to do.
            there: slots that can be used now.
            overhead_s: what a bin costs its slot besides its work.
            now_s: monotonic.

        Returns:
            Whether it was time to.
        """
        seconds = now_s - self._looked_at_s
        if seconds < EVERY_S:
            return False
        self._looked_at_s = now_s
        busy_s, self._busy_s = self._busy_s, 0.0
        if seconds == float("inf"):
            return False
        backlog_s = sum(_backlog_s(held, now_s, self.limits.target_delay_s) for held in streams)
        cost = 1.0 + overhead_s / self.limits.bin_s
        coming = there < self.scale.slots
        load = Load(now_s, seconds, cost * busy_s, cost * backlog_s, coming=coming)
        before, self.scale = self.scale.slots, scaled(self.scale, load, self.limits)
        if before != self.scale.slots:
            log.info(
                "slots", slots_before=before, slots=self.scale.slots, backlog_s=round(backlog_s, 2)
            )
        return True


def _backlog_s(held: HeldStream, now_s: float, most_s: float) -> float:
    """Predicted task-seconds of what waits or runs; a lane, or merged ones, use one slot each."""
    if held.state is not State.ACTIVE or held.waits:
        return 0.0
    cost = held.cost
    lags = [
        lane.lag(held.measures)
        for lane in held.lanes.values()
        if lane.end > lane.position and (lane.wave or not lane.held_back(now_s))
    ]
    if lags and held.merges:
        lags = [sum(lags)]
    return sum(min(most_s, cost.seconds_per_slice + lag * cost.seconds_per_record) for lag in lags)
