"""What the simulation's judge knows of who could know what, and of who is late."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from headrace.model.receipts import Receipt
from headrace.model.records import LaneStart
from headrace.model.streams import LaneId, Slice, State
from headrace.ports import TopicInfo
from headrace.testing.clock import FakeClock
from headrace.testing.isolation_checker import Isolation
from headrace.testing.ledger import Found, Place
from headrace.testing.simulation.cluster import _CALLS_S, SECONDS_PER_RECORD
from headrace.testing.simulation.odds import Odds
from headrace.testing.simulation.run import in_memory
from headrace.testing.simulation.settling import _most_rounds
from headrace.testing.simulation.sinks import Done, Notebook
from headrace.testing.simulation.topics import WorldTopics, lane_of
from headrace.testing.simulation.unheard import Unheard
from headrace.testing.simulation.world import World

TOPIC = "acme.visits"


def begun(world: World) -> LaneId:
    """The first lane of a stream gets its first place."""
    stream = world.store.registry.streams()[0]
    lane = lane_of(stream.id, stream.topic, 0)
    start = LaneStart(stream.id, world.log.id_of(stream.topic), {lane.name: 0}, stream.topic_id)
    world.store.progress.start_lanes([start])
    world.decisions.decided("start_lanes", [[start]])
    return lane


def test_a_slice_of_before_its_stream_was_added_again_is_late() -> None:
    """It may be at a depth of then, since nothing of it is taken any more."""
    world = World(Random(0), in_memory())
    registry, lane = world.store.registry, begun(world)
    (epoch,) = [one.epoch for one in registry.streams() if one.id == lane.stream]
    old = Slice(lane, TOPIC, 0, 2, epoch=epoch)
    assert not world.generations.is_late(old)
    registry.set_stream_state(lane.stream, State.REMOVED)
    registry.add_stream(lane.stream)
    world.decisions.added_again(lane.stream)
    begun(world)
    assert world.generations.is_late(old)


def test_who_was_told_of_the_topic_before_need_not_know_of_the_new_one_yet() -> None:
    clock = FakeClock()
    topics = WorldTopics(Random(0), Odds(unheard=1.0), clock, Isolation())
    topics.make(TOPIC)
    topics.delete(TOPIC)
    topics.make(TOPIC)
    made_s = clock.monotonic_s()
    info = TopicInfo(topics.log.id_of(TOPIC), ())
    unheard = Unheard(topics, Counter())
    clock.move(100)
    assert unheard.unaware_since_s("d0", TOPIC) == made_s
    while unheard.told("d0", {TOPIC: info})[TOPIC] == info:
        pass
    misled_s = clock.monotonic_s()
    clock.move(5)
    assert unheard.told("d0", {TOPIC: info})[TOPIC] == info
    assert unheard.unaware_since_s("d0", TOPIC) == misled_s
    assert unheard.unaware_since_s("d1", TOPIC) == made_s


def test_some_use_cases_cost_so_much_a_call_however_few_its_records_are() -> None:
    """What is planned of a handler that asks a server, for each call of it, is played as well."""
    costs = set()
    for seed in range(20):
        cluster = World(Random(seed), in_memory()).cluster
        piece = Slice(LaneId("keep", "acme", f"{TOPIC}[0]"), TOPIC, 0, 100, epoch=1)
        few, many = (
            cluster._timed(Receipt(piece, records, False, records=records)).seconds
            for records in (1, 100)
        )
        assert many - few == pytest.approx(99 * SECONDS_PER_RECORD)
        costs.add(round(few - SECONDS_PER_RECORD, 6))
    assert costs == set(_CALLS_S)


def test_a_long_topic_has_a_round_for_each_record_to_come_to_rest() -> None:
    world = World(Random(0), in_memory())
    (topic, *_) = world.topics.partitions
    before = _most_rounds(world)
    world.topics.send(topic, 0, 70)
    assert before < _most_rounds(world) == before + 70


def test_who_slept_over_a_seek_takes_away_only_what_it_does_not_write_again() -> None:
    """A recorded slice runs again where a person sent its lane to where it was."""
    book = Notebook("intent", lambda: False, lambda: False, lambda *_: None)
    before, now = (
        [Done("keep", Found("acme", Place(TOPIC, 0, at)), way, name=f"{TOPIC}[0]") for at in (0, 1)]
        for way in (0, 1)
    )
    for call, wrote in enumerate((now, before), 1):
        book.happened += wrote
        book.replace("r1-1-0", call, wrote)
    assert book.done == now
    book.replace("r1-1-0", 3, before[:1])
    assert book.done == now[:1]
