"""What at-most-once costs is told by its offsets, once, and stops nothing."""

import pyarrow as pa
import pytest
from with_parts import WithParts

from headrace.errors import (
    EngineStopped,
    OutcomeUnknown,
    SinkUnavailable,
    StoreUnavailable,
    TaskLost,
)
from headrace.model.lane_names import number_of
from headrace.model.receipts import Receipt
from headrace.model.records import FailureState
from headrace.model.streams import State, StreamId
from headrace.ports import WaveResult
from headrace.sinks import SqlTable
from headrace.spark.slice_errors import error_of
from headrace.spark.task import opened
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.simulation.frames import run_wave
from headrace.use_cases import use_case


def begun(world, handler):
    world.use_cases = [world.make(handler, guarantee="at-most-once")]
    world.deploy()
    for name in "ab":
        world.tenant(name, 5)
    world.start()
    return world


def told(world, tenant="a"):
    """Ranges that are told as lost, each with why."""
    kept = world.store.failures.every(StreamId("keep", tenant))
    assert all(failure.state is FailureState.SKIPPED for failure in kept)
    return [
        (failure.slice.from_offset, failure.slice.until_offset, failure.error.code)
        for failure in kept
    ]


def down_for(tenant, calls):
    down = list(range(calls))

    def handler(table, context):
        if context.tenant == tenant and down:
            down.pop()
            raise SinkUnavailable("down")
        return pa.table({"offset": table["offset"]})

    return handler


def test_what_was_claimed_and_not_done_is_told_exactly(world, capsys):
    begun(world, down_for("a", 1))
    world.turns(20, 1.0)
    assert told(world) == [(0, 5, "SinkUnavailable")]
    assert told(world, "b") == []
    (kept,) = world.store.failures.every()
    assert "offsets 0..5 of a.visits[0] were claimed and may have no effect" in kept.error.message
    assert capsys.readouterr().out.count("records may be lost") == 1
    assert world.positions() == {("a", 0): 5, ("b", 0): 5}


@pytest.mark.parametrize("how", ["its wave is lost", "it runs again"])
def test_what_a_task_that_died_had_claimed_is_told(world, monkeypatch, how):
    whole, first = InProcessEngine._run, []

    def run(engine, wave):
        work = engine._taken[wave.id]
        result = whole(engine, wave)
        if first:
            return result
        first.append(wave.id)
        if how == "its wave is lost":
            return WaveResult(wave, (), 0.0, error_of(TaskLost("its executor died")))
        engine._taken[wave.id] = work
        return whole(engine, wave)

    monkeypatch.setattr(InProcessEngine, "_run", run)
    begun(world, None)
    world.turns(20, 1.0)
    assert first
    assert told(world) == told(world, "b") == [(0, 5, "TaskLost")]


@pytest.mark.parametrize("asked", ["the store answers", "the store is down as well"])
def test_what_was_claimed_when_spark_ended_is_told(world, monkeypatch, capsys, asked):
    def finished(engine, timeout_s):
        """The task has moved the positions, and Spark ends before anybody hears of it."""

        def away(_failures):
            raise StoreUnavailable("down")

        if not engine._waiting:
            return []
        while engine._waiting:
            engine._run(engine._waiting.popleft())
        if asked == "the store is down as well":
            monkeypatch.setattr(world.store.failures, "note", away)
        raise EngineStopped("Spark has ended: killed")

    begun(world, None)
    monkeypatch.setattr(InProcessEngine, "finished", finished)
    with pytest.raises(EngineStopped):
        world.turns(20, 1.0)
    if asked == "the store answers":
        assert told(world) == told(world, "b") == [(0, 5, "EngineStopped")]
    else:
        assert "nobody can tell what was claimed" in capsys.readouterr().out


