"""Step 1: what each stream could use now.

Lag alone says little: a lane may be running, a throttle may bite, a slice may be too long for a
bin or too large for a worker. A `Demand` has all of that applied, so that the steps after it only
divide. It also answers the two questions they ask again and again: how long do so many records
take, and how many records fit into so many seconds.

Nothing is shared out here; each stream is looked at alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.model.places import OPEN
from headrace.model.plans import Contrast, LaneView, Limits, Snapshot, StreamView
from headrace.planning.kinds import EPSILON_S, Group, group_of

#: receipts after which a stream is no newcomer
PROBES = 4
#: the least that is taken of a stream is at least this part of a bin, if so much waits, and at most
#: that, unless one record of each lane takes more
QUANTA, LARGEST_LEAST = 50, 4
#: with less weight of pairs of slices than this, nobody knows what of their cost is fixed
SURE, SURE_OF_FEW = 8.0, 2.0
#: a slice that is to show it is so many times smaller; or larger, where it has fewer than `FEWER`
SMALLER, LARGER, FEWER = 16, 2, 4
#: over a budget, a slice is no more than so many times as large as what was seen
SEEN_TIMES = 4


@dataclass(slots=True, eq=False)
class Demand:
    """What one stream could use in this turn, were it alone."""

    view: StreamView
    #: lanes with something to take, in the order of the view
    lanes: list[LaneView]
    #: most records of each of them
    most: list[int]
    #: sum of `most`
    records: int
    #: fewest records worth planning
    least: int
    #: seconds a slice costs however small (with order `stream` all together), and each record of it
    fixed_s: float
    record_s: float
    budget_s: float
    #: order `stream`: its lanes are put in one order, so all go together or none
    merged: bool
    #: with whom it may share a bin
    group: Group
    #: what it takes of a lane is longer than a budget, so each has a bin to itself (with order
    #: `stream` all together): `records` and `least` then count lanes, each with its `most`
    whole: bool = False
    #: its lanes do not say where they end: each has nothing, or all that it may, which is a guess
    visited: bool = False

    def fixed_for(self, lanes: int) -> float:
        """Seconds that slices of so many lanes cost however small they are."""
        return min(lanes, 1) * self.fixed_s if self.merged else lanes * self.fixed_s

    def reached(self, records: int) -> int:
        """Over how many lanes so many records go at most."""
        if self.visited:
            records = math.ceil(records * len(self.lanes) / self.records)
        return min(records, len(self.lanes))

    def seconds_for(self, records: int) -> float:
        """Predicted task-seconds of so many records over as many lanes as they reach."""
        if self.whole and not self.merged:
            return records * (self.fixed_s + sum(self.most) / len(self.most) * self.record_s)
        return self.fixed_for(self.reached(records)) + records * self.record_s

    def room_for(self, records: int) -> float:
        """Seconds of bins they need: what is over the budget fills one bin, not more."""
        if self.whole and not self.merged:
            return records * self.budget_s
        bins = 1 if self.merged else self.reached(records)
        return min(self.seconds_for(records), bins * self.budget_s)

    def records_in(self, room_s: float) -> int:
        """Most records whose room is at most `room_s`; 0 if it is too little to begin with."""
        lanes = len(self.lanes)
        one_s = self.fixed_s + self.record_s
        room_s += EPSILON_S
        if self.whole:
            found = int(room_s / self.budget_s)
            return min(found, 1) * self.records if self.merged else min(found, self.records)
        if self.merged:
            if self.fixed_s + lanes * self.record_s >= self.budget_s:
                return self.least if room_s >= self.budget_s else 0
            found = int((room_s - self.fixed_s) / self.record_s)
        elif self.visited:
            found = self._visits_in(room_s)
        elif one_s >= self.budget_s:
            found = int(room_s / self.budget_s)
        elif room_s >= lanes * one_s:
            found = int((room_s - lanes * self.fixed_s) / self.record_s)
        else:
            found = int(room_s / one_s)
        return min(found, self.records) if found >= self.least else 0

    def _visits_in(self, room_s: float) -> int:
        """The same where lanes are visited: whole visits, or what there is room for of one."""
        each = self.records / len(self.lanes)
        visit_s = min(self.fixed_s + each * self.record_s, self.budget_s)
        if visits := int(room_s / visit_s):
            return visits * self.records // len(self.lanes)
        return max(0, int((room_s - self.fixed_s) / self.record_s))


def find_demands(snapshot: Snapshot) -> list[Demand]:
    """Every stream that could use something, in the order of stream ids.

    On exit: a plan that takes at most `most` of each lane, and all lanes of a merged stream, keeps
    every rule except those about bins and slots.
    """
    limits = snapshot.limits
    found = [
        demand
        for view in snapshot.streams
        if (lanes := _takeable(view)) and (demand := _demand(view, lanes, limits))
    ]
    found.sort(key=lambda demand: demand.view.id)
    return found


def level(most: Sequence[int], total: int, first: int = 0) -> list[int]:
    """Divide `total` records over lanes: max-min fair, what is left over one by one.

    No lane gets more than its `most`; the shortest are served whole and the others get the same.
    With fewer records than lanes, one each to the lanes from number `first` on, going round.

    Raises:
        AssertionError: `total` is more than all lanes have.
    """
    left = len(most)
    if total < left:
        chosen = [0] * left
        for number in range(total):
            chosen[(first + number) % left] = 1
        return chosen
    assert total <= sum(most), "more was shared out than was asked for"
    chosen = list(most)
    for number in sorted(range(left), key=most.__getitem__):
        # Lanes come shortest first, so the rounded-up rest goes to the longest.
        chosen[number] = min(most[number], total // left)
        total -= chosen[number]
        left -= 1
    return chosen


def by_pull(lanes: Sequence[LaneView], most: Sequence[int], total: int) -> list[int]:
    """Divide `total` records over lanes that are merged: half alike, half as the last call took.

    Of merged lanes the oldest records are taken, and what is younger than the end of a lane that
    goes on is left. Where one lane has nearly all that is old, alike would be mostly in vain, and
    by the last call alone a lane that begins to have them would begin with nothing.

    On exit: each lane has one record at least, if `total` is that many, and at most its `most`.
    """
    pull = sum(lane.taken for lane in lanes)
    if not pull or total <= len(lanes):
        return level(most, total)
    chosen = level(most, max(len(lanes), total // 2))
    left = total - sum(chosen)
    for number, lane in enumerate(lanes):
        chosen[number] += min(most[number] - chosen[number], left * lane.taken // pull)
    open_to = [number for number in range(len(lanes)) if chosen[number] < most[number]]
    rooms = [most[number] - chosen[number] for number in open_to]
    for number, more in zip(open_to, level(rooms, total - sum(chosen)), strict=True):
        chosen[number] += more
    return chosen


def rotation(lanes: Iterable[LaneView], count: int, every: int = 1) -> int:
    """Which lane begins when not all can be served.

    Nothing is remembered of a lane but its position, so the sum of their hashes is scrambled (by
    the golden ratio, Knuth 6.4): each time something of the stream is done, the beginning moves to
    a place that has nothing to do with lags, and no lane is last for long.

    Args:
        lanes: of one stream.
        count: how many could begin.
        every: the beginning moves after so many records.
    """
    done = sum(hash(lane.position) for lane in lanes) // every
    return (done * 2654435769 % 2**32) * count >> 32


def _takeable(view: StreamView) -> list[LaneView]:
    lanes = [
        lane
        for lane in view.lanes
        if lane.waits > 0 and not lane.in_flight and not (lane.parents and lane.is_closed)
    ]
    if lanes and view.order.merges_lanes and any(map(_holds_all, view.lanes)):
        return []
    return lanes


def _holds_all(lane: LaneView) -> bool:
    """Whether its next record may be the oldest, and can not be in the same bin as the others."""
    if lane.end == OPEN:
        return True
    if lane.parents and lane.is_closed:
        return False
    return lane.in_flight or (lane.goes_on and lane.waits <= 0)


def _demand(view: StreamView, lanes: list[LaneView], limits: Limits) -> Demand | None:
    if view.allowance_records is not None and view.allowance_records <= 0:
        return None
    if view.allowance_bytes is not None and view.allowance_bytes <= 0:
        return None
    cost, budget_s = view.cost, limits.bin_budget_s
    fixed_s = max(cost.seconds_per_slice, 0.0)
    record_s = max(cost.seconds_per_record, EPSILON_S)
    merged = view.order.merges_lanes
    lags = [lane.waits for lane in lanes]
    within_s = longest_s(view, limits)
    # Merged lanes are one slice to their handler.
    lag, fewest = (sum(lags), len(lags)) if merged else (max(lags), 1)
    longest = max(fewest, _slice_records(view, limits, within_s, lag, fewest))
    most = [min(longest, limits.slice_records, lag) for lag in lags]
    records = sum(most)
    # What waits, not what may be taken: a throttled flood is a flood.
    backlog_s = (1 if merged else len(lags)) * fixed_s + sum(lags) * record_s
    cap = max(_stream_records(view, limits, len(lanes), within_s), fewest)
    cap = min(cap, longest) if merged else cap
    if cap < records:
        if merged:
            most = by_pull(lanes, most, cap)
        else:
            most = level(most, cap, rotation(lanes, len(lanes)))
        records = cap
        if cap < len(lanes):
            lanes = [lane for lane, some in zip(lanes, most, strict=True) if some]
            most = [some for some in most if some]
    one_s = fixed_s + record_s
    begun = len(lanes) if merged else max(1, min(len(lanes), int(budget_s / one_s)))
    least = begun if merged else min(records, max(begun, _worth(begun * fixed_s, record_s, limits)))
    whole = False
    if fixed_s + longest * record_s > budget_s + EPSILON_S:
        largest = records if merged else max(most)
        whole = largest > fewest and fixed_s + largest * record_s > budget_s + EPSILON_S
        if whole:
            records, least = (records, records) if merged else (len(lanes), 1)
    return Demand(
        view=view,
        lanes=lanes,
        most=most,
        records=records,
        least=least,
        fixed_s=fixed_s,
        record_s=record_s,
        budget_s=budget_s,
        merged=merged,
        group=group_of(view, limits, backlog_s=backlog_s, one_s=one_s),
        whole=whole,
        visited=lanes[0].untold,
    )


def longest_s(view: StreamView, limits: Limits) -> float:
    """Seconds that a slice may take, or with order `stream` those of all lanes together.

    More than a budget only if it costs much however small, and then no more than half of the time
    by which one call counts as hanging.
    """
    fixed_s = view.cost.seconds_per_slice
    worth_s = limits.fixed_times * fixed_s
    if worth_s <= limits.bin_budget_s:
        return limits.bin_budget_s
    return max(limits.bin_budget_s, min(worth_s, (fixed_s + view.call_limit_s) / 2))


def _tried(view: StreamView, longest: int, lag: int, fewest: int) -> int:
    """The longest slice, or another size where nobody knows what of its cost is fixed.

    A smaller slice tells as much as a larger one, and hurts nobody. One of a few records (of each
    lane, if they are merged) can only be made larger: by twice, more seldom, and where that is no
    hang. After one that was as large as it would be itself, it would tell nothing.
    """
    cost, last = view.cost, view.cost.contrast
    longest = max(longest, fewest)
    if cost.samples < PROBES or lag <= longest or not last.records:
        return longest
    if longest >= FEWER * fewest:
        tells = last.weight < SURE and 2 * last.size > longest
        return max(fewest, longest // SMALLER) if tells else longest
    larger = LARGER * longest
    larger_s = cost.seconds_per_slice + larger * cost.seconds_per_record
    # Of merged lanes most records may be left, and those that are not look dear.
    larger_s = min(larger_s, last.seconds * larger / last.size)
    tells = last.weight < SURE_OF_FEW and last.size <= longest
    return larger if tells and larger_s <= view.call_limit_s / 2 else longest


def _no_longer(last: Contrast, within_s: float) -> int:
    """Most records after a slice that took too long, while the averages still follow slowly."""
    if last.weight >= 1.0 and last.growing < 0.5:
        return last.size  # fewer would take as long
    return max(1, last.size // FEWER, int(last.size * within_s / last.seconds))


def _worth(fixed_s: float, record_s: float, limits: Limits) -> int:
    """Records that are worth a visit: a quantum, or what takes as long as the visit itself.

    A broker gives batches, whole, so a few records of a lane cost as much to read as a thousand;
    and slices as small as a share of a thousandth never show what a longer one would cost. This is
    the quantum of deficit round robin. It is not more than packs well into bins.
    """
    budget_s = limits.bin_budget_s
    worth_s = max(fixed_s, budget_s / QUANTA - fixed_s)
    return int(min(worth_s, budget_s / LARGEST_LEAST - fixed_s) / record_s)


def _slice_records(view: StreamView, limits: Limits, within_s: float, lag: int, fewest: int) -> int:
    """Most records of one lane, or of merged ones, that one bin and one worker can take."""
    cost, budget_s = view.cost, limits.bin_budget_s
    record_s = max(cost.seconds_per_record, EPSILON_S)
    fitting = max(1, int((budget_s - cost.seconds_per_slice + EPSILON_S) / record_s))
    if within_s > budget_s:
        seen = cost.contrast
        largest = max(seen.size, math.exp(seen.log_records + seen.log_width / 2))
        longer = int((within_s - cost.seconds_per_slice + EPSILON_S) / record_s)
        fitting = max(fitting, min(longer, int(SEEN_TIMES * largest)))
    if lag > fitting:
        fitting = _tried(view, fitting, lag, fewest)
    if cost.bytes_per_record <= 0:
        return fitting
    return min(fitting, int(limits.slice_bytes / cost.bytes_per_record))


def _stream_records(view: StreamView, limits: Limits, lanes: int, within_s: float) -> int:
    """Most records of the whole stream: its throttle and the probe."""
    cost = view.cost
    caps = [limits.slice_records * lanes]
    if view.allowance_records is not None:
        caps.append(view.allowance_records)
    if view.allowance_bytes is not None and cost.bytes_per_record > 0:
        caps.append(int(view.allowance_bytes / cost.bytes_per_record))
    if cost.samples < PROBES:
        # As TCP's slow start: a bad guess costs little, and a thousand newcomers are known soon.
        caps.append(limits.probe_records * 4**cost.samples)
    if cost.samples < 2 * PROBES and cost.contrast.seconds > within_s:
        calls = 1 if view.order.merges_lanes else lanes
        caps.append(calls * _no_longer(cost.contrast, within_s))
    return min(caps)
