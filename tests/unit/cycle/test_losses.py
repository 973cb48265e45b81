"""What Kafka lost is told by its offsets, and stops or moves its own stream and no other."""

from dataclasses import replace

import pytest

from headrace.cycle.topics import TOPICS_EVERY_S, WAITING_EVERY_S
from headrace.errors import ConfigError, StoreUnavailable, WorkerKilled
from headrace.model.lane_names import named, number_of
from headrace.model.records import FailureState
from headrace.model.streams import DataLossPolicy, Order, State, StreamId
from headrace.operating.seeking import seek
from headrace.policies.data_loss import CUT_PATIENCE_S, LIST_PATIENCE_S
from headrace.ports import WaveResult
from headrace.spark.slice_errors import error_of
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import Row

ACME, BOLT = StreamId("keep", "acme"), StreamId("keep", "bolt")
TOPIC = "acme.visits"
RIGHT_AT = "acme.visits[0] ends at 2, but what it is stopped at was there up to 3: the log was cut"
FAIL, SKIP = DataLossPolicy.FAIL, DataLossPolicy.SKIP


@pytest.fixture
def begun(world):
    """Acme at 5 and bolt at 3, and nothing left to do."""

    def begin(policy, partitions=1, **options):
        world.use_cases = [world.make(**options)]
        world.deploy(data_loss=policy)
        world.tenant("acme", 5, partitions)
        world.tenant("bolt", 3)
        world.start()
        world.turns()
        assert world.positions()["acme", 0] == 5
        return world

    return begin


def asleep(world, change):
    """What happens to acme's topic while nobody looks."""
    world.store.registry.set_tenant_state("acme", State.SUSPENDED)
    world.turns(2)
    change()
    world.store.registry.set_tenant_state("acme", State.ACTIVE)
    world.turns(round(LIST_PATIENCE_S) + 8, seconds=1.0)


def test_what_comes_after_a_skip_is_newer_from_its_first_slice_on(begun):
    world = begun(SKIP)

    def depths():
        positions = world.store.progress.load_positions([ACME])
        return {position.lane.name: position.depth for position in positions}

    made_again(world, 3)
    world.clock.move(TOPICS_EVERY_S + 2)
    while depths() == {f"{TOPIC}[0]": 0}:
        world.turns(1)
    lanes = world.driver.board.streams[ACME].lanes
    assert {name: lane.depth for name, lane in lanes.items()} == depths() == {f"{TOPIC}[0]": 1}


def made_again(world, records=0, partitions=1):
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC, partitions)
    world.send("acme", records)


def until_it_counts_as_cut(world):
    world.turns(round(CUT_PATIENCE_S / WAITING_EVERY_S) + 2, seconds=WAITING_EVERY_S)


def notes(world):
    return [
        (
            number_of(failure.slice.lane.name),
            failure.slice.from_offset,
            failure.slice.until_offset,
            failure.error.code,
        )
        for failure in world.store.failures.every(ACME)
        if failure.state is FailureState.SKIPPED
    ]


def stream(world):
    return next(found for found in world.store.registry.streams() if found.id == ACME)


def undisturbed(world):
    world.send("bolt", 4)
    world.turns()
    assert world.positions()["bolt", 0] == 7
    assert world.row("bolt").state == "active"
    assert world.row("bolt").lost_records == 0
    assert world.store.failures.every(BOLT) == []


# --- skip ------------------------------------------------------------------------------------


def test_a_stream_goes_on_behind_what_retention_took_and_the_range_is_kept(begun):
    world = begun(SKIP)

    def expire():
        world.send("acme", 10)
        world.log.expire(TOPIC, 0, 9)

    asleep(world, expire)
    assert world.positions()["acme", 0] == 15
    assert [offset for tenant, offset in world.seen if tenant == "acme"][5:] == list(range(9, 15))
    assert notes(world) == [(0, 5, 9, "OffsetOutOfRange")]
    (kept,) = world.store.failures.every(ACME)
    assert "acme.visits[0] lost offsets 5..9 to retention" in kept.error.message
    assert "goes on at 9" in kept.error.message
    assert (world.row("acme").state, world.row("acme").lost_records) == ("active", 4)
    assert "lost offsets 5..9" in world.row("acme").note
    undisturbed(world)


