"""A seek that was planned before a driver began the stream's buckets."""

import pytest
from lanes_of_acme import ACME, LANE, places

from headrace.errors import Temporary
from headrace.model.buckets import divided
from headrace.operating.seeking import carry_out, planned
from headrace.spark.key_hash import bucket_of_key
from headrace.testing.log_fake import Row


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


@pytest.mark.parametrize("key", [b"one", None])
def test_a_seek_of_one_bucket_reads_again_no_more_than_was_told(world, key):
    world.use_cases = [world.make(order="key", buckets=16)]
    world.deploy()
    world.tenant("acme")
    world.log.append("acme.visits", 0, [Row(b"x", key=key)] * 160)
    world.start()
    world.turns(20, seconds=1.0)
    back = f"0#{bucket_of_key(key, 16)}/16"
    plan = planned(world.store, world.log, ACME, f'{{"acme.visits": {{"{back}": 0}}}}')
    world.seen.clear()
    carry_out(world.store.progress, plan)
    world.turns(20, seconds=1.0)
    assert len(world.seen) == plan.again == 160
    assert planned(world.store, world.log, ACME, '{"acme.visits": {"0": 0}}').again == 160
