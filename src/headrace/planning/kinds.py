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

from headrace.model.plans import StreamView

#: a stream whose slices took so much longer or shorter than predicted is packed with care
UNSTEADY_SPREAD = 1.0
#: a stream is slow if a slice of one record takes at least this part of a bin's budget
SLOW_PART = 0.05


class Kind(IntEnum):
    """What a stream means for those that share its bin, the most harmless first."""

    QUICK = 0  #: all it has waiting is done in a moment
    BULK = 1  #: has so much waiting that it fills bins
    CAUTIOUS = 2  #: slow, unsteady or unknown: may take longer than predicted
    APART = 3  #: suspected of hanging, or of killing its worker


class Group(NamedTuple):
    """Streams that may share bins: of one use case, one kind and, if suspected, one label."""

    use_case: str
    kind: Kind
    label: str = ""


def group_of(view: StreamView, *, quick: bool, one_s: float, budget_s: float) -> Group:
    """The group of a stream.

    Args:
        view: the stream.
        quick: whether all that waits of it is little.
        one_s: predicted seconds of a slice of one record.
        budget_s: budget of a bin.
    """
    use_case = view.id.use_case
    cost = view.cost
    if view.apart:
        return Group(use_case, Kind.APART, view.apart)
    if cost.samples == 0 or cost.spread > UNSTEADY_SPREAD or one_s > SLOW_PART * budget_s:
        return Group(use_case, Kind.CAUTIOUS)
    return Group(use_case, Kind.QUICK if quick else Kind.BULK)
