"""A tenant whose lanes all stop together costs one change of the store for each wave."""

from sqlalchemy import event

from headrace.model.streams import State, Stopper, StreamId
from headrace.testing.log_fake import Row

LANES = 60


def test_lanes_that_stop_together_are_one_change_for_each_wave(world):
    def refuses(table, context):
        raise context.bad_record(0, "no")

    world.use_cases = [world.make(refuses)]
    world.deploy()
    world.tenant("bad", partitions=LANES)
    for partition in range(LANES):
        world.log.append("bad.visits", partition, [Row(b"x", timestamp_ms=1)])
    changes = []
    event.listen(
        world.store._database.engine,
        "before_cursor_execute",
        lambda *asked: changes.append(asked[2]) if "headrace_revision SET" in asked[2] else None,
    )
    world.start()
    stream = StreamId("keep", "bad")
    for times in (1, 2):
        changes.clear()
        world.turns(12)
        kept = world.store.failures.every(stream, only_open=True)
        assert len(kept) == LANES
        assert {failure.times for failure in kept} == {times}
        assert len(changes) < 10
        world.store.registry.set_stream_state(stream, State.SUSPENDED, by=Stopper.TENANT)
        world.store.registry.set_stream_state(stream, State.ACTIVE, by=Stopper.TENANT)
