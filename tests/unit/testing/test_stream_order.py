"""What the simulation's judge holds against the order of a stream, and what it does not."""

from __future__ import annotations

from random import Random

from headrace.model.streams import StreamId
from headrace.testing.clock import FakeClock
from headrace.testing.isolation_checker import Isolation
from headrace.testing.ledger import Found, Place
from headrace.testing.simulation.generations import Generations
from headrace.testing.simulation.odds import Odds
from headrace.testing.simulation.sinks import Done
from headrace.testing.simulation.stream_order import StreamOrder
from headrace.testing.simulation.topics import WorldTopics, lane_of, named

STREAM, TOPIC = StreamId("count", "acme"), "acme.visits"


def three_lanes(log: int = 1) -> WorldTopics:
    """The how-manieth topic of its name, with the lanes 0, 1 and 2."""
    made = WorldTopics(Random(0), Odds(), FakeClock(), Isolation())
    for _ in range(log - 1):
        made.make(TOPIC)
        made.send(TOPIC, 0, 1)
        made.clock.wall_s -= 3600
        made.delete(TOPIC)
    made.make(TOPIC)
    while made.widen(TOPIC):
        pass
    return made


def sent(topics: WorldTopics, lane: int) -> Place:
    """One more record, a second after the one before it."""
    topics.clock.move(1)
    topics.send(TOPIC, lane, 1)
    return list(topics.written)[-1]


def late(topics: WorldTopics, *places: Place) -> list[str]:
    """What is found if these have their effects in this order."""
    generations = Generations()
    for lane in {place.partition for place in places}:
        generations.begins(lane_of(STREAM, TOPIC, lane), 0, topics.made[TOPIC])
    done = [Done(STREAM.use_case, Found(STREAM.tenant, place), 0) for place in places]
    return StreamOrder(topics, generations).late(done)


def test_what_was_sent_first_and_says_so_comes_first() -> None:
    topics = three_lanes()
    first, second = sent(topics, 0), sent(topics, 1)
    assert late(topics, first, second) == []
    assert late(topics, second, first) == [f"{first} after {second}"]


def test_a_record_waits_for_the_turn_of_what_its_lane_follows() -> None:
    """The clock stepped back, and a lane was made of one that had shown a later time."""
    topics = three_lanes()
    ahead = sent(topics, 0)
    topics.clock.wall_s -= 3600
    child, _ = topics.split(TOPIC, 0)
    grandchild = topics.merge(TOPIC, child, 2)[0]
    behind, other = sent(topics, grandchild), sent(topics, 1)
    assert late(topics, other, ahead, behind) == []


def test_a_lane_that_follows_others_is_in_order_as_any() -> None:
    topics = three_lanes()
    parent = sent(topics, 0)
    child = topics.split(TOPIC, 0)[0]
    behind, other = sent(topics, child), sent(topics, 1)
    assert late(topics, parent, other, behind) == [f"{behind} after {other}"]


def test_a_topic_made_again_has_no_turns_of_the_one_before() -> None:
    topics = three_lanes(log=2)
    first, second = sent(topics, 0), sent(topics, 1)
    assert first.topic == named(TOPIC, 2)
    assert late(topics, second, first) == [f"{first} after {second}"]


def test_records_of_two_topics_of_a_stream_are_in_one_order() -> None:
    topics, more = three_lanes(), "acme.clicks"
    topics.make(more)
    first = sent(topics, 0)
    topics.clock.move(1)
    topics.send(more, 0, 1)
    second = list(topics.written)[-1]
    generations = Generations()
    for topic in (TOPIC, more):
        generations.begins(lane_of(STREAM, topic, 0), 0, 1)
    done = [Done(STREAM.use_case, Found(STREAM.tenant, place), 0) for place in (second, first)]
    assert StreamOrder(topics, generations).late(done) == [f"{first} after {second}"]
    assert StreamOrder(topics, generations).late(reversed(done)) == []
