"""A stream that was left alone goes to the end of its log, says so, and no other stream does."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest

from headrace.cycle.restarts import PASSED_OVER
from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.lane_names import number_of
from headrace.model.records import FailureState
from headrace.model.restarts import Restart
from headrace.model.streams import DataLossPolicy, Order, PassedRange, State, StreamId

ACME = StreamId("keep", "acme")
AFTER = Restart(300.0)
_TIMES = [
    ("headrace_positions", "moved_s"),
    ("headrace_streams", "expected_s"),
    ("headrace_tenants", "resumed_s"),
]


def begun(world, restart=AFTER, records=5, partitions=1, **options):
    """Acme read to its end, by a driver that still lives."""
    world.told = []

    def notes(table, context):
        world.told += [piece.passed_over for piece in context.slices if piece.passed_over]
        world.seen.extend((context.tenant, offset) for offset in table["offset"].to_pylist())
        return pa.table({"offset": table["offset"]})

    world.use_cases = [world.make(notes, **options)]
    world.deploy(restart=restart)
    world.tenant("acme", records, partitions)
    world.start()
    world.turns()
    assert world.positions()["acme", 0] == records
    world.seen.clear()
    return world


def passes(world, seconds):
    """Time, for the clocks of drivers and for that of the store."""
    world.clock.move(seconds)
    with closing(sqlite3.connect(f"{world.folder}/store.db")) as connection, connection:
        for table, column in _TIMES:
            connection.execute(f"UPDATE {table} SET {column} = {column} - ?", [seconds])


def notes(world):
    return [
        (number_of(note.slice.lane.name), note.slice.from_offset, note.slice.until_offset)
        for note in world.store.failures.every(ACME)
        if (note.error.code, note.state) == (PASSED_OVER, FailureState.SKIPPED)
    ]


def stream(world):
    return next(found for found in world.store.registry.streams() if found.id == ACME)


def goes_on(world, count=8):
    """Another process of the driver, and a record that comes while it runs."""
    world.start()
    world.turns(count)
    world.send("acme", 1)
    world.turns(count, seconds=1.0)


def test_a_stream_that_was_left_alone_goes_to_the_end_and_its_handler_is_told(world):
    begun(world)
    world.send("acme", 7)
    passes(world, 400)
    goes_on(world)
    assert world.seen == [("acme", 12)]
    assert notes(world) == [(0, 5, 12)]
    assert world.told == [PassedRange(5, 12)]
    (note,) = world.store.failures.every(ACME)
    assert "acme.visits[0] passed over offsets 5..12, 7 records:" in note.error.message
    seek = """headrace streams seek acme/keep --to '{"acme.visits": {"0": 5}}' reads them"""
    assert seek in note.error.message
    assert "nobody had committed it for 400 s (restart latest after 300 s)" in note.error.message
    assert note.slice.records == 7
    assert "passed over offsets 5..12" in world.row("acme").note
    assert world.row("acme").passed_over_records == 7
    world.send("acme", 1)
    world.turns(3, seconds=1.0)
    assert (world.seen[-1], world.told) == (("acme", 13), [PassedRange(5, 12)])


@pytest.mark.parametrize("restart", [None, Restart(401.0)])
def test_what_was_not_left_alone_for_long_enough_is_all_read(world, restart):
    begun(world, restart)
    world.send("acme", 7)
    passes(world, 400)
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(5, 13)]
    assert (notes(world), world.told) == ([], [])


def test_what_was_given_back_is_all_read_however_late(world):
    begun(world)
    world.driver.drain()
    world.turns(2)
    world.driver.leave()
    world.send("acme", 7)
    passes(world, 86_400)
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(5, 13)]
    assert notes(world) == []


def test_beside_a_call_that_hangs_what_was_idle_is_all_read_after_a_drain_that_was_too_long(world):
    begun(world)
    world.tenant("bolt", 1)
    world.turns()
    world.seen.clear()
    world.engine.paused = True
    world.send("acme", 1)
    world.turns(3)
    assert len(world.driver.board.flights) == 1
    world.driver.drain()
    world.turns(2)
    world.driver.leave()
    for name in ("acme", "bolt"):
        world.send(name, 2)
    passes(world, 400)
    goes_on(world)
    assert sorted(world.seen) == [("acme", 8), ("bolt", 1), ("bolt", 2)]
    assert notes(world) == [(0, 5, 8)]


@pytest.mark.parametrize("again", [False, True])
def test_what_was_given_back_is_all_read_though_the_next_driver_dies_at_once(world, again):
    begun(world)
    world.driver.drain()
    world.turns(2)
    world.driver.leave()
    world.send("acme", 7)
    passes(world, 86_400)
    number = world.store.membership.join("driver", ["keep"])
    assert world.store.membership.hold([ACME], "driver", number)
    if again:
        number = world.store.membership.join("driver", ["keep"])
        assert world.store.membership.hold([ACME], "driver", number)
    passes(world, 200)
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(5, 13)]
    assert notes(world) == []


@pytest.mark.parametrize("what", ["stream", "tenant", "tenants"])
def test_what_is_resumed_is_all_read_though_its_driver_dies_at_once(world, what):
    def state(wanted):
        registry = world.store.registry
        if what == "stream":
            registry.set_stream_state(ACME, wanted)
        elif what == "tenant":
            registry.set_tenant_state("acme", wanted)
        else:
            registry.set_tenant_states(registry.tenants(), wanted)

    begun(world)
    state(State.SUSPENDED)
    world.turns(2)
    world.send("acme", 7)
    passes(world, 400)
    state(State.ACTIVE)
    passes(world, 200)
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(5, 13)]
    assert notes(world) == []


def test_what_nobody_commits_for_long_after_it_was_resumed_is_passed_over(world):
    begun(world)
    world.store.registry.set_stream_state(ACME, State.SUSPENDED)
    world.turns(2)
    world.send("acme", 7)
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    passes(world, 400)
    goes_on(world)
    assert notes(world) == [(0, 5, 12)]


def test_nothing_is_passed_over_for_a_time_that_an_earlier_version_left_behind(world):
    begun(world)
    world.send("acme", 7)
    passes(world, 400)
    with closing(sqlite3.connect(f"{world.folder}/store.db")) as connection, connection:
        # as that moves a position
        connection.execute("UPDATE headrace_positions SET next_offset = '6'")
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(6, 13)]
    assert notes(world) == []
    world.send("acme", 1)
    passes(world, 400)
    goes_on(world)
    assert notes(world) == [(0, 13, 14)]


def test_nothing_is_passed_over_of_a_stream_that_an_earlier_version_took(world):
    begun(world)
    world.driver.drain()
    world.turns(2)
    world.driver.leave()
    world.send("acme", 7)
    passes(world, 86_400)
    with closing(sqlite3.connect(f"{world.folder}/store.db")) as connection, connection:
        connection.execute("UPDATE headrace_streams SET holder = 'driver', epoch = epoch + 1")
        connection.execute("UPDATE headrace_positions SET epoch = epoch + 1")
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(5, 13)]
    assert notes(world) == []


def test_a_use_case_that_is_added_or_deployed_again_is_no_restart(world):
    begun(world)
    world.send("acme", 7)
    passes(world, 400)
    epoch = stream(world).epoch
    world.use_cases.append(world.make(lambda table, _: table.select(["offset"]), name="other"))
    world.store.registry.deploy(
        replace(world.store.registry.deployments()[0], use_case="other", restart=AFTER)
    )
    world.take()
    world.turns(4)
    assert world.seen[:7] == [("acme", offset) for offset in range(5, 12)]
    assert (notes(world), stream(world).epoch) == ([], epoch)


def test_what_came_while_a_quiet_stream_had_no_driver_for_a_moment_is_read(world):
    begun(world)
    passes(world, 86_400)
    world.send("acme", 3)
    passes(world, 20)
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(5, 9)]
    assert (notes(world), stream(world).silent_s) == ([], None)


def test_with_an_age_what_is_young_enough_is_read(world):
    begun(world, Restart(300.0, 60.0))
    world.send("acme", 4)
    passes(world, 370)
    world.send("acme", 2)
    passes(world, 30)
    goes_on(world)
    assert world.seen == [("acme", 9), ("acme", 10), ("acme", 11)]
    assert (notes(world), world.told) == ([(0, 5, 9)], [PassedRange(5, 9)])


def test_what_was_recorded_comes_to_its_end_first_and_that_it_waits_is_shown(world):
    begun(world, guarantee="exactly-once")
    world.send("acme", 4)
    world.driver.turn()  # the wave is written down, and starts
    assert len(world.store.progress.pending_intents()) == 1
    world.send("acme", 3)
    passes(world, 400)
    world.start()
    world.driver.turn()
    row = world.row("acme")
    assert (row.state, "it was left alone" in row.note) == ("waiting", True)
    goes_on(world)
    assert world.row("acme").state == "active"
    assert world.seen == [("acme", offset) for offset in (5, 6, 7, 8, 12)]
    assert notes(world) == [(0, 9, 12)]
    assert world.store.progress.pending_intents() == []


@pytest.mark.parametrize("loss", list(DataLossPolicy))
def test_what_its_log_lost_meanwhile_is_part_of_what_is_too_old(world, loss):
    begun(world)
    world.deploy(restart=AFTER, data_loss=loss)
    world.send("acme", 7)
    passes(world, 400)
    world.log.expire("acme.visits", 0, 9)
    goes_on(world)
    assert (stream(world).state, world.seen) == (State.ACTIVE, [("acme", 12)])
    assert (notes(world), world.told) == ([(0, 5, 12)], [PassedRange(5, 12)])
    assert len(world.store.failures.every(ACME)) == 1


def test_what_its_log_lost_of_what_is_recorded_is_decided_before_that_runs(world):
    begun(world, guarantee="exactly-once")
    world.deploy(restart=AFTER, guarantee="exactly-once", data_loss=DataLossPolicy.SKIP)
    world.send("acme", 4)
    world.driver.turn()  # the wave is written down, and starts
    world.send("acme", 3)
    passes(world, 400)
    world.log.expire("acme.visits", 0, 9)
    world.start()
    world.driver.turn()
    (lost,) = world.store.failures.every(ACME)
    assert (lost.error.code, lost.state) == ("OffsetOutOfRange", FailureState.SKIPPED)
    goes_on(world)
    assert (world.seen, notes(world)) == ([("acme", 12)], [(0, 9, 12)])


def test_of_a_topic_that_is_made_again_meanwhile_nothing_old_is_read_either(world):
    begun(world)
    world.deploy(restart=AFTER, data_loss=DataLossPolicy.SKIP)
    world.log.delete_topic("acme.visits")
    world.log.create_topic("acme.visits", 1)
    world.send("acme", 7)
    passes(world, 400)
    world.start()
    world.turns(40, seconds=1.0)
    world.send("acme", 1)
    world.turns(8, seconds=1.0)
    assert (world.seen, notes(world)) == ([("acme", 7)], [(0, 0, 7)])
    assert world.told == [PassedRange(0, 7)]


@pytest.mark.parametrize("order", [Order.LANE, Order.STREAM])
def test_a_lane_without_a_leader_is_waited_for_and_named(world, order):
    begun(world, partitions=2, order=order)
    world.send("acme", 7)
    world.send("acme", 2, partition=1)
    passes(world, 400)
    world.log.set_leader("acme.visits", 1, False)
    world.start()
    world.turns(8, seconds=1.0)
    assert (world.seen, notes(world)) == ([], [])
    assert "where acme.visits[1] ends" in world.row("acme").note
    world.log.set_leader("acme.visits", 1, True)
    world.turns(8, seconds=1.0)
    assert (world.seen, sorted(notes(world))) == ([], [(0, 5, 12), (1, 0, 2)])
    world.send("acme", 1, partition=1)
    world.turns(8, seconds=1.0)
    assert world.seen == [("acme", 2)]


def test_buckets_of_a_partition_pass_over_together(world):
    begun(world, order=Order.KEY, buckets=2)
    world.send("acme", 7)
    passes(world, 400)
    goes_on(world)
    assert world.seen == [("acme", 12)]
    assert notes(world) == [(0, 5, 12), (0, 5, 12)]


def test_the_gap_is_told_again_by_whoever_comes_when_nobody_heard_of_it_yet(world):
    begun(world)
    world.send("acme", 7)
    passes(world, 400)
    world.start()
    world.turns()
    assert (world.positions()["acme", 0], world.told) == (12, [])
    goes_on(world)
    assert (world.seen, world.told, notes(world)) == (
        [("acme", 12)],
        [PassedRange(5, 12)],
        [(0, 5, 12)],
    )


@pytest.mark.parametrize("error", [StoreUnavailable, OutcomeUnknown])
def test_a_decision_that_was_not_answered_is_made_once(world, monkeypatch, error):
    begun(world)
    world.send("acme", 7)
    passes(world, 400)
    world.start()
    whole, failed = world.store.progress.pass_over, []

    def pass_over(*args):
        if error is OutcomeUnknown and not failed:
            whole(*args)
        if not failed:
            failed.append(error)
            raise error("the answer was lost")
        return whole(*args)

    monkeypatch.setattr(world.store.progress, "pass_over", pass_over)
    world.turns(8, seconds=1.0)
    world.send("acme", 1)
    world.turns(8, seconds=1.0)
    assert failed
    assert (world.seen, notes(world)) == ([("acme", 12)], [(0, 5, 12)])


def test_a_stream_that_somebody_stops_meanwhile_passes_over_when_it_is_resumed(world):
    begun(world)
    world.send("acme", 7)
    passes(world, 400)
    world.log.set_leader("acme.visits", 0, False)
    world.start()
    world.turns(3)
    world.store.registry.set_stream_state(ACME, State.SUSPENDED)
    world.turns(3)
    world.log.set_leader("acme.visits", 0, True)
    world.turns(3, seconds=1.0)
    assert notes(world) == []
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.turns(8, seconds=1.0)
    assert notes(world) == [(0, 5, 12)]


def test_a_stream_that_somebody_had_stopped_goes_on_where_it_was(world):
    begun(world)
    world.store.registry.set_stream_state(ACME, State.SUSPENDED)
    world.turns(2)
    world.send("acme", 7)
    passes(world, 400)
    world.start()
    world.turns(3)
    world.store.registry.set_stream_state(ACME, State.ACTIVE)
    world.turns(8)
    assert world.seen == [("acme", offset) for offset in range(5, 12)]


def test_a_lane_that_is_stopped_at_a_record_stays_there(world):
    def refuses(table, context):
        if context.slices[0].from_offset >= 5:
            raise context.bad_record(0, "no JSON")
        return pa.table({"offset": table["offset"]})

    world.use_cases = [world.make(refuses)]
    world.deploy(restart=AFTER, retries=0)
    world.tenant("acme", 5)
    world.start()
    world.turns()
    world.send("acme", 7)
    world.turns(20, seconds=5.0)
    (stopped,) = world.store.failures.every(ACME, only_open=True)
    passes(world, 400)
    world.start()
    world.turns(8, seconds=1.0)
    assert world.store.failures.every(ACME, only_open=True) == [stopped]
    assert (world.positions()["acme", 0], notes(world)) == (5, [])
    assert stream(world).silent_s is None


def test_a_lane_that_somebody_retries_stays_though_its_driver_dies_at_once(world):
    refused = []

    def refuses(table, context):
        if context.slices[0].from_offset >= 5 and not refused:
            refused.append(table)
            raise context.bad_record(0, "no JSON")
        world.seen.extend((context.tenant, offset) for offset in table["offset"].to_pylist())
        return pa.table({"offset": table["offset"]})

    world.use_cases = [world.make(refuses)]
    world.deploy(restart=AFTER, retries=0)
    world.tenant("acme", 5)
    world.start()
    world.turns()
    world.seen.clear()
    world.send("acme", 7)
    world.turns(4)
    (stopped,) = world.store.failures.every(ACME, only_open=True)
    passes(world, 400)
    world.store.failures.retry(stopped.id)
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(5, 13)]
    assert notes(world) == []


def test_a_seek_is_what_somebody_wants_and_nothing_of_it_is_passed_over(world):
    begun(world)
    passes(world, 400)
    world.store.progress.seek(ACME, {"acme.visits[0]": 2})
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(2, 6)]
    assert notes(world) == []


def test_after_a_crash_with_many_streams_no_turn_decides_for_long(world, monkeypatch):
    begun(world)
    tenants = [f"t{number}" for number in range(200)]
    for name in tenants:
        world.tenant(name, 1)
    world.turns(8)
    for name in tenants:
        world.send(name, 2)
    passes(world, 400)
    decide, ask, asked = world.store.progress.pass_over, world.log.offsets_at, []

    def pass_over(*args):
        world.clock.move(0.05)
        return decide(*args)

    def offsets_at(lanes, at_s):
        asked.append(at_s)
        return ask(lanes, at_s)

    monkeypatch.setattr(world.store.progress, "pass_over", pass_over)
    monkeypatch.setattr(world.log, "offsets_at", offsets_at)
    world.start()
    turns_s = []
    while len(world.store.failures.every()) < len(tenants):
        begun_s = world.clock.monotonic_s()
        world.driver.turn()
        turns_s.append(world.clock.monotonic_s() - begun_s)
        assert len(turns_s) < 100, "it does not come to its end"
    assert max(turns_s) < 0.3
    assert len(asked) == 1
    world.turns(2)
    assert all(found.silent_s is None for found in world.store.registry.streams())


def test_a_use_case_that_passes_nothing_over_any_more_lets_the_stream_stay(world):
    begun(world)
    world.send("acme", 7)
    passes(world, 400)
    world.store.membership.join("driver", ["keep"])
    assert stream(world).silent_s is not None
    world.deploy(restart=None)
    goes_on(world)
    assert world.seen == [("acme", offset) for offset in range(5, 13)]
    assert (notes(world), stream(world).silent_s) == ([], None)