TROUBLE = error_of(StoreUnavailable("down"))
LOST_ANSWER = error_of(OutcomeUnknown("nobody knows"))


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, "TaskLost"), (TROUBLE, "StoreUnavailable"), (LOST_ANSWER, "OutcomeUnknown")],
    ids=["it yielded", "it had trouble of its own", "the answer to its claim was lost"],
)
def test_what_the_last_attempt_did_not_hear_of_is_told(world, monkeypatch, error, code):
    """An earlier one claimed and died; the last met that in one lane, and came to no other."""
    whole, first = InProcessEngine._run, []

    def run(engine, wave):
        result = whole(engine, wave)
        if first:
            return result
        first.append(wave.id)
        receipts = []
        for piece in wave.slices:
            met = number_of(piece.lane.name) == 0
            why = None if met else error
            receipts.append(Receipt(piece, 0, committed=False, superseded=met, error=why))
        return WaveResult(wave, tuple(receipts), 0.0)

    monkeypatch.setattr(InProcessEngine, "_run", run)
    world.use_cases = [world.make(guarantee="at-most-once")]
    world.deploy()
    world.tenant("a", 5, partitions=2)
    world.send("a", 4, partition=1)
    world.start()
    world.turns(3, 0.0)
    assert sorted(told(world)) == sorted([(0, 4, code), (0, 5, "TaskLost")])
    world.send("a", 2, partition=1)
    world.turns(20, 1.0)
    assert len(told(world)) == 2
    assert world.positions() == {("a", 0): 5, ("a", 1): 6}


def test_a_lane_that_was_sought_inside_a_lost_slice_is_told_up_to_there(world, monkeypatch):
    """What comes again is not lost."""
    losing(monkeypatch, lambda: sought(world, 3))
    begun(world, None)
    world.turns(20, 1.0)
    assert told(world) == [(0, 3, "TaskLost")]
    assert told(world, "b") == [(0, 5, "TaskLost")]
    assert "sought or taken over" in world.store.failures.every(KEEP_A)[0].error.message


def test_a_lane_that_was_sought_to_where_its_lost_slice_begins_is_not_told(world, monkeypatch):
    losing(monkeypatch, lambda: sought(world, 0))
    begun(world, None)
    world.turns(20, 1.0)
    assert (told(world), told(world, "b")) == ([], [(0, 5, "TaskLost")])


def test_what_was_claimed_is_told_though_another_lane_of_the_stream_was_sought(world, monkeypatch):
    """A seek gives all lanes of a stream a new epoch, and moves only one."""
    losing(monkeypatch, lambda: sought(world, 0, partition=1))
    world.use_cases = [world.make(guarantee="at-most-once")]
    world.deploy()
    world.tenant("a", 5, partitions=2)
    world.send("a", 4, partition=1)
    world.start()
    world.turns(20, 1.0)
    assert told(world) == [(0, 5, "TaskLost")]


def test_what_was_claimed_is_told_though_another_driver_has_the_stream_by_now(world, monkeypatch):
    """Its driver slept past its lease, and hears of its lost job when it wakes."""

    def taken_over():
        driver, engine = world.driver, world.engine
        world.start(name="heir")
        world.send("a", 2)
        world.turns(40, 1.0)
        world.driver, world.engine = driver, engine

    losing(monkeypatch, taken_over)
    world.use_cases = [world.make(guarantee="at-most-once")]
    world.deploy()
    world.tenant("a", 5)
    world.start()
    world.turns(20, 1.0)
    assert world.positions() == {("a", 0): 7}
    assert told(world) == [(0, 5, "TaskLost")]


KEEP_A = StreamId("keep", "a")


def sought(world, offset, *, partition=0):
    world.store.progress.seek(KEEP_A, {f"a.visits[{partition}]": offset})


def losing(monkeypatch, meanwhile):
    """The first job is done and lost, and something happens before anybody hears of it."""
    whole, lost = InProcessEngine._run, []

    def run(engine, wave):
        if lost:
            return whole(engine, wave)
        lost.append(wave)
        whole(engine, wave)
        meanwhile()
        return WaveResult(wave, (), 0.0, error_of(TaskLost("its executor died")))

    monkeypatch.setattr(InProcessEngine, "_run", run)


def but_the_third(table, context):
    for row, offset in enumerate(table["offset"].to_pylist()):
        if offset == 2:
            raise context.bad_record(row, "no")
    return pa.table({"offset": table["offset"]})


