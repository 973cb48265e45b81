"""What becomes of slices that fail: every transition of the quarantine, through a driver."""

import pytest

from headrace.errors import (
    BrokerUnavailable,
    HandlerSlow,
    SinkUnavailable,
    TenantsSinkSlow,
    WorkerKilled,
)
from headrace.model.records import FailureState
from headrace.model.streams import State, StreamId, Tenant, Throttle
from headrace.ports import WaveResult
from headrace.spark.slice_errors import error_of
from headrace.testing.engine_fake import InProcessEngine

ACME = StreamId("keep", "acme")


class DeadlyEngine(InProcessEngine):
    """Some tenants kill the worker of whichever wave they are in."""

    deadly: tuple[str, ...] = ()

    def _run(self, wave):
        if any(piece.lane.tenant in self.deadly for piece in wave.slices):
            killed = WorkerKilled(f"wave {wave.id} lost its worker")
            return WaveResult(wave, (), 0.0, error_of(killed))
        return super()._run(wave)


def raises_at(*offsets, tenant="acme", error=ValueError):
    """A handler that cannot take these offsets of one tenant."""

    def handler(table, context):
        found = table["offset"].to_pylist()
        for row, offset in enumerate(found):
            if context.tenant == tenant and offset in offsets:
                if error is None:
                    raise context.bad_record(row, f"offset {offset}")
                raise error(f"offset {offset}")
        return table.select(["offset"])

    return handler


def begin(world, handler, *, partitions=1, tenants=("acme", "bolt"), records=5, **options):
    use_case = {
        name: options.pop(name) for name in ("bad_record", "order", "guarantee") if name in options
    }
    world.use_cases = [world.make(handler, **use_case)]
    world.deploy(**options)
    for name in tenants:
        world.tenant(name, records, partitions)
    world.start()
    return world


def open_failures(world):
    return world.store.failures.every(only_open=True)


# --- retrying and suspended ------------------------------------------------------------------


def test_a_handler_that_raises_is_tried_as_often_as_the_use_case_says(world):
    tries = []

    def broken(table, context):
        if context.tenant == "acme":
            tries.append(world.clock.monotonic_s())
            raise ValueError("no")
        return table.select(["offset"])

    begin(world, broken, records=1, retries=2)
    world.turns(3)
    assert world.row("acme").state == "retrying"
    assert world.row("bolt").state == "active"
    world.turns(20, seconds=1.0)
    assert len(tries) == 3
    (failure,) = open_failures(world)
    assert (failure.attempts, failure.error.offset, failure.error.raw_value) == (3, 0, b"x")
    assert world.row("acme").state == "suspended"


def test_success_forgets_earlier_attempts(world):
    trouble = [1, 1]

    def shaky(table, context):
        if context.tenant == "acme" and trouble:
            trouble.pop()
            raise ValueError("not yet")
        return table.select(["offset"])

    begin(world, shaky, records=1, retries=2)
    world.turns(20, seconds=1.0)
    assert world.positions()["acme", 0] == 1
    trouble += [1, 1]
    world.send("acme", 1)
    world.turns(20, seconds=1.0)
    assert world.positions()["acme", 0] == 2
    assert open_failures(world) == []


def test_only_the_lane_that_fails_stops(world):
    begin(world, raises_at(2, error=None), partitions=2)
    world.send("acme", 1, partition=1)
    world.turns()
    assert world.positions()["acme", 0] == 2
    assert world.positions()["acme", 1] == 1
    assert world.row("acme").state == "suspended 1/2"
    world.send("acme", 1, partition=1)
    world.turns()
    assert world.positions()["acme", 1] == 2


def test_with_order_stream_the_whole_stream_stops_and_no_other(world):
    begin(world, raises_at(2, error=None), partitions=2, order="stream", tenants=("acme",))
    world.turns()
    world.send("acme", 3, partition=1)
    done = world.positions()["acme", 1]
    world.turns()
    assert world.positions()["acme", 1] == done
    assert world.row("acme").state == "suspended"


def test_a_driver_that_starts_anew_leaves_the_lane_stopped(world):
    begin(world, raises_at(2, error=None))
    world.turns()
    world.start()
    world.turns()
    assert world.positions()["acme", 0] == 2
    assert len(world.store.failures.every()) == 1


