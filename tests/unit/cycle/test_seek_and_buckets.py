"""A seek that was planned before a driver began the stream's buckets."""

import pytest
from lanes_of_acme import ACME, LANE, places

from headrace.errors import Temporary
from headrace.model.buckets import divided
from headrace.operating.seeking import carry_out, planned


def test_one_that_was_planned_before_buckets_began_does_nothing(world):
    world.use_cases = [world.make(order="key", buckets=4)]
    world.deploy()
    world.tenant("acme", 20)
    plan = planned(world.store, world.log, ACME, "latest")
    world.start()
    world.turns()
    assert places(world) == dict.fromkeys(divided(LANE, 4), 20)
    with pytest.raises(Temporary, match="try again"):
        carry_out(world.store.progress, plan)
    world.send("acme", 20)
    world.turns(20, seconds=1.0)
    assert places(world) == dict.fromkeys(divided(LANE, 4), 40)
    assert sorted(world.seen) == [("acme", offset) for offset in range(40)]
