"""Accidents that once lost a record, ran one twice or stopped the innocent."""

import pytest
from stage import GUARANTEES, TENANTS, Stage

from headrace.errors import (
    StoreUnavailable,
)
from headrace.model.records import Move
from headrace.model.streams import LaneId, StreamId, Throttle

A0 = LaneId("keep", "acme", "acme.visits[0]")


@pytest.fixture
def stage_of(tmp_path):
    """Makes a stage without surprises: ``stage_of("at-least-once", order="lane")``."""
    made = []

    def make(guarantee, order="lane", bad_record="suspend", lanes=(1, 1, 1)):
        folder = tmp_path / f"stage{len(made)}"
        folder.mkdir()
        made.append(Stage(folder, guarantee, order, bad_record, lanes))
        return made[-1]

    yield make
    for driver in made:
        driver.store.close()


def put(stage, tenant, *values, partition=0):
    stage.send(tenant, *values, partition=partition)


def turns(stage, count, seconds=1.0):
    for _ in range(count):
        stage.turn(seconds)


@pytest.mark.parametrize("asked", range(4))
@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_recorded_wave_is_divided_once_however_the_store_stumbles(stage_of, asked, fault):
    stage = stage_of("exactly-once, by intent")
    for name in TENANTS:
        put(stage, name, b"kills:inf" if name == "bolt" else b"good")
    turns(stage, 1)
    (flight,) = stage.driver.board.flights.values()
    assert len(list(flight.wave.slices)) == 3
    # What the driver asks then: positions, a part, another, the last; the whole is forgotten.
    stage.faults = [None] * asked + [fault]
    turns(stage, 3)
    stage.heal()
    stage.balance()
    (failure,) = stage.store.failures.every(only_open=True)
    assert failure.slice.lane.tenant == "bolt"


def test_a_driver_killed_while_it_divides_a_recorded_wave_runs_no_lane_twice(stage_of):
    stage = stage_of("exactly-once, by intent")
    for name in TENANTS:
        put(stage, name, b"kills:inf" if name == "bolt" else b"good")
    turns(stage, 1)
    stage.faults = [None, None, None, "before"]
    stage.driver.turn()
    assert len(stage.store.progress.pending_intents()) > 1
    stage.start()
    turns(stage, 3)
    stage.heal()
    stage.balance()


def test_replays_that_wait_are_not_forgotten_when_the_store_stumbles(stage_of):
    stage = stage_of("exactly-once, by intent")
    put(stage, "acme", b"good")
    stage.turn()
    put(stage, "bolt", b"good")
    stage.fates = ["stays"] * 9
    turns(stage, 2, 0.1)
    first, _ = stage.store.progress.pending_intents()
    assert {piece.lane.tenant for piece in first.slices} == {"acme"}
    # It was done, but the driver was killed before it could forget the record of it.
    stage.store.positions.advance([Move(A0, 0, 1, next(first.slices).epoch)])
    stage.start()
    stage.store.progress.finish_intent = failing_once(stage.store.progress.finish_intent)
    turns(stage, 12)
    assert stage.store.progress.pending_intents() == []
    assert stage.position(LaneId("keep", "bolt", "bolt.visits[0]")) == 1


def failing_once(method, times=1):
    """A method of a store that does not answer the first times."""
    left = [None] * times

    def called(*args, **options):
        if left:
            left.pop()
            raise StoreUnavailable("the store does not answer")
        return method(*args, **options)

    return called


@pytest.mark.parametrize("guarantee", GUARANTEES[1:3])
def test_a_lane_sought_past_a_bad_record_is_not_stopped_by_a_slice_from_before(stage_of, guarantee):
    stage = stage_of(guarantee)
    put(stage, "acme", b"bad:inf", b"good", b"good")
    stage.turn()
    stage.fates = ["stays"]
    stage.store.progress.seek(StreamId("keep", "acme"), {"acme.visits[0]": 1})
    stage.sent(A0, 0, 1)
    stage.turn()
    turns(stage, 6)
    assert stage.store.failures.every() == []
    assert stage.position(A0) == 3


def test_by_intent_what_passes_by_itself_leaves_no_effect_of_half_a_slice(stage_of):
    stage = stage_of("exactly-once, by intent")
    put(stage, "acme", b"good", b"good", b"raises:0.5", b"good")
    stage.turn()
    stage.fates = ["lost after"]
    stage.turn()
    stage.heal()
    stage.balance()
    assert stage.position(A0) == 4


def test_by_intent_a_gap_beside_a_bad_record_brings_no_effect_of_what_is_not_reached(stage_of):
    stage = stage_of("exactly-once, by intent", order="stream", lanes=(2, 1, 1))
    put(stage, "acme", *[b"good"] * 12)
    put(stage, "acme", b"good", b"good", partition=1)
    put(stage, "acme", b"good", b"bad:inf", b"good")
    stage.log.append_gap("acme.visits", 1, 1)
    stage.heal()
    stage.balance()
    assert stage.position(A0) == 13


def test_by_intent_a_handler_that_raises_stops_exactly_at_its_record(stage_of):
    stage = stage_of("exactly-once, by intent")
    put(stage, "acme", *[b"good"] * 4, b"raises:inf", b"good")
    stage.heal()
    stage.balance()
    (failure,) = stage.store.failures.every()
    assert (failure.error.offset, stage.position(A0), failure.attempts) == (4, 4, 4)


def test_a_failure_counts_once_however_the_store_stumbles(stage_of):
    stage = stage_of("at-least-once")
    put(stage, "acme", b"raises:inf")
    put(stage, "bolt", b"bad:inf")
    stage.turn()
    stage.store.failures.keep = failing_once(stage.store.failures.keep, times=2)
    turns(stage, 5, 0.05)
    assert len(stage.store.failures.every()) == 1
    lane = stage.driver.board.lane(A0)
    tried = sum(piece.lane == A0 for wave in stage.engine.started for piece in wave.slices)
    assert lane.attempts <= tried


def test_tokens_of_a_lost_wave_are_given_back(stage_of):
    stage = stage_of("at-least-once")
    stage.store.registry.set_throttle("acme", Throttle(records_per_s=0.001, burst_s=5000.0))
    put(stage, "acme", *[b"good"] * 5)
    stage.turn(0.0)
    stage.fates = ["lost before"]
    turns(stage, 30)
    assert stage.position(A0) == 5
