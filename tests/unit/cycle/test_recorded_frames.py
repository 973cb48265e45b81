"""A recorded wave of DataFrames: what a lost attempt left under its id is replaced, once."""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from structlog.testing import capture_logs

from headrace.cycle.recorded import LOST_OFTEN
from headrace.errors import BadRecord, BrokerUnavailable, SinkUnavailable
from headrace.model.places import place_at
from headrace.model.receipts import SliceError
from headrace.model.streams import State, StreamId
from headrace.model.waves import planned_id
from headrace.operating import quarantine
from headrace.operating.seeking import seek
from headrace.ports import SliceBatch, WaveResult
from headrace.spark.slice_errors import error_of
from headrace.spark.task import opened
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.simulation.frames import run_wave
from headrace.use_cases import use_case

EACH_ONCE = [(tenant, offset) for tenant in "ab" for offset in range(5)]


class Door:
    """Positions; nobody dies at them."""

    def __init__(self, positions):
        self.advance = positions.advance

    def step(self, _where):
        pass


class Cut:
    """A reader whose broker goes, in `a` or a lane of it, behind its third record."""

    def __init__(self, whole, lane="a.visits", error=None):
        self.whole, self.lane = whole, lane
        self.error = error or BrokerUnavailable("it goes")

    def read(self, slices, batch_records):
        gone = error_of(self.error)
        for batch in self.whole.read(slices, batch_records):
            if not batch.slice.lane.name.startswith(self.lane):
                yield batch
            elif batch.records["offset"][0].as_py() == 0:
                yield SliceBatch(batch.slice, batch.records.slice(0, 3), place_at(3), True, gone)


def run(engine, wave, reader=None):
    """Waves of DataFrames, as the simulation has them."""
    work = engine._taken.pop(wave.id)
    clients = opened(work)
    object.__setattr__(clients, "positions", Door(clients.positions))
    if reader is not None:
        object.__setattr__(clients, "reader", reader(clients.reader))
    return WaveResult(wave, tuple(run_wave(work.load(), wave, clients)), 0.0)


@pytest.fixture
def written(world, monkeypatch):
    """What stands under each wave's id after a driver was killed before it heard of it."""
    found = prepared(world, monkeypatch)
    world.killed_after_writing()
    assert len(found) == 1
    return found


def prepared(world, monkeypatch, partitions=1):
    """Two tenants with five records each, and what stands under the id of each wave."""
    monkeypatch.setattr(InProcessEngine, "_run", run)
    found = {}

    world.down, world.down_for, world.refused, world.bad = [], None, None, None
    world.alone, world.hangs, world.refused_times = False, set(), 0

    def report(frame, wave):
        if world.alone and len({piece.lane.tenant for piece in wave.slices}) > 1:
            raise ValueError("in company")
        if world.down or world.down_for in [piece.lane.tenant for piece in wave.slices]:
            raise SinkUnavailable(f"down {world.down and world.down.pop()}")
        if world.refused in [piece.lane.tenant for piece in wave.slices]:
            world.refused_times += 1
            raise ValueError(world.refused)
        rows = [
            (piece.lane.tenant, offset)
            for piece, records in frame.parts
            for offset in records["offset"].to_pylist()
        ]
        if world.bad in rows:
            raise ValueError(f"{world.bad} is bad")
        found[wave.id] = rows

    made = use_case(topic="{tenant}.visits", form="wave", name="keep", guarantee="exactly-once")
    world.use_cases = [made(report)]
    world.deploy()
    for name in "ab":
        world.tenant(name, 5, partitions)
    return found


def test_a_handler_that_is_down_after_a_kill_leaves_nobodys_records_twice(world, written):
    """It raises before it writes, as the guide asks; what is there bears the id of the whole."""
    world.down = ["a", "b", "a"]
    world.start()
    world.turns(40, 1.0)
    assert world.down == []
    assert all_of(written) == EACH_ONCE
    assert world.store.progress.pending_intents() == []


