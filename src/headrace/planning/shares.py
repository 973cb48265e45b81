"""Step 2: what each stream may have of this turn.

Capacity is divided in task-seconds, since records and bytes say nothing of what a tenant costs.
Three questions in turn. *How high is the water?* Weighted max-min fairness: all claims rise
together in proportion to their weights until the capacity is used, and who needs less leaves the
rest to the others (Bertsekas and Gallager, Data Networks, 6.5.2). *Whose slots?* A bin is of one
group (`kinds`), so slots are divided first. *How many records?* Whole records only; what a stream
was owed and did not get is its credit in the next turn, and what it got too much its debt, as in
deficit round robin (Shreedhar and Varghese, 1995).

Bins are not made here; a share may yet be trimmed where bins cannot hold it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeVar

from headrace.model.plans import Snapshot
from headrace.planning.demand import Demand
from headrace.planning.kinds import EPSILON_S, Group

_Name = TypeVar("_Name")

#: credit and debt are remembered up to so many bins
CREDIT_BINS = 16
#: and the debt of a stream that runs apart up to so many calls that hang, or it would have the slot
#: again before the others had theirs for as long
DEBT_CALLS = 4


@dataclass(slots=True, eq=False)
class Claim:
    """What one stream may have."""

    demand: Demand
    #: seconds of bins it could use
    wanted_s: float
    #: task-seconds it was owed when the turn began
    credit_s: float
    weight: float
    #: task-seconds it may have by now: its credit, and its part of this turn
    owed_s: float = 0.0
    #: records shared out to it
    records: int = 0

    @property
    def rank(self) -> float:
        """How long it has waited, in seconds of one unit of weight; the highest goes first."""
        return self.credit_s / self.weight


def make_claims(demands: Sequence[Demand], snapshot: Snapshot) -> list[Claim]:
    """What each stream is owed in this turn, all use cases together.

    On exit: `owed_s` over all streams, each between nothing and what it wants, is the capacity.
    """
    claims = [
        Claim(
            demand,
            demand.room_for(demand.records),
            _bounded(demand.view.credit_s, demand),
            demand.view.weight,
        )
        for demand in demands
    ]
    capacity_s = snapshot.free_slots * snapshot.limits.bin_budget_s
    height_s = water_level(claims, capacity_s)
    if math.isinf(height_s) and claims:
        # Enough for all; but slots may be too few for all groups, and waiting must count.
        height_s = capacity_s / sum(claim.weight for claim in claims)
    for claim in claims:
        claim.owed_s = claim.credit_s + height_s * claim.weight
    return claims


def water_level(claims: Sequence[Claim], capacity_s: float) -> float:
    """Seconds for each unit of weight at which the claims fill the capacity.

    A claim takes `credit + level * weight`, but not less than nothing nor more than it wants.
    0 if credits alone fill the capacity; infinite if there is enough for all.
    """
    if sum(claim.wanted_s for claim in claims) <= capacity_s:
        return math.inf
    filled_s, slope, turns = 0.0, 0.0, []
    for claim in claims:
        credit_s, weight = claim.credit_s, claim.weight
        if credit_s >= claim.wanted_s:
            filled_s += claim.wanted_s
            continue
        if credit_s >= 0:
            filled_s += credit_s
            slope += weight
        else:
            turns.append((-credit_s / weight, weight))
        turns.append(((claim.wanted_s - credit_s) / weight, -weight))
    height_s = 0.0
    if filled_s >= capacity_s:
        return 0.0
    for next_s, change in sorted(turns):
        rise_s = (next_s - height_s) * slope
        if slope > 0 and filled_s + rise_s >= capacity_s:
            return height_s + (capacity_s - filled_s) / slope
        filled_s += rise_s
        height_s, slope = next_s, slope + change
    return height_s


def share_slots(groups: Mapping[Group, list[Claim]], snapshot: Snapshot) -> dict[Group, int]:
    """Slots of each group that has any.

    A group is due if anybody in it is owed anything. Each that is due has one slot; with fewer
    slots than that, those go first whose stream has waited longest. The rest goes by what is owed,
    never more than a group can use. Who only has debts gets what nobody else can use, or a group of
    few streams would have as many slots as one of many.

    On exit: a group without a slot has a stream with a credit that grows until it is first, or only
    such as had more than their part.
    """
    ranks = {name: max(claim.rank for claim in claims) for name, claims in groups.items()}
    waited = sorted(groups, key=lambda name: (-ranks[name], name.kind, name))
    budget_s = snapshot.limits.bin_budget_s
    owed_s, most = {}, {}
    for name in waited:
        owed_s[name] = sum(min(max(claim.owed_s, 0.0), claim.wanted_s) for claim in groups[name])
        wanted_s = sum(claim.wanted_s for claim in groups[name])
        most[name] = math.ceil(wanted_s / budget_s - EPSILON_S)
    due = [name for name in waited if owed_s[name] > EPSILON_S][: snapshot.free_slots]
    have = dict.fromkeys(waited, 0) | dict.fromkeys(due, 1)
    slots = apportion(have, snapshot.free_slots - len(due), owed_s, most)
    return {name: count for name, count in slots.items() if count}


def apportion(
    have: Mapping[_Name, int], spare: int, claims: Mapping[_Name, float], most: Mapping[_Name, int]
) -> dict[_Name, int]:
    """Give spare slots one by one to the largest claim for each slot it would then have (D'Hondt).

    Nobody gets more than its `most`; ties go to the first in `have`.
    """
    slots = dict(have)
    open_to = [
        (-claims[name] / (count + 1), order, name)
        for order, (name, count) in enumerate(have.items())
        if count < most[name]
    ]
    heapify(open_to)
    for _ in range(spare):
        if not open_to:
            break
        _, order, name = heappop(open_to)
        slots[name] += 1
        if slots[name] < most[name]:
            heappush(open_to, (-claims[name] / (slots[name] + 1), order, name))
    return slots


def share_seconds(claims: Sequence[Claim], capacity_s: float) -> None:
    """Give the records of one group's claims, within the capacity of its slots.

    First everybody who can begin with its own part; then one least slice to those who cannot, the
    longest waiting first; then what is left, in the same order. A slice may so be taken on debt,
    which keeps slots busy and lets everybody's turn come.

    On exit: `records` is set, and what is left of the capacity is too little for anybody who still
    wants more.
    """
    height_s = water_level(claims, capacity_s)
    if math.isinf(height_s):
        for claim in claims:
            claim.records = claim.demand.records
        return
    left_s = capacity_s
    waiting = sorted(claims, key=lambda claim: -claim.rank)
    for claim in waiting:
        part_s = min(claim.credit_s + height_s * claim.weight, claim.wanted_s, left_s)
        claim.records = claim.demand.records_in(part_s)
        left_s -= claim.demand.room_for(claim.records)
    for claim in waiting:
        begun_s = claim.demand.room_for(claim.demand.least)
        if not claim.records and begun_s <= left_s + EPSILON_S:
            claim.records = claim.demand.least
            left_s -= begun_s
    for claim in waiting:
        if left_s > 0 and claim.records < claim.demand.records:
            left_s -= _add(claim, left_s)


def _add(claim: Claim, room_s: float) -> float:
    """Give a claim what fits into so much more room; return the room it took."""
    had_s = claim.demand.room_for(claim.records)
    claim.records = max(claim.records, claim.demand.records_in(had_s + room_s))
    return claim.demand.room_for(claim.records) - had_s


def credit_after(claim: Claim, planned_s: float, *, scarce: bool) -> float:
    """What it is owed when the turn is over; less than nothing is a debt.

    Who got all it asked for is owed nothing, and owes nothing unless others went short for it. Who
    got a part is owed no more than what it missed: the water may stand far over what it asks. Who
    got nothing rises with the water, as all that wait, or their order would be lost.

    On exit: at most `CREDIT_BINS` bins either way; apart, `DEBT_CALLS` calls of debt.
    """
    asked_s = claim.demand.seconds_for(claim.demand.records)
    if planned_s + EPSILON_S >= asked_s:
        left_s = min(0.0, claim.owed_s - planned_s) if scarce else 0.0
    elif planned_s > 0:
        left_s = min(claim.owed_s, max(claim.credit_s, asked_s)) - planned_s
    else:
        left_s = claim.owed_s
    return _bounded(left_s, claim.demand)


def most_debt_s(most_credit_s: float, call_limit_s: float, *, apart: bool) -> float:
    """Task-seconds up to which the debt of a stream is remembered, alone in its bins or not."""
    return max(most_credit_s, DEBT_CALLS * call_limit_s) if apart else most_credit_s


def _bounded(credit_s: float, demand: Demand) -> float:
    most_s = CREDIT_BINS * demand.budget_s
    if -most_s <= credit_s <= most_s:
        return credit_s  # nearly everybody's, twice in each turn
    view = demand.view
    most_owed_s = most_debt_s(most_s, view.call_limit_s, apart=bool(view.apart) or view.spared)
    return min(most_s, max(-most_owed_s, credit_s))
