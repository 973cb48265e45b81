"""What a turn asks Kafka about, and what it leaves in peace."""

from collections import Counter

import pytest

from headrace.cycle.ends import LIVELY_S, SWEPT_PER_S
from headrace.cycle.topics import TOPICS_EVERY_S, TOPICS_PER_S
from headrace.errors import ConfigError
from headrace.model.lane_names import named, number_of
from headrace.model.streams import Order, State, StreamId, Tenant
from headrace.testing.log_fake import MemoryLog, Row

KEEP, OTHER = "keep", "other"


class AskedLog(MemoryLog):
    """Remembers what it was asked."""

    def __init__(self):
        super().__init__()
        self.forget()

    def forget(self):
        self.ends, self.described, self.end_calls = Counter(), Counter(), 0

    def end_offsets(self, partitions):
        self.end_calls += 1
        self.ends.update(partitions)
        return super().end_offsets(partitions)

    def topics(self, names):
        self.described.update(names)
        return super().topics(names)


@pytest.fixture
def idle(world):
    """Many tenants with nothing to do, past the time in which a start counts as news."""
    world.log = AskedLog()

    def make(tenants, partitions=1, **options):
        world.use_cases = [world.make(**options)]
        world.deploy()
        for number in range(tenants):
            world.tenant(f"t{number}", 0, partitions)
        world.start()
        world.turns(2)
        world.clock.move(LIVELY_S + 1)
        world.turns(2)
        world.log.forget()
        return world

    return make


def test_every_idle_lane_is_asked_within_a_round_and_no_lane_much_more_often(idle, monkeypatch):
    monkeypatch.setattr("headrace.cycle.ends.SWEPT_PER_S", 30.0)
    world = idle(60)
    world.turns(20)
    assert set(world.log.ends.values()) <= {1, 2}
    assert len(world.log.ends) == 60


def test_the_sweep_of_ten_thousand_lanes_takes_four_seconds():
    assert 10_000 / SWEPT_PER_S == 4.0


def test_a_lane_with_a_new_record_is_asked_every_turn_from_then_on(idle, monkeypatch):
    monkeypatch.setattr("headrace.cycle.ends.SWEPT_PER_S", 30.0)
    world = idle(60)
    world.send("t7", 1)
    world.turns(20)
    assert world.positions()["t7", 0] == 1
    world.log.forget()
    world.turns(20)
    assert world.log.ends.pop(named("t7.visits", 0)) == 20
    assert max(world.log.ends.values()) <= 2


def test_a_lane_is_left_in_peace_again_when_it_had_no_record_for_long(idle, monkeypatch):
    monkeypatch.setattr("headrace.cycle.ends.SWEPT_PER_S", 30.0)
    world = idle(60)
    world.send("t7", 1)
    world.turns(20)
    world.clock.move(LIVELY_S)
    world.log.forget()
    world.turns(20)
    assert world.log.ends[named("t7.visits", 0)] <= 2
    assert world.driver.observer.quiet


def test_the_lanes_of_a_suspended_stream_are_swept_and_its_lag_shown_but_they_wake_nobody(idle):
    world = idle(3)
    world.store.registry.set_tenant_state("t1", State.SUSPENDED)
    world.turns(2)
    world.send("t1", 5)
    world.turns(2)
    assert world.row("t1").lag_records == 5
    assert world.driver.observer.quiet
    assert not world.driver.board.ready


def test_a_suspended_streams_records_run_at_once_when_it_is_resumed(idle, monkeypatch):
    monkeypatch.setattr("headrace.cycle.ends.SWEPT_PER_S", 1.0)
    world = idle(20)
    world.store.registry.set_tenant_state("t9", State.SUSPENDED)
    world.turns(1)
    world.send("t9", 5)
    world.store.registry.set_tenant_state("t9", State.ACTIVE)
    world.turns(2)
    assert world.positions()["t9", 0] == 5


def test_a_stream_whose_order_goes_over_all_lanes_is_asked_as_a_whole(idle, monkeypatch):
    monkeypatch.setattr("headrace.cycle.ends.SWEPT_PER_S", 10.0)
    world = idle(4, partitions=5, order=Order.STREAM)
    world.log.append("t2.visits", 3, [Row(b"old", timestamp_ms=1000)])
    world.log.append("t2.visits", 0, [Row(b"new", timestamp_ms=2000)])
    world.turns(25)
    (wave,) = world.engine.started
    assert {number_of(piece.lane.name) for piece in wave.slices} == {0, 3}
    world.log.forget()
    world.turns(5)
    assert {world.log.ends[named("t2.visits", number)] for number in range(5)} <= {5, 6}


def test_use_cases_on_the_same_topics_share_one_answer(world):
    world.log = AskedLog()
    world.use_cases = [world.make(), world.make(name=OTHER)]
    world.deploy()
    world.tenant("acme")
    world.start()
    world.turns(2)
    world.log.forget()
    world.turns(1)
    assert world.log.ends == {named("acme.visits", 0): 1}
    assert world.log.end_calls == 1


def test_a_lane_of_a_removed_stream_is_asked_no_more_unless_another_use_case_reads_it(world):
    world.log = AskedLog()
    world.use_cases = [world.make(), world.make(name=OTHER)]
    world.deploy()
    world.tenant("acme")
    world.start()
    world.turns(2)
    world.store.registry.set_stream_state(StreamId(OTHER, "acme"), State.REMOVED)
    world.turns(1)
    world.log.forget()
    world.turns(1)
    assert world.log.ends == {named("acme.visits", 0): 1}
    world.store.registry.set_stream_state(StreamId(KEEP, "acme"), State.REMOVED)
    world.turns(1)
    world.log.forget()
    world.turns(2)
    assert not world.log.ends


