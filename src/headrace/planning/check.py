"""Is a plan fit to run? Every fault has a name.

The host checks each plan before it runs it, whoever made it. The rules are those of the package
docstring, written a second time and from the other side: nothing here calls the planner. Only the
numbers that say what is slow are the planner's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from headrace.model.buckets import Division, division_of, whole_lane
from headrace.model.places import OPEN, Place, Places
from headrace.model.plans import LaneView, Limits, Plan, Snapshot, StreamView
from headrace.model.streams import Slice, StreamId
from headrace.model.waves import Bin, Wave
from headrace.planning.kinds import SLOW_PART

#: predictions are sums of floats in another order than here
TOLERANCE_S = 1e-6
#: a slice of no more records may be over the budget, to learn what of its cost is fixed
MOST_TRIED = 6


class FaultKind(StrEnum):
    """What can be wrong with a plan."""

    UNKNOWN_STREAM = "a slice of a stream that the snapshot does not have"
    UNKNOWN_LANE = "a slice of a lane that the snapshot does not have"
    WRONG_EPOCH = "a slice held under another epoch than its stream"
    WRONG_TOPIC = "a slice of another topic than its stream's"
    IN_FLIGHT = "a slice of a lane that is running"
    CLOSED = "a slice of a lane whose parents are not all committed to their ends"
    PLANNED_TWICE = "a second slice of the same lane"
    NOT_AT_POSITION = "a slice that does not begin at the position"
    BEYOND_END = "a slice that goes past the end of the log"
    WRONG_BOUND = "a slice that does not end where its log says that its records do"
    NOT_OPEN = "a slice that says where it ends, of a lane whose end nobody knows"
    OPEN_END = "a slice that does not say where it ends, of a lane whose end is known"
    NO_BYTES = "a slice of a lane that tells no end without its most bytes, or another with some"
    EMPTY_SLICE = "a slice without a record in it"
    WRONG_DEPTH = "a slice of another depth than its lane"
    WRONG_ORDINAL = "a slice whose records would be numbered otherwise than its lane says"
    SECOND_DIVISION = "order key: slices of one lane in two divisions, so of one key in both"
    WRONG_MORE = "`more` does not say whether the log goes on"
    TOO_MANY_RECORDS = "a slice of more records than the limit"
    TOO_MANY_BYTES = "a slice of more predicted bytes than the limit"
    OVER_THROTTLE = "more of a stream than its throttle allows"
    STREAM_IN_FLIGHT = "order stream: a slice while another lane is running"
    STREAM_SPLIT = "order stream: slices in more than one bin"
    STREAM_TOO_LARGE = "order stream: more predicted bytes in a bin than the limit"
    LANE_LEFT_OUT = "order stream: a lane with records is not in the bin"
    NO_ORDER = "order stream: a slice of a lane whose end nobody knows"
    LANE_UNKNOWN = "order stream: a lane goes on, and nothing of it can be in the bin"
    OVER_BUDGET = "a bin predicted over its budget"
    WRONG_PREDICTION = "a bin whose prediction is not the sum of its slices"
    MIXED_QUICK = "a bin of quick streams and others"
    MIXED_APART = "a bin of a suspected stream and others than those of its label"
    EMPTY_BIN = "a bin without slices"
    EMPTY_WAVE = "a wave without bins"
    TOO_MANY_BINS = "more bins than free slots"
    WIDE_WAVE = "more bins in a wave than the limit"
    MIXED_WAVE = "a slice of another use case than its wave"
    DUPLICATE_WAVE = "a second wave of the same id"
    FOREIGN_WAVE = "a wave id that does not begin with the turn"
    WRONG_WAVE_BUDGET = "a wave whose budget is not the limit"
    UNKNOWN_CREDIT = "a credit of a stream that the snapshot does not have, or a second one"


@dataclass(frozen=True, slots=True)
class PlanFault:
    """One thing that is wrong with a plan, and where."""

    kind: FaultKind
    where: str
    #: which the planner was shown so, or planned so; None: it is of a bin or wave, or of no stream
    stream: StreamId | None = None

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.where}: {self.kind.value}"


def check(snapshot: Snapshot, plan: Plan, places: Places) -> list[PlanFault]:
    """Name every fault of a plan; none means it may run."""
    streams = {view.id: view for view in snapshot.streams}
    taken: dict[StreamId, list[Slice]] = defaultdict(list)
    for piece in (piece for wave in plan.waves for piece in wave.slices):
        taken[_stream(piece)].append(piece)
    faults = [*_wave_faults(snapshot, plan), *_credit_faults(streams, plan)]
    for wave in plan.waves:
        faults += _bin_faults(snapshot, streams, wave)
        faults += _company_faults(snapshot, streams, wave)
    for stream, pieces in taken.items():
        view = streams.get(stream)
        if view is None:
            faults += (PlanFault(FaultKind.UNKNOWN_STREAM, str(piece)) for piece in pieces)
            continue
        faults += _slice_faults(snapshot, view, pieces, places)
        kinds = [*_stream_faults(view, pieces)]
        if _too_large(snapshot.limits, view, pieces):
            kinds.append(FaultKind.STREAM_TOO_LARGE)
        faults += (PlanFault(kind, str(view.id), view.id) for kind in kinds)
    return faults + _split_faults(streams, plan)


def _stream(piece: Slice) -> StreamId:
    # As `piece.lane.stream`, which makes a new object; a check must not cost more than its plan.
    return cast("StreamId", piece.lane[:2])


def _wave_faults(snapshot: Snapshot, plan: Plan) -> Iterator[PlanFault]:
    limits = snapshot.limits
    bins = sum(len(wave.bins) for wave in plan.waves)
    if bins > snapshot.free_slots:
        yield PlanFault(FaultKind.TOO_MANY_BINS, f"{bins} bins, {snapshot.free_slots} free slots")
    for name, count in Counter(wave.id for wave in plan.waves).items():
        if count > 1:
            yield PlanFault(FaultKind.DUPLICATE_WAVE, name)
    for wave in plan.waves:
        if not wave.id.startswith(f"{snapshot.turn}-"):
            yield PlanFault(FaultKind.FOREIGN_WAVE, wave.id)
        if not wave.bins:
            yield PlanFault(FaultKind.EMPTY_WAVE, wave.id)
        if len(wave.bins) > limits.bins_per_wave:
            yield PlanFault(FaultKind.WIDE_WAVE, wave.id)
        if wave.budget_s != limits.bin_budget_s:
            yield PlanFault(FaultKind.WRONG_WAVE_BUDGET, wave.id)


def _bin_faults(
    snapshot: Snapshot, streams: dict[StreamId, StreamView], wave: Wave
) -> Iterator[PlanFault]:
    for number, bin_ in enumerate(wave.bins):
        where = f"{wave.id} bin {number}"
        if not bin_.slices:
            yield PlanFault(FaultKind.EMPTY_BIN, where)
        if any(piece.lane.use_case != wave.use_case for piece in bin_.slices):
            yield PlanFault(FaultKind.MIXED_WAVE, where)
        if any(_stream(piece) not in streams for piece in bin_.slices):
            continue
        predicted_s = _predicted_s(streams, bin_)
        if abs(predicted_s - bin_.predicted_s) > TOLERANCE_S * max(1.0, predicted_s):
            yield PlanFault(FaultKind.WRONG_PREDICTION, where)
        over = predicted_s > snapshot.limits.bin_budget_s + TOLERANCE_S
        if over and not _may_be_over(snapshot.limits, bin_, streams):
            yield PlanFault(FaultKind.OVER_BUDGET, f"{where}, {predicted_s:.3f} s")


def _predicted_s(streams: dict[StreamId, StreamView], bin_: Bin) -> float:
    """What its slices cost; those of a stream whose lanes are merged are one call."""
    seconds, merged = 0.0, set()
    for piece in bin_.slices:
        view = streams[_stream(piece)]
        seconds += piece.records * view.cost.seconds_per_record
        if view.id not in merged:
            seconds += view.cost.seconds_per_slice
        if view.order.merges_lanes:
            merged.add(view.id)
    return seconds


def _may_be_over(limits: Limits, bin_: Bin, streams: dict[StreamId, StreamView]) -> bool:
    """One slice alone, or those of one merged stream, if it could not be shorter.

    One record can not, nor what costs much however small; and twice that may be tried of a few.
    """
    used = {_stream(piece) for piece in bin_.slices}
    view = streams[bin_.slices[0].lane.stream]
    lanes = len(bin_.slices)
    if len(used) > 1 or (lanes > 1 and not view.order.merges_lanes):
        return False
    records = sum(piece.records for piece in bin_.slices)
    if records == lanes:
        return True
    fixed_s, seen = view.cost.seconds_per_slice, view.cost.contrast
    seconds = fixed_s + records * view.cost.seconds_per_record
    half_s = (fixed_s + view.call_limit_s) / 2
    if seconds <= min(limits.fixed_times * fixed_s, half_s) + TOLERANCE_S:
        return True
    if seen.size:
        seconds = min(seconds, seen.seconds * records / seen.size)
    return records <= lanes * MOST_TRIED and seconds <= half_s + TOLERANCE_S


def _company_faults(
    snapshot: Snapshot, streams: dict[StreamId, StreamView], wave: Wave
) -> Iterator[PlanFault]:
    """A receipt waits for its whole bin, so it matters who else is in it."""
    for number, bin_ in enumerate(wave.bins):
        used = {_stream(piece) for piece in bin_.slices}
        views = [streams[name] for name in used if name in streams]
        if len(views) < 2:
            continue
        where = f"{wave.id} bin {number}"
        if len({view.apart for view in views}) > 1:
            yield PlanFault(FaultKind.MIXED_APART, where)
        elif not views[0].apart:
            quick = [_is_quick(snapshot.limits, view) for view in views]
            if True in quick and False in quick:
                yield PlanFault(FaultKind.MIXED_QUICK, where)


def _is_quick(limits: Limits, view: StreamView) -> bool | None:
    """Whether all that waits of it is done in a moment; None where sums of floats may differ."""
    cost = view.cost
    first_s = cost.seconds_per_slice + cost.seconds_per_record
    slow = first_s > SLOW_PART * limits.bin_budget_s
    if slow or not cost.samples:
        return False
    lags = [
        lane.waits
        for lane in view.lanes
        if lane.waits > 0 and not lane.in_flight and not _is_closed(lane)
    ]
    calls = min(1, len(lags)) if view.order.merges_lanes else len(lags)
    waiting_s = calls * cost.seconds_per_slice + sum(lags) * cost.seconds_per_record
    waiting_s *= max(1.0, cost.spread)
    if abs(waiting_s - limits.quick_s) <= TOLERANCE_S:
        return None
    return waiting_s < limits.quick_s


def _slice_faults(
    snapshot: Snapshot, view: StreamView, pieces: list[Slice], places: Places
) -> Iterator[PlanFault]:
    lanes = {lane.name: lane for lane in view.lanes}
    seen: set[str] = set()
    most_bytes, most = snapshot.limits.slice_bytes, view.most_places(snapshot.limits)
    for piece in pieces:
        name = piece.lane.name
        found = list(_bounds(snapshot.limits, view, piece))
        if name in seen:
            found.append(FaultKind.PLANNED_TWICE)
        seen.add(name)
        if name in lanes:
            found += _range(lanes[name], piece, places, most)
            told = most_bytes if piece.until_offset == OPEN or lanes[name].untold else 0
            if piece.most_bytes != told:
                found.append(FaultKind.NO_BYTES)
        else:
            found.append(FaultKind.UNKNOWN_LANE)
        for kind in found:
            yield PlanFault(kind, str(piece), view.id)


def _bounds(limits: Limits, view: StreamView, piece: Slice) -> Iterator[FaultKind]:
    if piece.records < 1:
        yield FaultKind.EMPTY_SLICE
    if piece.epoch != view.epoch:
        yield FaultKind.WRONG_EPOCH
    if piece.topic != view.topic:
        yield FaultKind.WRONG_TOPIC
    records = piece.records
    if records > limits.slice_records:
        yield FaultKind.TOO_MANY_RECORDS
    if records > 1 and _bytes(view, records) > limits.slice_bytes:
        yield FaultKind.TOO_MANY_BYTES


def _range(lane: LaneView, piece: Slice, places: Places, most: int) -> Iterator[FaultKind]:
    if lane.in_flight:
        yield FaultKind.IN_FLIGHT
    if _is_closed(lane):
        yield FaultKind.CLOSED
    here = piece.from_offset == lane.position
    if not here:
        yield FaultKind.NOT_AT_POSITION
    until, end = piece.until_offset, lane.end
    if OPEN in (until, end):
        yield from _unbounded(lane, piece, places, most)
    elif until > end or piece.records > lane.waits:
        yield FaultKind.BEYOND_END
    elif here and until != _bound(lane, piece, places, most):
        yield FaultKind.WRONG_BOUND
    if piece.depth != lane.depth:
        yield FaultKind.WRONG_DEPTH
    if piece.ordinal != lane.ordinal:
        yield FaultKind.WRONG_ORDINAL
    if piece.more != (until < end or lane.goes_on or end == OPEN):
        yield FaultKind.WRONG_MORE


def _unbounded(lane: LaneView, piece: Slice, places: Places, most: int) -> Iterator[FaultKind]:
    """What is wrong where the lane, or the slice, does not say where it ends."""
    if piece.until_offset != _bound(lane, piece, places, most):
        yield FaultKind.NOT_OPEN if lane.end == OPEN else FaultKind.OPEN_END
    elif piece.records > lane.waits:
        yield FaultKind.BEYOND_END


def _bound(lane: LaneView, piece: Slice, places: Places, most: int) -> Place:
    """Where a slice has to end; nowhere if it is a part of its lane and nobody can count so far.

    One of a bucket goes over as many places as its records are expected in.
    """
    length = piece.records
    if lane.every > 1:
        length = min(length * lane.every, max(length, most))
    until = places.after(piece.from_offset, length) if lane.end != OPEN else OPEN
    return OPEN if until == OPEN and piece.records < lane.waits else min(until, lane.end)


def _is_closed(lane: LaneView) -> bool:
    return any(at < until for _, at, until in lane.parents)


def _stream_faults(view: StreamView, pieces: list[Slice]) -> Iterator[FaultKind]:
    if _over_throttle(view, pieces):
        yield FaultKind.OVER_THROTTLE
    if len(pieces) > 1 and _in_two_divisions(pieces):
        yield FaultKind.SECOND_DIVISION
    if not view.order.merges_lanes:
        return
    if any(lane.in_flight for lane in view.lanes):
        yield FaultKind.STREAM_IN_FLIGHT
    if any(lane.end == OPEN for lane in view.lanes):
        yield FaultKind.NO_ORDER
    planned = {piece.lane.name for piece in pieces}
    lanes = [lane for lane in view.lanes if not _is_closed(lane)]
    if any(lane.waits > 0 and lane.name not in planned for lane in lanes):
        yield FaultKind.LANE_LEFT_OUT
    if any(lane.goes_on and lane.waits <= 0 for lane in lanes):
        yield FaultKind.LANE_UNKNOWN


def _in_two_divisions(pieces: list[Slice]) -> bool:
    """Whether a key's records may be in two of them."""
    names = [piece.lane.name for piece in pieces]
    if not any("#" in name for name in names):
        return False
    found: dict[str, set[Division]] = defaultdict(set)
    for name in names:
        found[whole_lane(name)].add(division_of(name))
    return any(len(divisions) > 1 for divisions in found.values())


