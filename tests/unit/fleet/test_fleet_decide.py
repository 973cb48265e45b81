"""What a supervisor decides, as values."""

from dataclasses import replace

from fleet_world import RULES, World

from headrace.fleet.states import (
    EXIT_CONFIG,
    EXIT_TEMPORARY,
    Exited,
    Ready,
    RollAsked,
    StopAsked,
    Unhealthy,
)


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


def test_one_that_is_without_its_servers_is_not_ready_and_is_left_alone():
    world = World(2)
    world.ready(0, 1)
    world.wait(10)
    world.lacks(0, "store")
    assert world.phases() == ["waiting", "ready"]
    assert world.state.drivers[0].since_s == 10
    world.lacks(0, "store", "kafka")
    world.wait(10_000)
    assert world.phases() == ["waiting", "ready"]
    assert [server.what for server in world.state.drivers[0].missing] == ["store", "kafka"]
    assert (world.killed, world.draining) == (set(), set())
    world.ready(0)
    assert world.phases() == ["ready", "ready"]
    assert world.state.drivers[0].missing == ()


def test_one_that_starts_without_its_servers_says_so_and_is_starting_still():
    world = World(1)
    world.lacks(0, "kafka")
    assert world.phases() == ["starting"]
    assert [server.what for server in world.state.drivers[0].missing] == ["kafka"]
    world.exit(0)
    assert world.state.drivers[0].missing == ()


def test_a_time_of_health_counts_also_if_its_servers_were_gone_before_it_fell():
    world = World(1)
    world.exit(0)
    world.wait(8)
    world.ready(0)
    world.wait(RULES.healthy_after_s)
    world.lacks(0, "store")
    world.exit(0)
    assert world.state.drivers[0].due_s - world.now_s == 1


def test_one_that_waits_is_drained_killed_and_rolled_like_any_other():
    for ask in (StopAsked(), RollAsked()):
        world = World(2)
        world.ready(0, 1)
        world.lacks(1, "store")
        world.see(ask)
        assert 1 in world.draining
        assert world.state.drivers[1].missing == ()
    world = World(1)
    world.ready(0)
    world.lacks(0, "store")
    world.see(Unhealthy(0, "its loop does not turn"))
    assert world.killed == {0}


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


def test_one_that_is_given_up_during_a_roll_does_not_let_two_others_out():
    world = World(3)
    world.ready(0, 1, 2)
    world.see(RollAsked())
    world.exit(1, EXIT_CONFIG)
    world.see(RollAsked())
    assert world.draining == {0}
