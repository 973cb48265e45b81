"""Order none with buckets: one partition is read in several places at once, and nothing is lost."""

import pyarrow as pa
import pytest
from lanes_of_acme import ACME, LANE, divide, places

from headrace.model.buckets import divided
from headrace.model.streams import Order
from headrace.spark.place_hash import bucket_of_place
from headrace.spark.timeouts import CallOverdue
from headrace.testing.log_fake import Row

BUCKETS = 4
NAMES = divided(LANE, BUCKETS, by_place=True)


def fill(world, records):
    world.log.append("acme.visits", 0, [Row(b"x", key=b"one") for _ in range(records)])


def begun(world, handler=None):
    world.use_cases = [world.make(handler, order="none", buckets=BUCKETS)]
    world.deploy()
    world.tenant("acme")
    world.start()


def test_records_of_one_key_are_in_several_slices_at_once(world):
    held, running = None, set()

    def noted(table, context):
        world.seen.extend((context.tenant, at) for at in table["offset"].to_pylist())
        lanes = held.lanes.items()
        running.add(tuple(name for name, lane in lanes if lane.wave is not None))
        return pa.table({"offset": table["offset"]})

    begun(world, noted)
    world.driver.turn()
    held = world.driver.board.streams[ACME]
    fill(world, 200)
    world.turns(30, seconds=1.0)
    assert tuple(NAMES) in running
    assert sorted(at for _, at in world.seen) == list(range(200))
    assert places(world) == dict.fromkeys(NAMES, 200)


def test_without_buckets_it_is_as_ever(world):
    world.use_cases = [world.make(order="none")]
    world.deploy()
    world.tenant("acme")
    world.start()
    fill(world, 20)
    world.turns(12, seconds=1.0)
    assert places(world) == {LANE: 20}


@pytest.mark.parametrize(
    ("order", "buckets", "names"),
    [
        (Order.NONE, 7, divided(LANE, 7, by_place=True)),
        (Order.NONE, None, [LANE]),
        (Order.LANE, None, [LANE]),
        (Order.KEY, BUCKETS, divided(LANE, BUCKETS)),
    ],
)
def test_another_division_and_back_again(world, order, buckets, names):
    """Also one of as many buckets, where keys say what was said by places."""
    begun(world)
    fill(world, 40)
    world.turns(12, seconds=1.0)
    for chosen, there in (((order, buckets), names), ((Order.NONE, BUCKETS), NAMES)):
        divide(world, *chosen)
        fill(world, 30)
        world.turns(60, seconds=1.0)
        assert places(world).keys() == set(there)
    assert places(world) == dict.fromkeys(NAMES, 100)
    assert sorted(at for _, at in world.seen) == list(range(100))


def test_a_driver_that_dies_while_it_is_divided_leaves_the_rest_to_the_next_one(world):
    begun(world)
    fill(world, 40)
    world.turns()
    divide(world, Order.KEY, 3)
    fill(world, 20)
    for _ in range(5):
        world.driver.turn()
        world.clock.move(1.0)
        world.start()
    world.turns(60, seconds=1.0)
    assert places(world) == dict.fromkeys(divided(LANE, 3), 60)
    assert {at for _, at in world.seen} == set(range(60))


def test_a_bucket_that_hangs_stops_its_own_share_alone(world):
    own = [at for at in range(80) if bucket_of_place(at, BUCKETS) == 2]

    def hanging(table, context):
        if own[3] in table["offset"].to_pylist():
            raise CallOverdue
        world.seen.extend((context.tenant, at) for at in table["offset"].to_pylist())
        return pa.table({"offset": table["offset"]})

    begun(world, hanging)
    fill(world, 80)
    world.turns(20, seconds=0.5)
    assert {places(world)[name] for name in NAMES if name != NAMES[2]} == {80}
    world.turns(60, seconds=5.0)
    (failure,) = world.store.failures.every(only_open=True)
    assert failure.slice.lane.name == NAMES[2]
    assert places(world) == dict.fromkeys(NAMES, 80) | {NAMES[2]: own[3]}
    assert {at for _, at in world.seen} == set(range(80)).difference(own[3:])
