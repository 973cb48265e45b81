"""A stream as a driver holds it: what was decided, what is known, and what holds it back.

What may run of it now follows from that and from its lanes alone, so it is asked here and not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.board.lanes import Lane
from headrace.model.lane_names import in_order
from headrace.model.plans import Cost, StreamView
from headrace.model.records import Deployment
from headrace.model.streams import State, Stream, Tenant


class Allowance(NamedTuple):
    """What a stream may take now; None is no limit."""

    records: int | None
    bytes: int | None


NO_LIMIT = Allowance(None, None)


@dataclass(slots=True)
class HeldStream:
    """A stream this driver holds."""

    stream: Stream
    tenant: Tenant
    deployment: Deployment
    epoch: int
    #: by name, in the order of names
    lanes: dict[str, Lane] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    credit_s: float = 0.0
    #: shares bins only with streams of the same label; empty is no suspicion
    apart: str = ""
    #: it hung, or killed its worker, when it was last alone
    hung: bool = False
    #: most records of its next slices, after trouble; None is no limit
    most_records: int | None = None
    #: its tenant's throttle held something of it back in the last turn
    throttled: bool = False
    #: the epoch since which its topic is this one; what was recorded before is of another
    topic_since: int = 0
    #: why nothing of it is planned although it is active, such as a topic that is not there yet
    waiting: str | None = None
    #: why nothing of it is planned for a moment: until somebody has looked at its topic
    looked_at: str | None = None
    #: how often its topic was doubted: answers from before are not to be believed
    doubts: int = 0
    #: why its lanes cannot be put in order for longer than a moment
    blind: str | None = None
    #: why what was recorded of it can not run here, and holds it back until somebody decides
    owes: str | None = None

    @property
    def merges(self) -> bool:
        """Whether its lanes are put in one order."""
        return self.deployment.order.merges_lanes and len(self.lanes) > 1

    @property
    def waits(self) -> str | None:
        """Why nothing of it runs or is planned although it is active; None if nothing is wrong."""
        return self.waiting or self.owes or self.looked_at

    @property
    def state(self) -> State:
        """Active only if both tenant and stream are."""
        return self.tenant.state if self.tenant.state is not State.ACTIVE else self.stream.state

    @property
    def finished(self) -> bool:
        """Whether it is a rerun that has come to its end."""
        until = self.deployment.until
        return bool(until) and all(
            name in self.lanes and self.lanes[name].position >= end
            for name, end in (until or {}).items()
        )

    def bounded(self, name: str, end: int) -> int:
        """Where a lane ends for it, if its log ends at ``end``."""
        until = self.deployment.until
        return end if until is None else min(end, until.get(name, 0))

    def add_lanes(self, positions: Mapping[str, int]) -> None:
        """Have lanes that it had not, each at its position."""
        lanes = self.lanes | {name: Lane(at) for name, at in positions.items()}
        self.lanes = {name: lanes[name] for name in in_order(lanes)}

    @property
    def lag_records(self) -> int:
        """Over all lanes."""
        return sum(lane.lag_records for lane in self.lanes.values())

    @property
    def has_work(self) -> bool:
        """Whether it has something to run, now or by itself later, without anybody's decision."""
        if self.state is not State.ACTIVE or self.waits:
            return False
        going = [lane for lane in self.lanes.values() if lane.failure is None]
        if self.deployment.order.merges_lanes and len(going) < len(self.lanes):
            return False
        return any(lane.end > lane.position for lane in going)

    def runnable(self, now_s: float) -> bool:
        """Whether the planner should see it."""
        if self.state is not State.ACTIVE or self.waits:
            return False
        held_back = [lane.held_back(now_s) for lane in self.lanes.values()]
        if self.deployment.order.merges_lanes and any(held_back):
            return False
        return any(
            not stopped and lane.wave is None and lane.end > lane.position
            for lane, stopped in zip(self.lanes.values(), held_back, strict=True)
        )

    def view(self, now_s: float, allowance: Allowance = NO_LIMIT) -> StreamView:
        """What the planner is shown of it."""
        merged = self.merges
        lanes = tuple(
            lane.view(name, merged=merged)
            for name, lane in self.lanes.items()
            if not lane.held_back(now_s)
        )
        records = allowance.records
        if self.most_records is not None:
            records = self.most_records if records is None else min(records, self.most_records)
        return StreamView(
            id=self.stream.id,
            topic=self.stream.topic,
            lanes=lanes,
            order=self.deployment.order,
            epoch=self.epoch,
            weight=self.tenant.weight * self.deployment.priority * self.deployment.share,
            cost=self.cost,
            credit_s=self.credit_s,
            allowance_records=records,
            allowance_bytes=allowance.bytes,
            apart=self.apart,
            hung=self.hung,
            call_limit_s=self.deployment.handler_timeout_s,
        )