def test_a_slice_that_was_read_in_part_before_a_kill_was_not_handed_out(world, monkeypatch):
    """Read to its end it has a record that the handler raises for, so other slices follow it."""
    found = prepared(world, monkeypatch)
    world.bad = ("a", 3)
    monkeypatch.setattr(InProcessEngine, "_run", lambda engine, wave: run(engine, wave, Cut))
    world.killed_after_writing()
    assert list(found.values()) == [[row for row in EACH_ONCE if row[0] == "b"]]
    monkeypatch.setattr(InProcessEngine, "_run", run)
    world.start()
    world.turns(60, 2.0)
    assert [row for row in all_of(found) if row[0] == "a"] == [("a", row) for row in range(3)]
    assert world.positions()["a", 0] == 3


def test_a_tenant_of_which_one_partition_was_not_read_before_a_kill_was_not_handed_out(
    world, monkeypatch
):
    """Read to its end that one has a record that the handler raises for: other slices follow."""
    found = prepared(world, monkeypatch, partitions=2)
    for name in "ab":
        world.send(name, 8, partition=1)
    world.bad = ("a", 7)
    cut = partial(Cut, lane="a.visits[1]")
    monkeypatch.setattr(InProcessEngine, "_run", lambda engine, wave: run(engine, wave, cut))
    world.killed_after_writing()
    assert {tenant for tenant, _ in all_of(found)} == {"b"}
    monkeypatch.setattr(InProcessEngine, "_run", run)
    world.start()
    world.turns(100, 2.0)
    assert world.positions() == {("a", 0): 5, ("a", 1): 7, ("b", 0): 5, ("b", 1): 8}
    assert Counter(all_of(found)) == Counter(
        (tenant, offset)
        for (tenant, _), reached in world.positions().items()
        for offset in range(reached)
    )


def test_a_tenant_of_which_one_partition_has_a_bad_record_after_a_kill_is_judged(
    world, monkeypatch
):
    """Its other partition waits as well, and nobody is there who could come through."""
    found = prepared(world, monkeypatch, partitions=2)
    world.store.registry.set_tenant_state("b", State.REMOVED)
    world.send("a", 5, partition=1)
    world.killed_after_writing()
    assert Counter(all_of(found)) == Counter(2 * EACH_ONCE[:5])
    cut = partial(Cut, lane="a.visits[1]", error=BadRecord(3, "it is bad now"))
    monkeypatch.setattr(InProcessEngine, "_run", lambda engine, wave: run(engine, wave, cut))
    world.start()
    world.turns(60, 2.0)
    (failure,) = world.store.failures.every(only_open=True)
    assert failure.slice.lane.name == "a.visits[1]"
    assert world.positions()["a", 0] == 5
    assert pending(world) == []


def test_a_replaced_driver_of_the_same_name_does_not_say_whose_turn_it_is(world, monkeypatch):
    """Its successor has called somebody since, in a call that sleeps and writes at the end."""
    found = prepared(world, monkeypatch)
    world.killed_after_writing(name="d")
    (name,) = found
    hanging(world, monkeypatch, "HandlerHung", [True])
    world.start(name="d")
    late, told = world.driver.recorded, []

    class Asleep(Exception):
        pass

    class Progress:
        def __getattr__(self, name):
            return getattr(world.store.progress, name)

        def take_turn(self, *turn):
            told.append(turn)
            raise Asleep

    def parked(_engine, _wave):
        raise Asleep

    late.progress = Progress()
    with pytest.raises(Asleep):
        world.turns(40, 1.0)
    ((_, (first,), _),) = told
    (other,) = {"a", "b"} - {first}
    world.store.registry.set_tenant_state(first, State.SUSPENDED)
    monkeypatch.setattr(InProcessEngine, "_run", parked)
    world.start(name="d")
    with pytest.raises(Asleep):
        world.turns(40, 1.0)
    assert [wave.turn for wave in pending(world)] == [(other,)]
    assert not world.store.progress.take_turn(*told[0])
    world.store.registry.set_tenant_state(first, State.ACTIVE)
    monkeypatch.setattr(InProcessEngine, "_run", run)
    world.start(name="heir")
    world.turns(100, 1.0)
    found[name] = [row for row in EACH_ONCE if row[0] == other]  # the call that slept
    assert all_of(found) == EACH_ONCE
    assert pending(world) == []