# --- what a person decides -------------------------------------------------------------------


def test_who_retries_a_record_again_and_again_adds_no_row(world):
    begin(world, raises_at(2, error=None))
    world.turns()
    (failure,) = open_failures(world)
    for _ in range(20):
        world.store.failures.retry(failure.id)
        world.turns(3)
    (kept,) = world.store.failures.every()
    assert (kept.id, kept.times, kept.state) == (failure.id, 21, FailureState.OPEN)


def test_after_a_change_nothing_is_read_of_failures_but_own_stopped_lanes(world, monkeypatch):
    begin(world, raises_at(2, error=None))
    world.turns()
    world.start()  # it is told once what others have stopped
    world.turns()
    monkeypatch.setattr(world.store.failures, "every", None)
    world.store.registry.set_weight("bolt", 2.0)
    world.send("acme", 1)
    world.turns()
    assert world.row("acme").state == "suspended"


def test_retried_the_lane_goes_on_at_the_record(world):
    bad = [2]

    def handler(table, context):
        return raises_at(*bad, error=None)(table, context)

    begin(world, handler)
    world.turns()
    (failure,) = open_failures(world)
    world.store.failures.retry(failure.id)
    world.turns()
    (again,) = open_failures(world)
    assert (again.id, again.times) == (failure.id, 2)
    bad.clear()
    world.store.failures.retry(again.id)
    world.turns()
    assert world.positions()["acme", 0] == 5
    assert world.row("acme").state == "active"


def test_skipped_the_lane_goes_on_behind_the_record(world):
    begin(world, raises_at(2, error=None))
    world.turns()
    (failure,) = open_failures(world)
    world.store.failures.skip(failure.id)
    world.turns()
    assert world.positions()["acme", 0] == 5
    assert world.store.failures.one(failure.id).state is FailureState.SKIPPED


def test_a_resumed_stream_tries_its_failures_again(world):
    begin(world, raises_at(2, error=None))
    world.turns()
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.turns()
    assert [(failure.state, failure.times) for failure in world.store.failures.every()] == [
        (FailureState.OPEN, 2)
    ]


# --- dead letters ----------------------------------------------------------------------------


def test_a_bad_record_goes_to_the_dead_letters_and_the_lane_goes_on(world):
    begin(world, raises_at(1, 2, 4, error=None), bad_record="dead-letter")
    world.turns()
    assert world.positions()["acme", 0] == 5
    assert [letter.error.offset for letter in world.dead_letters.letters] == [1, 2, 4]
    assert {letter.slice.lane for letter in world.dead_letters.letters} == {world.lane("acme")}
    assert world.row("acme").dead_letters == 3
    assert open_failures(world) == []


def test_a_handler_that_raises_gets_its_retries_before_the_record_is_set_aside(world):
    begin(world, raises_at(3), bad_record="dead-letter", retries=2)
    world.turns(4)
    assert world.dead_letters.letters == []
    world.turns(20, seconds=1.0)
    (letter,) = world.dead_letters.letters
    assert (letter.error.offset, letter.error.raw_value, letter.attempts) == (3, b"x", 3)
    assert world.positions()["acme", 0] == 5


def test_a_letter_of_the_driver_has_the_time_of_its_record(world):
    begin(world, raises_at(3), bad_record="dead-letter", retries=0)
    written_ms = int(world.clock.wall_s * 1000)
    world.turns()
    (letter,) = world.dead_letters.letters
    assert letter.error.timestamp_ms == written_ms


def test_without_retries_it_is_set_aside_at_once(world):
    begin(world, raises_at(3), bad_record="dead-letter", retries=0)
    world.turns()
    assert [letter.error.offset for letter in world.dead_letters.letters] == [3]
    assert world.positions()["acme", 0] == 5


@pytest.mark.parametrize("retries", [0, 1])
def test_no_lane_goes_on_before_its_dead_letter_is_kept(world, retries):
    begin(world, raises_at(1), bad_record="dead-letter", retries=retries)
    for _ in range(3):
        world.dead_letters.fail_next(BrokerUnavailable("no broker"))
    while world.dead_letters.accidents:
        world.turns(1)
        assert world.positions().get(("acme", 0), 0) <= 1
    world.turns(30, seconds=1.0)
    assert world.positions()["acme", 0] == 5
    assert [letter.error.offset for letter in world.dead_letters.letters] == [1]


