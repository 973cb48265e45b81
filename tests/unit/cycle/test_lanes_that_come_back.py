"""What one answer of a log does not list may be there in the next: no lane is gone at once."""

import pytest
from lanes_of_acme import ACME, TOPIC, at, believed, look, stream

from headrace.model.records import FailureState
from headrace.model.streams import DataLossPolicy, State


@pytest.fixture
def begun(world):
    """Acme with a lane that is done, at 5, and its two halves, at 2 each."""

    def begin(policy):
        world.use_cases = [world.make()]
        world.deploy(data_loss=policy)
        world.tenant("acme", 5)
        world.start()
        world.turns()
        for half in world.log.split(TOPIC, 0):
            world.send("acme", 2, half)
        look(world, 8)
        assert at(world) == {"0": 5, "1": 2, "2": 2}
        return world

    return begin


def test_a_parent_that_is_done_and_missing_from_one_answer_is_not_read_again(begun):
    world = begun(DataLossPolicy.FAIL)
    world.log.set_listed(TOPIC, 0, False)
    look(world, 2)
    world.log.set_listed(TOPIC, 0, True)
    look(world, 8)
    assert at(world) == {"0": 5, "1": 2, "2": 2}
    assert len(world.seen) == 9


def test_it_is_forgotten_when_every_answer_for_a_while_was_without_it(begun):
    world = begun(DataLossPolicy.FAIL)
    world.log.drop_lane(TOPIC, 0)
    look(world, 2)
    assert "0" in at(world)
    world.send("acme", 1, 1)
    believed(world)
    assert at(world) == {"1": 3, "2": 2}, "what is there is read meanwhile"


def test_answers_far_apart_do_not_tell_that_it_is_gone(begun):
    world = begun(DataLossPolicy.FAIL)
    for _ in range(3):
        world.log.set_listed(TOPIC, 0, False)
        look(world, 1)
        world.log.set_listed(TOPIC, 0, True)
        look(world, 1)
    assert at(world)["0"] == 5


@pytest.mark.parametrize("policy", DataLossPolicy)
def test_a_lane_that_is_not_done_and_missing_from_one_answer_is_not_lost(begun, policy):
    world = begun(policy)
    world.log.set_listed(TOPIC, 1, False)
    look(world, 2)
    assert "acme.visits[1] is not listed by its log" in world.row("acme").note
    assert "asked for 20 s before it counts as gone" in world.row("acme").note
    world.log.set_listed(TOPIC, 1, True)
    world.send("acme", 1, 1)
    world.turns(8, seconds=1.0)
    assert at(world) == {"0": 5, "1": 3, "2": 2}
    assert (stream(world).state, len(world.seen)) == (State.ACTIVE, 10)
    assert world.store.failures.every(ACME) == []


def test_it_is_lost_when_every_answer_for_a_while_was_without_it(begun):
    world = begun(DataLossPolicy.SKIP)
    world.log.set_listed(TOPIC, 1, False)
    look(world, 2)
    believed(world)
    (kept,) = world.store.failures.every(ACME)
    assert (kept.slice.lane.name, kept.state) == ("acme.visits[1]", FailureState.SKIPPED)
    assert at(world) == {"0": 5, "2": 2}


def test_nor_is_a_parent_that_nobody_saw_lost_at_once(begun):
    world = begun(DataLossPolicy.SKIP)
    first, _ = world.log.split(TOPIC, 1)
    world.send("acme", 1, first)
    youngest, _ = world.log.split(TOPIC, first)
    world.send("acme", 1, youngest)
    world.log.set_listed(TOPIC, first, False)
    look(world, 2)
    world.log.set_listed(TOPIC, first, True)
    world.turns(8, seconds=1.0)
    assert at(world) == {"0": 5, "1": 2, "2": 2, "3": 1, "4": 0, "5": 1, "6": 0}
    assert world.store.failures.every(ACME) == []
