"""What a driver decided before it stood still, or before a person sent a stream elsewhere.

Another driver, or a person, has decided since: it stops, ends and sets aside nothing.
"""

from dataclasses import replace

import pyarrow as pa
import pytest

from headrace.cycle.reruns import begin, range_of
from headrace.errors import StoreUnavailable
from headrace.model.records import FailureState
from headrace.model.streams import State, StreamId, Tenant
from headrace.operating.seeking import seek

ACME, BOLT = StreamId("keep", "acme"), StreamId("keep", "bolt")
LEASE_S = 15.0


def turns(world, driver, count=40):
    for _ in range(count):
        driver.turn()
        world.clock.move(1.0)


def until(world, driver, happened):
    """Let a driver turn until something happened."""
    for _ in range(80):
        if happened:
            return
        driver.turn()
        world.clock.move(0.5)
    raise AssertionError("it did not happen")


def states(world):
    return {stream.id: stream.state for stream in world.store.registry.streams()}


@pytest.fixture
def away():
    """The server of acme's record 3, as long as there is something in it."""
    return [True]


@pytest.fixture
def old(world, away, request):
    """A driver that handles acme and bolt, and what it makes of a bad record."""

    def handler(table, context):
        if away and context.tenant == "acme" and 3 in table["offset"].to_pylist():
            raise ValueError("the model's server is away")
        return pa.table({"offset": table["offset"]})

    world.use_cases = [world.make(handler, bad_record=request.param)]
    world.deploy(retries=0)
    world.tenant("acme", 10)
    world.tenant("bolt", 3)
    return world.start(name="old", lease_s=LEASE_S)


@pytest.mark.parametrize("old", ["suspend", "fail"], indirect=True)
def test_who_stood_still_stops_nothing_of_its_heirs(world, old, away, monkeypatch):
    keep, heirs = world.store.failures.keep, []

    def sleeps(new, *, stop_use_case=False):
        monkeypatch.setattr(world.store.failures, "keep", keep)
        away.clear()
        heirs.append(world.start(name="heir", lease_s=LEASE_S))
        turns(world, heirs[0])
        return keep(new, stop_use_case=stop_use_case)

    monkeypatch.setattr(world.store.failures, "keep", sleeps)
    until(world, old, heirs)
    assert world.positions()["acme", 0] == 10
    world.send("acme", 5)
    world.send("bolt", 5)
    turns(world, heirs[0])
    assert world.positions() == {("acme", 0): 15, ("bolt", 0): 8}
    assert states(world) == dict.fromkeys((ACME, BOLT), State.ACTIVE)
    (noted,) = world.store.failures.every()
    assert noted.state is FailureState.RETRIED


@pytest.mark.parametrize("old", ["suspend"], indirect=True)
def test_what_failed_before_a_seek_does_not_stop_the_lane_behind_it(world, old, monkeypatch):
    keep, tries = world.store.failures.keep, []

    def is_away(_, *, stop_use_case=False):
        tries.append(stop_use_case)
        monkeypatch.setattr(world.store.failures, "keep", keep)
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(world.store.failures, "keep", is_away)
    until(world, old, tries)
    seek(world.store, world.log, ACME, "6")
    turns(world, old)
    assert world.positions()["acme", 0] == 10
    assert world.store.failures.every(only_open=True) == []


@pytest.mark.parametrize("old", ["dead-letter"], indirect=True)
def test_who_stood_still_sets_nothing_aside_that_its_heir_handles(world, old, away):
    while not old.board.flights:
        old.turn()
        world.clock.move(0.2)
    old._results += old.parts.engine.finished(0)
    away.clear()
    heir = world.start(name="heir", lease_s=LEASE_S)
    heir.parts.engine.paused = True
    turns(world, heir, 25)
    old.turn()  # it judges, and has the letter kept
    heir.parts.engine.paused = False
    for _ in range(20):
        turns(world, heir, 1)
        old.turn()
    assert world.positions()["acme", 0] == 10
    assert world.dead_letters.letters == []


def suspending(world, monkeypatch, meanwhile):
    """A driver is about to suspend acme for what retention took when this happens."""
    world.deploy()
    world.tenant("acme", 10)
    old, set_state, done = world.start(name="old", lease_s=LEASE_S), [], []
    turns(world, old, 3)
    world.send("acme", 10)
    world.log.expire("acme.visits", 0, 15)
    set_state.append(world.store.registry.set_stream_state)

    def sleeps(*said, **more):
        monkeypatch.setattr(world.store.registry, "set_stream_state", set_state[0])
        meanwhile()
        done.append(set_state[0](*said, **more))

    monkeypatch.setattr(world.store.registry, "set_stream_state", sleeps)
    until(world, old, done)
    return done


def test_nobody_suspends_what_a_person_has_sent_on_and_resumed(world, monkeypatch):
    def meanwhile():
        world.store.registry.set_stream_state(ACME, State.SUSPENDED)
        seek(world.store, world.log, ACME, "earliest")
        world.store.registry.set_stream_state(ACME, State.ACTIVE)

    assert suspending(world, monkeypatch, meanwhile) == [False]
    assert states(world) == {ACME: State.ACTIVE}


def test_nobody_suspends_the_stream_of_the_next_tenant_of_the_name(world, monkeypatch):
    def meanwhile():
        world.store.registry.set_tenant_state("acme", State.REMOVED)
        world.store.registry.add_tenant(Tenant("acme"))

    assert suspending(world, monkeypatch, meanwhile) == [False]
    (stream,) = world.store.registry.streams()
    assert (stream.state, stream.reason) == (State.ACTIVE, None)


def test_a_rerun_that_is_sent_back_as_it_ends_goes_on(world, monkeypatch):
    world.deploy()
    world.tenant("acme", 20)
    driver = world.start(name="old", lease_s=LEASE_S)
    turns(world, driver, 4)
    rerun = begin(world.store, range_of(world.store, world.log, ACME, "earliest", None), 0.2)
    made = replace(world.use_cases[0], name=rerun.use_case)
    world.use_cases.append(made)
    (wanted,) = (one for one in world.store.registry.deployments() if one.use_case == made.name)
    driver.parts.engine.take(made, wanted)
    driver.take(made, wanted)
    set_state, done = world.store.registry.set_stream_state, []

    def sleeps(*said, **more):
        monkeypatch.setattr(world.store.registry, "set_stream_state", set_state)
        seek(world.store, world.log, rerun, "earliest")
        done.append(set_state(*said, **more))
        return done[0]

    monkeypatch.setattr(world.store.registry, "set_stream_state", sleeps)
    until(world, driver, done)
    assert done == [False]
    turns(world, driver, 20)
    (place,) = world.store.progress.load_positions([rerun])
    assert (place.next_offset, states(world)[rerun]) == (20, State.REMOVED)
