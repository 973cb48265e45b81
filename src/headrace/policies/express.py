"""Keeping one slot for quick work.

A flood can fill every slot with bins of a whole budget, and then a tenant with two records waits
for the first of them to end. So of several slots one is the *express*: only short bins start there,
of streams that are known and quick. Whoever has little to do waits for at most one such short bin,
and slow or suspected streams can between them never hold all slots, whatever they do.

Of three slots or more, one of the others takes no stream that hung when it was last alone: that
holds its slot for a whole `handler_timeout`, and one that is merely slow, which the express does
not take, would wait for it each time. With two slots they take turns, by what each had of them.

Who is new is known after a few slices, but if one that hangs holds the other slots, nobody would
learn of it for a whole `handler_timeout`. So where these have been held for longer than bins take,
the express takes slices of new streams as well, by turns with quick work. Each of their calls has
the patience of company (`watchdog.py`), though it may be alone: it is others who wait for its slot.
One that overruns that is tried again apart, and the express is closed to it. Where a call cannot be
interrupted (C code), its wave has to be ended for that: some 17 s, or 62 s for the first waves of a
version (`watchdog.limit_s`).

Of a stream of which a few lanes are in doubt, one of these at a time is what runs apart. Its other
lanes are planned as ever, also in the express. But where one lane hangs others may as well, so
their calls have the patience of company: what is found to hang so is in doubt too, and when more
than a few are, the stream as a whole runs apart. It owes for all of that time as before.

The express is not left idle for it: where no quick work waits, a flood may use it too, by the short
bin. With one slot there is no express; fairness alone then decides whose turn it is.

A bin costs its slot more than its work: a job has to be started and its answer to come back. Where
that takes long, as on a busy cluster, bins as short as usual would waste the slot, so the express
takes bins of twice that time; it then works at two thirds of its rate at least.

What runs again as it was recorded is not planned; of streams that run apart it obeys the same rules
(`may_run_again`).

Express lanes of supermarkets do the same, and multi-level feedback queues (F. Corbató et al., "An
experimental time-sharing system", AFIPS 1962).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from headrace.model.plans import Limits, Snapshot, StreamView
from headrace.model.streams import StreamId
from headrace.model.waves import Bin

#: receipts after which a stream's cost is known well enough
_KNOWN_SAMPLES = 4
#: slots that are held for so many budgets of a bin are held up
_HELD_BUDGETS = 2.0
#: with a single slot, a slice may take so many times what it costs however small
ALONE_TIMES = 2.0
#: seconds of work in the express for each second that a bin costs besides
_WORTH = 2.0
#: how much of the newest bin is believed
_LEARN = 0.1


class SlotRoom(NamedTuple):
    """Bins that may start now; none where it is not above 0."""

    #: that may hold their slots for long
    long: int
    #: of these, of streams that hung, or killed their worker, when last alone
    hung: int


def learned_overhead_s(overhead_s: float, wave_s: float, work_s: float) -> float:
    """What a bin costs besides its work, learned from one that came back.

    Args:
        overhead_s: what was believed until now.
        wave_s: seconds from its start until its answer was there.
        work_s: task-seconds of them.
    """
    return overhead_s + _LEARN * (max(0.0, wave_s - work_s) - overhead_s)


def worth_starting(limits: Limits, overhead_s: float) -> Limits:
    """The limits with an express whose bins are worth their overhead; never half a budget."""
    longest_s = max(limits.express_s, limits.bin_budget_s / 2)
    wanted_s = max(limits.express_s, _WORTH * overhead_s)
    return replace(limits, express_s=min(wanted_s, longest_s))


def are_held_up(held_s: float, bin_budget_s: float) -> bool:
    """Whether slots have had their long bins for longer than such bins take."""
    return held_s > _HELD_BUDGETS * bin_budget_s


def new_only(snapshot: Snapshot) -> Snapshot:
    """The snapshot with its new streams alone."""
    return replace(snapshot, streams=tuple(filter(_is_new, snapshot.streams)))


def hurried(planned: Bin, views: Mapping[StreamId, StreamView], *, express: bool) -> Bin:
    """A bin, in haste if a stream of it has lanes that run apart, or is new in the express."""
    used = [views[stream] for stream in {piece.lane.stream for piece in planned.slices}]
    in_haste = any(view.spared or (express and _is_new(view)) for view in used)
    return replace(planned, hurried=True) if in_haste else planned


def slot_room(slots: int, long_running: int, hung_running: int) -> SlotRoom:
    """How many long bins may start; with one slot each may, as there is no express."""
    if slots < 2:
        return SlotRoom(1, 1)
    long = slots - 1 - long_running
    return SlotRoom(long, slots - 2 - hung_running if slots > 2 else long)


def is_long(planned: Bin, views: Mapping[StreamId, StreamView], express_s: float) -> bool:
    """Whether a planned bin may hold its slot for longer than the express allows."""
    if planned.predicted_s > express_s:
        return True
    used = {piece.lane.stream for piece in planned.slices}
    return not all(_is_fit(views[stream], express_s) for stream in used)


def with_express(
    snapshot: Snapshot,
    slots: int,
    long_running: int,
    hung_running: int = 0,
    new_of: Collection[str] = (),
) -> Snapshot:
    """The part of a snapshot to plan for now.

    Args:
        snapshot: everything that could be planned, with all free slots.
        slots: free or not.
        long_running: bins in flight that are long.
        hung_running: bins in flight of streams that hung, or killed their worker, when last alone.
        new_of: use cases of which new streams may take the express as well.

    Returns:
        The same streams with as many slots as may take long bins; if there are none, one slot with
        a short budget, for the streams that are fit for it.
    """
    limits = snapshot.limits
    if slots < 2:
        # Whoever is quick waits for each bin: let none be long for the sake of its rate.
        few = min(limits.fixed_times, ALONE_TIMES)
        return replace(snapshot, limits=replace(limits, fixed_times=few))
    if snapshot.free_slots < 1:
        return snapshot
    room = slot_room(slots, long_running, hung_running)
    if slots > 2:
        snapshot = _fewer_hung(snapshot, max(0, room.hung))
    if room.long > 0:
        return replace(snapshot, free_slots=min(snapshot.free_slots, room.long))
    short_s = min(limits.bin_budget_s, limits.express_s)
    short = replace(limits, bin_budget_s=short_s, fixed_times=1.0)
    fit = tuple(
        stream for stream in snapshot.streams if _is_fit(stream, short.bin_budget_s, new_of)
    )
    return replace(snapshot, streams=fit, free_slots=1, limits=short)


def may_run_again(
    bins: int, slots: int, busy: int, long_running: int, hung_running: int | None
) -> bool:
    """Whether a recorded wave of streams that run apart may have slots, by the same rules.

    One of more bins than they ever leave room for may when no other holds its slot for long.

    Args:
        bins: of the wave.
        slots: free or not.
        busy: bins in flight.
        long_running: those that are long.
        hung_running: those of streams that hung when last alone; None if none of the wave's did.
    """
    if busy >= slots:
        return False
    if slots < 2:
        return True
    if hung_running and slots > 2 and hung_running + bins > slots - 2:
        return False
    return not long_running or long_running + bins <= slots - 1


def _fewer_hung(snapshot: Snapshot, room: int) -> Snapshot:
    """All streams that did not hang, and as many that did as there is room for."""
    hung = [view for view in snapshot.streams if view.hung]
    if len(hung) <= room:
        return snapshot
    hung.sort(key=lambda view: (-view.credit_s / view.weight, view.id))
    over = {view.id for view in hung[room:]}
    return replace(snapshot, streams=tuple(v for v in snapshot.streams if v.id not in over))


def _is_new(view: StreamView) -> bool:
    return view.cost.samples < _KNOWN_SAMPLES


def _is_fit(view: StreamView, most_s: float, new_of: Collection[str] = ()) -> bool:
    cost = view.cost
    one_s = cost.seconds_per_slice + cost.seconds_per_record
    may = not _is_new(view) or view.id.use_case in new_of
    return may and not view.apart and one_s <= most_s
