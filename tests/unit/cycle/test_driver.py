"""The loop, turn by turn, on fakes."""

import asyncio

import pyarrow as pa
import pytest

from headrace.errors import Fenced, SinkUnavailable
from headrace.model.plans import Cost
from headrace.model.streams import State, StreamId, Tenant, Throttle
from headrace.operating.seeking import seek

ACME, BOLT = StreamId("keep", "acme"), StreamId("keep", "bolt")


@pytest.fixture
def running(world):
    world.deploy()
    world.tenant("acme", 5)
    world.tenant("bolt", 3)
    world.start()
    return world


def test_everything_in_the_log_is_done_once_and_in_order(running):
    running.turns()
    assert running.positions() == {("acme", 0): 5, ("bolt", 0): 3}
    assert [offset for tenant, offset in running.seen if tenant == "acme"] == [0, 1, 2, 3, 4]
    assert running.driver.idle


def test_a_lane_is_never_in_two_waves_at_once(running):
    running.engine.paused = True
    running.turns(4)
    running.send("acme", 5)
    running.turns(4)
    in_flight = [piece.lane for wave in running.engine.started for piece in wave.slices]
    assert len(in_flight) == len(set(in_flight)) == 2
    running.engine.paused = False
    running.turns()
    assert running.positions()["acme", 0] == 10


def test_a_tenant_added_while_it_runs_begins_without_a_restart(running):
    running.turns()
    running.tenant("corp", 4)
    running.turns()
    assert running.positions()["corp", 0] == 4


def test_a_tenant_that_is_added_while_the_driver_looks_is_no_surprise(running):
    tenants = running.store.registry.tenants

    def just_before():
        found = tenants()
        running.store.registry.tenants = tenants
        running.tenant("late", 2)
        return found

    running.store.registry.tenants = just_before
    running.store.registry.set_weight("acme", 2.0)
    running.turns()
    assert running.positions()["late", 0] == 2


def test_a_tenant_whose_topic_comes_later_waits_for_it_alone(running):
    running.store.registry.add_tenant(Tenant("late"))
    running.turns()
    assert running.row("late").state == "waiting"
    assert "late.visits is not there" in running.row("late").note
    assert running.positions()["acme", 0] == 5
    running.log.create_topic("late.visits")
    running.send("late", 2)
    running.turns(8, seconds=2.0)
    assert running.positions()["late", 0] == 2
    assert running.row("late").state == "active"


def test_a_suspended_tenant_stands_still_and_goes_on_where_it_stopped(running):
    running.turns()
    running.store.registry.set_tenant_state("acme", State.SUSPENDED)
    running.send("acme", 5)
    running.send("bolt", 5)
    running.turns()
    assert running.positions() == {("acme", 0): 5, ("bolt", 0): 8}
    assert running.row("acme").state == "suspended"
    running.store.registry.set_tenant_state("acme", State.ACTIVE)
    running.turns()
    assert running.positions()["acme", 0] == 10
    assert [offset for tenant, offset in running.seen if tenant == "acme"] == list(range(10))


def test_a_removed_tenant_stops_and_added_again_starts_afresh(running):
    running.turns()
    running.store.registry.set_tenant_state("acme", State.REMOVED)
    running.send("acme", 5)
    running.turns()
    assert running.positions()["acme", 0] == 5
    running.store.registry.add_tenant(Tenant("acme"))
    running.turns(8)
    assert running.positions()["acme", 0] == 10
    assert [offset for tenant, offset in running.seen if tenant == "acme"] == [
        *range(5),
        *range(10),
    ]


def test_removed_and_added_between_two_turns_is_not_mistaken_for_a_rival(running):
    running.turns()
    running.store.registry.set_tenant_state("acme", State.REMOVED)
    running.store.registry.add_tenant(Tenant("acme"))
    running.turns(8)
    assert running.positions()["acme", 0] == 5
    assert set(running.driver.board.streams) == {ACME, BOLT}


