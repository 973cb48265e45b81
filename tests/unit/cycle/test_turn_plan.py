"""Whose turn the express is, while the other slots are held up; and who is left out of a plan."""

from dataclasses import replace

import pytest

from headrace.connectors.kafka import OFFSETS
from headrace.cycle import turn_plan
from headrace.cycle.turn_plan import RunningBins, plan_turn
from headrace.model.plans import Cost, LaneView, Limits, Snapshot, StreamView
from headrace.model.streams import StreamId
from headrace.planning import plan

LIMITS = Limits()


def stream(tenant, *, samples=9):
    cost = Cost(seconds_per_record=0.001, spread=0.1, samples=samples)
    lanes = (LaneView(f"{tenant}.visits[0]", 0, 9, 9),)
    return StreamView(StreamId("keep", tenant), f"{tenant}.visits", lanes, cost=cost)


def planned(*streams, held_s, was_long, hasty=frozenset({"keep"})):
    """Tenants of the waves, whether each is in haste, and how many of its bins count as long."""
    whole = Snapshot("t1", streams, 1, LIMITS)
    running = RunningBins(2, 1, 1, was_long, held_s, hasty)
    made = plan_turn(whole, running, LIMITS.bin_budget_s, OFFSETS)
    return [
        ({piece.lane.tenant for piece in wave.slices}, wave.bins[0].hurried, long)
        for wave, long in made.waves
    ]


NEW, QUICK = stream("new", samples=0), stream("quick")


def test_new_and_quick_streams_take_turns_where_slots_are_held_up():
    assert planned(NEW, QUICK, held_s=9.0, was_long=False) == [({"new"}, True, 1)]
    assert planned(NEW, QUICK, held_s=9.0, was_long=True) == [({"quick"}, False, 0)]
    assert planned(NEW, held_s=9.0, was_long=True) == [({"new"}, True, 1)]
    assert planned(QUICK, held_s=9.0, was_long=False) == [({"quick"}, False, 0)]


def test_new_streams_wait_for_what_takes_no_longer_than_bins_do_and_where_no_call_may_be_ended():
    assert planned(NEW, held_s=1.0, was_long=False) == []
    assert planned(NEW, held_s=9.0, was_long=False, hasty=frozenset()) == []


def test_a_stream_whose_plan_breaks_a_rule_is_left_out_and_others_are_planned():
    lanes = tuple(LaneView(f"torn.visits[0]{part}", 0, 9, 9) for part in ("", "#0/2", "#1/2"))
    torn = replace(stream("torn"), lanes=lanes)
    whole = Snapshot("t1", (torn, QUICK), 2, LIMITS)
    made = plan_turn(whole, RunningBins(2, 0, 0, False), LIMITS.bin_budget_s, OFFSETS)
    tenants = {piece.lane.tenant for wave, _ in made.waves for piece in wave.slices}
    assert tenants == {"quick"}
    assert {name.tenant: fault.partition(":")[0] for name, fault in made.unfit.items()} == {
        "torn": "SECOND_DIVISION"
    }


def test_a_plan_that_breaks_a_rule_of_no_stream_is_not_carried_out(monkeypatch):
    def foreign(snapshot, places):
        made = plan(snapshot, places)
        return replace(made, waves=tuple(replace(wave, id="other") for wave in made.waves))

    monkeypatch.setattr(turn_plan, "plan", foreign)
    whole = Snapshot("t1", (QUICK,), 1, LIMITS)
    with pytest.raises(AssertionError, match="breaks its rules"):
        plan_turn(whole, RunningBins(1, 0, 0, False), LIMITS.bin_budget_s, OFFSETS)


def test_what_goes_on_beside_a_lane_that_is_tried_apart_has_no_slot_for_long():
    spared = replace(QUICK, spared=True)
    whole = Snapshot("t1", (spared,), 3, LIMITS)
    made = plan_turn(whole, RunningBins(4, 1, 1, False), LIMITS.bin_budget_s, OFFSETS)
    assert [(wave.bins[0].hurried, long) for wave, long in made.waves] == [(True, 0)]
