"""A partition in buckets that its log does not list any more is given up whole, and told once."""

import pytest
from lanes_of_acme import ACME, LANE, TOPIC, believed, look, places

from headrace.model.buckets import divided
from headrace.model.streams import DataLossPolicy
from headrace.testing.log_fake import Row

BUCKETS = divided(LANE, 4)


def fill(world, records, lane=0):
    for at in range(records):
        world.log.append(TOPIC, lane, [Row(b"x", key=b"k%d" % (at % 7))])


@pytest.fixture
def keyed(world):
    """Acme by key, in four buckets, with 40 records that are done."""
    world.use_cases = [world.make(order="key", buckets=4)]
    world.deploy(data_loss=DataLossPolicy.SKIP)
    world.tenant("acme")
    fill(world, 40)
    world.start()
    world.turns()
    return world


def hold(world, names):
    """These are not read any more; the others read 20 more records."""
    lanes = world.driver.board.streams[ACME].lanes
    for name in names:
        lanes[name].not_before_s = float("inf")
    fill(world, 20)
    world.turns(4)


def told(world):
    """What was lost, by lane."""
    kept = world.store.failures.every(ACME)
    return sorted(str(failure.slice) for failure in kept)


def test_buckets_that_were_done_go_with_those_that_were_not(keyed):
    """One that stayed would be of a partition of which buckets are missing."""
    hold(keyed, BUCKETS[2:])
    assert [*places(keyed).values()] == [60, 60, 40, 40]
    keyed.log.split(TOPIC, 0)  # nothing is sent to its halves, so neither ever moves
    look(keyed)
    keyed.log.drop_lane(TOPIC, 0)
    look(keyed)
    believed(keyed)
    assert not set(BUCKETS).intersection(places(keyed))
    assert told(keyed) == [f"{name} 40..60" for name in BUCKETS[2:]]


def test_a_half_that_is_listed_later_tells_of_no_other_loss(keyed):
    hold(keyed, BUCKETS)
    first, second = keyed.log.split(TOPIC, 0)
    keyed.log.set_listed(TOPIC, second, False)
    look(keyed)
    keyed.log.drop_lane(TOPIC, 0)
    look(keyed)
    believed(keyed)
    lost = told(keyed)
    assert lost == [f"{name} 40..60" for name in BUCKETS]
    keyed.log.set_listed(TOPIC, second, True)
    for half in (first, second):
        fill(keyed, 5, half)
    look(keyed, 8)
    assert told(keyed) == lost
    assert set(places(keyed).values()) == {5}