def test_a_tenant_that_was_done_by_itself_is_there_once_whoever_is_left_out_after_a_kill(
    world, written
):
    """`b` makes the handler raise, so each runs by itself; it is suspended while no driver runs.

    What `a` left is under a name of its own; run again with the whole wave it would come twice.
    """
    world.start()
    world.turns(5, 1.0)
    written.clear()
    world.refused = "b"
    for name in "ab":
        world.send(name, 5)
    world.killed_after_writing()
    world.store.registry.set_tenant_state("b", State.SUSPENDED)
    world.refused = None
    world.start()
    world.turns(40, 1.0)
    assert all_of(written) == [("a", offset) for offset in range(5, 10)]
    assert world.positions()["a", 0] == 10


def test_a_wave_that_nobody_tried_before_is_divided_where_its_handler_is_down(world, written):
    """Nothing can stand under its id, and nobody is to wait for another one's trouble."""
    world.start()
    world.turns(5, 1.0)
    written.clear()
    world.down_for = "a"
    for name in "ab":
        world.send(name, 5)
    world.turns(10, 1.0)
    assert world.positions() == {("a", 0): 5, ("b", 0): 10}


def all_of(written):
    return sorted(row for rows in written.values() for row in rows)


def test_a_tenant_that_is_suspended_after_a_kill_leaves_nobodys_records_twice(world, written):
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.start()
    world.turns(10, 1.0)
    assert world.positions() == {("a", 0): 0, ("b", 0): 5}
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == "b"]
    world.store.registry.set_tenant_state("a", State.ACTIVE)
    world.turns(10, 1.0)
    assert world.positions() == {("a", 0): 5, ("b", 0): 5}
    assert all_of(written) == EACH_ONCE


@pytest.mark.parametrize("code", ["HandlerHung", "WorkerKilled"])
def test_a_call_that_hangs_after_a_kill_leaves_nobodys_records_twice(
    world, written, monkeypatch, code
):
    """Whoever ended it knows of one call that wrote nothing, and not of the one before."""
    called = hanging(world, monkeypatch, code, [True])
    world.start()
    world.turns(40, 1.0)
    assert [len(tenants) for tenants in called] == [2, 1, 1]
    assert all_of(written) == EACH_ONCE
    assert pending(world) == []


@pytest.mark.parametrize("then", ["works", "is sought", "is removed"])
@pytest.mark.parametrize("tenant", ["a", "b"])
def test_a_tenant_at_whom_calls_hang_after_a_kill_costs_its_neighbour_one_call(
    world, written, monkeypatch, tenant, then
):
    """The neighbour comes through under the id of the whole, which is the tenant's no more."""
    world.hangs = {tenant}
    called = hanging(world, monkeypatch, "HandlerHung")
    world.start()
    with capture_logs() as lines:
        world.turns(200, 1.0)
    other = "ab".replace(tenant, "")
    assert called[0] == {"a", "b"}
    assert {other} in called[1:3]
    told = [line for line in lines if "hurts its neighbours" in line["event"]]
    assert [(line["streams"], line["parts"]) for line in told] == [(2, 2)]
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == other]
    assert world.positions()[other, 0] == 5
    stopped = world.store.failures.every(only_open=True)
    assert [failure.slice.lane.tenant for failure in stopped] == [tenant]
    world.hangs = set()
    if then == "is sought":
        seek(world.store, world.log, StreamId("keep", tenant), "5")
    elif then == "is removed":
        world.store.registry.set_tenant_state(tenant, State.REMOVED)
    for failure in world.store.failures.every(only_open=True):
        quarantine.retry(world.store.failures, failure)
    world.turns(60, 1.0)
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == other or then != "is sought"]
    assert pending(world) == []


@pytest.mark.parametrize("which", [0, 1, -2, -1])
def test_of_many_tenants_one_at_whom_calls_hang_costs_the_others_few_calls(
    world, monkeypatch, which
):
    """Who ran in a group of its own is not looked for among all others once more."""
    prepared(world, monkeypatch)
    names = ["a", "b", *(f"c{number:02d}" for number in range(38))]
    for name in names[2:]:
        world.tenant(name, 5)
    world.killed_after_writing()
    world.hangs = {names[which]}
    called = hanging(world, monkeypatch, "HandlerHung")
    world.start()
    while not all(world.positions()[name, 0] == 5 for name in names if name != names[which]):
        world.turns(1, 1.0)
    assert sum(names[which] in call for call in called) <= 4


