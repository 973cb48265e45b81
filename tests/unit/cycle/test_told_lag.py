"""What people are told of a lag of buckets."""

import pytest

from headrace.model.streams import StreamId
from headrace.testing.log_fake import Row

ACME = StreamId("keep", "acme")


def test_the_lag_that_people_are_told_counts_no_record_once_for_each_bucket(world):
    world.use_cases = [world.make(order="key", buckets=16)]
    world.deploy()
    world.tenant("acme", 20)
    world.start()
    world.turns(20)
    held = world.driver.board.streams[ACME]
    for lane in held.lanes.values():
        lane.end = lane.position + 1
    assert held.lag_records == 1
    assert held.told_lag[0] == 1


@pytest.mark.parametrize("key", [b"one", None])
def test_the_lag_of_one_key_is_not_taken_for_an_even_share_of_its_lane(world, key):
    world.use_cases = [world.make(order="key", buckets=16)]
    world.deploy()
    world.tenant("acme")
    world.log.append("acme.visits", 0, [Row(b"x", key=key)] * 5_000)
    world.start()
    world.turns(40, 0.2)
    assert len(world.seen) == 5_000
    world.engine.paused = True
    world.log.append("acme.visits", 0, [Row(b"x", key=key)] * 4_000)
    world.turns(3, 0.2)
    held = world.driver.board.streams[ACME]
    its_own = min(held.lanes.values(), key=lambda lane: lane.every)
    for lane in held.lanes.values():
        if lane is not its_own:
            lane.position = lane.end  # the others had nothing to do
    assert held.told_lag[0] == held.lag_records
    assert held.lag_records == pytest.approx(4_000, rel=0.05)


def test_the_lag_of_many_keys_is_told_from_the_first_look_on(world):
    world.use_cases = [world.make(order="key", buckets=16)]
    world.deploy()
    world.tenant("acme")
    world.log.append("acme.visits", 0, [Row(b"x", key=b"k%d" % n) for n in range(5_000)])
    world.start()
    told = []
    for _ in range(30):
        world.turns(1, 0.2)
        told.append((5_000 - len(world.seen), world.driver.board.streams[ACME].lag_records))
    assert told[-1] == (0, 0)
    assert all(lag == pytest.approx(waits, rel=0.3, abs=50) for waits, lag in told), told
