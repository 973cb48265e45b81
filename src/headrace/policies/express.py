"""Keeping one slot for quick work.

A flood can fill every slot with bins of a whole budget, and then a tenant with two records waits
for the first of them to end. So of several slots one is the *express*: only short bins start there,
of streams that are known and quick. Whoever has little to do waits for at most one such short bin,
and slow, unknown or suspected streams can between them never hold all slots, whatever they do.

The express is not left idle for it: where no quick work waits, a flood may use it too, by the short
bin. With one slot there is no express; fairness alone then decides whose turn it is.

Express lanes of supermarkets do the same, and multi-level feedback queues (F. Corbató et al., "An
experimental time-sharing system", AFIPS 1962).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.model.plans import Limits, Snapshot, StreamView
from headrace.model.waves import Bin

#: receipts after which a stream's cost is known well enough
_KNOWN_SAMPLES = 4


def is_long(planned: Bin, limits: Limits) -> bool:
    """Whether a bin is too long for the express."""
    return planned.predicted_s > limits.express_s


def with_express(snapshot: Snapshot, slots: int, running: Sequence[Bin]) -> Snapshot:
    """The part of a snapshot to plan for now.

    Args:
        snapshot: everything that could be planned, with all free slots.
        slots: free or not.
        running: bins in flight.

    Returns:
        The same streams with as many slots as may take long bins; if there are none, one slot with
        a short budget, for the streams that are fit for it.
    """
    if slots < 2 or snapshot.free_slots < 1:
        return snapshot
    limits = snapshot.limits
    room = slots - 1 - sum(is_long(each, limits) for each in running)
    if room > 0:
        return replace(snapshot, free_slots=min(snapshot.free_slots, room))
    short = replace(limits, bin_budget_s=min(limits.bin_budget_s, limits.express_s))
    fit = tuple(each for each in snapshot.streams if _is_fit(each, short))
    return replace(snapshot, streams=fit, free_slots=1, limits=short)


def _is_fit(view: StreamView, limits: Limits) -> bool:
    cost = view.cost
    one_s = cost.seconds_per_slice + cost.seconds_per_record
    known = cost.samples >= _KNOWN_SAMPLES
    return known and not view.apart and one_s <= limits.bin_budget_s
