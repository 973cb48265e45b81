"""Each fault is planted once and must be found by its name; a good plan has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from planning_cases import cost, snapshot, stream

from headrace.connectors.kafka import OFFSETS
from headrace.model.lineage import Ahead
from headrace.model.places import OPEN
from headrace.model.plans import Credit, LaneView, Plan, Snapshot
from headrace.model.streams import LaneId, Order, Slice, StreamId
from headrace.model.waves import Bin, Wave
from headrace.planning import FaultKind, check

LANES = (
    LaneView("a.visits[0]", 100, 110, 10),
    LaneView("a.visits[1]", 100, 110, 10),
    LaneView("a.visits[2]", 100, 110, 10, in_flight=True),
)
#: a: three lanes, one of them running. s: two lanes in one order. d: one record is over the
#: budget. w: a flood. h, i: suspected
ASKED = snapshot(
    replace(stream("a"), lanes=LANES),
    stream("s", 10, 10, order=Order.STREAM),
    stream("d", 9, cost=cost(4.0)),
    stream("w", 500),
    stream("h", 5, apart="one"),
    stream("i", 5, apart="two"),
    slots=4,
    slice_records=50,
    slice_bytes=40_000,
    bins_per_wave=2,
)


def piece(tenant: str = "a", partition: int = 0, until: int = 105, **more: object) -> Slice:
    lane = LaneId("score", tenant, f"{tenant}.visits[{partition}]")
    records = until - 100
    made = Slice(lane, f"{tenant}.visits", 100, until, 3, more=until < 110, records=records)
    return replace(made, **more)  # type: ignore[arg-type]


def full(*slices: Slice, predicted_s: float | None = None) -> Bin:
    price = {"d": 4.0}
    found = sum(part.records * price.get(part.lane.tenant, 0.001) for part in slices)
    return Bin(slices, found if predicted_s is None else predicted_s)


def wave(*bins: Bin, name: str = "turn-1-0", **more: object) -> Wave:
    return replace(Wave(name, "score", bins, 1.0), **more)  # type: ignore[arg-type]


def of(*slices: Slice) -> Plan:
    return Plan((wave(full(*slices)),))


def asked(**changes: object) -> Snapshot:
    """The snapshot with stream `a` changed."""
    return replace(ASKED, streams=(replace(ASKED.streams[0], **changes), *ASKED.streams[1:]))  # type: ignore[arg-type]


def merged_of(**changes: object) -> Snapshot:
    """The snapshot with nothing but the merged stream, changed."""
    return replace(ASKED, streams=(replace(ASKED.streams[1], **changes),))  # type: ignore[arg-type]


def merged_running() -> Snapshot:
    first, second = ASKED.streams[1].lanes
    return merged_of(lanes=(first, replace(second, in_flight=True)))


def merged_unknown() -> Snapshot:
    first, second = ASKED.streams[1].lanes
    return merged_of(lanes=(first, replace(second, end=second.position, waits=0, goes_on=True)))


def closed() -> Snapshot:
    """The first lane of stream `a` follows one that is not done."""
    first = replace(LANES[0], parents=(Ahead("a.visits[8]", 9, 9), Ahead("a.visits[9]", 4, 5)))
    return asked(lanes=(first, *LANES[1:]))


def untold() -> Snapshot:
    """Nobody knows where the first lane of stream `a` ends."""
    return asked(lanes=(replace(LANES[0], end=OPEN), *LANES[1:]))


def merged_untold() -> Snapshot:
    first, second = ASKED.streams[1].lanes
    return merged_of(lanes=(first, replace(second, end=OPEN)))


def unbounded(tenant: str = "a", partition: int = 0, **more: object) -> Slice:
    """A slice that does not say where it ends."""
    told = {"until_offset": OPEN, "more": True, "most_bytes": 40_000, **more}
    return replace(piece(tenant, partition), **told)  # type: ignore[arg-type]


def divided_lanes() -> Snapshot:
    """Stream `a` has two buckets of a partition, and the partition whole."""
    names = ("a.visits[0]", "a.visits[0]#0/2", "a.visits[0]#1/2")
    return asked(lanes=tuple(replace(LANES[0], name=name) for name in names))


def part(name: str) -> Slice:
    return replace(piece(), lane=LaneId("score", "a", name))


PLANTED: dict[FaultKind, Callable[[], tuple[Snapshot, Plan]]] = {
    FaultKind.UNKNOWN_STREAM: lambda: (ASKED, of(piece("nobody"))),
    FaultKind.UNKNOWN_LANE: lambda: (ASKED, of(piece(partition=7))),
    FaultKind.WRONG_EPOCH: lambda: (ASKED, of(piece(epoch=2))),
    FaultKind.WRONG_TOPIC: lambda: (ASKED, of(piece(topic="s.visits"))),
    FaultKind.IN_FLIGHT: lambda: (ASKED, of(piece(partition=2))),
    FaultKind.CLOSED: lambda: (closed(), of(piece())),
    FaultKind.PLANNED_TWICE: lambda: (ASKED, Plan((wave(full(piece()), full(piece())),))),
    FaultKind.NOT_AT_POSITION: lambda: (ASKED, of(piece(from_offset=101))),
    FaultKind.BEYOND_END: lambda: (ASKED, of(piece(until=111))),
    FaultKind.WRONG_BOUND: lambda: (ASKED, of(piece(records=4))),
    FaultKind.NOT_OPEN: lambda: (untold(), of(piece())),
    FaultKind.OPEN_END: lambda: (ASKED, of(unbounded(more=False))),
    FaultKind.NO_BYTES: lambda: (untold(), of(unbounded(most_bytes=0))),
    FaultKind.NO_ORDER: lambda: (merged_untold(), of(piece("s"), unbounded("s", 1))),
    FaultKind.EMPTY_SLICE: lambda: (ASKED, of(piece(until=100))),
    FaultKind.WRONG_DEPTH: lambda: (ASKED, of(piece(depth=1))),
    FaultKind.WRONG_ORDINAL: lambda: (ASKED, of(piece(ordinal=1))),
    FaultKind.SECOND_DIVISION: lambda: (
        divided_lanes(),
        of(part("a.visits[0]"), part("a.visits[0]#1/2")),
    ),
    FaultKind.WRONG_MORE: lambda: (ASKED, of(piece(more=False))),
    FaultKind.TOO_MANY_RECORDS: lambda: (
        asked(lanes=(LaneView("a.visits[0]", 100, 900, 800),)),
        of(piece(until=151, more=True)),
    ),
    FaultKind.TOO_MANY_BYTES: lambda: (
        asked(cost=cost(bytes_per_record=10_000.0)),
        of(piece(until=105)),
    ),
    FaultKind.OVER_THROTTLE: lambda: (asked(allowance_records=4), of(piece())),
    FaultKind.STREAM_IN_FLIGHT: lambda: (merged_running(), of(piece("s"))),
    FaultKind.STREAM_SPLIT: lambda: (
        ASKED,
        Plan((wave(full(piece("s")), full(piece("s", 1))),)),
    ),
    FaultKind.STREAM_TOO_LARGE: lambda: (
        merged_of(cost=cost(bytes_per_record=6_000.0)),
        of(piece("s"), piece("s", 1)),
    ),
    FaultKind.LANE_LEFT_OUT: lambda: (ASKED, of(piece("s"))),
    FaultKind.LANE_UNKNOWN: lambda: (merged_unknown(), of(piece("s"))),
    FaultKind.OVER_BUDGET: lambda: (ASKED, of(piece("d", until=108))),
    FaultKind.WRONG_PREDICTION: lambda: (
        ASKED,
        Plan((wave(full(piece(), predicted_s=0.5)),)),
    ),
    FaultKind.MIXED_QUICK: lambda: (ASKED, of(piece(), piece("w", more=True))),
    FaultKind.MIXED_APART: lambda: (
        ASKED,
        of(piece("h", more=False), piece("i", more=False)),
    ),
    FaultKind.EMPTY_BIN: lambda: (ASKED, Plan((wave(Bin((), 0.0)),))),
    FaultKind.EMPTY_WAVE: lambda: (ASKED, Plan((wave(),))),
    FaultKind.TOO_MANY_BINS: lambda: (replace(ASKED, free_slots=0), of(piece())),
    FaultKind.WIDE_WAVE: lambda: (
        ASKED,
        Plan((wave(full(piece()), full(piece(partition=1)), full(piece("d", until=101))),)),
    ),
    FaultKind.MIXED_WAVE: lambda: (ASKED, Plan((wave(full(piece()), use_case="other"),))),
    FaultKind.DUPLICATE_WAVE: lambda: (
        ASKED,
        Plan((wave(full(piece())), wave(full(piece(partition=1))))),
    ),
    FaultKind.FOREIGN_WAVE: lambda: (ASKED, Plan((wave(full(piece()), name="turn-2-0"),))),
    FaultKind.WRONG_WAVE_BUDGET: lambda: (ASKED, Plan((wave(full(piece()), budget_s=9.0),))),
    FaultKind.UNKNOWN_CREDIT: lambda: (
        ASKED,
        Plan((), (Credit(StreamId("score", "nobody"), 1.0),)),
    ),
}


def test_every_fault_is_planted_once() -> None:
    assert set(PLANTED) == set(FaultKind)


@pytest.mark.parametrize("kind", list(FaultKind), ids=lambda kind: kind.name)
def test_a_planted_fault_is_found_and_no_other(kind: FaultKind) -> None:
    found = {fault.kind for fault in check(*PLANTED[kind](), OFFSETS)}
    # A merged stream with a running lane also leaves that lane out.
    also = {FaultKind.LANE_LEFT_OUT} if kind is FaultKind.STREAM_IN_FLIGHT else set()
    assert found == {kind} | also


@pytest.mark.parametrize(
    "good",
    [
        Plan(()),
        of(piece(), piece(partition=1, until=110)),
        of(piece("s"), piece("s", 1), piece()),
        of(piece("d", until=101)),
        Plan((wave(full(piece()), full(piece("h", more=False))),)),
    ],
    ids=["nothing", "two lanes", "merged", "one record over the budget", "apart"],
)
def test_a_good_plan_has_no_fault(good: Plan) -> None:
    assert check(ASKED, good, OFFSETS) == []


def test_a_record_over_the_budget_shares_its_bin_with_nobody() -> None:
    kinds = {fault.kind for fault in check(ASKED, of(piece("d", until=101), piece()), OFFSETS)}
    assert kinds == {FaultKind.OVER_BUDGET, FaultKind.MIXED_QUICK}


@pytest.mark.parametrize("other", ["a", "w"])
def test_a_suspected_stream_shares_no_bin_with_others_of_any_kind(other: str) -> None:
    mixed = of(piece("h", more=False), piece(other, more=True))
    assert {fault.kind for fault in check(ASKED, mixed, OFFSETS)} >= {FaultKind.MIXED_APART}


def test_one_record_of_each_lane_may_be_larger_than_the_limit() -> None:
    asked = merged_of(cost=cost(bytes_per_record=30_000.0))
    assert check(asked, of(piece("s", until=101), piece("s", 1, until=101)), OFFSETS) == []


def test_nothing_passes_a_throttle_that_allows_nothing() -> None:
    kinds = {fault.kind for fault in check(asked(allowance_bytes=0), of(piece(until=101)), OFFSETS)}
    assert kinds == {FaultKind.OVER_THROTTLE}


def test_a_fault_says_what_and_where() -> None:
    (fault,) = check(ASKED, of(piece(epoch=2)), OFFSETS)
    assert str(fault) == (
        "WRONG_EPOCH: a.visits[0] 100..105: a slice held under another epoch than its stream"
    )


def test_a_slice_of_as_much_as_is_guessed_to_wait_is_fine():
    assert check(untold(), of(unbounded()), OFFSETS) == []


def test_a_slice_of_a_bucket_goes_over_the_places_that_its_records_are_expected_in():
    lane = LaneView("a.visits[0]#1/4", 100, 300, 50, every=4)
    snapshot_ = asked(lanes=(lane,), cost=cost())
    good = replace(part(lane.name), until_offset=120, more=True)
    assert check(snapshot_, of(good), OFFSETS) == []
    (fault,) = check(snapshot_, of(replace(good, until_offset=105)), OFFSETS)
    assert fault.kind is FaultKind.WRONG_BOUND


def test_two_buckets_of_one_division_may_run_beside_each_other():
    names = ("a.visits[0]#0/2", "a.visits[0]#1/2")
    both = asked(lanes=tuple(replace(LANES[0], name=name) for name in names))
    assert check(both, of(*map(part, names)), OFFSETS) == []
