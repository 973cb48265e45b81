"""Snapshots for the planner's tests: built by hand, drawn by Hypothesis, and moved on by a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from headrace.connectors.kafka import OFFSETS
from headrace.model.plans import Contrast, Cost, LaneView, Limits, Plan, Snapshot, StreamView
from headrace.model.streams import Order, StreamId
from headrace.planning import check, plan

QUICK = settings(max_examples=80, deadline=None, derandomize=True)
FEW = settings(max_examples=25, deadline=None, derandomize=True)


def cost(record_s: float = 0.001, slice_s: float = 0.0, **more: Any) -> Cost:
    return Cost(
        **{
            "seconds_per_record": record_s,
            "seconds_per_slice": slice_s,
            "spread": 0.1,
            "samples": 9,
            **more,
        }
    )


def stream(tenant: str, *lags: int, use_case: str = "score", **more: Any) -> StreamView:
    """A stream with a lane for each lag, at position 100, a millisecond a record."""
    lanes = tuple(
        LaneView(f"{tenant}.visits[{number}]", 100, 100 + lag, lag)
        for number, lag in enumerate(lags)
    )
    view = StreamView(StreamId(use_case, tenant), f"{tenant}.visits", lanes, epoch=3, cost=cost())
    return replace(view, **more)


def snapshot(*streams: StreamView, slots: int = 1, **limits: Any) -> Snapshot:
    return Snapshot("turn-1", streams, slots, Limits(**limits))


def valid_plan(asked: Snapshot) -> Plan:
    made = plan(asked, OFFSETS)
    assert check(asked, made, OFFSETS) == []
    return made


def records_of(made: Plan) -> dict[str, int]:
    """Planned records by tenant."""
    found: dict[str, int] = {}
    for piece in (piece for wave in made.waves for piece in wave.slices):
        found[piece.lane.tenant] = found.get(piece.lane.tenant, 0) + piece.records
    return found


def seconds_of(asked: Snapshot, made: Plan) -> dict[StreamId, float]:
    """Planned task-seconds by stream."""
    costs = {view.id: view.cost for view in asked.streams}
    found = dict.fromkeys(costs, 0.0)
    for piece in (piece for wave in made.waves for piece in wave.slices):
        price = costs[piece.lane.stream]
        found[piece.lane.stream] += (
            price.seconds_per_slice + piece.records * price.seconds_per_record
        )
    return found


def started(asked: Snapshot, made: Plan) -> Snapshot:
    """The same moment with the plan running."""
    taken = {piece.lane for wave in made.waves for piece in wave.slices}

    def begun(view: StreamView, lane: LaneView) -> LaneView:
        return replace(lane, in_flight=lane.in_flight or (*view.id, lane.name) in taken)

    return with_lanes(asked, begun)


def with_lanes(asked: Snapshot, changed: Callable[[StreamView, LaneView], LaneView]) -> Snapshot:
    """The same moment with other lanes."""
    streams = (
        replace(view, lanes=tuple(changed(view, lane) for lane in view.lanes))
        for view in asked.streams
    )
    return replace(asked, streams=tuple(streams))


def at(lane: LaneView, position: int) -> LaneView:
    """A lane that has come so far."""
    return replace(lane, position=position, waits=lane.end - position)


def finished(asked: Snapshot, made: Plan) -> Snapshot:
    """The next turn, with everything planned done and its credits remembered."""
    reached = {piece.lane: piece.until_offset for wave in made.waves for piece in wave.slices}
    credits_s = {credit.stream: credit.credit_s for credit in made.credits}
    return replace(
        asked,
        turn=f"turn-{int(asked.turn.rsplit('-', 1)[1]) + 1}",
        streams=tuple(
            replace(
                view,
                credit_s=credits_s.get(view.id, view.credit_s),
                lanes=tuple(
                    at(lane, reached.get((*view.id, lane.name), lane.position))  # type: ignore[call-overload]
                    for lane in view.lanes
                ),
            )
            for view in asked.streams
        ),
    )


def refilled(asked: Snapshot, lag: int) -> Snapshot:
    """The same, with every lane so far behind its log again."""
    return with_lanes(asked, lambda _, lane: replace(lane, end=lane.position + lag, waits=lag))


contrasts = st.builds(
    Contrast,
    records=st.sampled_from([0, 1, 40, 5_000]),
    seconds=st.sampled_from([0.001, 0.9, 7.0]),
    weight=st.sampled_from([0.0, 1.0, 20.0]),
    growing=st.sampled_from([0.0, 0.6, 1.0]),
    log_records=st.sampled_from([0.0, 5.0]),
    log_width=st.sampled_from([0.5, 3.0]),
)
costs = st.builds(
    Cost,
    contrast=contrasts,
    seconds_per_record=st.sampled_from([1e-6, 0.000_02, 0.001, 0.03, 0.4, 3.0]),
    bytes_per_record=st.sampled_from([1.0, 500.0, 3e7, 2e8]),
    seconds_per_slice=st.sampled_from([1e-5, 0.000_5, 0.02, 0.6]),
    spread=st.sampled_from([0.0, 0.4, 3.0]),
    samples=st.sampled_from([0, 1, 30]),
)


@st.composite
def lane_views(draw: st.DrawFn, name: str) -> LaneView:
    position = draw(st.integers(0, 10**6))
    lag = draw(st.one_of(st.integers(0, 5), st.integers(0, 10**6)))
    in_flight, goes_on = draw(st.integers(0, 4)) == 0, draw(st.integers(0, 4)) == 0
    return LaneView(name, position, position + lag, lag, in_flight, goes_on)


@st.composite
def stream_views(draw: st.DrawFn, name: StreamId) -> StreamView:
    count = draw(st.integers(1, 5))
    allowances = st.one_of(st.none(), st.integers(0, 10), st.integers(0, 10**6))
    return StreamView(
        id=name,
        topic=f"{name.tenant}.visits",
        lanes=tuple(draw(lane_views(f"{name.tenant}.visits[{number}]")) for number in range(count)),
        order=draw(st.sampled_from(Order)),
        epoch=draw(st.integers(0, 3)),
        weight=draw(st.sampled_from([0.1, 1.0, 1.0, 5.0])),
        cost=draw(costs),
        credit_s=draw(st.one_of(st.just(0.0), st.floats(-20, 20))),
        allowance_records=draw(allowances),
        allowance_bytes=draw(allowances),
        apart=draw(st.sampled_from(["", "", "", "p", "q"])),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    names = draw(
        st.lists(
            st.builds(StreamId, st.sampled_from("xyz"), st.sampled_from("abcdefgh")),
            unique=True,
            max_size=10,
        )
    )
    limits = Limits(
        bin_budget_s=draw(st.sampled_from([0.05, 1.0, 5.0])),
        bins_per_wave=draw(st.integers(1, 3)),
        slice_records=draw(st.sampled_from([1, 50, 100_000])),
        quick_s=draw(st.sampled_from([0.0, 0.1, 2.0])),
        min_bin_s=draw(st.sampled_from([0.0, 0.1, 2.0])),
        probe_records=draw(st.sampled_from([1, 200])),
    )
    streams = tuple(draw(stream_views(name)) for name in names)
    return Snapshot("turn-1", streams, draw(st.integers(0, 6)), limits)
