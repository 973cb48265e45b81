"""Versions tell what is newer also over another division of a numbered partition, and in a rerun.

Its offsets compare, whichever lanes read them. So a key that was read by its whole lane, then by
buckets, then by others has versions in the order of its offsets, and a rerun makes the same again.
"""

from dataclasses import replace

import pyarrow as pa

from headrace.cycle.reruns import begin, range_of
from headrace.model.streams import Order, StreamId
from headrace.testing.log_fake import Row
from headrace.testing.wide_log import WideLog

ACME = StreamId("keep", "acme")
KEYS = 7


def fill(world, records):
    """More records, each with its number as value."""
    for _ in range(records):
        at = world.log.edges("acme.visits", 0).stop
        world.log.append("acme.visits", 0, [Row(b"%d" % at, key=b"k%d" % (at % KEYS))])
    world.turns(30, seconds=1.0)


def divide(world, buckets):
    order = Order.KEY if buckets > 1 else Order.LANE
    world.use_cases = [replace(world.use_cases[0], order=order, buckets=max(buckets, 2))]
    world.deploy()
    (deployment,) = [one for one in world.store.registry.deployments() if "~" not in one.use_case]
    world.engine.take(world.use_cases[0], deployment)
    world.driver.take(world.use_cases[0], deployment)
    world.turns(60, seconds=1.0)


def begun_noting(world, column):
    """What is read from now on: a value of each record, and its version."""
    told = []

    def noted(table, context):
        versions = context.versions(table).to_pylist()
        told.extend(zip(table[column].to_pylist(), versions, strict=True))
        return pa.table({column: table[column]})

    world.use_cases = [world.make(noted)]
    world.deploy()
    world.tenant("acme")
    world.start()
    return told


def read_by(world, *divisions):
    """Twenty records more, and then another division, for each."""
    for buckets in divisions:
        fill(world, 20)
        divide(world, buckets)


def test_a_rerun_of_what_was_read_before_another_division_has_the_versions_it_had(world):
    told = begun_noting(world, "offset")
    read_by(world, 4, 8, 1, 3)
    fill(world, 20)
    first = dict(told)
    assert len(told) == len(first) == 100
    assert [first[at] for at in range(100)] == sorted(first.values())
    told.clear()
    rerun = begin(world.store, range_of(world.store, world.log, ACME, "earliest", "70"), 0.5)
    deployed = world.store.registry.deployments()
    (deployment,) = [one for one in deployed if one.use_case == rerun.use_case]
    case = replace(world.use_cases[0], name=rerun.use_case)
    world.engine.take(case, deployment)
    world.driver.take(case, deployment)
    world.turns(30, seconds=1.0)
    assert dict(told) == {at: first[at] for at in range(70)}


def test_where_records_have_no_numbers_what_later_buckets_read_is_newer_all_the_same(world):
    """They are counted by each lane anew: there lanes of another division are deeper."""
    world.log = WideLog()
    found = begun_noting(world, "value")
    read_by(world, 4, 1, 3, 3)
    assert len(found) == 80
    for own in range(KEYS):
        of_key = [version for value, version in found if int(value) % KEYS == own]
        assert of_key == sorted(set(of_key))
