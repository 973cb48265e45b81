"""Step 5: which bins one Spark job runs.

A wave ends when its slowest bin ends, so bins of about the same length go together, the longest
first. Waves are numbered through all groups of a turn: use cases by name, in each the quick first,
since a driver starts them in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.model.lane_names import place_of
from headrace.model.places import Places
from headrace.model.plans import Limits, Snapshot
from headrace.model.streams import StreamId
from headrace.model.waves import Bin, Wave
from headrace.planning.kinds import Group
from headrace.planning.slices import Cut, slices_of


def make_waves(
    packed: Mapping[Group, Sequence[Sequence[Cut]]], snapshot: Snapshot, places: Places
) -> list[Wave]:
    """Make the waves of all groups.

    On exit: every wave is of one group and has 1 to `bins_per_wave` bins; ids are `turn-0`,
    `turn-1` and so on.
    """
    limits = snapshot.limits
    waves: list[Wave] = []
    for group in sorted(packed):
        bins = sorted((_bin(cuts, places, limits) for cuts in packed[group]), key=_longest_first)
        for start in range(0, len(bins), max(1, limits.bins_per_wave)):
            together = tuple(bins[start : start + max(1, limits.bins_per_wave)])
            name = f"{snapshot.turn}-{len(waves)}"
            waves.append(Wave(name, group.use_case, together, limits.bin_budget_s))
    return waves


def _bin(cuts: Sequence[Cut], places: Places, limits: Limits) -> Bin:
    slices = tuple(piece for cut in cuts for piece in slices_of(cut, places, limits))
    return Bin(slices, sum(cut.seconds for cut in cuts))


def _longest_first(bin_: Bin) -> tuple[float, StreamId, tuple[str, int, str]]:
    first = bin_.slices[0].lane
    return -bin_.predicted_s, first.stream, place_of(first.name)