def test_a_turn_in_which_nothing_is_due_asks_nothing(idle):
    world = idle(3)
    world.turns(1, seconds=0.0)
    world.log.forget()
    world.turns(5, seconds=0.0)
    assert world.log.end_calls == 0
    assert not world.log.described


def test_turns_come_more_slowly_while_nothing_is_new(idle):
    world = idle(3)
    waits = []
    world.engine.on_wait = waits.append
    world.turns(2)
    world.send("t1", 1)
    world.turns(4)
    assert waits[-1] < waits[0]


# --- topics ----------------------------------------------------------------------------------


def test_every_topic_is_described_twice_a_minute(idle):
    world = idle(20)
    world.clock.move(TOPICS_EVERY_S)
    world.log.forget()
    world.turns(120, seconds=0.5)
    assert len(world.log.described) == 20
    assert set(world.log.described.values()) == {2}


def test_more_topics_than_the_rate_allows_are_described_in_a_longer_round(idle, monkeypatch):
    monkeypatch.setattr("headrace.cycle.topics.TOPICS_PER_S", 1.0)
    world = idle(45)
    world.turns(90, seconds=0.5)
    assert 40 <= len(world.log.described) <= 45
    assert set(world.log.described.values()) == {1}
    assert TOPICS_PER_S * TOPICS_EVERY_S >= 1000


def test_a_new_stream_is_described_at_once_and_agreed_about_and_the_others_are_not(idle):
    world = idle(20)
    world.tenant("new", 2)
    world.turns(2)
    assert world.positions()["new", 0] == 2
    assert world.log.described == {"new.visits": 2}


def test_a_topic_made_again_while_nobody_looked_is_found_before_its_first_record_is_read(
    idle, monkeypatch
):
    world = idle(30)
    world.send("t3", 2)
    world.turns(4)
    assert len(world.seen) == 2
    monkeypatch.setattr(type(world.log), "end_offsets", lambda *_: {})
    world.turns(1, seconds=LIVELY_S + 1)
    world.log.delete_topic("t3.visits")
    world.log.create_topic("t3.visits")
    world.send("t3", 5)
    monkeypatch.undo()
    world.turns(30, 1.0)
    assert "TopicRecreated" in world.row("t3").note
    assert len(world.seen) == 2


def test_a_suspended_stream_whose_log_went_back_is_looked_at_when_it_is_resumed(idle):
    world = idle(2)
    world.send("t1", 3)
    world.turns(4)
    world.store.registry.set_tenant_state("t1", State.SUSPENDED)
    world.turns(2)
    world.log.truncate("t1.visits", 0, 1)
    world.log.forget()
    world.turns(20, seconds=1.0)
    assert not world.log.described["t1.visits"]
    world.store.registry.set_tenant_state("t1", State.ACTIVE)
    world.turns(3)
    assert "seems to end at 1, before the position 3" in world.row("t1").note


def test_a_partition_added_later_is_found_and_read_from_its_beginning(idle):
    world = idle(3)
    world.log.delete_topic("t1.visits")
    world.log._ids["t1.visits"] = "topic-2"  # the same topic, with one partition more
    world.log._lanes |= lanes_of("t1.visits", 2)
    world.log.append("t1.visits", 1, [Row(b"x")])
    world.turns(70, seconds=0.5)
    assert world.positions()["t1", 1] == 1


def lanes_of(name, partitions):
    spare = MemoryLog()
    spare.create_topic(name, partitions)
    return spare._lanes


def test_what_could_not_be_described_is_described_when_the_broker_is_back(idle):
    world = idle(3)
    world.store.registry.add_tenant(Tenant("late"))
    world.log.create_topic("late.visits")
    world.log.down = True
    world.turns(2)
    world.log.down = False
    world.send("late", 1)
    world.turns(2)
    assert world.positions()["late", 0] == 1


def test_latest_begins_when_every_partition_says_where_its_end_is(world):
    world.deploy(starting_offsets="latest")
    world.tenant("acme", 5, partitions=2)
    world.send("acme", 4, partition=1)
    world.log.set_leader("acme.visits", 1, present=False)
    world.start()
    world.turns()
    assert "leader" in world.row("acme").note
    world.log.set_leader("acme.visits", 1, present=True)
    world.turns(6, seconds=1.0)
    world.send("acme", 1, partition=1)
    world.turns()
    assert world.positions() == {("acme", 0): 5, ("acme", 1): 5}
    assert world.seen == [("acme", 4)]


class Refused(MemoryLog):
    """A cluster that refuses whoever asks, while it is told to."""

    refuses = False

    def end_offsets(self, partitions):
        if self.refuses:
            raise ConfigError("Kafka refuses the credentials")
        return super().end_offsets(partitions)


def test_a_driver_that_has_worked_waits_for_credentials_to_be_taken_again(world):
    world.log = Refused()
    world.tenant("acme", 5)
    world.deploy()
    world.start()
    world.turns()
    world.send("acme", 5)
    world.log.refuses = True
    world.turns()
    world.log.refuses = False
    world.turns()
    assert world.positions() == {("acme", 0): 10}


def test_a_driver_whose_credentials_were_never_taken_ends(world):
    world.log = Refused()
    world.log.refuses = True
    world.tenant("acme", 5)
    world.deploy()
    world.start()
    with pytest.raises(ConfigError, match="credentials"):
        world.turns()
