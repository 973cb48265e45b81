"""Lanes that follow others wait until these are committed to their ends, whatever happens."""

import json

import pytest
from lanes_of_acme import ACME, TOPIC, at, believed, look, stream

from headrace.board import Board, HeldStream
from headrace.connectors.kafka import OFFSETS
from headrace.cycle.lags import lags
from headrace.cycle.replay import ReplayStep, decide
from headrace.cycle.reruns import range_of
from headrace.errors import ConfigError
from headrace.model.lineage import Parent
from headrace.model.records import Deployment, FailureState
from headrace.model.streams import (
    DataLossPolicy,
    Guarantee,
    LaneId,
    Order,
    Position,
    Slice,
    State,
    Stream,
    StreamId,
    Tenant,
)
from headrace.model.waves import Bin, Terms, Wave
from headrace.operating.seeking import carry_out, planned, seek
from headrace.testing.log_fake import MemoryLog
from headrace.testing.wide_log import WideLog

BOLT = StreamId("keep", "bolt")


@pytest.fixture
def begun(world):
    """Acme with one lane, at 5, and bolt at 3; nothing left to do."""

    def begin(policy=DataLossPolicy.FAIL, **options):
        world.use_cases = [world.make(**options)]
        world.deploy(data_loss=policy)
        world.tenant("acme", 5)
        world.tenant("bolt", 3)
        world.start()
        world.turns()
        return world

    return begin


def stopped(world):
    """Nothing of acme runs: what waits is seen."""
    world.store.registry.set_tenant_state("acme", State.SUSPENDED)
    world.turns(2)


def going(world):
    world.store.registry.set_tenant_state("acme", State.ACTIVE)
    world.turns(8, seconds=1.0)


def made_again_narrower(world):
    """Acme's topic gets a second lane, is read, and made again without it."""
    world.log.widen(TOPIC)
    world.send("acme", 2, 1)
    look(world)
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC)
    world.send("acme", 3)


def test_halves_are_read_after_what_was_split_and_from_their_beginning(begun):
    world = begun()
    stopped(world)
    world.send("acme", 4)
    for half in world.log.split(TOPIC, 0):
        world.send("acme", 2, half)
    going(world)
    assert at(world) == {"0": 9, "1": 2, "2": 2}
    order = [offset for tenant, offset in world.seen if tenant == "acme"]
    assert order[5:9] == [5, 6, 7, 8]
    assert sorted(order[9:]) == [0, 0, 1, 1]


def test_a_lane_that_waits_says_for_what(begun):
    world = begun()
    stopped(world)
    world.send("acme", 4)
    first, _ = world.log.split(TOPIC, 0)
    world.send("acme", 2, first)
    world.log.set_leader(TOPIC, 0, False)
    going(world)
    assert at(world) == {"0": 5, "1": 0, "2": 0}
    assert "waits for its parents: acme.visits[0] (at 5 of 9)" in world.row("acme").note
    world.log.set_leader(TOPIC, 0, True)
    look(world)
    assert at(world) == {"0": 9, "1": 2, "2": 0}
    assert world.row("acme").note == ""


def test_whoever_asks_the_store_is_told_what_lanes_wait_for(begun):
    world = begun()
    stopped(world)
    world.send("acme", 4)
    first, second = world.log.split(TOPIC, 0)
    world.log.merge(TOPIC, first, second)
    world.log.set_leader(TOPIC, 0, False)
    going(world)
    (found,) = [lag for lag in lags(world.store, world.log) if lag.stream.id == ACME]
    assert found.waits_for == {
        "acme.visits[1]": ["acme.visits[0]"],
        "acme.visits[2]": ["acme.visits[0]"],
        "acme.visits[3]": ["acme.visits[0]"],
    }


def test_a_parent_that_is_done_and_gone_is_no_fault(begun):
    world = begun()
    world.log.split(TOPIC, 0)
    look(world)
    world.log.drop_lane(TOPIC, 0)
    (found,) = [lag for lag in lags(world.store, world.log) if lag.stream.id == ACME]
    assert found.faults() == []
    assert found.waits_for == {}
    world.store.progress.seek(ACME, {"acme.visits[0]": 3}, world.log.id_of(TOPIC))
    (found,) = [lag for lag in lags(world.store, world.log) if lag.stream.id == ACME]
    assert found.faults() == ["partition 0 of acme.visits is gone"]


