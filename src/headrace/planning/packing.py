"""Step 4: which cuts share a bin.

Every bin is a Spark task and costs some thirty milliseconds before it does anything; every further
bin in parallel brings results sooner. So: as few bins as hold the work within the budget, by
best-fit decreasing (never worse than 11/9 of the optimum plus one, as first-fit decreasing is, but
quick with a sorted list of what is left: Johnson 1974). Then, where slots are free, more bins of
equal length (longest processing time first, Graham 1969), as long as each is worth opening.

The bins of one group (`kinds`) are made here; groups do not meet.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heapreplace
from operator import attrgetter

from headrace.model.plans import Limits
from headrace.model.streams import StreamId
from headrace.planning.kinds import EPSILON_S
from headrace.planning.slices import Cut, by_lane, grow, trimmed


def pack(cuts: Sequence[Cut], slots: int, limits: Limits) -> list[list[Cut]]:
    """Pack the cuts of one group into at most `slots` bins.

    What does not fit into any bin is trimmed, or left out for a later turn.

    On exit: no bin is predicted over the budget, except one slice alone (or, for order `stream`,
    one record of each lane); no bin is empty; the cuts of a bin are in the order of streams.
    """
    # Sorting is stable and cuts come by stream, so equal ones stay in that order.
    bins = _pack(sorted(cuts, key=attrgetter("room_s"), reverse=True), slots, limits)
    for bin_ in bins:
        bin_.sort(key=lambda piece: piece.demand.view.id)
    return bins


def fewest_bins(
    cuts: Sequence[Cut], slots: int, budget_s: float
) -> tuple[list[list[Cut]], list[Cut]]:
    """Best-fit decreasing; returns the bins, and the cuts that no bin could hold.

    Args:
        cuts: longest first.
        slots: most bins.
        budget_s: room of a bin.
    """
    bins: list[list[Cut]] = []
    rooms: list[tuple[float, int]] = []
    over: list[Cut] = []
    for cut in cuts:
        need_s = cut.room_s - EPSILON_S
        at = bisect_left(rooms, (need_s, -1))
        if at < len(rooms):
            room_s, number = rooms.pop(at)
            bins[number].append(cut)
        elif len(bins) < slots:
            room_s, number = budget_s, len(bins)
            bins.append([cut])
        else:
            over.append(cut)
            continue
        insort(rooms, (max(0.0, room_s - cut.room_s), number))
    return bins, over


def equal_bins(cuts: Sequence[Cut], count: int) -> list[list[Cut]]:
    """Longest processing time first: each cut goes to the bin with the least so far."""
    bins: list[list[Cut]] = [[] for _ in range(count)]
    loads = [(0.0, number) for number in range(count)]
    heapify(loads)
    for cut in cuts:
        load_s, number = loads[0]
        bins[number].append(cut)
        heapreplace(loads, (load_s + cut.room_s, number))
    return bins


def worth_opening(seconds: float, limits: Limits) -> int:
    """How many bins so much work is worth."""
    return max(1, int(seconds / max(min(limits.min_bin_s, limits.bin_budget_s), EPSILON_S)))


def _pack(ordered: list[Cut], slots: int, limits: Limits) -> list[list[Cut]]:
    budget_s = limits.bin_budget_s
    bins, over = fewest_bins(ordered, slots, budget_s)
    if over:
        return _squeeze(bins, over, budget_s)
    worth = worth_opening(sum(cut.room_s for cut in ordered), limits)
    count = min(slots, worth, len(ordered))
    if count > len(bins):
        spread = equal_bins(ordered, count)
        if all(_length(bin_) <= budget_s + EPSILON_S for bin_ in spread):
            return spread
    return bins


def _squeeze(bins: list[list[Cut]], over: list[Cut], budget_s: float) -> list[list[Cut]]:
    """Put what is left over into the roomiest bins, as much of it as fits."""
    rooms = [(-max(0.0, budget_s - _length(bin_)), number) for number, bin_ in enumerate(bins)]
    heapify(rooms)
    for whole in over:
        for piece in [whole] if whole.demand.merged else by_lane(whole):
            room_s, number = rooms[0]
            part = piece if piece.room_s <= -room_s else trimmed(piece, -room_s)
            if part is None:
                continue
            bins[number].append(part)
            heapreplace(rooms, (min(0.0, room_s + part.room_s), number))
    _fill(bins, over, budget_s)
    return bins


def _fill(bins: list[list[Cut]], over: list[Cut], budget_s: float) -> None:
    """Use what room is left: first for streams that were trimmed, then for whoever is there."""
    short = {cut.demand.view.id for cut in over}
    planned: Counter[StreamId] = Counter()
    for piece in (piece for bin_ in bins for piece in bin_):
        planned[piece.demand.view.id] += sum(piece.records)
    for bin_ in bins:
        room_s = budget_s - _length(bin_)
        for piece in sorted(bin_, key=lambda piece: piece.demand.view.id not in short):
            if room_s <= EPSILON_S:
                break
            name = piece.demand.view.id
            more = grow(piece, room_s, piece.demand.records - planned[name])
            planned[name] += more
            room_s -= more * piece.demand.record_s


def _length(cuts: list[Cut]) -> float:
    return sum(cut.room_s for cut in cuts)
