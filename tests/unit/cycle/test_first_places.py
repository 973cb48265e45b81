"""A stream begins once: at what was said of it, held against its log, and by nothing later."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headrace.cycle.topics import TOPICS_EVERY_S, WAITING_EVERY_S
from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.records import LaneStart
from headrace.model.streams import State, StreamId, Tenant
from headrace.operating.seeking import begun_again
from headrace.testing.log_fake import MemoryLog

ACME = StreamId("keep", "acme")


def begins(world, starting, **options):
    world.deploy(starting_offsets=starting, **options)
    return world


def looked(world, count=3):
    world.turns(count, seconds=WAITING_EVERY_S)


def stream(world):
    return next(found for found in world.store.registry.streams() if found.id == ACME)


def redeployed(world, starting):
    (known,) = world.store.registry.deployments()
    world.store.registry.deploy(replace(known, starting_offsets=starting))
    world.take()


def seconds_ago(world, seconds):
    return datetime.fromtimestamp(world.clock.wall_s - seconds, UTC).isoformat()


@pytest.mark.parametrize("lives", [1, 2])
@pytest.mark.parametrize("starting", ["latest", "2000-01-01T00:00:00Z"])
def test_of_a_topic_that_comes_after_its_stream_has_begun_all_is_read(world, lives, starting):
    begins(world, starting)
    world.store.registry.add_tenant(Tenant("acme"))
    world.start()
    world.turns()
    assert "topic acme.visits is not there yet" in world.row("acme").note
    assert stream(world).begun_without_topic
    world.log.create_topic("acme.visits", 2)
    world.send("acme", 5)
    if lives == 2:
        world.start()
    looked(world)
    assert world.seen == [("acme", offset) for offset in range(5)]


def test_a_topic_of_which_nobody_can_tell_now_is_no_reason_to_begin(world, monkeypatch):
    begins(world, "latest")
    world.tenant("acme", 5)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "topics", lambda log, names: {})
        patch.setattr(MemoryLog, "absent", lambda log, names: set())
        world.start()
        looked(world)
    assert not stream(world).begun_without_topic
    looked(world)
    world.send("acme", 1)
    looked(world)
    assert world.seen == [("acme", 5)]


def test_a_stream_that_begins_at_the_beginning_has_nothing_to_write_down(world):
    begins(world, "earliest")
    world.store.registry.add_tenant(Tenant("acme"))
    world.start()
    looked(world)
    assert not stream(world).begun_without_topic


@pytest.mark.parametrize(
    "starting", ["latest", "2000-01-01T00:00:00Z", '{"acme.visits": {"0": 2, "1": -1}}']
)
def test_nothing_begins_before_all_partitions_can(world, starting):
    begins(world, starting)
    world.tenant("acme", 5, partitions=2)
    world.log.set_leader("acme.visits", 1, False)
    world.start()
    looked(world)
    assert (world.positions(), world.seen) == ({}, [])
    assert world.row("acme").note == "not all lanes of acme.visits have a leader"
    world.log.set_leader("acme.visits", 1, True)
    looked(world)
    assert world.positions().keys() == {("acme", 0), ("acme", 1)}


def test_a_partition_that_comes_later_is_read_from_its_beginning(world):
    begins(world, "latest")
    world.tenant("acme", 5)
    world.start()
    world.turns()
    world.log.widen("acme.visits")
    world.send("acme", 3, partition=1)
    world.turns(2, seconds=TOPICS_EVERY_S + 1)
    world.turns()
    assert world.seen == [("acme", 0), ("acme", 1), ("acme", 2)]


@pytest.mark.parametrize("error", [StoreUnavailable, OutcomeUnknown])
def test_what_came_after_it_was_written_down_is_read_whatever_its_writer_heard(
    world, monkeypatch, error
):
    begins(world, "latest")
    world.tenant("acme", 5)
    store = world.start().parts.store
    written = type(store.progress).start_lanes

    def lost(progress, starts):
        if error is OutcomeUnknown:
            written(progress, starts)
        world.send("acme", 2)
        raise error("nobody hears of it")

    with monkeypatch.context() as patch:
        patch.setattr(type(store.progress), "start_lanes", lost)
        world.turns(1)
    world.start()  # another life has to find out
    world.turns()
    begun_at = 5 if error is OutcomeUnknown else 7
    world.send("acme", 1)
    world.turns()
    assert world.seen == [("acme", offset) for offset in range(begun_at, 8)]


def test_a_time_begins_at_the_first_record_that_is_not_older_or_at_the_end(world):
    world.tenant("acme", 5)
    world.tenant("bolt", 3)
    world.clock.move(100.0)
    world.send("acme", 2)
    begins(world, seconds_ago(world, 50))
    world.start()
    world.turns()
    assert world.seen == [("acme", 5), ("acme", 6)]
    world.send("bolt", 1)
    world.turns()
    assert world.seen[2:] == [("bolt", 3)]


def test_a_time_that_is_still_to_come_is_waited_for(world):
    begins(world, seconds_ago(world, -60))
    world.tenant("acme", 5)
    world.store.registry.add_tenant(Tenant("bolt"))
    world.start()
    looked(world)
    assert "is still to come; it begins then" in world.row("acme").note
    assert not any(one.begun_without_topic for one in world.store.registry.streams())
    world.clock.move(60.0)
    world.send("acme", 1)
    looked(world)
    assert world.seen == [("acme", 5)]


def test_offsets_begin_each_partition_where_they_say(world):
    said = {"acme.visits": {"0": 3, "1": -1, "2": -2}, "{tenant}.visits": {"0": -2}}
    begins(world, json.dumps(said))
    world.tenant("acme", 5, partitions=3)
    for partition in (1, 2):
        world.send("acme", 4, partition)
    world.tenant("bolt", 2)
    world.start()
    world.turns()
    of = {
        tenant: [at for whose, at in world.seen if whose == tenant] for tenant in ("acme", "bolt")
    }
    assert (sorted(of["acme"]), of["bolt"]) == ([0, 1, 2, 3, 3, 4], [0, 1])


def test_the_buckets_of_a_partition_all_begin_where_it_does(world):
    world.use_cases = [world.make(order="key")]
    begins(world, '{"{tenant}.visits": {"0": 3}}')
    world.tenant("acme", 5)
    world.start()
    world.turns()
    assert sorted(world.seen) == [("acme", 3), ("acme", 4)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"other": {"0": 1}}, "startingOffsets name no offset of acme.visits"),
        ({"acme.visits": {"0": 1}}, "no offset of partition 1 of acme.visits"),
        ({"acme.visits": {"0": 1, "1": 0, "2": 0}}, "partition 2 of acme.visits, which has 2"),
        ({"acme.visits": {"0": 9, "1": 0}}, "begin acme.visits[0] at 9, and it holds 2 to 5"),
        ({"acme.visits": {"0": 1, "1": 0}}, "begin acme.visits[0] at 1, and it holds 2 to 5"),
    ],
)
def test_offsets_that_are_not_there_are_waited_for_by_name_and_hold_nobody_up(world, said, told):
    begins(world, json.dumps({**said, "bolt.visits": {"0": -2}}))
    world.tenant("acme", 5, partitions=2)
    world.log.expire("acme.visits", 0, 2)
    world.tenant("bolt", 2)
    world.start()
    looked(world)
    assert told in world.row("acme").note
    assert world.seen == [("bolt", 0), ("bolt", 1)]
    assert world.positions() == {("bolt", 0): 2}
    redeployed(world, '{"acme.visits": {"0": 4, "1": -1}}')
    looked(world)
    assert world.seen[2:] == [("acme", 4)]


def test_offsets_of_a_topic_that_is_not_there_wait_for_it(world):
    begins(world, '{"acme.visits": {"0": 2}}')
    world.store.registry.add_tenant(Tenant("acme"))
    world.start()
    looked(world)
    assert not stream(world).begun_without_topic
    world.log.create_topic("acme.visits", 1)
    world.send("acme", 3)
    looked(world)
    assert world.seen == [("acme", 2)]


def test_of_a_stream_that_has_begun_nothing_is_said_any_more(world):
    begins(world, "earliest")
    world.tenant("acme", 2)
    world.start()
    world.turns()
    redeployed(world, '{"acme.visits": {"0": 99}}')
    world.send("acme", 1)
    world.turns()
    assert world.seen == [("acme", 0), ("acme", 1), ("acme", 2)]


def test_removed_and_added_again_it_begins_again(world):
    begins(world, "latest")
    world.store.registry.add_tenant(Tenant("acme"))
    world.start()
    looked(world)
    assert stream(world).begun_without_topic
    world.store.registry.set_tenant_state("acme", State.REMOVED)
    world.store.registry.add_tenant(Tenant("acme"))
    assert not stream(world).begun_without_topic
    world.log.create_topic("acme.visits", 1)
    world.send("acme", 5)
    looked(world)
    world.send("acme", 1)
    looked(world)
    assert world.seen == [("acme", 5)]


@pytest.mark.parametrize(
    ("starting", "again"),
    [
        ("earliest", 5),
        ("latest", 0),
        ("1970-01-01T00:00:00Z", 5),
        ("2100-01-01T00:00:00Z", 0),
        ('{"acme.visits": {"0": 3}}', 2),
        ('{"acme.visits": {"0": 9}}', 5),
        ('{"bolt.visits": {"0": 3}}', 5),
    ],
)
def test_what_comes_again_of_one_that_is_added_again_is_told_before(world, starting, again):
    begins(world, "earliest")
    world.tenant("acme", 5)
    world.start()
    world.turns()
    world.store.registry.set_stream_state(ACME, State.REMOVED)
    redeployed(world, starting)
    (seek,) = begun_again(world.store, world.log, [ACME])
    assert seek.again == again


def test_one_that_finds_that_its_stream_has_begun_looks_again_at_once(world):
    begins(world, "latest")
    world.store.registry.add_tenant(Tenant("acme"))
    world.start()
    world.turns(1)  # it holds the stream, as it was before this
    world.store.progress.start_lanes([LaneStart(ACME, None, {}, begins=True)])
    held = world.driver.board.streams[ACME]
    held.stream = replace(held.stream, begun_without_topic=False)
    world.log.create_topic("acme.visits", 1)
    world.send("acme", 5)
    looked(world, 4)
    assert world.seen == [("acme", offset) for offset in range(5)]
