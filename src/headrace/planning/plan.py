"""The decision as a whole: from what is known to what is started.

The steps are in files of their own; `headrace.planning` says what they promise together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from headrace.model.places import Places
from headrace.model.plans import Credit, Limits, Plan, Snapshot
from headrace.model.streams import StreamId
from headrace.planning.demand import find_demands
from headrace.planning.kinds import Group
from headrace.planning.packing import pack, worth_opening
from headrace.planning.shares import (
    Claim,
    apportion,
    credit_after,
    make_claims,
    share_seconds,
    share_slots,
)
from headrace.planning.slices import Cut, cut
from headrace.planning.waves import make_waves

#: lanes of a stream stay together up to this part of a bin; larger pieces would pack badly
SMALL_CUTS = 4
#: and a lane by itself up to this part, where there is one bin
LONG_CUTS = 2


def plan(snapshot: Snapshot, places: Places) -> Plan:
    """Decide what to start now. Pure: the same snapshot gives the same plan, in any order.

    Args:
        snapshot: everything the decision depends on.
        places: of the log, which bounds the slices.
    """
    claims = make_claims(find_demands(snapshot), snapshot)
    groups = _groups(claims)
    slots = share_slots(groups, snapshot)
    for name, count in slots.items():
        share_seconds(groups[name], count * snapshot.limits.bin_budget_s)
    cuts = {name: _cut(groups[name], count, snapshot.limits) for name, count in slots.items()}
    slots = _spread(slots, cuts, snapshot)
    packed = {name: pack(cuts[name], slots[name], snapshot.limits) for name in slots}
    waves = make_waves(packed, snapshot, places)
    return Plan(tuple(waves), _credits(claims, packed, snapshot))


def _groups(claims: Iterable[Claim]) -> dict[Group, list[Claim]]:
    groups: dict[Group, list[Claim]] = defaultdict(list)
    for claim in claims:
        groups[claim.demand.group].append(claim)
    return groups


def _cut(claims: Iterable[Claim], slots: int, limits: Limits) -> list[Cut]:
    small_s = limits.bin_budget_s / SMALL_CUTS
    # In a single bin nothing has to fit beside something else.
    worth_s = limits.bin_budget_s / LONG_CUTS if slots == 1 else small_s
    return cut(claims, min(limits.min_bin_s, small_s), worth_s)


def _spread(
    slots: Mapping[Group, int], cuts: Mapping[Group, Sequence[Cut]], snapshot: Snapshot
) -> dict[Group, int]:
    """Give slots that nobody needs to those whose work can be done sooner with them."""
    work_s = {name: sum(piece.room_s for piece in cuts[name]) for name in slots}
    most = {
        name: min(len(cuts[name]), worth_opening(work_s[name], snapshot.limits)) for name in slots
    }
    return apportion(slots, snapshot.free_slots - sum(slots.values()), work_s, most)


def _credits(
    claims: Sequence[Claim], packed: Mapping[Group, Sequence[Sequence[Cut]]], snapshot: Snapshot
) -> tuple[Credit, ...]:
    planned_s: dict[StreamId, float] = defaultdict(float)
    for bins in packed.values():
        for bin_ in bins:
            for piece in bin_:
                planned_s[piece.demand.view.id] += piece.seconds
    capacity_s = snapshot.free_slots * snapshot.limits.bin_budget_s
    scarce = sum(claim.wanted_s for claim in claims) > capacity_s
    return tuple(
        Credit(
            claim.demand.view.id,
            credit_after(claim, planned_s[claim.demand.view.id], scarce=scarce),
        )
        for claim in claims
    )