def test_a_throttled_tenant_takes_no_more_than_its_rate(running):
    running.store.registry.set_throttle("acme", Throttle(records_per_s=2))
    running.send("acme", 95)
    running.turns(20, seconds=0.5)
    assert 5 + 0 <= running.positions()["acme", 0] <= 2 + 20 * 0.5 * 2
    assert running.positions()["bolt", 0] == 3


def test_a_driver_that_may_start_nothing_does_not_spin(running):
    running.store.registry.set_tenant_state("bolt", State.SUSPENDED)
    running.store.registry.set_throttle("acme", Throttle(records_per_s=1))
    running.turns(3, seconds=0.0)
    waits = []
    running.engine.on_wait = waits.append
    running.turns(5, seconds=0.0)
    assert running.row("acme").lag_records > 0
    assert min(waits) > 0


def test_a_seek_is_followed_while_it_runs(running):
    running.turns()
    running.store.progress.seek(ACME, {"acme.visits[0]": 2})
    running.turns()
    assert [offset for tenant, offset in running.seen if tenant == "acme"] == [
        0, 1, 2, 3, 4, 2, 3, 4,
    ]  # fmt: skip


def test_what_a_stream_costs_is_known_after_a_seek(running):
    running.turns()
    known = running.driver.board.streams[ACME].cost
    assert known.samples
    seek(running.store, running.log, ACME, "latest")
    running.turns()
    assert running.driver.board.streams[ACME].cost == known


def test_what_a_stream_costs_is_learned_anew_where_a_seek_takes_it_to_another_topic(running):
    running.turns()
    running.log.delete_topic("acme.visits")
    running.log.create_topic("acme.visits", 1)
    seek(running.store, running.log, ACME, "earliest")
    running.turns()
    assert running.driver.board.streams[ACME].stream.topic_id is not None
    assert running.driver.board.streams[ACME].cost == Cost()


def test_a_slice_that_runs_while_its_lane_is_sought_to_its_beginning_commits_nothing(world):
    sought, seen = [], []

    def handler(table, _context):
        if not sought:
            sought.append(world.store.progress.seek(ACME, {"acme.visits[0]": 0}))
        seen.append(table["offset"].to_pylist())
        return pa.table({})

    world.use_cases = [world.make(handler)]
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    world.turns(10)
    assert seen == [[0, 1, 2, 3, 4]] * 2
    assert world.positions()["acme", 0] == 5


def test_a_partition_without_a_leader_is_passed_over_alone(running):
    running.log.set_leader("acme.visits", 0, False)
    running.turns()
    assert running.positions().get(("acme", 0), 0) == 0
    assert running.positions()["bolt", 0] == 3
    running.log.set_leader("acme.visits", 0, True)
    running.turns(8, seconds=2.0)
    assert running.positions()["acme", 0] == 5


def test_a_broker_that_is_down_at_start_and_comes_later_is_waited_for(running):
    running.log.down = True
    running.turns()
    assert running.seen == []
    running.log.down = False
    running.turns()
    assert running.positions()["acme", 0] == 5


def test_a_topic_made_again_stops_its_stream_until_a_seek_decides(running):
    running.turns()
    running.log.delete_topic("acme.visits")
    running.log.create_topic("acme.visits")
    running.send("acme", 4)
    running.turns(2)
    running.send("acme", 5)
    running.turns(30, 1.0)
    assert running.row("acme").state == "suspended"
    assert "TopicRecreated" in running.row("acme").note
    assert running.positions() == {("acme", 0): 5, ("bolt", 0): 3}
    running.store.progress.seek(ACME, {"acme.visits[0]": 0})
    running.store.registry.set_stream_state(ACME, State.ACTIVE)
    running.turns()
    assert running.positions()["acme", 0] == 9


