"""Who has a stream no more begins no lanes of it: by now it may be divided otherwise."""

from lanes_of_acme import LANE, places

from headrace.model.buckets import divided


def test_a_driver_that_slept_begins_no_lanes_beside_those_of_another_division(world):
    world.use_cases = [world.make()]
    world.deploy()
    world.tenant("acme", 20)
    asleep, progress = world.start(name="one"), world.store.progress
    begin, late = progress.start_lanes, []

    def falls_asleep(starts):
        late.append(starts)
        progress.start_lanes = begin
        world.clock.move(60.0)
        world.use_cases = [world.make(order="key", buckets=4)]
        world.deploy()
        world.start(name="two")
        world.turns(40, seconds=1.0)
        assert {*places(world)} == {*divided(LANE, 4)}
        begin(starts)

    progress.start_lanes = falls_asleep
    asleep.turn()
    assert late
    world.send("acme", 20)
    world.turns(60, seconds=1.0)
    assert {*places(world)} == {*divided(LANE, 4)}
    assert sorted(world.seen) == [("acme", offset) for offset in range(40)]