def test_what_was_merged_waits_for_both(begun):
    world = begun()
    first, second = world.log.split(TOPIC, 0)
    look(world)
    world.log.set_leader(TOPIC, second, False)
    world.send("acme", 3, first)
    world.send("acme", 2, second)
    merged = world.log.merge(TOPIC, first, second)
    world.send("acme", 4, merged)
    look(world)
    assert at(world) == {"0": 5, "1": 3, "2": 0, "3": 0}
    world.log.set_leader(TOPIC, second, True)
    look(world)
    assert at(world) == {"0": 5, "1": 3, "2": 2, "3": 4}


def test_a_stream_that_begins_after_lanes_were_dropped_waits_for_none_of_them(begun):
    world = begun()
    world.log.create_topic("core.visits")
    first, second = world.log.split("core.visits", 0)
    world.log.drop_lane("core.visits", 0)
    world.send("core", 2, first)
    world.send("core", 1, second)
    world.store.registry.add_tenant(Tenant("core"))
    world.turns(8)
    assert world.positions()["core", first] == 2
    assert world.positions()["core", second] == 1


def test_a_parent_that_is_done_and_not_listed_any_more_is_forgotten(begun):
    world = begun()
    first, second = world.log.split(TOPIC, 0)
    look(world)
    world.log.drop_lane(TOPIC, 0)
    look(world)
    assert "0" in at(world), "its children were never committed"
    world.send("acme", 1, first)
    world.send("acme", 1, second)
    look(world)
    look(world)
    believed(world)
    assert at(world) == {"1": 1, "2": 1}
    assert world.row("acme").state == "active"


def test_a_parent_that_was_not_done_and_is_not_listed_any_more_stops_its_stream(begun):
    world = begun()
    stopped(world)
    world.send("acme", 4)
    first, _ = world.log.split(TOPIC, 0)
    world.send("acme", 2, first)
    world.store.registry.set_tenant_state("acme", State.ACTIVE)
    world.log.set_leader(TOPIC, 0, False)
    world.turns(8, seconds=1.0)
    world.log.drop_lane(TOPIC, 0)
    look(world)
    believed(world)
    reason = stream(world).reason
    assert "LaneExpired: acme.visits[0] is not listed by its log any more" in reason
    assert "offsets 5..9 of it are lost" in reason
    assert at(world)["1"] == 0
    seek(world.store, world.log, ACME, "earliest", wait=lambda _: None)
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.turns(8, seconds=1.0)
    assert at(world) == {"1": 2, "2": 0}
    assert stream(world, BOLT).state is State.ACTIVE


def test_a_parent_that_was_not_done_is_passed_over_where_that_is_wanted(begun):
    world = begun(DataLossPolicy.SKIP)
    stopped(world)
    world.send("acme", 4)
    first, _ = world.log.split(TOPIC, 0)
    world.send("acme", 2, first)
    world.log.set_leader(TOPIC, 0, False)
    world.store.registry.set_tenant_state("acme", State.ACTIVE)
    world.turns(8, seconds=1.0)
    world.log.drop_lane(TOPIC, 0)
    look(world)
    believed(world)
    assert at(world) == {"1": 2, "2": 0}
    (kept,) = world.store.failures.every(ACME)
    assert (kept.slice.from_offset, kept.slice.until_offset) == (5, 9)
    assert kept.state is FailureState.SKIPPED
    assert "what follows it goes on without it" in kept.error.message
    assert world.row("acme").lost_records == 4


def test_grandchildren_are_read_although_nobody_ever_saw_their_parents(begun):
    world = begun(DataLossPolicy.SKIP)
    stopped(world)
    first, second = world.log.split(TOPIC, 0)
    youngest = world.log.merge(TOPIC, first, second)
    for gone in (0, first, second):
        world.log.drop_lane(TOPIC, gone)
    world.send("acme", 3, youngest)
    going(world)
    believed(world)
    assert at(world) == {"3": 3}
    told = {
        failure.slice.lane.name: failure.error.message
        for failure in world.store.failures.every(ACME)
    }
    assert set(told) == {"acme.visits[0]", "acme.visits[1]", "acme.visits[2]"}
    assert "where it ended is not known; what it had from 5 on is lost" in told["acme.visits[0]"]
    assert "was never read; all that was in it is lost" in told["acme.visits[1]"]


def test_a_seek_closes_what_follows_until_its_parent_is_done_again(begun):
    world = begun()
    first, _ = world.log.split(TOPIC, 0)
    world.send("acme", 2, first)
    look(world)
    assert at(world) == {"0": 5, "1": 2, "2": 0}
    world.log.set_leader(TOPIC, 0, False)
    world.send("acme", 1, first)
    world.store.progress.seek(ACME, {"acme.visits[0]": 3}, world.log.id_of(TOPIC))
    world.turns(8, seconds=1.0)
    assert at(world) == {"0": 3, "1": 2, "2": 0}
    world.log.set_leader(TOPIC, 0, True)
    look(world)
    assert at(world) == {"0": 5, "1": 3, "2": 0}