def test_a_driver_whose_turn_is_refused_looks_who_has_the_streams(world, monkeypatch):
    """What was written down is gone, and the answer that said so was lost."""
    prepared(world, monkeypatch)
    world.killed_after_writing(name="d")
    hanging(world, monkeypatch, "HandlerHung", [True])
    world.start(name="d")
    told = []

    class Progress:
        def __getattr__(self, name):
            return getattr(world.store.progress, name)

        def take_turn(self, going, tenants, driver):
            if not told:
                held = world.driver.board.streams
                (wave,) = pending(world)
                over = [
                    replace(piece, epoch=held[piece.lane.stream].epoch) for piece in wave.slices
                ]
                world.store.progress.finish_intent(going.id, [], driver, over=over)
            told.append(world.store.progress.take_turn(going, tenants, driver))
            return told[-1]

    world.driver.recorded.progress = Progress()
    world.turns(60, 2.0)
    assert told == [False]
    assert world.positions() == {("a", 0): 5, ("b", 0): 5}


def test_tenants_at_whom_all_calls_hang_after_a_kill_are_there_once(world, written, monkeypatch):
    world.hangs = {"a", "b"}
    hanging(world, monkeypatch, "HandlerHung")
    world.start()
    world.turns(400, 1.0)
    assert len(written) == 1
    assert [len(list(wave.slices)) for wave in pending(world)] == [2]
    world.hangs = {"b"}
    for failure in world.store.failures.every(only_open=True):
        quarantine.retry(world.store.failures, failure)
    world.turns(100, 1.0)
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == "a"]


def test_a_driver_that_is_killed_after_calls_hung_leaves_nobodys_records_twice(
    world, written, monkeypatch
):
    """Who runs next under the id is known to nobody any more; all of them do so once more."""
    world.hangs = {"a"}
    hanging(world, monkeypatch, "HandlerHung")
    world.start()
    world.turns(2, 1.0)
    world.hangs = set()
    world.start()
    world.turns(40, 1.0)
    assert all_of(written) == EACH_ONCE
    assert pending(world) == []


@pytest.mark.parametrize("why", ["a call hung", "the other was suspended"])
def test_a_driver_that_slept_in_a_call_for_some_of_a_wave_takes_nobodys_records_away(
    world, written, monkeypatch, why
):
    """Its heir begins with the same ones: what it writes late is what stands there by then."""
    called = hanging(world, monkeypatch, "HandlerHung", [True] if why == "a call hung" else [])
    if why != "a call hung":
        world.store.registry.set_tenant_state("b", State.SUSPENDED)
    world.start()
    while {"a"} not in [set(wave.turn) for wave in pending(world)]:
        world.turns(1, 1.0)
    (name,) = written
    called.clear()
    world.store.registry.set_tenant_state("b", State.ACTIVE)
    world.start()
    world.turns(40, 1.0)
    assert called == [{"a"}, {"b"}]
    written[name] = [row for row in EACH_ONCE if row[0] == "a"]
    assert all_of(written) == EACH_ONCE
    assert pending(world) == []


@pytest.mark.parametrize("trouble", ["raises", "is down", "hangs", "is sought"])
def test_a_tenant_that_is_suspended_while_its_neighbour_is_in_trouble_is_there_once(
    world, written, monkeypatch, trouble
):
    """It had another id than what stands there of it, which the neighbour then never replaced."""
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.refused = "b" if trouble == "raises" else None
    world.down_for = "b" if trouble in ("is down", "is sought") else None
    world.hangs = {"b"} if trouble == "hangs" else set()
    hanging(world, monkeypatch, "HandlerHung")
    world.start()
    world.turns(40, 2.0)
    if trouble == "is sought":
        seek(world.store, world.log, StreamId("keep", "b"), "5")
        world.turns(5, 1.0)
    world.store.registry.set_tenant_state("a", State.ACTIVE)
    world.turns(200, 2.0)
    down = trouble == "is down"  # holds up whoever runs with it
    assert all_of(written) == (EACH_ONCE if down else [row for row in EACH_ONCE if row[0] == "a"])
    world.down_for = None
    world.turns(40, 2.0)
    kept = EACH_ONCE if down else [row for row in EACH_ONCE if row[0] == "a"]
    assert all_of(written) == kept


