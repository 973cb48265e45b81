"""A plain simulation of the loop: plan, run, settle, learn, over again.

Slots become free one by one, as bins end, and each time a turn is planned for what is free. What
records cost is not what the planner thinks: a bin that takes too long yields at the next portion of
records, and one that is quicker ends sooner. Nothing is random, and time is a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from headrace.connectors.kafka import OFFSETS
from headrace.model.lane_names import number_of
from headrace.model.plans import Cost, LaneView, Limits, Plan, Snapshot, StreamView
from headrace.model.streams import Slice, StreamId
from headrace.model.waves import Bin
from headrace.planning import check, plan
from headrace.planning.shares import CREDIT_BINS
from headrace.policies.cost import learn
from headrace.policies.fairness import settled

#: records a handler is given at once
PORTION = 20
RECORD_BYTES = 10
#: records that wait in each lane of a stream that always has more than it gets
ENDLESS = 10**7


@dataclass
class Tenant:
    """A stream as it really is."""

    name: str
    #: real seconds of a record, by turn
    record_s: Callable[[int], float]
    weight: float = 1.0
    lanes: int = 12
    #: what the planner thinks
    cost: Cost = field(default_factory=lambda: Cost(bytes_per_record=RECORD_BYTES))
    credit_s: float = 0.0
    used_s: float = 0.0
    #: turns in which it got nothing, since it last got something, and its largest debt meanwhile
    waited_turns: int = 0
    debt_s: float = 0.0
    running: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Every lane begins at its beginning."""
        self.positions = [0] * self.lanes

    @property
    def stream(self) -> StreamId:
        """Its stream."""
        return StreamId("score", self.name)

    def view(self) -> StreamView:
        """What the planner is shown."""
        return StreamView(
            self.stream,
            f"{self.name}.visits",
            tuple(
                LaneView(
                    f"{self.name}.visits[{number}]",
                    position,
                    position + ENDLESS,
                    ENDLESS,
                    number in self.running,
                )
                for number, position in enumerate(self.positions)
            ),
            weight=self.weight,
            cost=self.cost,
            credit_s=self.credit_s,
        )


@dataclass
class Done:
    """A slice that came back."""

    slice: Slice
    predicted_s: float
    records: int = 0
    seconds: float = 0.0


@dataclass
class Loop:
    """Tenants on so many slots."""

    tenants: dict[StreamId, Tenant]
    slots: int
    limits: Limits
    turn: int = 0
    now_s: float = 0.0
    #: slots left free, over all turns
    idle: int = 0
    #: most turns anybody waited, as a part of the bound that is promised
    worst_wait: float = 0.0
    #: bins in flight: their end, a number, and what comes back
    flights: list[tuple[float, int, list[Done]]] = field(default_factory=list)

    def run(self, turns: int) -> None:
        """So many turns."""
        for _ in range(turns):
            self.step()

    def step(self) -> Plan:
        """One turn, and then time until a bin ends."""
        views = tuple(tenant.view() for tenant in self.tenants.values())
        free = self.slots - len(self.flights)
        asked = Snapshot(f"turn-{self.turn}", views, free, self.limits)
        made = plan(asked, OFFSETS)
        assert check(asked, made, OFFSETS) == []
        for credit in made.credits:
            self.tenants[credit.stream].credit_s = credit.credit_s
        self._count_waits({piece.lane.stream for wave in made.waves for piece in wave.slices})
        for number, bin_made in enumerate(bin_ for wave in made.waves for bin_ in wave.bins):
            self._start(bin_made, number)
        self.idle += self.slots - len(self.flights)
        self.turn += 1
        self._end()
        return made

    def used_since(self, before_s: dict[StreamId, float]) -> dict[StreamId, float]:
        """Real seconds of each tenant since a moment."""
        return {
            name: tenant.used_s - before_s.get(name, 0.0) for name, tenant in self.tenants.items()
        }

    def used(self) -> dict[StreamId, float]:
        """Real seconds of each tenant so far."""
        return self.used_since({})

    def worst_share(self, used_s: dict[StreamId, float]) -> float:
        """How far the farthest tenant is from its share by weight, as a part of that share."""
        all_s, weights = (
            sum(used_s.values()),
            sum(tenant.weight for tenant in self.tenants.values()),
        )
        shares_s = {name: all_s * tenant.weight / weights for name, tenant in self.tenants.items()}
        return max(abs(used_s[name] / share_s - 1.0) for name, share_s in shares_s.items())

    def _count_waits(self, served: set[StreamId]) -> None:
        weights = sum(tenant.weight for tenant in self.tenants.values())
        for name, tenant in self.tenants.items():
            tenant.debt_s = max(-tenant.credit_s, tenant.debt_s if tenant.waited_turns else 0.0)
            tenant.waited_turns = 0 if name in served else tenant.waited_turns + 1
            behind = 1.0 + tenant.debt_s / self.limits.bin_budget_s
            most_turns = 3.0 * (len(self.tenants) + weights / tenant.weight * behind)
            self.worst_wait = max(self.worst_wait, tenant.waited_turns / most_turns)

    def _start(self, planned: Bin, number: int) -> None:
        left_s, came_back = self.limits.bin_budget_s, []
        for piece in planned.slices:
            tenant = self.tenants[piece.lane.stream]
            tenant.running.add(number_of(piece.lane.name))
            done = _run(piece, tenant, self.turn, left_s)
            left_s -= done.seconds
            came_back.append(done)
        end_s = self.now_s + sum(done.seconds for done in came_back)
        heappush(self.flights, (end_s, self.turn * self.slots + number, came_back))

    def _end(self) -> None:
        self.now_s, _, came_back = heappop(self.flights)
        most_s = CREDIT_BINS * self.limits.bin_budget_s
        for done in came_back:
            partition = number_of(done.slice.lane.name)
            tenant = self.tenants[done.slice.lane.stream]
            tenant.running.remove(partition)
            tenant.positions[partition] += done.records
            tenant.used_s += done.seconds
            tenant.credit_s = settled(tenant.credit_s, done.predicted_s, done.seconds, most_s)
            if done.records:
                bytes_ = done.records * RECORD_BYTES
                tenant.cost = learn(tenant.cost, done.records, bytes_, done.seconds)


def _run(piece: Slice, tenant: Tenant, turn: int, left_s: float) -> Done:
    cost = tenant.cost
    done = Done(piece, cost.seconds_per_slice + piece.records * cost.seconds_per_record)
    while done.records < piece.records and done.seconds < left_s:
        records = min(PORTION, piece.records - done.records)
        done.records += records
        done.seconds += records * tenant.record_s(turn)
    return done


def loop(*tenants: Tenant, slots: int) -> Loop:
    limits = Limits(slice_records=ENDLESS)
    return Loop({tenant.stream: tenant for tenant in tenants}, slots, limits)
