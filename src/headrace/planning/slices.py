"""Step 3: which records of which lanes.

A stream's share is a number of records. Where it is not all that waits, the lanes that have less
than their part are served whole, so that no lane waits for another's backlog. What is left goes to
as few of the long ones as will do with slices of good length, beginning with another one each time
(`rotation`). Long slices are read and handled at less cost. And lanes that run are out of the next
turn: a flood that had a little of every lane in one bin could claim nothing of the slot that
becomes free next, whatever it is owed.

Lanes whose log does not say where they end are visited, and a visit takes all that it may. Those
that are due longest go first, or the ones that had something just now would have each turn.

Lanes of a stream stay together in one `Cut` while that is small, not worth a bin of its own:
neighbours share a fetch, and the packing has less to look at. More than that is cut, never inside
a lane, so that it can spread over bins.

Which bin a cut goes to is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.model.places import OPEN, Places
from headrace.model.plans import LaneView, Limits
from headrace.model.streams import LaneId, Slice
from headrace.planning.demand import Demand, by_pull, level, rotation
from headrace.planning.kinds import EPSILON_S
from headrace.planning.shares import Claim


@dataclass(slots=True, eq=False)
class Cut:
    """Slices of one stream that stay together in one bin."""

    demand: Demand
    lanes: list[LaneView]
    #: records of each lane, at least 1
    records: list[int]
    #: predicted task-seconds
    seconds: float
    #: seconds of a bin it fills: a single record over the budget fills one, not more
    room_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Work out the room once; packing asks for it often."""
        self.room_s = min(self.seconds, self.demand.budget_s)


def cut(claims: Iterable[Claim], keep_s: float, worth_s: float) -> list[Cut]:
    """Cut every share into pieces of `keep_s`, or of one lane if that is more.

    The lanes of a merged stream stay together whatever they are worth.

    Args:
        claims: of one group, shared out.
        keep_s: lanes stay together up to this.
        worth_s: a long lane is given up to this before another one is begun.

    On exit: each lane is in at most one cut, and the cuts of a stream hold its share exactly; of
    one whose lanes are visited as many whole visits as take no longer, or a part of one.
    """
    cuts: list[Cut] = []
    for claim in claims:
        demand = claim.demand
        if not claim.records:
            continue
        if demand.whole and not demand.merged:
            cuts += _whole(claim)
            continue
        lanes, records = demand.lanes, demand.most
        if claim.records < demand.records:
            lanes, records = _part(demand, claim.records, worth_s)
        seconds = demand.fixed_for(len(lanes)) + sum(records) * demand.record_s
        if demand.merged or len(lanes) == 1 or seconds <= keep_s:
            cuts.append(Cut(demand, lanes, records, seconds))
        else:
            cuts += _pieces(demand, lanes, records, keep_s)
    return cuts


def by_lane(piece: Cut) -> list[Cut]:
    """The same records, each lane for itself."""
    fixed_s, record_s = piece.demand.fixed_s, piece.demand.record_s
    return [
        Cut(piece.demand, [lane], [count], fixed_s + count * record_s)
        for lane, count in zip(piece.lanes, piece.records, strict=True)
    ]


def trimmed(piece: Cut, room_s: float) -> Cut | None:
    """As much of a cut as fits into the room, all its lanes kept; None if that is too little."""
    demand, lanes = piece.demand, len(piece.lanes)
    fixed_s = demand.fixed_for(lanes)
    count = int((room_s + EPSILON_S - fixed_s) / demand.record_s)
    if count < lanes:
        return None
    count = min(count, sum(piece.records))
    records = by_pull(piece.lanes, piece.records, count)
    seconds = fixed_s + sum(records) * demand.record_s
    return Cut(demand, piece.lanes, records, seconds)


def grow(piece: Cut, room_s: float, most_more: int) -> int:
    """Give a cut up to so many more records of its lanes, within so much more room.

    Returns:
        How many it was given.
    """
    demand = piece.demand
    most_of = dict(zip((lane.name for lane in demand.lanes), demand.most, strict=True))
    most = [most_of[lane.name] for lane in piece.lanes]
    has = sum(piece.records)
    more = min(most_more, int((room_s + EPSILON_S) / demand.record_s), sum(most) - has)
    if more <= 0:
        return 0
    piece.records = by_pull(piece.lanes, most, has + more)
    piece.seconds += more * demand.record_s
    piece.room_s = min(piece.seconds, demand.budget_s)
    return more