def test_a_tenant_that_is_suspended_has_an_id_of_its_own_when_its_neighbour_came_through(
    world, written
):
    """The id is the neighbour's: under it the tenant would take the neighbour's records away."""
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.start()
    world.turns(10, 1.0)
    assert list(written.values()) == [[row for row in EACH_ONCE if row[0] == "b"]]
    world.start()
    world.store.registry.set_tenant_state("a", State.ACTIVE)
    world.turns(40, 1.0)
    assert all_of(written) == EACH_ONCE
    assert pending(world) == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_tenant_whose_epoch_was_raised_meanwhile_does_not_have_the_id_that_is_anothers(
    world, written, monkeypatch, is_killed
):
    """Somebody seeks it to where it stands, so the name it was given is not believed."""
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.start()

    def sought(engine, wave):
        seek(world.store, world.log, StreamId("keep", "a"), "0")
        return run(engine, wave)

    monkeypatch.setattr(InProcessEngine, "_run", sought)
    while world.positions()["b", 0] == 0:
        world.turns(1, 1.0)
    monkeypatch.setattr(InProcessEngine, "_run", run)
    if is_killed:
        world.start()
    world.store.registry.set_tenant_state("a", State.ACTIVE)
    world.turns(40, 1.0)
    assert all_of(written) == EACH_ONCE
    assert len({planned_id(name) for name in written}) == 1, "it ran again as it was"
    assert pending(world) == []


def test_a_partition_that_stays_where_another_is_sought_takes_nobodys_records_away_later(
    world, monkeypatch
):
    """What was to be its part was not believed; the driver is killed long after that."""
    found = prepared(world, monkeypatch, partitions=2)
    for name in "ab":
        world.send(name, 5, partition=1)
    world.killed_after_writing()
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.start()

    def sought(engine, wave):
        seek(world.store, world.log, StreamId("keep", "a"), {"a.visits[0]": 5})
        return run(engine, wave)

    monkeypatch.setattr(InProcessEngine, "_run", sought)
    while world.positions()["b", 0] == 0:
        world.turns(1, 1.0)
    monkeypatch.setattr(InProcessEngine, "_run", run)
    world.turns(20, 10.0)
    world.start()
    world.turns(5, 1.0)
    world.store.registry.set_tenant_state("a", State.ACTIVE)
    world.turns(40, 1.0)
    assert all_of(found) == sorted(EACH_ONCE + EACH_ONCE[5:])
    assert pending(world) == []


def test_a_tenant_that_is_sought_to_where_it_stands_in_its_own_call_is_there_once(
    world, written, monkeypatch
):
    """It has the id, and nobody moved: so it runs again under that, and not beside itself."""
    world.store.registry.set_tenant_state("a", State.SUSPENDED)
    world.start()

    def sought(engine, wave):
        monkeypatch.setattr(InProcessEngine, "_run", run)
        result = run(engine, wave)
        seek(world.store, world.log, StreamId("keep", "b"), "0")
        return result

    monkeypatch.setattr(InProcessEngine, "_run", sought)
    world.turns(20, 1.0)
    world.store.registry.set_tenant_state("a", State.ACTIVE)
    world.turns(40, 1.0)
    assert all_of(written) == EACH_ONCE
    assert pending(world) == []


@pytest.mark.parametrize("trouble", ["is not read", "is down"])
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_group_that_can_not_come_through_does_not_hold_up_the_next_one(
    world, written, monkeypatch, first, trouble
):
    called = hanging(world, monkeypatch, "HandlerHung", [True])
    world.start()
    while not called:
        world.turns(1, 1.0)
    other = "ab".replace(first, "")
    is_down(world, first, trouble)
    world.turns(60, 2.0)
    assert world.positions()[other, 0] == 5
    is_up(world, first)
    world.turns(60, 2.0)
    assert all_of(written) == EACH_ONCE
    assert pending(world) == []