@pytest.mark.parametrize("policy", ["dead-letter", "suspend", "fail"])
def test_a_bad_record_costs_at_most_what_comes_behind_it(world, policy):
    world.use_cases = [world.make(but_the_third, guarantee="at-most-once", bad_record=policy)]
    world.deploy()
    world.tenant("a", 5)
    world.start()
    world.turns(20, 1.0)
    kept = world.store.failures.every()
    letters = [letter.error.offset for letter in world.dead_letters.letters]
    if policy == "dead-letter":
        assert (kept, letters, world.row("a").dead_letters) == ([], [2], 1)
        return
    lost, stops = kept
    assert (lost.slice.from_offset, lost.slice.until_offset) == (2, 5)
    assert (stops.state, stops.error.offset, stops.error.raw_value) == (FailureState.OPEN, 2, b"x")
    assert letters == []


class Forgetful:
    """Failures of which the answers to one method are lost for a while."""

    def __init__(self, failures, name):
        self._failures, self._name, self.lost = failures, name, 3

    def __getattr__(self, name):
        whole = getattr(self._failures, name)
        if name != self._name:
            return whole

        def called(*args, **options):
            answer = whole(*args, **options)
            if self.lost:
                self.lost -= 1
                raise OutcomeUnknown
            return answer

        return called


@pytest.mark.parametrize("method", ["keep", "note"])
def test_it_is_told_once_though_the_commit_is_repeated(world, method):
    def handler(table, context):
        if context.tenant == "a":
            raise context.bad_record(0, "bad")
        return pa.table({"offset": table["offset"]})

    world.store = WithParts(world.store, failures=Forgetful(world.store.failures, method))
    begun(world, handler)
    world.turns(20, 1.0)
    assert world.store.failures.lost == 0
    kept = world.store.failures.every(StreamId("keep", "a"))
    lost = [failure.slice for failure in kept if failure.state is FailureState.SKIPPED]
    # What the store did though it gave no answer is done again.
    assert len(lost) == (1 if method == "keep" else 4)
    assert {(piece.from_offset, piece.until_offset) for piece in lost} == {(0, 5)}
    assert len(kept) == len(lost) + 1


def test_what_a_handler_of_frames_was_given_and_did_not_take_is_told(world, monkeypatch):
    class Whole:
        def __init__(self, positions):
            self.whole = positions

        def __getattr__(self, name):
            return getattr(self.whole, name)

        def step(self, _where):
            pass

    def run(engine, wave):
        work = engine._taken.pop(wave.id)
        clients = opened(work)
        object.__setattr__(clients, "positions", Whole(clients.positions))
        return WaveResult(wave, tuple(run_wave(work.load(), wave, clients)), 0.0)

    def broken(_frame, _wave):
        raise SinkUnavailable("down")

    monkeypatch.setattr(InProcessEngine, "_run", run)
    made = use_case(topic="{tenant}.visits", form="wave", name="keep", guarantee="at-most-once")
    world.use_cases = [made(broken)]
    world.deploy()
    world.tenant("a", 5)
    world.start()
    world.turns(5, 1.0)
    assert told(world) == [(0, 5, "SinkUnavailable")]


class LateCommit:
    """Positions whose first claim is not answered, and carried out when somebody says so."""

    def __init__(self, positions):
        self._positions, self.waiting = positions, None

    def __getattr__(self, name):
        return getattr(self._positions, name)

    def advance_groups(self, groups, states=()):
        if self.waiting is not None:
            return self._positions.advance_groups(groups)
        self.waiting = list(groups)
        raise OutcomeUnknown("the answer to a commit was lost")

    def carry_out(self):
        assert self._positions.advance_groups(self.waiting) == [True] * len(self.waiting)


@pytest.fixture
def late(world, monkeypatch):
    """A driver of two lanes of which the first claim, of both, is in doubt."""
    made = LateCommit(world.store.positions)

    class Opens:
        def open(self, connections):
            return made

    whole = InProcessEngine.__init__

    def begun_with(engine, connections, reader, positions, letters):
        whole(engine, connections, reader, Opens(), letters)

    monkeypatch.setattr(InProcessEngine, "__init__", begun_with)
    world.use_cases = [world.make(guarantee="at-most-once")]
    world.deploy()
    world.tenant("a", 5, partitions=2)
    world.send("a", 4, partition=1)
    world.start()
    while made.waiting is None or world.driver.board.flights:
        world.driver.turn()
    assert world.positions() == {("a", 0): 0, ("a", 1): 0}
    assert told(world) == []
    return made