def _too_large(limits: Limits, view: StreamView, pieces: list[Slice]) -> bool:
    """Lanes in one order are merged in memory, so together they are held to the limit of one."""
    if not view.order.merges_lanes or all(piece.records <= 1 for piece in pieces):
        return False
    return _bytes(view, sum(piece.records for piece in pieces)) > limits.slice_bytes


def _split_faults(streams: dict[StreamId, StreamView], plan: Plan) -> list[PlanFault]:
    merged = {name for name, view in streams.items() if view.order.merges_lanes}
    if not merged:
        return []
    bins: Counter[StreamId] = Counter()
    for bin_ in (bin_ for wave in plan.waves for bin_ in wave.bins):
        bins.update(merged & {_stream(piece) for piece in bin_.slices})
    split = (streams[name].id for name in bins if bins[name] > 1)
    return [PlanFault(FaultKind.STREAM_SPLIT, str(name), name) for name in split]


def _over_throttle(view: StreamView, pieces: list[Slice]) -> bool:
    """Whether it takes more than allowed.

    The least that can be taken may pass while anything is allowed: the throttle is then in debt.
    """
    records = sum(piece.records for piece in pieces)
    allowed_records, allowed_bytes = view.allowance_records, view.allowance_bytes
    if (allowed_records is not None and allowed_records < 1) or (
        allowed_bytes is not None and allowed_bytes < 1
    ):
        return True
    least = len(pieces) if view.order.merges_lanes else 1
    if records <= least:
        return False
    if allowed_records is not None and records > allowed_records:
        return True
    return allowed_bytes is not None and _bytes(view, records) > allowed_bytes


def _bytes(view: StreamView, records: int) -> float:
    """Predicted bytes, a hair less: a division and a product of floats may differ by that."""
    return records * view.cost.bytes_per_record * (1 - 1e-9)


def _credit_faults(streams: dict[StreamId, StreamView], plan: Plan) -> Iterator[PlanFault]:
    for stream, count in Counter(credit.stream for credit in plan.credits).items():
        if count > 1 or stream not in streams:
            yield PlanFault(FaultKind.UNKNOWN_CREDIT, str(stream))