@pytest.mark.parametrize("trouble", ["is not read", "is down"])
@pytest.mark.parametrize("first", ["a", "b"])
def test_who_is_to_be_first_after_a_takeover_and_can_not_holds_up_nobody(
    world, written, monkeypatch, first, trouble
):
    other = "ab".replace(first, "")
    world.store.registry.set_tenant_state(other, State.SUSPENDED)
    called = hanging(world, monkeypatch, "HandlerHung")
    world.start()
    while {first} not in [set(wave.turn) for wave in pending(world)]:
        world.turns(1, 1.0)
    world.store.registry.set_tenant_state(other, State.ACTIVE)
    is_down(world, first, trouble)
    called.clear()
    world.start()
    world.turns(60, 2.0)
    assert called[:2] == [{first}, {other}]
    assert world.positions()[other, 0] == 5
    is_up(world, first)
    world.turns(60, 2.0)
    assert all_of(written) == EACH_ONCE
    assert pending(world) == []


def is_down(world, tenant, trouble):
    """Let a tenant's broker be away, or its handler down."""
    if trouble == "is not read":
        world.log.set_leader(f"{tenant}.visits", 0, False)
    else:
        world.down_for = tenant


def is_up(world, tenant):
    world.log.set_leader(f"{tenant}.visits", 0, True)
    world.down_for = None


def test_a_wave_that_is_lost_again_and_again_runs_in_groups_under_its_id(
    world, written, monkeypatch
):
    """Nobody is blamed when an executor dies, but one of them may be what it dies of."""
    called = hanging(world, monkeypatch, "TaskLost", [True] * LOST_OFTEN)
    world.start()
    world.turns(200, 1.0)
    assert [len(tenants) for tenants in called] == [2] * LOST_OFTEN + [1, 1]
    assert all_of(written) == EACH_ONCE
    assert pending(world) == []


@pytest.mark.parametrize("is_left", [True, False])
def test_a_wave_of_which_nothing_is_left_is_not_said_to_run_in_parts(world, written, is_left):
    world.start()
    world.turns(5, 1.0)
    wave = next(wave for wave in world.engine.started if len(list(wave.slices)) == 2)
    with capture_logs() as lines:
        error = SliceError(False, "HandlerHung", "it did not come back")
        world.driver.failing.died(wave, error, [wave] if is_left else [])
    assert ["hurts its neighbours" in line["event"] for line in lines] == [True] * is_left


def test_a_call_that_hangs_behind_its_write_leaves_nobodys_records_twice(
    world, written, monkeypatch
):
    """Nobody tried it before, so it is divided at once."""
    world.start()
    world.turns(5, 1.0)
    written.clear()
    for name in "ab":
        world.send(name, 5)
    hanging(world, monkeypatch, "HandlerHung", [True], behind_write=True)
    world.turns(40, 1.0)
    assert all_of(written) == [(tenant, offset) for tenant in "ab" for offset in range(5, 10)]


@pytest.mark.parametrize(("refused", "other"), ["ab", "ba"])
def test_a_handler_that_raises_after_a_kill_leaves_nobodys_records_twice(
    world, written, refused, other
):
    """Each tenant runs by itself, and the first to come through replaces what the whole left."""
    world.refused = refused
    world.start()
    world.turns(60, 2.0)
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == other]
    world.refused = None
    for failure in world.store.failures.every(only_open=True):
        quarantine.retry(world.store.failures, failure)
    world.turns(60, 1.0)
    assert all_of(written) == EACH_ONCE
    assert world.store.progress.pending_intents() == []


@pytest.mark.parametrize("then", ["sought", "killed"])
def test_a_tenant_that_never_comes_through_after_a_kill_leaves_nobodys_records_twice(
    world, written, then
):
    """It is down; its neighbour comes through first and has the id of the whole by then."""
    world.alone, world.down_for = True, "a"
    world.start()
    world.turns(12, 2.0)
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == "b"]
    assert [{piece.lane.tenant for piece in wave.slices} for wave in pending(world)] == [{"a"}]
    if then == "sought":
        seek(world.store, world.log, StreamId("keep", "a"), "5")
    world.alone, world.down_for = False, None
    if then == "killed":
        world.start()
    world.turns(30, 2.0)
    kept = EACH_ONCE if then == "killed" else [row for row in EACH_ONCE if row[0] == "b"]
    assert all_of(written) == kept
    assert pending(world) == []


