"""One slot is kept for quick work."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka import OFFSETS
from headrace.model.plans import Contrast, Cost, LaneView, Limits, Snapshot, StreamView
from headrace.model.streams import StreamId
from headrace.planning import check, plan
from headrace.policies.express import (
    are_held_up,
    hurried,
    is_long,
    may_run_again,
    with_express,
)

LIMITS = Limits()


def stream(tenant, records, *, record_s=0.001, samples=9, apart=""):
    cost = Cost(seconds_per_record=record_s, spread=0.1, samples=samples)
    lanes = (LaneView(f"{tenant}.visits[0]", 0, records, records),)
    name = StreamId("keep", tenant)
    return StreamView(name, f"{tenant}.visits", lanes, cost=cost, apart=apart)


def snapshot(*streams, free):
    return Snapshot("t1", streams, free, LIMITS)


def test_with_one_slot_there_is_no_express():
    whole = snapshot(stream("acme", 9), free=1)
    assert with_express(whole, 1, 0).streams == whole.streams
    assert with_express(whole, 1, 0).limits.bin_budget_s == LIMITS.bin_budget_s


@pytest.mark.parametrize(("slots", "most_s"), [(1, 4.0), (2, 16.0)])
def test_what_costs_much_however_small_has_longer_bins_where_quick_streams_need_not_wait_for_them(
    slots, most_s
):
    seen = Contrast(records=9_000, seconds=11.0, weight=9.0)
    cost = Cost(0.001, seconds_per_slice=2.0, spread=0.1, samples=9, contrast=seen)
    calls = replace(stream("calls", 10**6), cost=cost)
    (planned,) = (
        bin_
        for wave in plan(with_express(snapshot(calls, free=1), slots, 0), OFFSETS).waves
        for bin_ in wave.bins
    )
    assert planned.predicted_s == pytest.approx(most_s, rel=0.01)
    assert plan(with_express(snapshot(calls, free=1), 2, 1), OFFSETS).waves == ()


def test_the_last_slot_without_a_long_bin_takes_short_ones_only():
    made = with_express(snapshot(stream("whale", 1_000_000), free=1), 2, 1)
    assert (made.free_slots, made.limits.bin_budget_s) == (1, LIMITS.express_s)
    assert plan(made, OFFSETS).waves[0].bins[0].predicted_s <= LIMITS.express_s


def test_short_bins_in_flight_leave_room_for_a_long_one():
    made = with_express(snapshot(stream("whale", 1_000_000), free=1), 2, 0)
    assert (made.free_slots, made.limits.bin_budget_s) == (1, LIMITS.bin_budget_s)


@pytest.mark.parametrize(
    "unfit",
    [
        stream("slow", 9, record_s=0.2),
        stream("unknown", 9, samples=1),
        stream("suspect", 9, apart="suspect/keep"),
    ],
)
def test_slow_unknown_and_suspected_streams_never_take_the_express(unfit):
    made = with_express(snapshot(unfit, stream("quick", 9), free=1), 2, 1)
    assert [stream_seen.id.tenant for stream_seen in made.streams] == ["quick"]


@pytest.mark.parametrize(
    ("new", "taken"),
    [
        (stream("new", 9, samples=0), True),
        (stream("slow", 9, record_s=0.2, samples=1), False),
        (stream("suspect", 9, samples=0, apart="suspect/keep"), False),
    ],
)
def test_a_new_stream_of_a_use_case_that_bears_it_may_take_the_express_in_haste(new, taken):
    made = with_express(snapshot(new, free=1), 2, 1, new_of={"keep"})
    assert len(made.streams) == taken
    for wave in plan(made, OFFSETS).waves:
        (planned,) = wave.bins
        assert is_long(planned, {new.id: new}, LIMITS.express_s)
        assert hurried(planned, {new.id: new}, express=True).in_company
        assert not hurried(planned, {new.id: stream("new", 9)}, express=True).in_company


@pytest.mark.parametrize(
    ("slots", "busy", "long", "hung", "may"),
    [
        (1, 0, 0, None, True),
        (1, 1, 0, None, False),
        (2, 1, 0, None, True),
        (2, 1, 1, None, False),
        (3, 1, 1, None, True),
        (3, 2, 2, None, False),
        (3, 1, 1, 0, True),
        (3, 1, 1, 1, False),
        (4, 1, 1, 1, True),
    ],
)
def test_what_runs_again_apart_never_takes_the_last_slot(slots, busy, long, hung, may):
    assert may_run_again(1, slots, busy, long, hung) is may
    assert may_run_again(9, slots, 0, 0, 0), "however many bins it has, its turn comes"


def test_slots_are_held_up_by_what_has_them_for_longer_than_bins_take():
    assert not are_held_up(2 * LIMITS.bin_budget_s, LIMITS.bin_budget_s)
    assert are_held_up(2.1 * LIMITS.bin_budget_s, LIMITS.bin_budget_s)


@pytest.mark.parametrize(
    ("unfit", "long"),
    [
        (stream("quick", 9), False),
        (stream("unknown", 9, samples=0), True),
        (stream("suspect", 9, apart="suspect/keep"), True),
        (stream("whale", 1_000_000), True),
    ],
)
def test_a_bin_is_long_if_it_is_predicted_or_feared_to_be(unfit, long):
    asked = snapshot(unfit, free=1)
    (planned,) = (bin_ for wave in plan(asked, OFFSETS).waves for bin_ in wave.bins)
    assert is_long(planned, {unfit.id: unfit}, LIMITS.express_s) is long


@given(
    slots=st.integers(1, 6),
    long_running=st.integers(0, 5),
    short_running=st.integers(0, 5),
    backlogs=st.lists(st.integers(1, 100_000), min_size=1, max_size=5),
    samples=st.sampled_from([0, 9]),
)
def test_long_bins_never_take_all_slots_and_every_plan_keeps_the_rules(
    slots, long_running, short_running, backlogs, samples
):
    long_running = min(long_running, slots - 1)
    free = slots - long_running - min(short_running, slots - 1 - long_running)
    streams = [
        stream(f"t{number}", backlog, samples=samples if number else 9)
        for number, backlog in enumerate(backlogs)
    ]
    made = with_express(snapshot(*streams, free=free), slots, long_running)
    planned = plan(made, OFFSETS)
    assert check(made, planned, OFFSETS) == []
    bins = [bin_ for wave in planned.waves for bin_ in wave.bins]
    assert bins, "a slot is free and there is work that may have it"
    views = {stream_seen.id: stream_seen for stream_seen in streams}
    long = sum(is_long(bin_, views, LIMITS.express_s) for bin_ in bins)
    assert long_running + long <= max(1, slots - 1)