def slices_of(piece: Cut, places: Places, limits: Limits) -> list[Slice]:
    """What a task is told; `from_offset` is the position, `more` says that the log goes on.

    Of a lane whose end nobody knows that is how much to take at most, and not where to end; and so
    of a part of one that is known up to a place, if nobody can count up to the part's. A bucket's
    is as long as its records are expected to need.
    """
    view, most_bytes = piece.demand.view, limits.slice_bytes
    use_case, tenant = view.id
    topic, epoch = view.topic, view.epoch
    made, after = [], places.after
    for lane, count in zip(piece.lanes, piece.records, strict=True):
        start, end = lane.position, lane.end
        lane_id = LaneId(use_case, tenant, lane.name)
        length = count if lane.every == 1 else lane.places_of(count, view.most_places(limits))
        until = end if end == OPEN else after(start, length)
        if until == OPEN and (end == OPEN or count < lane.waits):
            some = (lane.depth, count, most_bytes, lane.ordinal)
            made.append(Slice(lane_id, topic, start, OPEN, epoch, True, *some))
            continue
        if until > end:  # noqa: PLR1730 - a call of `min` for each lane costs more than all of it
            until = end
        more, depth = until < end or lane.goes_on, lane.depth
        told = most_bytes if lane.untold else 0
        rest = (more, depth, count, told, lane.ordinal)
        made.append(Slice(lane_id, topic, start, until, epoch, *rest))
    return made


def _pieces(
    demand: Demand, lanes: Sequence[LaneView], records: Sequence[int], keep_s: float
) -> Iterator[Cut]:
    start, seconds = 0, 0.0
    for number, count in enumerate(records):
        more_s = demand.fixed_s + count * demand.record_s
        if number > start and seconds + more_s > keep_s:
            yield Cut(demand, list(lanes[start:number]), list(records[start:number]), seconds)
            start, seconds = number, 0.0
        seconds += more_s
    yield Cut(demand, list(lanes[start:]), list(records[start:]), seconds)


def _whole(claim: Claim) -> Iterator[Cut]:
    """As many lanes as the share counts, each with all it may have, another one first each time."""
    demand, most = claim.demand, claim.demand.most
    if demand.visited:
        numbers = _by_due(demand.lanes)
    else:
        steps = 1 << (max(most) - 1).bit_length()
        first = rotation(demand.lanes, len(most), every=steps)
        numbers = [*range(first, len(most)), *range(first)]
    for number in sorted(numbers[: claim.records]):
        seconds = demand.fixed_s + most[number] * demand.record_s
        yield Cut(demand, [demand.lanes[number]], [most[number]], seconds)


def _part(demand: Demand, total: int, worth_s: float) -> tuple[list[LaneView], list[int]]:
    """Lanes, and records of each, for a share that is less than the stream could use."""
    lanes, most = demand.lanes, demand.most
    if demand.merged:
        return lanes, by_pull(lanes, most, total)
    if demand.visited:
        return _longest_due(demand, total)
    by_length = sorted(range(len(lanes)), key=most.__getitem__)
    left, short = total, 0
    while most[by_length[short]] * (len(lanes) - short) <= left:
        left -= most[by_length[short]]
        short += 1
    chosen, long = by_length[:short], sorted(by_length[short:])
    worth = max(1, int(worth_s / demand.record_s))
    # A power of two, for `worth` moves a little with every receipt. And steps must be small: the
    # golden ratio spreads those well, but not, say, steps of 610.
    first = rotation(lanes, len(long), every=1 << (worth - 1).bit_length())
    for number in long[first:] + long[:first]:
        if left <= 0:
            break
        chosen.append(number)
        left -= min(worth, most[number])
    chosen.sort()
    return [lanes[number] for number in chosen], level([most[number] for number in chosen], total)


def _longest_due(demand: Demand, total: int) -> tuple[list[LaneView], list[int]]:
    """The same of lanes that are visited: first those that are due longest, with all they may have.

    What waits in one is a guess, and the shortest first would be those that were looked at just
    now. A visit costs about the same however much it finds, so the last one is cut short only where
    its records take as long as that.
    """
    lanes, fixed_s, record_s = demand.lanes, demand.fixed_s, demand.record_s
    room_s = demand.seconds_for(total) + EPSILON_S
    chosen: dict[int, int] = {}
    for number in _by_due(lanes):
        room_s -= fixed_s
        count = min(demand.most[number], int(room_s / record_s))
        whole = count == demand.most[number]
        if chosen and not whole and count * record_s < fixed_s:
            break
        chosen[number] = max(1, count)
        room_s -= count * record_s
        if not whole:
            break
    numbers = sorted(chosen)
    return [lanes[number] for number in numbers], [chosen[number] for number in numbers]


def _by_due(lanes: Sequence[LaneView]) -> list[int]:
    """Their numbers, those that are due longest first."""
    return sorted(range(len(lanes)), key=lambda number: lanes[number].due_s)