def test_a_tenant_that_is_not_read_while_another_raises_is_there_once(world, written):
    """Nobody came through, so the id stays with whoever is left."""
    world.log.set_leader("a.visits", 0, False)
    world.refused = "b"
    world.start()
    world.turns(10, 2.0)
    world.log.set_leader("a.visits", 0, True)
    world.turns(40, 2.0)
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == "a"]


def test_a_tenant_that_is_sought_while_a_replay_reads_does_not_take_the_id_along(
    world, written, monkeypatch
):
    """It did not come through, far as it was read; its neighbour is down just then."""
    world.start()

    class Seeking(Door):
        def __init__(self, positions):
            def advance(moves):
                seek(world.store, world.log, StreamId("keep", "a"), "5")
                monkeypatch.setitem(globals(), "Door", Door)
                return positions.advance(moves)

            self.advance = advance

    monkeypatch.setitem(globals(), "Door", Seeking)
    world.down = ["b"]
    world.turns(40, 1.0)
    assert world.down == []
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == "b"]
    assert pending(world) == []


@pytest.mark.parametrize("then", ["up", "sought"])
def test_a_tenant_that_raises_once_while_its_neighbour_is_down_leaves_nothing_twice(
    world, written, then
):
    """Nobody has come through, so what raised has no other id either."""
    world.alone, world.down_for, world.refused = True, "b", "a"
    world.start()
    while world.refused_times == 0:
        world.turns(1, 1.0)
    world.refused = None
    world.turns(60, 2.0)
    assert [row for row in all_of(written) if row[0] == "a"] == EACH_ONCE[:5]
    if then == "sought":
        seek(world.store, world.log, StreamId("keep", "b"), "5")
    world.down_for = None
    world.turns(60, 2.0)
    assert all_of(written) == (EACH_ONCE if then == "up" else EACH_ONCE[:5])
    assert pending(world) == []


def test_what_raises_while_its_neighbour_is_down_is_judged_when_that_came_through(world, written):
    world.alone, world.down_for, world.bad = True, "b", ("a", 3)
    world.start()
    world.turns(60, 2.0)
    assert world.store.failures.every(only_open=True) == [], "nothing is held against it yet"
    world.down_for = None
    world.turns(60, 2.0)
    (failure,) = world.store.failures.every(only_open=True)
    assert failure.slice.lane.tenant == "a"
    rows = all_of(written)
    assert [row for row in rows if row[0] == "b"] == EACH_ONCE[5:]
    assert Counter(rows).most_common(1)[0][1] == 1


def pending(world):
    return world.store.progress.pending_intents()


def hanging(world, monkeypatch, code, hangs=(), *, behind_write=False):
    """Calls that are ended because they hang, so many or those of tenants; who was in each."""
    called, hangs = [], list(hangs)

    def hung(engine, wave):
        called.append({piece.lane.tenant for piece in wave.slices})
        hang = hangs.pop() if hangs else not world.hangs.isdisjoint(called[-1])
        if not hang:
            return run(engine, wave)
        if behind_write:
            run(engine, wave)
        else:
            engine._taken.pop(wave.id)
        return WaveResult(wave, (), 80.0, SliceError(False, code, "it did not come back"))

    monkeypatch.setattr(InProcessEngine, "_run", hung)
    return called


def test_brokers_that_do_not_answer_after_a_kill_leave_nobodys_records_twice(world, written):
    for name in "ab":
        world.log.set_leader(f"{name}.visits", 0, False)
    world.start()
    world.turns(10, 1.0)
    world.log.set_leader("b.visits", 0, True)
    world.turns(40, 1.0)
    assert all_of(written) == [row for row in EACH_ONCE if row[0] == "b"]
    world.log.set_leader("a.visits", 0, True)
    world.turns(40, 1.0)
    assert all_of(written) == EACH_ONCE
    assert world.store.progress.pending_intents() == []
