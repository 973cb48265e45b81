"""The row of a lane goes while a driver reads it: the lane begins again, and not for ever."""

import pytest
from lanes_of_acme import LANE, lose, places


@pytest.mark.parametrize(
    ("guarantee", "refused"), [("at-least-once", 40), ("at-most-once", 0), ("exactly-once", 40)]
)
def test_its_lane_begins_again_and_is_not_tried_for_ever(world, guarantee, refused):
    world.use_cases = [world.make(guarantee=guarantee)]
    world.deploy()
    world.tenant("acme", 40)
    world.start()
    world.turns(20, seconds=1.0)
    world.seen.clear()
    lose(world, LANE)
    world.send("acme", 40)
    world.turns(60, seconds=1.0)
    in_vain = range(40, 40 + refused)
    assert sorted(at for _, at in world.seen) == sorted([*in_vain, *range(80)])
    assert places(world) == {LANE: 80}
