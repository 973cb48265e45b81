"""A broker that has not heard of a topic's change answers as before: one answer is not believed."""

from dataclasses import replace

import pytest

from headrace.cycle.topics import TOPICS_EVERY_S, WAITING_EVERY_S
from headrace.errors import ConfigError
from headrace.model.lane_names import named
from headrace.model.streams import DataLossPolicy, State, StreamId, Tenant
from headrace.operating.seeking import seek
from headrace.policies.data_loss import LIST_PATIENCE_S
from headrace.testing.log_fake import MemoryLog

ACME = StreamId("keep", "acme")
TOPIC = "acme.visits"
FAIL, SKIP = DataLossPolicy.FAIL, DataLossPolicy.SKIP


@pytest.fixture
def begun(world):
    """Acme at 5, all of it read."""

    def begin(policy, **options):
        world.use_cases = [world.make()]
        world.deploy(data_loss=policy, **options)
        world.tenant("acme", 5)
        world.start()
        world.turns()
        assert at(world) == 5
        return world

    return begin


@pytest.fixture
def told(world, monkeypatch):
    """Lets brokers tell something else of acme's topic, or the truth again."""
    whole = MemoryLog.topics

    def tell(change=None):
        def topics(log, names):
            found = whole(log, names)
            return found if change is None else found | {TOPIC: change(found[TOPIC])}

        monkeypatch.setattr(MemoryLog, "topics", topics)

    return tell


def with_id(topic_id):
    return lambda info: replace(info, topic_id=topic_id)


def at(world):
    return world.positions().get(("acme", 0))


def stream(world):
    return next(found for found in world.store.registry.streams() if found.id == ACME)


def looked(world):
    world.clock.move(TOPICS_EVERY_S + 2)
    world.turns(2)


def believed(world):
    world.turns(round(LIST_PATIENCE_S / WAITING_EVERY_S) + 6, seconds=WAITING_EVERY_S)


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_one_answer_of_another_topic_changes_nothing(begun, told, policy):
    world = begun(policy)
    before = stream(world)
    told(with_id("topic-0"))
    looked(world)
    assert "has another id" in world.row("acme").note
    told()
    world.send("acme", 2)
    world.turns(8, seconds=1.0)
    assert (at(world), len(world.seen)) == (7, 7)
    assert stream(world) == before
    assert world.store.failures.every() == []


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_what_every_answer_for_a_while_says_is_believed(begun, policy):
    world = begun(policy)
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC, 1)
    world.send("acme", 2)
    looked(world)
    assert (at(world), stream(world).state) == (5, State.ACTIVE)
    believed(world)
    if policy is SKIP:
        assert (at(world), len(world.seen)) == (2, 7)
        assert stream(world).left_ids == ("topic-1",)
    else:
        assert (at(world), stream(world).state) == (5, State.SUSPENDED)
        assert "was deleted and made again" in stream(world).reason


def test_answers_of_two_topics_in_turn_are_of_none(begun, told):
    world = begun(SKIP)
    looked(world)
    for number in range(20):
        told(with_id(f"topic-{2 + number % 2}"))
        world.clock.move(WAITING_EVERY_S)
        world.turns(1)
        if number == 0:
            looked(world)
    assert (at(world), stream(world).topic_id) == (5, "topic-1")


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_stream_never_goes_back_to_a_topic_that_it_left(begun, told, policy):
    world = begun(SKIP)
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC, 1)
    world.send("acme", 4)
    looked(world)
    believed(world)
    assert (at(world), stream(world).topic_id) == (4, "topic-2")
    world.deploy(data_loss=policy)
    world.start()  # a new driver knows it from the store
    world.turns()
    seen, notes = len(world.seen), len(world.store.failures.every())
    told(with_id("topic-1"))
    looked(world)
    believed(world)
    assert "one that was deleted and made again" in world.row("acme").note
    told()
    world.send("acme", 1)
    believed(world)
    assert (at(world), stream(world).topic_id, stream(world).state) == (5, "topic-2", State.ACTIVE)
    assert (len(world.seen) - seen, len(world.store.failures.every())) == (1, notes)


@pytest.fixture
def moved_on(begun):
    """Acme at 4 of the topic that came after the one it began in."""
    world = begun(SKIP)
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC, 1)
    world.send("acme", 4)
    looked(world)
    believed(world)
    assert (at(world), stream(world).topic_id) == (4, "topic-2")
    world.seen.clear()
    return world


def remove(world, *, whole):
    if whole:
        world.store.registry.set_tenant_state("acme", State.REMOVED)
    else:
        world.store.registry.set_stream_state(ACME, State.REMOVED)
    world.turns()


def add_again(world, *, whole):
    if whole:
        world.store.registry.add_tenant(Tenant("acme"))
    else:
        world.store.registry.add_stream(ACME)


