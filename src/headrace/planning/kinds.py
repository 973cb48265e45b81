"""Who may share a bin with whom.

A receipt comes when its bin has ended, so whoever shares a bin waits for all that is in it. A flood
in the same bin makes a tenant with two records wait for a whole budget; a handler that hangs makes
everybody wait for the watchdog. So streams are sorted into kinds, and no two kinds meet in a bin,
not even when slots are few: then their bins take turns, which the credits see to.

A stream changes its kind from turn to turn as its backlog does. Whose turn it is, is not decided
here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from headrace.model.plans import Limits, StreamView

#: predictions are sums of floats; a difference below this is none
EPSILON_S = 1e-9
#: a stream whose slices took so much longer or shorter than predicted is unsteady
UNSTEADY_SPREAD = 1.0
#: a stream is slow if a slice of one record takes at least this part of a bin's budget
SLOW_PART = 0.05


class Kind(IntEnum):
    """What a stream means for those that share its bin, the most harmless first."""

    QUICK = 0  #: all it has waiting is done in a moment, even if it takes as much longer as it may
    BULK = 1  #: has so much waiting that it fills bins
    CAUTIOUS = 2  #: slow or unsteady: may take longer than predicted
    UNKNOWN = 3  #: nobody has a receipt of it; it may do anything
    APART = 4  #: suspected of hanging, or of killing its worker


class Group(NamedTuple):
    """Streams that may share bins: of one use case, one kind and, if suspected, one label."""

    use_case: str
    kind: Kind
    label: str = ""


def group_of(view: StreamView, limits: Limits, *, backlog_s: float, one_s: float) -> Group:
    """The group of a stream.

    Args:
        view: the stream.
        limits: say what is quick and what a bin has.
        backlog_s: predicted seconds of all that waits of it.
        one_s: predicted seconds of a slice of one record.
    """
    use_case = view.id.use_case
    cost = view.cost
    if view.apart:
        return Group(use_case, Kind.APART, view.apart)
    if cost.samples == 0:
        return Group(use_case, Kind.UNKNOWN)
    if one_s > SLOW_PART * limits.bin_budget_s:
        return Group(use_case, Kind.CAUTIOUS)
    # Two milliseconds that may become ten hurt nobody, however unsteady that is.
    if backlog_s * max(1.0, cost.spread) <= limits.quick_s + EPSILON_S:
        return Group(use_case, Kind.QUICK)
    return Group(use_case, Kind.CAUTIOUS if cost.spread > UNSTEADY_SPREAD else Kind.BULK)
