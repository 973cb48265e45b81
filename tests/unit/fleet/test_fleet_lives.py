"""What holds in many lives of a supervisor, made up at random."""

from fleet_world import RULES, World
from hypothesis import given
from hypothesis import strategies as st

from headrace.fleet.states import (
    EXIT_CONFIG,
    EXIT_TEMPORARY,
    Phase,
    RollAsked,
    StopAsked,
    Unhealthy,
)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["exit", "temporary", "config", "ready", "lacks", "sick", "roll", "wait", "drained"]
        ),
        st.integers(0, 3),
        st.floats(0, 1),
    ),
    max_size=40,
)


def tell(world, what, index, chance):
    """Something is heard of a driver that is no end of it."""
    if what == "sick":
        world.see(Unhealthy(index, "it hangs"))
    else:
        world.lacks(index, *["store", "kafka"][: round(chance * 2)])


def play(world, steps):
    for what, number, chance in steps:
        index = number % len(world.state.drivers)
        there = index in world.processes
        match what:
            case "wait":
                world.wait(chance * 40)
            case "roll":
                world.see(RollAsked())
            case "ready":
                if there:
                    world.ready(index)
            case "lacks" | "sick":
                tell(world, what, index, chance)
            case "drained":
                if index in world.draining:
                    world.exit(index, 0, chance)
            case _:
                codes = {"exit": 1, "temporary": EXIT_TEMPORARY, "config": EXIT_CONFIG}
                if there:
                    world.exit(index, codes[what], chance)


@given(st.integers(1, 4), STEPS)
def test_never_more_run_than_are_wanted_and_a_roll_takes_down_one_at_most(wanted, steps):
    # World.hold looks after every step
    play(World(wanted), steps)


@given(st.integers(1, 4), STEPS, st.booleans())
def test_a_stop_always_ends_with_nothing_running(wanted, steps, deaf):
    world = World(wanted)
    play(world, steps)
    starts = world.starts
    world.see(StopAsked())
    for _ in range(2 * wanted + 2):
        # who is deaf ends only when it is killed
        for index in sorted(world.processes):
            if index in world.killed or not deaf:
                world.exit(index, -9 if index in world.killed else 0)
        world.wait(RULES.drain_s)
    assert world.state.ended
    assert world.processes == {}
    assert world.starts == starts


@given(st.integers(1, 4), STEPS, st.floats(0, 1))
def test_one_that_always_dies_is_given_up_whatever_was_before(wanted, steps, chance):
    world = World(wanted)
    play(world, steps)
    for _ in range(200):
        if 0 in world.processes:
            world.exit(0, 1, chance)
        else:
            world.wait(RULES.longest_wait_s)
    given_up = world.state.drivers[0].phase is Phase.GIVEN_UP
    assert given_up