@pytest.mark.parametrize("whole", [False, True])
def test_nor_does_one_that_was_removed_and_added_again(moved_on, told, *, whole):
    world = moved_on
    remove(world, whole=whole)
    add_again(world, whole=whole)
    world.turns()
    assert (at(world), len(world.seen)) == (4, 4)
    told(with_id("topic-1"))
    looked(world)
    believed(world)
    assert "one that was deleted and made again" in world.row("acme").note
    told()
    world.send("acme", 1)
    believed(world)
    assert (at(world), stream(world).topic_id, len(world.seen)) == (5, "topic-2", 5)
    assert len(world.store.failures.every()) == 1


@pytest.mark.parametrize("whole", [False, True])
def test_nor_does_it_begin_there(moved_on, told, *, whole):
    world = moved_on
    remove(world, whole=whole)
    told(with_id("topic-1"))
    add_again(world, whole=whole)
    looked(world)
    believed(world)
    assert "one that was deleted and made again" in world.row("acme").note
    assert (at(world), stream(world).topic_id, world.seen) == (None, None, [])
    told()
    believed(world)
    assert (at(world), stream(world).topic_id, len(world.seen)) == (4, "topic-2", 4)
    assert len(world.store.failures.every()) == 1


def test_one_that_was_added_again_knows_that_it_left_the_topic_it_had_last(moved_on, told):
    world = moved_on
    remove(world, whole=True)
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC, 1)
    add_again(world, whole=True)
    world.send("acme", 2)
    looked(world)
    world.turns()
    assert (at(world), stream(world).topic_id, len(world.seen)) == (2, "topic-3", 2)
    told(with_id("topic-2"))
    looked(world)
    believed(world)
    assert (at(world), stream(world).topic_id) == (2, "topic-3")


@pytest.mark.parametrize("again", [False, True])
def test_who_does_what_is_said_goes_back_to_a_log_that_is_again_what_it_was(moved_on, told, again):
    world = moved_on
    if again:
        remove(world, whole=True)
    told(with_id("topic-1"))
    if again:
        add_again(world, whole=True)
    looked(world)
    said = "suspend the stream, seek it, and resume it"
    assert said in world.row("acme").note
    with pytest.raises(ConfigError, match=said):
        seek(world.store, world.log, ACME, "earliest")
    world.store.registry.set_stream_state(ACME, State.SUSPENDED)
    seek(world.store, world.log, ACME, "earliest")
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    looked(world)
    world.turns()
    assert (at(world), stream(world).topic_id, len(world.seen)) == (4, "topic-1", 4)


def test_what_is_recorded_of_a_removed_stream_is_not_forgotten_for_one_answer(world, told):
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    world.tenant("acme", 5)
    world.killed_after_writing()
    assert world.store.progress.pending_intents()
    world.store.registry.set_stream_state(ACME, State.REMOVED)
    told(with_id("topic-0"))
    world.start()
    world.turns(3)
    assert (at(world), len(world.store.progress.pending_intents())) == (0, 1)
    told()
    world.turns(8, seconds=1.0)
    assert (at(world), world.store.progress.pending_intents()) == (5, [])


def once(told, change):
    """One answer, and then the truth."""

    def changed(info):
        told()
        return change(info)

    told(changed)


@pytest.mark.parametrize("starts", ["earliest", "latest"])
def test_a_stream_does_not_begin_in_a_topic_that_one_answer_was_of(world, told, starts):
    world.use_cases = [world.make()]
    world.deploy(starting_offsets=starts, data_loss=SKIP)
    world.tenant("acme", 3)
    once(told, with_id("topic-0"))
    world.start()
    world.turns()
    assert stream(world).topic_id == "topic-1"
    looked(world)
    believed(world)
    assert (at(world), len(world.seen)) == (3, 3 if starts == "earliest" else 0)
    assert world.store.failures.every() == []


def test_a_partition_that_the_first_list_was_without_does_not_count_as_added(world, told):
    world.use_cases = [world.make()]
    world.deploy(starting_offsets="latest")
    world.tenant("acme", 3, partitions=2)
    world.send("acme", 3, 1)
    once(told, lambda info: replace(info, lanes=info.lanes[:1]))
    world.start()
    world.turns()
    looked(world)
    assert world.positions() == {("acme", 0): 3, ("acme", 1): 3}
    assert world.seen == []


@pytest.mark.parametrize("to", ["latest", {named(TOPIC, 0): 5}])
def test_a_seek_by_a_list_without_a_partition_is_refused_and_nothing_comes_twice(begun, to):
    world = begun(FAIL)
    number = world.log.widen(TOPIC)
    world.send("acme", 4, number)
    looked(world)
    world.turns()
    assert len(world.seen) == 9
    world.log.set_listed(TOPIC, number, False)
    with pytest.raises(Exception, match=r"acme.visits\[1\].*not whole.*try again"):
        seek(world.store, world.log, ACME, to)
    world.log.set_listed(TOPIC, number, True)
    looked(world)
    world.turns(8)
    assert (world.positions()["acme", 1], len(world.seen)) == (4, 9)