def test_by_intent_too_a_record_is_set_aside_and_the_slice_is_one_effect(world):
    begin(world, raises_at(2, error=None), bad_record="dead-letter", guarantee="exactly-once")
    world.turns()
    assert world.positions()["acme", 0] == 5
    assert len(world.dead_letters.letters) == 1
    assert world.store.progress.pending_intents() == []


# --- fail ------------------------------------------------------------------------------------


def test_fail_stops_the_use_case_for_all_tenants_and_no_other_use_case(world):
    failing = world.make(raises_at(2, error=None), bad_record="fail")
    world.use_cases = [failing, world.make(name="other")]
    world.deploy()
    world.tenant("acme", 5)
    world.tenant("bolt", 1)
    world.start()
    world.turns()
    world.send("bolt", 3)
    world.turns()
    assert world.positions()["bolt", 0] == 1
    assert world.row("bolt").state == "suspended"
    assert world.positions("other") == {("acme", 0): 5, ("bolt", 0): 4}


# --- temporary trouble -----------------------------------------------------------------------


def test_temporary_trouble_is_never_held_against_a_record_and_takes_less_each_time(world):
    trouble = [True]

    def down(table, context):
        if context.tenant == "acme" and trouble:
            raise SinkUnavailable("down")
        return table.select(["offset"])

    begin(world, down, records=64, retries=0)
    world.turns(60, seconds=1.0)
    sizes = [
        piece.records
        for wave in world.engine.started
        for piece in wave.slices
        if piece.lane.tenant == "acme"
    ]
    assert sizes[:4] == [64, 8, 1, 1]
    assert len(sizes) < 30, "a hot loop"
    assert open_failures(world) == []
    trouble.clear()
    world.turns(60, seconds=1.0)
    assert world.positions()["acme", 0] == 64
    assert world.driver.board.streams[ACME].most_records is None


# --- who hurts the neighbours ----------------------------------------------------------------


def test_a_stream_that_was_too_slow_for_company_runs_apart_until_it_is_through(world):
    slow = [True]

    def handler(table, context):
        if context.tenant == "acme" and slow:
            slow.clear()
            raise HandlerSlow("took too long")
        return table.select(["offset"])

    begin(world, handler, records=8)
    while slow:
        world.turns(1)
    world.turns(1)
    assert world.driver.board.streams[ACME].apart
    world.turns(20, seconds=1.0)
    mine = [
        {piece.lane.tenant for piece in wave.slices}
        for wave in world.engine.started
        if any(piece.lane.tenant == "acme" for piece in wave.slices)
    ]
    assert len(mine) > 2
    assert all(tenants == {"acme"} for tenants in mine[1:])
    assert world.positions() == {("acme", 0): 8, ("bolt", 0): 8}
    assert not world.driver.board.streams[ACME].apart


def test_a_tenant_whose_own_database_hangs_runs_apart_until_it_comes_through(world):
    trouble = [True]

    def handler(table, context):
        if context.tenant == "acme" and trouble:
            raise TenantsSinkSlow("locked for 2 s")
        return table.select(["offset"])

    begin(world, handler, records=8)
    while not world.engine.started:
        world.turns(1)
    world.turns(1)
    held = world.driver.board.streams[ACME]
    assert held.apart
    assert not held.hung, "it was in company, where little is waited for"
    world.turns(20, seconds=1.0)
    assert held.hung, "alone it takes as long as one that hangs"
    first, *later = [
        {piece.lane.tenant for piece in wave.slices}
        for wave in world.engine.started
        if any(piece.lane.tenant == "acme" for piece in wave.slices)
    ]
    assert first == {"acme", "bolt"}
    assert later
    assert all(tenants == {"acme"} for tenants in later)
    trouble.clear()
    world.turns(60, seconds=1.0)
    assert world.positions() == {("acme", 0): 8, ("bolt", 0): 8}
    assert (held.apart, held.hung) == ("", False)
    assert open_failures(world) == []


def replace_engine(world, kind):
    engine = world.engine
    made = kind(engine.connections, engine.reader, engine.positions, engine.dead_letters)
    made.take(world.use_cases[0], world.store.registry.deployments()[0])
    object.__setattr__(world.driver.parts, "engine", made)
    world.engine = made


