"""What somebody changes again and again, as a tenant with its own key, leaves the turn its time."""

import pytest

from headrace.model.streams import State, Stopper, StreamId

LOOK_S, TURN_S = 0.05, 0.02
A = StreamId("keep", "a")


@pytest.fixture
def looks(world, monkeypatch):
    """When a driver of many streams looked at them, which takes its time."""
    world.deploy()
    world.tenant("a", 1)
    driver, found = world.start(), []
    world.turns(2)
    real = driver.observer.control

    def control(*asked):
        changed = real(*asked)
        if changed:
            world.clock.move(LOOK_S)
            found.append(world.clock.monotonic_s())
        return changed

    monkeypatch.setattr(type(driver.observer), "control", lambda _, *asked: control(*asked))
    return found


def set_state(world, state):
    world.store.registry.set_stream_state(A, state, by=Stopper.TENANT)


def test_changes_in_each_turn_take_a_tenth_of_the_time(world, looks):
    begun_s = world.clock.monotonic_s()
    for number in range(300):
        set_state(world, State.ACTIVE if number % 2 else State.SUSPENDED)
        world.turns(1, TURN_S)
    took_s = world.clock.monotonic_s() - begun_s
    assert len(looks) > 5
    assert len(looks) * LOOK_S <= 0.1 * took_s + LOOK_S


def test_a_suspended_stream_stops_within_a_second_though_much_was_changed(world, looks):
    set_state(world, State.SUSPENDED)
    set_state(world, State.ACTIVE)
    world.turns(1, TURN_S)
    begun_s = world.clock.monotonic_s()
    set_state(world, State.SUSPENDED)
    while world.driver.board.streams[A].state is not State.SUSPENDED:
        world.turns(1, TURN_S)
        assert world.clock.monotonic_s() - begun_s < 1.0


def test_what_is_changed_when_nothing_was_for_long_is_seen_in_the_next_turn(world, looks):
    world.clock.move(10.0)
    set_state(world, State.SUSPENDED)
    world.turns(1, TURN_S)
    assert world.driver.board.streams[A].state is State.SUSPENDED
