"""What a supervisor decides, as values, and over many lives made up at random."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.fleet.decide import begin, decide
from headrace.fleet.states import (
    EXIT_CONFIG,
    EXIT_TEMPORARY,
    Drain,
    Exited,
    Kill,
    Phase,
    Ready,
    RollAsked,
    Rules,
    Start,
    StopAsked,
    Tick,
    Unhealthy,
)

RULES = Rules(
    first_wait_s=1,
    longest_wait_s=8,
    healthy_after_s=100,
    most_failures=5,
    window_s=200,
    drain_s=30,
)


class World:
    """Processes that do what they are told, or not; time is a number."""

    def __init__(self, wanted, rules=RULES):
        self.now_s = 0.0
        self.processes = {}
        self.killed = set()
        self.draining = set()
        self.starts = 0
        self.state, actions = begin(wanted, rules, self.now_s)
        self.obey(actions)

    def obey(self, actions):
        for each in actions:
            match each:
                case Start(index):
                    assert index not in self.processes, "a driver runs twice"
                    self.processes[index] = "starting"
                    self.starts += 1
                case Drain(index):
                    assert index in self.processes
                    self.draining.add(index)
                case Kill(index):
                    assert index in self.processes
                    self.killed.add(index)
        self.hold()

    def nobody_misses(self, before, actions):
        """A roll takes one that works only when all others work."""
        for each in actions:
            if isinstance(each, Drain) and not self.state.stopping:
                others = [d for i, d in enumerate(self.state.drivers) if i != each.index]
                if before.drivers[each.index].phase is Phase.READY:
                    assert all(other.phase is Phase.READY for other in others)

    def hold(self):
        """What must be true at any moment."""
        running = {i for i, each in enumerate(self.state.drivers) if each.running}
        assert running == set(self.processes)
        assert sum(each.rolled for each in self.state.drivers) <= 1
        if self.state.rolling is not None and not self.state.stopping:
            # whoever is on the way out for the roll is the one that is being replaced
            leaving = [i for i, each in enumerate(self.state.drivers) if each.rolled]
            assert leaving in ([], [self.state.rolling])

    def see(self, event):
        before = self.state
        self.state, actions = decide(before, event, self.now_s)
        self.nobody_misses(before, actions)
        self.obey(actions)

    def exit(self, index, code=1, chance=1.0, error="it died"):
        for each in (self.killed, self.draining):
            each.discard(index)
        del self.processes[index]
        self.see(Exited(index, code, error, chance))

    def ready(self, *indices):
        for index in indices:
            self.processes[index] = "ready"
            self.see(Ready(index))

    def wait(self, seconds):
        self.now_s += seconds
        self.see(Tick())

    def phases(self):
        return [str(each.phase) for each in self.state.drivers]


def test_all_are_started_at_once_and_become_ready():
    world = World(3)
    assert world.phases() == ["starting"] * 3
    world.ready(0, 2)
    assert world.phases() == ["ready", "starting", "ready"]


def test_the_wait_doubles_up_to_a_limit_and_half_of_it_is_chance():
    world = World(1, replace(RULES, most_failures=100))
    waits = []
    for _ in range(6):
        world.exit(0)
        waits.append(world.state.drivers[0].due_s - world.now_s)
        world.wait(waits[-1])
        assert world.phases() == ["starting"]
    assert waits == [1, 2, 4, 8, 8, 8]
    world.exit(0, chance=0.0)
    assert world.state.drivers[0].due_s - world.now_s == 4


def test_it_is_not_started_before_its_wait_is_over():
    world = World(1)
    world.exit(0)
    world.wait(0.9)
    assert world.phases() == ["failed"]


def test_failures_are_forgotten_after_a_time_of_health():
    world = World(1)
    for _ in range(3):
        world.exit(0)
        world.wait(8)
    world.ready(0)
    world.wait(100)
    world.exit(0)
    driver = world.state.drivers[0]
    assert driver.due_s - world.now_s == 1
    assert len(driver.failures_s) == 1


def test_one_that_always_dies_is_given_up_and_the_others_go_on():
    world = World(2)
    world.ready(1)
    for _ in range(4):
        world.exit(0)
        world.wait(8)
    world.exit(0, error="exit code 1: no such file")
    assert world.phases() == ["given up", "ready"]
    assert world.state.drivers[0].error == "exit code 1: no such file"
    assert not world.state.ended
    world.wait(10_000)
    assert world.phases() == ["given up", "ready"]


def test_failures_far_apart_do_not_add_up():
    world = World(1)
    for _ in range(20):
        world.ready(0)
        world.wait(60)
        world.exit(0)
        world.wait(8)
    assert world.phases() == ["starting"]


def test_a_wrong_configuration_is_given_up_at_once():
    world = World(1)
    world.exit(0, EXIT_CONFIG)
    assert world.phases() == ["given up"]
    assert world.state.ended


def test_a_store_that_does_not_answer_is_waited_for_for_ever():
    world = World(1)
    for _ in range(50):
        world.exit(0, EXIT_TEMPORARY)
        assert world.phases() == ["failed"]
        world.wait(8)
    assert world.phases() == ["starting"]


def test_one_that_hangs_is_killed_and_counts_as_failed():
    world = World(1)
    world.ready(0)
    world.see(Unhealthy(0, "its loop does not turn"))
    assert world.killed == {0}
    world.exit(0, -9, error="ended by SIGKILL")
    assert world.phases() == ["failed"]
    assert world.state.drivers[0].error == "its loop does not turn"


def test_one_that_drains_is_not_called_unhealthy():
    world = World(1)
    world.see(StopAsked())
    world.see(Unhealthy(0, "its loop does not turn"))
    assert world.killed == set()


def test_a_stop_drains_all_and_starts_nobody_again():
    world = World(3)
    world.ready(0, 1)
    world.exit(1)
    world.see(StopAsked())
    assert world.draining == {0, 2}
    world.exit(0, 0)
    world.exit(2, 0)
    assert world.state.ended
    world.wait(1000)
    assert world.phases() == ["stopped"] * 3


def test_one_that_does_not_drain_in_time_is_killed():
    world = World(2)
    world.see(StopAsked())
    world.exit(0, 0)
    world.wait(29)
    assert world.killed == set()
    world.wait(1)
    assert world.killed == {1}
    assert not world.state.ended
    world.exit(1, -9)
    assert world.state.ended


def test_a_second_stop_kills_at_once():
    world = World(2)
    world.see(StopAsked())
    world.see(StopAsked())
    assert world.killed == {0, 1}


def test_a_roll_takes_the_next_only_when_the_replacement_is_ready():
    world = World(3)
    world.ready(0, 1, 2)
    world.see(RollAsked())
    assert world.draining == {0}
    world.exit(0, 0)
    assert world.phases() == ["starting", "ready", "ready"]
    world.wait(1000)
    assert world.draining == set()
    world.ready(0)
    assert world.draining == {1}
    world.exit(1, 0)
    world.ready(1)
    world.exit(2, 0)
    assert world.state.in_roll
    world.ready(2)
    assert not world.state.in_roll
    assert world.starts == 6
    assert world.state.roll_error == ""


def test_a_roll_waits_for_one_that_fell_by_itself():
    world = World(2)
    world.ready(0, 1)
    world.exit(1)
    world.see(RollAsked())
    # the fallen one is started at once, and is of the new version
    assert world.phases() == ["ready", "starting"]
    assert world.draining == set()
    world.ready(1)
    assert world.draining == {0}
    world.exit(0, 0)
    world.ready(0)
    assert not world.state.in_roll
    assert world.starts == 4


def test_a_replacement_that_is_given_up_ends_the_roll_and_the_others_stay():
    world = World(3)
    world.ready(0, 1, 2)
    world.see(RollAsked())
    world.exit(0, 0)
    world.exit(0, EXIT_CONFIG)
    assert world.phases() == ["given up", "ready", "ready"]
    assert not world.state.in_roll
    assert "2 still run the old version" in world.state.roll_error
    # the next roll begins with it
    world.see(RollAsked())
    assert world.phases() == ["starting", "ready", "ready"]
    assert world.state.roll_error == ""


def test_drivers_that_never_got_ready_are_rolled_without_waiting_for_them():
    world = World(2)
    world.see(RollAsked())
    assert world.draining == {0}
    world.exit(0, 0)
    world.ready(0)
    assert world.draining == {1}


def test_a_roll_during_a_roll_replaces_all_again_one_at_a_time():
    world = World(2)
    world.ready(0, 1)
    world.see(RollAsked())
    world.exit(0, 0)
    world.see(RollAsked())
    assert world.draining == {0}
    world.exit(0, 0)
    world.ready(0)
    assert world.draining == {1}


def test_a_stop_ends_a_roll():
    world = World(2)
    world.ready(0, 1)
    world.see(RollAsked())
    world.see(StopAsked())
    world.exit(0, 0)
    world.exit(1, 0)
    assert world.state.ended
    assert world.starts == 2


def test_what_is_said_of_a_process_that_is_gone_changes_nothing():
    world = World(1)
    world.exit(0)
    before = world.state
    for event in (Ready(0), Unhealthy(0, "x"), Exited(0, 1, "again", 0.5)):
        world.see(event)
        assert world.state == before


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["exit", "temporary", "config", "ready", "sick", "roll", "wait", "drained"]
        ),
        st.integers(0, 3),
        st.floats(0, 1),
    ),
    max_size=40,
)


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
            case "sick":
                world.see(Unhealthy(index, "it hangs"))
            case "drained":
                if index in world.draining:
                    world.exit(index, 0, chance)
            case _:
                codes = {"exit": 1, "temporary": EXIT_TEMPORARY, "config": EXIT_CONFIG}
                if there:
                    world.exit(index, codes[what], chance)


def test_one_that_is_given_up_during_a_roll_does_not_let_two_others_out():
    world = World(3)
    world.ready(0, 1, 2)
    world.see(RollAsked())
    world.exit(1, EXIT_CONFIG)
    world.see(RollAsked())
    assert world.draining == {0}


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