def test_a_stream_goes_on_where_its_log_was_cut(begun):
    world = begun(SKIP)
    world.log.truncate(TOPIC, 0, 3)
    until_it_counts_as_cut(world)
    world.send("acme", 2)
    world.turns(4)
    assert world.positions()["acme", 0] == 5
    assert [offset for tenant, offset in world.seen if tenant == "acme"] == [0, 1, 2, 3, 4, 3, 4]
    assert notes(world) == [(0, 3, 5, "OffsetOutOfRange")]
    assert world.row("acme").lost_records == 0
    undisturbed(world)


def test_a_topic_made_again_is_read_from_its_beginning(begun):
    world = begun(SKIP)
    before = stream(world)
    asleep(world, lambda: made_again(world, 7))
    assert world.positions()["acme", 0] == 7
    assert [offset for tenant, offset in world.seen if tenant == "acme"][5:] == list(range(7))
    assert notes(world) == [(0, 5, 5, "TopicRecreated")]
    (kept,) = world.store.failures.every(ACME)
    assert "in partition 0 from offset 5 on is lost" in kept.error.message
    after = stream(world)
    assert (after.topic_id != before.topic_id, after.epoch) == (True, before.epoch + 1)
    undisturbed(world)


@pytest.mark.parametrize("order", [Order.LANE, Order.STREAM])
@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3)])
def test_a_topic_made_again_may_have_other_partitions(begun, before, after, order):
    world = begun(SKIP, partitions=before, order=order)
    world.send("acme", 2, before - 1)
    world.turns()
    asleep(world, lambda: made_again(world, 2, after))
    world.send("acme", 3, after - 1)
    world.turns()
    assert len(notes(world)) == before
    found = {number: at for (name, number), at in world.positions().items() if name == "acme"}
    assert found == ({0: 2, 1: 0, 2: 3} if after > 1 else {0: 5})


def test_a_topic_made_again_is_not_begun_before_all_its_partitions_can_be_seen(begun):
    world = begun(SKIP, partitions=2)

    def change():
        made_again(world, 2, 2)
        world.log.set_leader(TOPIC, 1, False)

    asleep(world, change)
    assert notes(world) == []
    assert world.positions()["acme", 0] == 5
    assert "no leader" in world.row("acme").note
    world.log.set_leader(TOPIC, 1, True)
    world.turns(4, seconds=2.0)
    assert world.positions()["acme", 0] == 2


def test_nothing_is_skipped_while_something_of_the_stream_runs(begun):
    world = begun(SKIP, partitions=2)
    world.engine.paused = True
    world.send("acme", 1)
    world.turns(3)
    world.send("acme", 4, partition=1)
    world.log.expire(TOPIC, 1, 3)
    held = world.driver.board.streams[ACME]
    world.driver.observer.doubt(held, held.lanes[named(TOPIC, 1)], "somebody said so")
    world.turns(3)
    assert (notes(world), world.positions()["acme", 1]) == ([], 0)
    assert "as soon as nothing of the stream runs" in world.row("acme").note
    world.engine.paused = False
    world.turns(5, seconds=1.0)
    assert notes(world) == [(1, 0, 3, "OffsetOutOfRange")]
    assert world.positions()["acme", 0] == 6
    assert world.positions()["acme", 1] == 4


def test_a_lane_that_is_stopped_at_a_record_stays_where_it_is(world):
    def picky(table, context):
        if context.tenant == "acme" and 2 in table["offset"].to_pylist():
            raise ValueError("cannot read this")
        return table.select(["offset"])

    world.use_cases = [world.make(picky)]
    world.deploy(data_loss=SKIP, retries=0)
    world.tenant("acme", 5)
    world.tenant("bolt", 3)
    world.start()
    world.turns(8, seconds=1.0)
    (stopped,) = world.store.failures.every(ACME, only_open=True)
    at = world.positions()["acme", 0]
    asleep(world, lambda: world.log.expire(TOPIC, 0, 4))
    assert world.positions()["acme", 0] == at
    world.store.failures.retry(stopped.id)
    asleep(world, lambda: None)
    assert world.positions()["acme", 0] == 5
    assert notes(world) == [(0, at, 4, "OffsetOutOfRange")]