def test_what_retention_removed_is_told_by_its_offsets_and_nothing_is_skipped(running):
    running.log.expire("acme.visits", 0, 3)
    running.store.registry.set_tenant_state("acme", State.SUSPENDED)
    running.turns()
    running.store.registry.set_tenant_state("acme", State.ACTIVE)
    running.turns()
    assert running.positions()["acme", 0] == 5  # it began where the log begins: nothing lost
    running.send("acme", 10)
    running.store.registry.set_tenant_state("acme", State.SUSPENDED)
    running.turns(2)
    running.log.expire("acme.visits", 0, 9)
    running.store.registry.set_tenant_state("acme", State.ACTIVE)
    running.turns(6, seconds=2.0)
    note = running.row("acme").note
    assert running.row("acme").state == "suspended"
    assert "lost offsets 5..9" in note
    assert running.positions()["bolt", 0] == 3


def test_a_log_that_was_cut_stops_its_stream_and_is_told_by_its_offsets(running):
    running.turns()
    running.log.truncate("acme.visits", 0, 3)
    running.turns(14, seconds=2.0)
    assert running.row("acme").state == "suspended"
    assert "ends at 3, but all before 5 was read" in running.row("acme").note


# --- failures --------------------------------------------------------------------------------


def test_a_bad_record_suspends_its_stream_alone_and_is_kept(world):
    def picky(table, context):
        if context.tenant == "acme" and 2 in table["offset"].to_pylist():
            raise ValueError("cannot read this")
        return table.select(["offset"])

    world.use_cases = [world.make(picky)]
    world.deploy(retries=0)
    world.tenant("acme", 5)
    world.tenant("bolt", 3)
    world.start()
    world.turns()
    assert world.positions() == {("acme", 0): 2, ("bolt", 0): 3}
    (failure,) = world.store.failures.every()
    assert (failure.error.offset, failure.error.raw_value) == (2, b"x")
    assert failure.slice.lane == world.lane("acme")
    assert world.row("acme").state == "suspended"
    assert "cannot read this" in world.row("acme").note
    world.store.progress.seek(ACME, {"acme.visits[0]": 3})
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.turns()
    assert world.positions()["acme", 0] == 5


def test_temporary_trouble_holds_a_lane_back_and_passes(world):
    trouble = [True]

    def waits(table, context):
        if context.tenant == "acme" and trouble:
            raise SinkUnavailable("slow down", retry_after_s=5.0)
        return table.select(["offset"])

    world.use_cases = [world.make(waits)]
    world.deploy()
    world.tenant("acme", 5)
    world.tenant("bolt", 3)
    world.start()
    world.turns(10)
    assert world.positions() == {("acme", 0): 0, ("bolt", 0): 3}
    assert world.row("acme").state == "retrying"
    calls = sum("acme" in str(piece.lane) for wave in world.engine.started for piece in wave.slices)
    assert calls == 1
    trouble.clear()
    world.turns(8, seconds=1.0)
    assert world.positions()["acme", 0] == 5


@pytest.mark.parametrize("accident", ["before", "after"])
def test_a_lost_wave_is_run_again_from_the_positions(running, accident):
    running.engine.accidents = [accident]
    running.turns(12, seconds=5.0)
    assert running.positions() == {("acme", 0): 5, ("bolt", 0): 3}
    assert {offset for tenant, offset in running.seen if tenant == "acme"} == set(range(5))


@pytest.mark.parametrize("accident", ["before", "after"])
def test_by_intent_a_lost_wave_runs_again_with_the_very_same_slices(world, accident):
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    world.engine.accidents = [accident]
    world.turns(2)
    world.send("acme", 7)
    world.turns(12, seconds=5.0)
    cuts = [
        (piece.from_offset, piece.until_offset)
        for wave in world.engine.started
        for piece in wave.slices
    ]
    assert cuts[0] == cuts[1] == (0, 5)
    assert cuts[2] == (5, 12)
    assert world.positions()["acme", 0] == 12
    assert world.store.progress.pending_intents() == []


