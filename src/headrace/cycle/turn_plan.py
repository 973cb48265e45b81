"""What a turn starts: the plan of the whole snapshot, with one slot kept for quick work.

The planner knows streams and free slots; what runs already, and what ran last, is known here. Both
together say which part of the snapshot is planned now. A plan that breaks the planner's own rules
is never carried out. Where one stream's part of it does, the others are planned without that one:
a position that can not be, or a bug of ours that one stream meets, stops nobody else.

Nothing is started here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.model.places import Places
from headrace.model.plans import Credit, Snapshot, StreamView
from headrace.model.streams import StreamId
from headrace.model.waves import Wave
from headrace.planning import PlanFault, check, plan, quick_only
from headrace.policies.express import are_held_up, hurried, is_long, new_only, with_express


@dataclass(frozen=True, slots=True)
class RunningBins:
    """What holds slots, and what ran last.

    Attributes:
        slots: free or not.
        long: bins in flight that may hold their slot for longer than the express allows.
        hung: bins in flight of streams that hung when they were last alone.
        was_long: whether the wave started last had a long bin.
        held_s: how long all slots with long bins have had theirs.
        hasty: use cases whose calls may be ended after a moment.
    """

    slots: int
    long: int
    hung: int
    was_long: bool
    held_s: float = 0.0
    hasty: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """The waves to start, each with the number of its long bins, and the credits to remember."""

    waves: tuple[tuple[Wave, int], ...]
    credits: tuple[Credit, ...]
    #: streams that are left out, as their part of a plan broke its rules, and which of them
    unfit: Mapping[StreamId, str] = field(default_factory=dict)


def plan_turn(whole: Snapshot, running: RunningBins, budget_s: float, places: Places) -> TurnPlan:
    """The plan of a turn.

    Args:
        whole: everything that could be planned, with all free slots.
        running: what runs already.
        budget_s: of a bin that is not of the express.
        places: of the log.
    """
    unfit: dict[StreamId, str] = {}
    while True:
        left = tuple(view for view in whole.streams if view.id not in unfit)
        made, faults = _plan_of(replace(whole, streams=left), running, budget_s, places)
        if not faults:
            return replace(made, unfit=unfit)
        found = {fault.stream: str(fault) for fault in faults if fault.stream is not None}
        assert found, f"the plan of turn {whole.turn} breaks its rules: {faults}"
        unfit |= found


def _plan_of(
    whole: Snapshot, running: RunningBins, budget_s: float, places: Places
) -> tuple[TurnPlan, list[PlanFault]]:
    """A plan, and what is wrong with it."""
    new_of = running.hasty if are_held_up(running.held_s, budget_s) else frozenset[str]()
    allowed = with_express(whole, running.slots, running.long, running.hung, new_of)
    express = allowed.limits.bin_budget_s < budget_s
    for snapshot in _parts(allowed, running, express=express, tries_new=bool(new_of)):
        made = plan(snapshot, places)
        if made.waves:
            break
    faults = check(snapshot, made, places)
    views = {view.id: view for view in snapshot.streams} if made.waves else {}
    express_s = snapshot.limits.express_s
    in_haste = express or any(view.spared for view in views.values())
    planned = [_hurried(wave, views, express=express) if in_haste else wave for wave in made.waves]
    waves = tuple(
        (wave, sum(is_long(bin_, views, express_s) for bin_ in wave.bins)) for wave in planned
    )
    return TurnPlan(waves, made.credits), faults


def _parts(
    snapshot: Snapshot, running: RunningBins, *, express: bool, tries_new: bool
) -> Iterator[Snapshot]:
    """Whose turn it is, and then whose it is if nothing of these can be planned."""
    if express and tries_new and not running.was_long:
        # What is new counts as long, so quick streams have the next turn.
        yield new_only(snapshot)
    # With a single slot, quick streams have the turn after each long bin.
    is_quicks = express or (running.slots == 1 and running.was_long)
    yield quick_only(snapshot) if is_quicks else snapshot


def _hurried(wave: Wave, views: Mapping[StreamId, StreamView], *, express: bool) -> Wave:
    return replace(wave, bins=tuple(hurried(bin_, views, express=express) for bin_ in wave.bins))