@pytest.mark.parametrize("order", ["lane", "key", "stream"])
def test_a_log_cut_before_the_record_that_a_lane_is_stopped_at_is_told_and_read_on(world, order):
    """Or others would soon be at that offset, and those before it were read by nobody."""
    values = []

    def picky(table, _context):
        if b"bad" in table["value"].to_pylist():
            raise ValueError("cannot read this")
        values.extend(table["value"].to_pylist())
        return table.select(["offset"])

    def send(*named):
        rows = [Row(value, timestamp_ms=int(world.clock.wall_s * 1000)) for value in named]
        world.log.append(TOPIC, 0, rows)

    world.use_cases = [world.make(picky, order=order)]
    world.deploy(data_loss=SKIP, retries=0)
    world.tenant("acme")
    send(b"0", b"1", b"2", b"3", b"bad")
    world.start()
    world.turns(30, seconds=1.0)
    (stopped,) = world.store.failures.every(ACME, only_open=True)
    world.log.truncate(TOPIC, 0, 2)
    world.turns(15, seconds=1.0)
    assert world.store.failures.every(ACME) == [stopped], "a leader that is cut off may say so"
    world.turns(60, seconds=1.0)
    told = [one.error.message for one in world.store.failures.every(ACME) if one.id != stopped.id]
    assert any("ends at 2, but all before 4 was read: the log was cut" in one for one in told)
    assert world.store.failures.one(stopped.id).state is FailureState.SKIPPED
    assert world.store.failures.every(ACME, only_open=True) == []
    new = [b"new-%d" % number for number in range(5)]
    send(*new)
    world.turns(10, seconds=1.0)
    assert values[-5:] == new


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_log_cut_right_at_the_record_that_a_lane_is_stopped_at_is_told(world, policy):
    """Or a skip of it, which is by its place, would drop the one that comes there next."""
    seen = []

    def picky(table, _context):
        if b"bad" in table["value"].to_pylist():
            raise ValueError("cannot read this")
        seen.extend(table["value"].to_pylist())
        return table.select(["offset"])

    def send(*named):
        rows = [Row(value, timestamp_ms=int(world.clock.wall_s * 1000)) for value in named]
        world.log.append(TOPIC, 0, rows)

    world.use_cases = [world.make(picky)]
    world.deploy(data_loss=policy, retries=0)
    world.tenant("acme")
    send(b"0", b"1", b"bad")
    world.start()
    world.turns(80, seconds=1.0)
    (stopped,) = world.store.failures.every(ACME)
    world.log.truncate(TOPIC, 0, 2)
    world.turns(80, seconds=1.0)
    assert world.store.failures.one(stopped.id).state is FailureState.SKIPPED
    if policy is FAIL:
        assert RIGHT_AT in stream(world).reason
        with pytest.raises(ConfigError, match="not open any more: it was skipped"):
            world.store.failures.skip(stopped.id)
        world.store.registry.set_stream_state(ACME, State.ACTIVE)
    else:
        assert any(RIGHT_AT in one.error.message for one in world.store.failures.every(ACME))
        assert notes(world)[-1] == (0, 2, 3, "OffsetOutOfRange")
    send(b"new")
    world.turns(10, seconds=1.0)
    assert (world.positions()["acme", 0], seen[-1]) == (3, b"new")


@pytest.mark.parametrize(("cut_to", "begins"), [(1, 0), (2, 0), (2, 1)])
def test_a_log_cut_within_a_slice_that_a_lane_is_stopped_at_is_told(
    world, monkeypatch, cut_to, begins
):
    """It names no record: a skip, which is of the whole slice, would drop what comes there next.

    So it is where retention took its beginning as well, which is told after it.
    """
    run, deadly = InProcessEngine._run, [None]

    def killed(engine, wave):
        if deadly:
            return WaveResult(wave, (), 0.0, error_of(WorkerKilled("it dies of it")))
        return run(engine, wave)

    monkeypatch.setattr(InProcessEngine, "_run", killed)
    # By intent what may be there is run as it was, whole.
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy(data_loss=SKIP, retries=0)
    world.tenant("acme", 3)
    world.start()
    world.turns(30, seconds=1.0)
    (stopped,) = world.store.failures.every(ACME)
    assert (stopped.error.offset, stopped.skipped_to) == (None, 3)
    deadly.clear()
    world.log.truncate(TOPIC, 0, cut_to)
    world.log.expire(TOPIC, 0, begins)
    world.turns(80, seconds=1.0)
    assert world.store.failures.one(stopped.id).state is FailureState.SKIPPED
    told = [(0, cut_to, 3, "OffsetOutOfRange"), (0, 0, begins, "OffsetOutOfRange")]
    assert notes(world)[1:] == (told if begins else told[:1])
    world.send("acme", 3)
    world.turns(30, seconds=1.0)
    assert world.seen == [("acme", offset) for offset in range(begins, cut_to + 3)]