@pytest.mark.parametrize("life", ["the same", "the next"])
def test_by_intent_trouble_that_passes_leaves_the_slices_as_they_were(world, life):
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    # The effect is written, and nobody hears of it.
    world.engine.accidents = ["after"]
    world.turns(2)
    started = world.engine.started
    if life == "the next":
        world.start()
        started += world.engine.started
        world.engine.started = started
    world.log.set_leader("acme.visits", 0, False)
    world.send("acme", 7)
    world.turns(8, seconds=5.0)
    assert world.positions()["acme", 0] == 0
    world.log.set_leader("acme.visits", 0, True)
    world.turns(12, seconds=5.0)
    cuts = [(piece.from_offset, piece.until_offset) for wave in started for piece in wave.slices]
    assert set(cuts) == {(0, 5), (5, 12)}
    assert world.positions()["acme", 0] == 12
    assert world.store.progress.pending_intents() == []


def test_after_a_kill_recorded_waves_run_again_unchanged_before_anything_is_planned(world):
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    world.driver.turn()
    assert len(world.store.progress.pending_intents()) == 1
    world.send("acme", 7)
    world.start()
    world.turns()
    cuts = [
        (piece.from_offset, piece.until_offset)
        for wave in world.engine.started
        for piece in wave.slices
    ]
    assert cuts == [(0, 5), (5, 12)]
    assert world.positions()["acme", 0] == 12
    assert world.store.progress.pending_intents() == []


def test_a_recorded_wave_of_a_tenant_removed_meanwhile_still_comes_to_its_end(world):
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    world.driver.turn()
    world.store.registry.set_tenant_state("acme", State.REMOVED)
    world.send("acme", 7)
    world.start()
    world.turns()
    assert world.positions()["acme", 0] == 5
    assert world.store.progress.pending_intents() == []


def test_a_drain_plans_nothing_more_and_commits_what_runs(running):
    running.driver.turn()
    running.driver.drain()
    running.send("acme", 5)
    running.turns(3)
    assert running.driver.drained
    assert running.positions() == {("acme", 0): 5, ("bolt", 0): 3}


def test_a_drain_waits_for_the_calls_of_a_handler_that_waits(world):
    ended = []

    async def asks(record, _context):
        world.driver.drain()  # as SIGTERM does, with all calls in flight
        await asyncio.sleep(0.02)
        ended.append(record["offset"])
        return {"offset": record["offset"]}

    columns = pa.schema([("offset", pa.int64())])
    world.use_cases = [world.make(asks, output=columns)]
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    world.send("acme", 5)
    world.turns(3)
    assert world.driver.drained
    assert sorted(ended) == list(range(10))
    assert world.positions() == {("acme", 0): 10}


def test_a_driver_whose_streams_were_taken_over_is_fenced_and_stops(running):
    old, old_engine = running.driver, running.engine
    running.turns(2)
    running.start()
    running.turns()
    done = running.positions()
    running.send("acme", 5)
    running.driver = old
    with pytest.raises(Fenced):
        running.turns(10, seconds=1.0)
    assert running.positions() == done
    assert old_engine is not running.engine


def test_two_use_cases_read_one_topic_each_at_its_own_pace(world):
    stuck = [True]

    def waits(table, _context):
        if stuck:
            raise SinkUnavailable("down", retry_after_s=1.0)
        return table.select(["offset"])

    world.use_cases = [world.make(), world.make(waits, name="other")]
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    world.turns()
    assert world.positions()["acme", 0] == 5
    assert world.positions("other")["acme", 0] == 0
    stuck.clear()
    world.turns(10, seconds=1.0)
    assert world.positions("other")["acme", 0] == 5


def test_latest_begins_at_the_end_of_what_was_there(world):
    world.deploy(starting_offsets="latest")
    world.tenant("acme", 5)
    world.start()
    world.turns()
    world.send("acme", 2)
    world.turns()
    assert world.seen == [("acme", 5), ("acme", 6)]


def test_delay_is_from_the_record_to_its_commit(running):
    running.turns()
    running.send("acme", 50)
    running.clock.move(3.0)
    running.turns(3, seconds=0.0)
    assert running.row("acme").p99_s == pytest.approx(3.0, abs=0.01)
    assert running.row("acme").records_total == 55
