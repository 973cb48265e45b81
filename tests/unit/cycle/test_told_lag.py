"""What people are told of a lag of buckets."""

from headrace.model.streams import StreamId

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