@pytest.mark.parametrize("made", [MemoryLog, WideLog])
def test_a_seek_planned_before_a_split_opens_nothing_that_came_of_it(world, made):
    world.log = made()
    world.use_cases = [world.make()]
    world.deploy()
    world.tenant("acme")
    world.start()
    world.turns()
    half, _ = world.log.split(TOPIC, 0)
    world.send("acme", 3, half)
    look(world)
    plan = planned(world.store, world.log, ACME, "earliest")
    first, _ = world.log.split(TOPIC, half)
    world.send("acme", 1, first)
    look(world, 8)
    assert len(world.seen) == 4
    world.log.set_leader(TOPIC, half, False)
    carry_out(world.store.progress, plan)
    world.send("acme", 1, first)
    look(world, 8)
    assert len(world.seen) == 4, "its parent is not done again"
    world.log.set_leader(TOPIC, half, True)
    look(world, 8)
    assert [offset for _, offset in world.seen[4:7]] == [0, 1, 2]
    assert len(world.seen) == 8


def test_a_seek_of_a_lane_that_nobody_has_begun_says_what_it_follows(begun):
    world = begun()
    stopped(world)
    world.log.split(TOPIC, 0)
    wanted = json.dumps({TOPIC: {"1": 0}})
    plan = planned(world.store, world.log, ACME, wanted)
    assert [parent.lane for parent in plan.parents["acme.visits[1]"]] == ["acme.visits[0]"]
    world.log.drop_lane(TOPIC, 0)
    with pytest.raises(ConfigError, match="seek all lanes of the stream together"):
        planned(world.store, world.log, ACME, wanted)


def test_merged_lanes_hold_what_is_younger_than_a_lane_that_waits(begun):
    world = begun(order=Order.STREAM)
    world.log.widen(TOPIC)
    look(world)
    stopped(world)
    world.send("acme", 1)
    first, _ = world.log.split(TOPIC, 0)
    world.clock.move(5)
    world.send("acme", 1, first)
    world.clock.move(5)
    world.send("acme", 1, 1)
    going(world)
    look(world)
    seen = [offset for tenant, offset in world.seen if tenant == "acme"]
    assert seen[5:] == [5, 0, 0]
    assert at(world) == {"0": 6, "1": 1, "2": 1, "3": 0}


def test_a_rerun_reads_a_parent_first_as_well(begun):
    world = begun()
    first, _ = world.log.split(TOPIC, 0)
    world.send("acme", 2, first)
    look(world)
    wanted = range_of(world.store, world.log, ACME, "earliest", None)
    assert wanted.lanes == {"acme.visits[0]": (0, 5), "acme.visits[1]": (0, 2)}
    (parent,) = wanted.parents["acme.visits[1]"]
    assert parent == ("acme.visits[0]", 5)


def recorded(order=Order.LANE, state=State.ACTIVE):
    """A recorded slice of a lane whose parent a seek has sent back, and what becomes of it."""
    deployment = Deployment("keep", "m.py", "0", "{tenant}.visits", order=order)
    held = HeldStream(Stream(ACME, TOPIC, state), Tenant("acme"), deployment, 2, OFFSETS)
    old, half = LaneId(*ACME, "acme.visits[0]"), LaneId(*ACME, "acme.visits[1]")
    board = Board({ACME: held})
    board.fill(
        [Position(old, 3, 2, depth=2), Position(half, 0, 2, (Parent(old.name, 5),), depth=3)]
    )
    piece = Slice(half, TOPIC, 0, 2, 1, depth=1, ordinal=7)
    terms = Terms(Guarantee.EXACTLY_ONCE, order, "slice", "", intends=True)
    wave = Wave("w", "keep", (Bin((piece,), 1.0),), 1.0, terms)
    return decide(wave, True, board)


def test_a_recorded_slice_of_a_lane_that_a_seek_closed_waits():
    assert recorded().step is ReplayStep.WAIT


def test_its_records_are_newer_than_those_that_come_again_before_it():
    (piece,) = recorded().due.slices
    assert (piece.epoch, piece.depth, piece.ordinal) == (2, 3, 0)