def deadly(world, *tenants):
    replace_engine(world, DeadlyEngine)
    world.engine.deadly = tenants


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_who_kills_the_worker_is_found_and_everybody_else_is_served(world, guarantee):
    tenants = [f"t{number:02}" for number in range(20)]
    begin(world, None, tenants=tenants, records=3, retries=1, guarantee=guarantee)
    deadly(world, "t07")
    world.turns(60, seconds=1.0)
    done = world.positions()
    assert {name: done[name, 0] for name in tenants if name != "t07"} == {
        name: 3 for name in tenants if name != "t07"
    }
    assert done["t07", 0] == 0
    (failure,) = open_failures(world)
    assert failure.slice.lane.tenant == "t07"
    assert failure.error.code == "WorkerKilled"
    assert [held.apart for held in world.driver.board.streams.values() if held.apart] in (
        [],
        ["t07/keep"],
    )


def test_a_wave_that_does_not_come_back_is_ended(world):
    begin(world, None, retries=0)
    world.engine.paused = True
    world.turns(2)
    running = list(world.driver.board.flights)
    world.turns(1, seconds=200.0)
    world.turns(1)
    assert all(world.driver.board.flights[name].cancelled for name in running)
    world.engine.paused = False
    world.turns(30, seconds=1.0)
    assert world.positions() == {("acme", 0): 5, ("bolt", 0): 5}


def test_the_first_waves_of_a_version_have_time_to_start_workers(world):
    """It once took 17 s on a busy machine, and innocent streams ran apart for it."""
    begin(world, None)

    def is_ended_after_half_a_minute():
        world.engine.paused = True
        world.turns(2)
        world.turns(2, seconds=30.0)
        flights = list(world.driver.board.flights.values())
        assert flights
        world.engine.paused = False
        return any(flight.cancelled for flight in flights)

    assert not is_ended_after_half_a_minute()
    for _ in range(world.engine.slots):
        for tenant in ("acme", "bolt"):
            world.send(tenant, 5)
        world.turns(4)
    for tenant in ("acme", "bolt"):
        world.send(tenant, 5)
    assert is_ended_after_half_a_minute()


def test_a_wave_that_queues_for_an_executor_is_not_ended(world):
    begin(world, None)
    world.engine.paused = True
    world.engine.queued = True
    world.turns(2)
    world.turns(3, seconds=200.0)
    assert not any(flight.cancelled for flight in world.driver.board.flights.values())


class UnsureEngine(InProcessEngine):
    """At first it cannot say whether a wave has begun."""

    answers = (None, None, True)

    def began(self, wave_id):
        answer, *rest = self.answers
        self.answers = rest or [answer]
        return answer


def test_a_wave_of_which_nobody_can_say_whether_it_began_is_asked_for_again(world):
    begin(world, None, retries=0)
    replace_engine(world, UnsureEngine)
    world.engine.paused = True
    world.turns(2)
    world.clock.move(200.0)
    (flight,) = world.driver.board.flights.values()
    ended = []
    for _ in range(3):
        world.turns(1)
        ended.append(flight.cancelled)
    assert ended == [False, False, True]


# --- throttles -------------------------------------------------------------------------------


def test_a_throttle_holds_for_the_sum_of_a_tenants_streams(world):
    world.use_cases = [world.make(), world.make(name="other")]
    world.deploy()
    world.tenant("acme", 1000)
    world.tenant("bolt", 1000)
    world.store.registry.set_throttle("acme", Throttle(records_per_s=10.0))
    world.start()
    world.turns(100, seconds=0.1)
    both = world.positions()["acme", 0] + world.positions("other")["acme", 0]
    assert 80 <= both <= 125
    assert min(world.positions()["acme", 0], world.positions("other")["acme", 0]) > 30
    assert world.row("acme").state == "throttled"
    assert world.positions()["bolt", 0] == 1000


def test_a_burst_may_be_taken_at_once_after_a_quiet_time(world):
    world.deploy()
    world.log.create_topic("acme.visits", 1)
    world.store.registry.add_tenant(
        Tenant("acme", throttle=Throttle(records_per_s=10.0, burst_s=20.0))
    )
    world.send("acme", 500)
    world.start()
    world.turns(5, seconds=0.01)
    assert 195 <= world.positions()["acme", 0] <= 205