@pytest.mark.parametrize("done", [True, False])
def test_a_store_that_does_not_answer_leaves_one_note_and_one_move(begun, monkeypatch, done):
    world = begun(SKIP)
    whole = world.store.progress.skip_lost
    answers = [False]

    def unsteady(*args):
        if answers:
            if done:
                whole(*args)
            answers.pop()
            raise StoreUnavailable("the store does not answer")
        return whole(*args)

    monkeypatch.setattr(world.store.progress, "skip_lost", unsteady)
    world.send("acme", 0)
    asleep(world, lambda: made_again(world, 7))
    assert not answers
    assert notes(world) == [(0, 5, 5, "TopicRecreated")]
    assert world.positions()["acme", 0] == 7


def test_whoever_seeks_at_the_same_moment_wins(begun, monkeypatch):
    world = begun(SKIP)
    whole = world.store.progress.skip_lost

    def late(stream, moves, failures, topic_id, *more):
        monkeypatch.undo()
        world.store.progress.seek(ACME, {"acme.visits[0]": 7})
        return whole(stream, moves, failures, topic_id)

    monkeypatch.setattr(world.store.progress, "skip_lost", late)

    def expire():
        world.send("acme", 5)
        world.log.expire(TOPIC, 0, 6)

    asleep(world, expire)
    assert notes(world) == []
    assert [offset for tenant, offset in world.seen if tenant == "acme"][5:] == [7, 8, 9]


# --- a leader that is cut off ----------------------------------------------------------------


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_the_end_that_a_leader_tells_that_is_cut_off_takes_no_position_back(begun, policy):
    world = begun(policy)
    before = stream(world)
    world.log.cut_off(TOPIC, 0, 3, replaced=False)
    world.turns(6, seconds=1.5)
    assert world.row("acme").state == "waiting"
    assert "acme.visits[0] seems to end at 3, before the position 5" in world.row("acme").note
    undisturbed(world)
    world.log.replace_leader(TOPIC, 0)
    world.send("acme", 2)
    until_it_counts_as_cut(world)
    assert (stream(world), notes(world)) == (before, [])
    assert [offset for tenant, offset in world.seen if tenant == "acme"] == list(range(7))
    assert world.row("acme").state == "active"


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_low_end_is_as_old_as_its_question_though_the_driver_slept_since(
    begun, policy, monkeypatch
):
    world = begun(policy)
    before = stream(world)
    world.log.cut_off(TOPIC, 0, 3, replaced=False)
    world.turns(6, seconds=1.5)
    whole, sleeps_s = world.log.start_offsets, [CUT_PATIENCE_S - 5.0, 0.0]

    def start_offsets(partitions):
        """The second question of a look comes after its ends were told."""
        found = whole(partitions)
        if sleeps_s and set(partitions) == {named(TOPIC, 0)}:
            world.clock.move(sleeps_s.pop())
            if not sleeps_s:
                world.log.replace_leader(TOPIC, 0)
        return found

    monkeypatch.setattr(world.log, "start_offsets", start_offsets)
    world.turns(6, seconds=1.5)
    assert (stream(world), notes(world), sleeps_s) == (before, [], [])
    assert world.row("acme").state == "active"


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_client_that_asks_an_ex_leader_is_told_who_leads_now(begun, policy):
    world = begun(policy)
    before = stream(world)
    world.log.cut_off(TOPIC, 0, 3, replaced=True)
    world.start()
    world.turns(3)
    assert (stream(world), notes(world)) == (replace(before, epoch=before.epoch + 1), [])
    assert world.row("acme").state == "active"


def test_a_log_that_was_long_enough_in_between_is_doubted_anew(begun):
    world = begun(SKIP)
    for _ in range(3):
        world.log.cut_off(TOPIC, 0, 3, replaced=False)
        world.turns(9, seconds=1.5)
        world.log.replace_leader(TOPIC, 0)
        world.turns(3, seconds=1.5)
    assert notes(world) == []
    assert world.positions()["acme", 0] == 5


