"""What one bucket suffers from is its own: neighbours go on, and nobody is delayed for it."""

import itertools

import pytest
from lanes_of_acme import ACME, LANE, places
from timed import HANGS, TIMEOUT_S, Timed

from headrace.board.streams import FEW
from headrace.model.buckets import bucket_of, divided
from headrace.model.streams import Throttle
from headrace.spark import bucket_reading
from headrace.spark.key_hash import bucket_of_key
from headrace.spark.timeouts import CallOverdue
from headrace.testing.log_fake import Row

BUCKETS = 4
OTHERS = b"k%d"


def by_key(world, handler=None, **options):
    """Acme by key in four buckets, and Bolt by the same use case."""
    world.use_cases = [world.make(handler, order="key", buckets=BUCKETS, **options)]
    world.deploy()
    world.tenant("acme")
    world.tenant("bolt")
    world.start()


def fill(world, keys, tenant="acme"):
    for key in keys:
        world.log.append(f"{tenant}.visits", 0, [Row(b"x", key=key)])


def in_bucket(number):
    """A key that is in a bucket."""
    return next(
        key for key in (b"own%d" % n for n in range(99)) if bucket_of_key(key, BUCKETS) == number
    )


def test_a_bucket_that_hangs_stands_alone(world):
    """By its name, and the buckets beside it and other tenants are at their ends long before."""
    hangs = in_bucket(2)

    def hanging(table, context):
        if hangs in table["key"].to_pylist():
            raise CallOverdue
        return table.select(["offset"])

    by_key(world, hanging)
    fill(world, [in_bucket(number % BUCKETS) for number in range(40)])
    fill(world, [OTHERS % number for number in range(40)], "bolt")
    world.turns(6, seconds=0.5)
    stands = f"{LANE}#2/{BUCKETS}"
    neighbours = set(divided(LANE, BUCKETS)) - {stands}
    assert {places(world)[name] for name in neighbours} == {40}
    assert min(at for (tenant, _), at in world.positions().items() if tenant == "bolt") == 40
    world.turns(60, seconds=5.0)
    (failure,) = world.store.failures.every(only_open=True)
    assert failure.slice.lane.name == stands
    assert world.driver.board.streams[ACME].lanes[stands].most_records is None
    assert places(world) == dict.fromkeys(divided(LANE, BUCKETS), 40) | {stands: 2}
    fill(world, [OTHERS % number for number in range(20)])
    world.turns(6, seconds=0.5)
    assert {places(world)[name] for name in neighbours} == {60}


@pytest.mark.parametrize("key", [b"one", None, b""])
def test_one_key_alone_is_handled_in_order(world, key):
    """And so is what has none: that is one bucket. The others go over it at no cost of a call."""
    calls = []

    def counted(table, context):
        calls.append(table["offset"].to_pylist())
        return table.select(["offset"])

    by_key(world, counted)
    fill(world, [key] * 300)
    world.turns(30, seconds=0.5)
    assert places(world) == dict.fromkeys(divided(LANE, BUCKETS), 300)
    assert [at for call in calls for at in call] == list(range(300))
    assert all(calls)


def test_keys_of_ten_megabytes(world, monkeypatch):
    """More of them than may be kept of a range that is read for all buckets."""
    monkeypatch.setattr(bucket_reading, "HELD_BYTES", 25_000_000)
    keys = [b"%d" % number + b"k" * 10_000_000 for number in range(4)]
    seen = []

    def noted(table, context):
        (piece,) = context.slices
        rows = zip(table["key"].to_pylist(), table["offset"].to_pylist(), strict=True)
        seen.extend((bucket_of(piece.lane.name).number, key[:1], at) for key, at in rows)
        return table.select(["offset"])

    by_key(world, noted)
    fill(world, [keys[number % 4] for number in range(8)])
    world.turns(20, seconds=0.5)
    assert places(world) == dict.fromkeys(divided(LANE, BUCKETS), 8)
    assert sorted(at for *_, at in seen) == list(range(8))
    own = {key[:1]: bucket_of_key(key, BUCKETS) for key in keys}
    assert all(own[key] == number for number, key, _ in seen)
    for key in own:
        of_key = [at for _, one, at in seen if one == key]
        assert of_key == sorted(of_key)


def test_more_than_was_planned_is_paid_for_before_anything_goes_on(world):
    """A throttle lets through what a bucket had more in it than usual, and less after that."""
    rate_per_s = 10.0
    by_key(world)
    world.driver.turn()
    world.store.registry.set_throttle("acme", Throttle(rate_per_s, burst_s=1.0))
    world.driver.turn()
    for lane in world.driver.board.streams[ACME].lanes.values():
        lane.every = 16.0
    fill(world, [in_bucket(number % BUCKETS) for number in range(400)])
    while not world.seen:
        world.turns(1)
    more = len(world.seen) - rate_per_s
    assert more > rate_per_s, "it was to have more than was planned"
    before = len(world.seen)
    world.turns(int(10 * more / rate_per_s) - 3, seconds=0.1)
    assert len(world.seen) == before
    world.turns(100, seconds=0.1)
    assert len(world.seen) - before <= 10 * rate_per_s


@pytest.mark.parametrize("slots", [2, 3])
def test_a_call_that_hangs_for_its_time_holds_up_no_other_bucket(slots):
    """Its tries have a slot for half a minute each; the other buckets once waited for all of them.

    Quick tenants never wait for them either.
    """
    costs = {"big": (0.001, 0.0002), "quick": (0.0002, 0.0001)}
    timed = Timed(costs, slots=slots, lag=10, order="key", buckets=16, steady=tuple(costs))
    timed.run(20.0)
    hangs = "big.visits[0]#2/16"
    timed.engine.costs[hangs] = (HANGS, 0.0)
    timed.run(TIMEOUT_S + 5.0)
    begun_s = timed.clock.steady_s
    timed.held("big").most_records = 1  # one of the others raised meanwhile
    timed.run(2 * TIMEOUT_S)
    assert timed.held("big").lanes[hangs].suspect_until is not None, "it is still tried"
    assert timed.held("big").most_records is None
    waits = longest_waits(timed, begun_s)
    own = {name: wait for name, wait in waits.items() if name.startswith("big")}
    assert len(own) == 15
    assert max(own.values()) < 3.0
    assert max(wait for name, wait in waits.items() if name.startswith("quick")) < 3.0
    timed.run(300.0)
    (failure,) = timed.store.failures.every(only_open=True)
    assert failure.slice.lane.name == hangs


def test_a_tenant_whose_buckets_all_hang_leaves_the_others_what_they_had():
    """Each bucket that is found to hang besides has the second slot for a moment, and few may."""
    costs = {"big": (0.001, 0.0002), "quick": (0.0002, 0.0001)}
    timed = Timed(costs, lag=10, order="key", buckets=16, steady=tuple(costs))
    timed.run(10.0)
    timed.engine.costs["big"] = (HANGS, 0.0)
    timed.run(2 * TIMEOUT_S)
    assert longest_waits(timed, 10.0)["quick.visits[0]#2/16"] < 2.0
    doubted = [lane.suspect_until is not None for lane in timed.held("big").lanes.values()]
    assert FEW < sum(doubted) < len(doubted)


def longest_waits(timed, since_s):
    """By lanes that came through at all: the longest time between two slices that did."""
    ends = {}
    for name, _, at_s in timed.engine.passed:
        if at_s >= since_s:
            ends.setdefault(name, [since_s]).append(at_s)
    return {
        name: max(
            after - before for before, after in itertools.pairwise([*at, timed.clock.steady_s])
        )
        for name, at in ends.items()
    }