BOTH = [(0, 4, "OutcomeUnknown"), (0, 5, "OutcomeUnknown")]


def test_a_claim_that_is_carried_out_late_is_told_when_positions_are_read(world, late, capsys):
    late.carry_out()
    world.driver.observer.reload_positions([StreamId("keep", "a")])
    world.turns(20, 1.0)
    assert sorted(told(world)) == BOTH
    assert capsys.readouterr().out.count("records may be lost") == 2
    assert world.driver.board.doubts.open == {}
    assert world.seen == []


def test_a_claim_that_is_carried_out_late_is_looked_for_though_nothing_of_it_is_planned(
    world, late
):
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.turns(2)
    late.carry_out()
    world.turns(60)
    assert sorted(told(world)) == BOTH


@pytest.mark.parametrize("draining", [False, True])
def test_a_late_claim_is_told_though_the_store_fails_meanwhile(world, late, monkeypatch, draining):
    note, failed = world.store.failures.note, []

    def fails(found):
        if len(failed) < 3:
            failed.append(found)
            raise StoreUnavailable("down")
        note(found)

    monkeypatch.setattr(world.store.failures, "note", fails)
    late.carry_out()
    world.driver.observer.reload_positions([StreamId("keep", "a")])
    if draining:
        world.driver.drain()
        assert not world.driver.drained
    world.turns(20, 1.0)
    assert sorted(told(world)) == BOTH
    assert world.driver.drained == draining


def test_a_late_claim_is_told_though_a_later_slice_came_back_and_could_read_nothing(world, late):
    """It says nothing of a claim before it: retention had the records when it came to them."""
    world.clock.move(1.0)
    while not world.driver.board.flights:
        world.driver.turn()
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.log.expire("a.visits", 0, 5)
    world.log.expire("a.visits", 1, 4)
    while world.driver.board.flights:
        world.driver.turn()
    assert world.positions() == {("a", 0): 0, ("a", 1): 0}
    late.carry_out()
    world.turns(60, 1.0)
    assert sorted(told(world)) == BOTH


def test_a_claim_in_doubt_that_was_not_carried_out_costs_nothing(world, late):
    world.turns(60, 1.0)
    assert told(world) == []
    assert sorted(world.seen) == [("a", n) for n in (0, 0, 1, 1, 2, 2, 3, 3, 4)]
    assert world.driver.board.doubts.open == {}


def test_a_late_claim_of_a_lane_that_was_sought_is_nobodys(world, late):
    late.carry_out()
    world.store.progress.seek(StreamId("keep", "a"), {"a.visits[0]": 2, "a.visits[1]": 2})
    world.turns(60, 1.0)
    assert told(world) == []
    assert world.driver.board.doubts.open == {}


def test_a_driver_that_leaves_looks_once_more(world, late):
    late.carry_out()
    world.driver.drain()
    assert not world.driver.drained
    world.turns(2, 0.0)
    assert world.driver.drained
    assert sorted(told(world)) == BOTH


def test_so_does_one_that_leaves_while_a_call_hangs(world, late):
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.turns(2)
    world.engine.paused = True
    world.tenant("b", 1)
    while not world.driver.board.flights:
        world.turns(1)
    late.carry_out()
    world.driver.drain()
    world.driver.leave()
    assert sorted(told(world)) == BOTH
    holders = {stream.id.tenant: stream.holder for stream in world.store.registry.streams()}
    assert holders == {"a": None, "b": "driver"}


def test_a_late_claim_is_told_though_its_use_case_claims_nothing_by_now(world, late):
    """What runs then meets it, and does nothing."""
    sink = SqlTable("rows", columns={"offset": "bigint"})
    sink.prepare(world.site())
    world.use_cases = [world.make(sink=sink, guarantee="exactly-once")]
    world.deploy()
    world.take()
    world.clock.move(1.0)
    while not world.driver.board.flights:
        world.driver.turn()
    late.carry_out()
    world.turns(20, 1.0)
    assert sorted(told(world)) == BOTH


def test_a_late_claim_of_a_tenant_that_was_removed_before_anybody_looked_is_told(world, late):
    late.carry_out()
    world.store.registry.set_tenant_state("a", State.REMOVED)
    world.turns(4, 0.0)
    assert sorted(told(world)) == BOTH