# --- found inside a wave ---------------------------------------------------------------------


def in_flight(world, change):
    """What happens to acme's topic between plan and read."""
    world.engine.paused = True
    world.send("acme", 5)
    world.turns(3)
    change()
    world.engine.paused = False
    world.turns(10, seconds=1.0)


@pytest.mark.parametrize("order", [Order.LANE, Order.STREAM])
def test_what_a_task_cannot_read_any_more_is_skipped_by_exact_offsets(begun, order):
    world = begun(SKIP, order=order)
    in_flight(world, lambda: world.log.expire(TOPIC, 0, 8))
    assert notes(world) == [(0, 5, 8, "OffsetOutOfRange")]
    assert world.store.failures.every(only_open=True) == []
    assert world.positions()["acme", 0] == 10
    undisturbed(world)


def test_what_a_task_cannot_read_any_more_stops_its_stream_with_the_exact_offsets(begun):
    world = begun(FAIL)
    in_flight(world, lambda: world.log.expire(TOPIC, 0, 8))
    assert world.row("acme").state == "suspended"
    assert "lost offsets 5..8 to retention" in stream(world).reason
    assert world.store.failures.every() == []
    world.store.progress.seek(ACME, {"acme.visits[0]": 8})
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.turns(8, seconds=1.0)
    assert world.positions()["acme", 0] == 10
    undisturbed(world)


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_log_cut_under_a_task_is_looked_at(begun, policy):
    world = begun(policy)
    in_flight(world, lambda: world.log.truncate(TOPIC, 0, 3))
    until_it_counts_as_cut(world)
    if policy is FAIL:
        assert "ends at 3, but all before 5 was read" in stream(world).reason
    else:
        assert notes(world) == [(0, 3, 5, "OffsetOutOfRange")]
        assert world.positions()["acme", 0] == 3
    undisturbed(world)


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_topic_deleted_under_a_task_is_waited_for_and_then_it_is_another(begun, policy):
    world = begun(policy)
    in_flight(world, lambda: world.log.delete_topic(TOPIC))
    assert world.row("acme").state == "waiting"
    assert world.store.failures.every() == []
    world.log.create_topic(TOPIC)
    world.send("acme", 2)
    world.turns(16, seconds=2.0)
    if policy is FAIL:
        assert "TopicRecreated" in stream(world).reason
    else:
        assert notes(world) == [(0, 5, 5, "TopicRecreated")]
        assert world.positions()["acme", 0] == 2
    undisturbed(world)


# --- fail ------------------------------------------------------------------------------------


def test_a_log_that_was_cut_while_no_driver_ran_is_found_by_the_next_one(begun):
    world = begun(FAIL)
    world.log.truncate(TOPIC, 0, 3)
    world.start()
    until_it_counts_as_cut(world)
    assert "ends at 3, but all before 5 was read" in stream(world).reason
    undisturbed(world)


def test_several_partitions_that_lost_records_are_counted_in_the_reason(begun):
    world = begun(FAIL, partitions=3)

    def expire():
        for number in range(3):
            world.send("acme", 9, number)
            world.log.expire(TOPIC, number, 8)

    asleep(world, expire)
    assert "lost offsets 5..8" in stream(world).reason
    assert "and 2 more lanes" in stream(world).reason


def test_a_topic_made_again_right_after_a_seek_is_found(begun):
    world = begun(FAIL)
    seek(world.store, world.log, ACME, "earliest")
    made_again(world, 9)
    world.turns(40, seconds=1.0)
    assert stream(world).state is State.SUSPENDED
    undisturbed(world)


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_topic_made_again_before_anything_of_it_was_begun_has_lost_nothing(world, policy):
    world.use_cases = [world.make()]
    world.deploy(data_loss=policy)
    world.tenant("acme", 0)
    world.log.set_leader(TOPIC, 0, False)
    world.start()
    world.turns()
    assert stream(world).topic_id is not None
    assert ("acme", 0) not in world.positions()
    asleep(world, lambda: made_again(world, records=2))
    assert world.positions()["acme", 0] == 2
    assert notes(world) == []