def test_of_merged_lanes_it_is_given_up_as_it_would_hold_what_it_waits_for():
    found = recorded(order=Order.STREAM)
    assert found.step is ReplayStep.GIVE_UP
    assert [piece.lane.name for piece in found.gone] == ["acme.visits[1]"]


def test_of_a_removed_stream_it_waits_for_nothing():
    assert recorded(state=State.REMOVED).step is ReplayStep.RUN


@pytest.mark.parametrize("made", [MemoryLog, WideLog])
def test_a_lane_of_an_earlier_topic_does_not_open_what_has_its_name_now(world, begun, made):
    world.log = made()
    begun(DataLossPolicy.SKIP)
    made_again_narrower(world)
    look(world, 8)
    believed(world)
    assert at(world) == {"0": 3}, "its topic has no such lane"
    world.log.set_leader(TOPIC, 0, False)
    world.send("acme", 1)
    first, _ = world.log.split(TOPIC, 0)
    world.send("acme", 2, first)
    world.turns(8, seconds=1.0)
    look(world)
    assert at(world) == {"0": 3, "1": 0, "2": 0}
    world.log.set_leader(TOPIC, 0, True)
    look(world)
    assert at(world) == {"0": 4, "1": 2, "2": 0}
    assert len(world.store.failures.every(ACME)) == 2, "what two lanes lost with the first topic"


def test_a_topic_made_again_after_all_was_given_up_is_read_from_its_beginning(world):
    """`latest` is for what was there before the stream began, and that it has."""
    world.use_cases = [world.make()]
    world.deploy(data_loss=DataLossPolicy.SKIP, starting_offsets="latest")
    world.tenant("acme", 5)
    world.start()
    world.turns()
    stopped(world)
    world.send("acme", 4)
    for half in world.log.split(TOPIC, 0):
        world.send("acme", 2, half)
        world.log.set_leader(TOPIC, half, False)
    world.log.drop_lane(TOPIC, 0)
    going(world)
    look(world)
    believed(world)
    assert at(world) == {}
    (told,) = world.store.failures.every(ACME)
    assert "what it had from 5 on is lost" in told.error.message, "and is told once"
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC)
    world.send("acme", 3)
    look(world)
    believed(world)
    assert at(world) == {"0": 3}
    assert world.seen == [("acme", 0), ("acme", 1), ("acme", 2)]


def test_a_lane_that_was_read_is_not_begun_again_when_its_parents_are_told_late(begun, monkeypatch):
    world, told = begun(), MemoryLog._parents_of
    stopped(world)
    world.send("acme", 4)
    for half in world.log.split(TOPIC, 0):
        world.send("acme", 2, half)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "_parents_of", lambda log, topic: {})
        going(world)
        look(world)
    assert at(world) == {"0": 9, "1": 2, "2": 2}
    monkeypatch.setattr(MemoryLog, "_parents_of", told)
    look(world, 8)
    assert at(world) == {"0": 9, "1": 2, "2": 2}
    assert len([tenant for tenant, _ in world.seen if tenant == "acme"]) == 13


@pytest.mark.parametrize("made", [MemoryLog, WideLog])
def test_nor_does_one_that_a_person_sought_in_the_topic_made_again(world, begun, made):
    world.log = made()
    begun(DataLossPolicy.FAIL)
    made_again_narrower(world)
    look(world)
    seek(world.store, world.log, ACME, "earliest")
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    look(world, 8)
    assert at(world) == {"0": 3}
    first, _ = world.log.split(TOPIC, 0)
    world.send("acme", 2, first)
    look(world, 8)
    assert at(world) == {"0": 3, "1": 2, "2": 0}
    assert stream(world).state is State.ACTIVE


@pytest.mark.parametrize("policy", [DataLossPolicy.FAIL, DataLossPolicy.SKIP])
@pytest.mark.parametrize("made", [MemoryLog, WideLog])
def test_a_lane_that_a_topic_made_again_gets_later_has_lost_nothing(world, begun, made, policy):
    world.log = made()
    begun(policy)
    made_again_narrower(world)
    look(world)
    believed(world)
    if policy is DataLossPolicy.FAIL:
        seek(world.store, world.log, ACME, "earliest")
        world.store.registry.set_stream_state(ACME, State.ACTIVE)
    look(world, 8)
    told = len(world.store.failures.every(ACME))
    world.log.widen(TOPIC)
    world.send("acme", 2, 1)
    look(world, 8)
    assert at(world) == {"0": 3, "1": 2}
    assert stream(world).state is State.ACTIVE
    assert len(world.store.failures.every(ACME)) == told
