"""Two drivers on one store: each stream is planned by one of them, whoever lives."""

import pytest

from headrace.cycle.commit import Committer
from headrace.cycle.leases import Leases
from headrace.errors import Fenced, OutcomeUnknown, StoreUnavailable
from headrace.model.streams import State, StreamId
from headrace.testing.engine_fake import InProcessEngine

LEASE_S = 15.0
TENANTS = [f"t{number}" for number in range(7)]


class Joining:
    """A membership that is joined in another way."""

    def __init__(self, real, join):
        self.real, self.join = real, join

    def __getattr__(self, name):
        return getattr(self.real, name)


@pytest.fixture
def pair(world):
    """Two drivers that share seven tenants."""
    world.deploy()
    for name in TENANTS:
        world.tenant(name, 3)
    world.drivers = {name: world.start(name=name, lease_s=LEASE_S) for name in "ab"}
    return world


def turns(world, names="ab", count=12, seconds=1.0):
    for _ in range(count):
        for name in names:
            world.drivers[name].turn()
        world.clock.move(seconds)


def held(world, name):
    return {stream.tenant for stream in world.drivers[name].board.streams}


def handled(world, tenant):
    return [offset for name, offset in world.seen if name == tenant]


def recorded_by_one_that_dies(world):
    """What driver a has written down and did not see the end of."""
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    for name in TENANTS:
        world.tenant(name, 3)
    world.drivers = {"a": world.start(name="a", lease_s=LEASE_S)}
    world.engine.accidents = ["after"] * 99
    turns(world, "a", 2, seconds=0.0)
    return world.store.progress.pending_intents()


def test_a_driver_that_joins_gets_its_share_and_nothing_runs_twice(pair):
    turns(pair, "a", 2)
    assert held(pair, "a") == set(TENANTS)
    turns(pair)
    assert len(held(pair, "a")) == 3
    assert held(pair, "a") | held(pair, "b") == set(TENANTS)
    assert not held(pair, "a") & held(pair, "b")
    for name in TENANTS:
        pair.send(name, 4)
    turns(pair)
    assert all(handled(pair, name) == list(range(7)) for name in TENANTS)


def test_a_stream_is_handed_over_only_when_nothing_of_it_runs(pair):
    first = pair.drivers["a"]
    first.parts.engine.paused = True
    turns(pair, "a", 2)
    assert first.board.flights
    turns(pair, "ab", 6)
    assert not held(pair, "b")
    first.parts.engine.paused = False
    turns(pair)
    assert len(held(pair, "b")) == 4
    assert all(handled(pair, name) == [0, 1, 2] for name in TENANTS)


def test_what_a_dead_driver_held_is_inherited_after_a_lease(pair):
    turns(pair)
    for name in TENANTS:
        pair.send(name, 2)
    turns(pair, "b", int(LEASE_S) - 4)
    assert len(held(pair, "b")) == 4
    turns(pair, "b", 10)
    assert held(pair, "b") == set(TENANTS)
    assert all(handled(pair, name) == list(range(5)) for name in TENANTS)


def test_a_driver_that_wakes_up_is_refused_and_shares_again(pair):
    turns(pair)
    sleeper = pair.drivers["a"]
    for name in TENANTS:
        pair.send(name, 2)
    sleeper.parts.engine.paused = True
    turns(pair, "a", 1)
    assert sleeper.board.flights
    turns(pair, "b", 30)
    done = pair.positions()
    assert set(done.values()) == {5}
    sleeper.parts.engine.paused = False
    turns(pair)
    assert pair.positions() == done
    assert len(held(pair, "a")) == 3
    assert not held(pair, "a") & held(pair, "b")
    for name in TENANTS:
        pair.send(name, 1)
    turns(pair)
    assert set(pair.positions().values()) == {6}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once", "at-most-once"])
def test_what_a_driver_that_wakes_up_still_runs_is_ended_but_for_what_it_claimed(
    world, guarantee, monkeypatch
):
    world.use_cases = [world.make(guarantee=guarantee)]
    world.deploy()
    for name in TENANTS:
        world.tenant(name, 3)
    world.drivers = {name: world.start(name=name, lease_s=LEASE_S) for name in "ab"}
    sleeper = world.drivers["a"]
    sleeper.parts.engine.paused = True
    turns(world, "a", 1)
    running, ended = list(sleeper.board.flights), []
    assert running
    cancel = InProcessEngine.cancel
    monkeypatch.setattr(
        InProcessEngine, "cancel", lambda engine, wave: (ended.append(wave), cancel(engine, wave))
    )
    turns(world, "b", 30)
    assert ended == []
    turns(world, "a", 4)
    assert ended == ([] if guarantee == "at-most-once" else running)
    sleeper.parts.engine.paused = False
    turns(world)
    assert set(world.positions().values()) == {3}


def test_recorded_waves_of_a_dead_driver_run_again_unchanged_at_its_heir(world):
    recorded = recorded_by_one_that_dies(world)
    assert recorded
    for name in TENANTS:
        world.send(name, 2)
    world.drivers["b"] = world.start(name="b", lease_s=LEASE_S)
    turns(world, "b", 40)
    again = [wave for wave in world.engine.started if wave.id in {dead.id for dead in recorded}]
    cuts = [
        sorted((p.lane, p.from_offset, p.until_offset) for wave in waves for p in wave.slices)
        for waves in (recorded, again)
    ]
    assert cuts[0] == cuts[1]
    assert world.store.progress.pending_intents() == []
    assert set(world.positions().values()) == {5}


def test_a_driver_that_drained_leaves_its_streams_at_once(pair):
    turns(pair)
    pair.drivers["a"].drain()
    turns(pair, "a", 2)
    assert pair.drivers["a"].drained
    pair.drivers["a"].leave()
    turns(pair, "b", 8, seconds=LEASE_S / 10)
    assert held(pair, "b") == set(TENANTS)


def test_who_leaves_while_something_hangs_gives_back_all_but_that_at_once(pair):
    turns(pair)
    first, second = (pair.drivers[name] for name in "ab")
    hung = min(held(pair, "a"))
    first.parts.engine.paused = True
    pair.send(hung, 1)
    turns(pair, "a", 3)
    assert len(first.board.flights) == 1
    first.drain()
    first.leave()
    turns(pair, "b", 4)
    assert held(pair, "b") == {*TENANTS} - {hung}
    pair.send(hung, 1)
    turns(pair, "b", 4)
    assert handled(pair, hung) == [0, 1, 2]
    turns(pair, "b", 12)
    assert held(pair, "b") == set(TENANTS)
    assert handled(pair, hung) == list(range(5))
    assert second.parts.store.membership.drivers()[0].name == "b"


def test_what_came_back_and_is_not_in_the_store_is_not_given_back(pair, monkeypatch):
    turns(pair, "a", 2)
    first = pair.drivers["a"]
    hung = min(held(pair, "a"))
    pair.send(hung, 1)

    def unknown(*_):
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(Committer, "commit", unknown)
    turns(pair, "a", 4)
    first.drain()
    first.leave()
    holders = {stream.id.tenant: stream.holder for stream in pair.store.registry.streams()}
    assert holders == dict.fromkeys(TENANTS) | {hung: "a"}


def test_a_driver_that_drains_for_longer_than_its_lease_is_not_taken_for_dead(pair):
    turns(pair)
    before = held(pair, "a")
    pair.drivers["a"].drain()
    turns(pair, seconds=LEASE_S / 3)
    assert {
        stream.id.tenant for stream in pair.store.registry.streams() if stream.holder == "a"
    } == before
    turns(pair, "b", seconds=LEASE_S / 3)
    assert held(pair, "b") == set(TENANTS)


def test_a_second_driver_of_the_same_name_replaces_the_first(pair):
    turns(pair, "a", 2)
    first = pair.drivers["a"]
    pair.start(name="a", lease_s=LEASE_S)
    pair.turns(4)
    assert len(pair.driver.board.streams) == 7
    with pytest.raises(Fenced, match="another driver named a was started"):
        turns(pair, "a", 10)
    assert first is not pair.driver


def test_a_driver_that_was_replaced_and_loads_another_use_case_does_not_replace_its_successor(pair):
    old, new = (Leases(pair.store.membership, "d", LEASE_S) for _ in range(2))
    old.poll(["keep"], 0.0)
    new.poll(["keep"], 1.0)
    with pytest.raises(Fenced):
        old.poll(["keep", "pages"], 2.0)
    new.confirm(6.0)


def test_a_driver_that_does_not_hear_that_it_joined_again_is_still_itself(pair):
    def lost(*of, **more):
        pair.store.membership.join(*of, **more)
        raise OutcomeUnknown("lost")

    leases = Leases(pair.store.membership, "d", LEASE_S)
    leases.poll(["keep"], 0.0)
    leases.membership = Joining(pair.store.membership, lost)
    with pytest.raises(OutcomeUnknown):
        leases.poll(["keep", "pages"], 2.0)
    leases.membership = pair.store.membership
    leases.poll(["keep", "pages"], 3.0)
    leases.confirm(6.0)


@pytest.mark.parametrize("has_heard", [True, False])
def test_a_driver_that_does_not_hear_that_it_joined_does_not_replace_its_successor(pair, has_heard):
    def lost(*of, **more):
        pair.store.membership.join(*of, **more)
        raise OutcomeUnknown("lost")

    old, new = (Leases(pair.store.membership, "d", LEASE_S) for _ in range(2))
    if has_heard:
        old.poll(["keep"], 0.0)
    old.membership = Joining(pair.store.membership, lost)
    with pytest.raises(OutcomeUnknown):
        old.poll(["keep", "pages"], 1.0)
    old.membership = pair.store.membership
    new.poll(["keep", "pages"], 2.0)
    with pytest.raises(Fenced):
        old.poll(["keep", "pages"], 3.0)
    new.confirm(6.0)


def test_a_driver_that_is_given_up_while_the_answer_to_its_join_is_lost_knows_it(pair):
    def lost(*of, **more):
        pair.store.membership.join(*of, **more)
        raise OutcomeUnknown("lost")

    given_up, heir = (Leases(pair.store.membership, name, LEASE_S) for name in "de")
    given_up.poll(["keep"], 0.0)
    heir.poll(["keep"], 0.0)
    given_up.membership = Joining(pair.store.membership, lost)
    with pytest.raises(OutcomeUnknown):
        given_up.poll(["keep", "pages"], 1.0)
    [dead] = [peer for peer in pair.store.membership.drivers() if peer.name == "d"]
    assert pair.store.membership.adopt("e", heir.number, dead)
    given_up.membership = pair.store.membership
    given_up.poll(["keep", "pages"], 100.0)
    assert given_up.given_up


def test_a_driver_that_cannot_join_again_beats_on_and_gives_back(pair):
    def away(*_of, **_more):
        raise StoreUnavailable("away")

    leases = Leases(pair.store.membership, "d", LEASE_S)
    leases.poll(["keep"], 0.0)
    leases.membership = Joining(pair.store.membership, away)
    with pytest.raises(StoreUnavailable):
        leases.poll(["keep", "pages"], 2.0)
    leases.stay(10.0)
    (peer,) = (one for one in pair.store.membership.drivers() if one.name == "d")
    leases.stay(20.0)
    (later,) = (one for one in pair.store.membership.drivers() if one.name == "d")
    assert later.beats > peer.beats
    leases.leave(())
    assert "d" not in [one.name for one in pair.store.membership.drivers()]


def test_a_driver_that_was_given_up_for_dead_learns_it_also_when_it_loads_another_use_case(pair):
    given_up, heir = (Leases(pair.store.membership, name, LEASE_S) for name in "de")
    given_up.poll(["keep"], 0.0)
    heir.poll(["keep"], 0.0)
    (peer,) = (one for one in pair.store.membership.drivers() if one.name == "d")
    assert pair.store.membership.adopt("e", heir.number, peer)
    given_up.poll(["keep", "pages"], 100.0)
    assert given_up.given_up


def test_a_tenant_added_later_goes_to_one_of_them(pair):
    turns(pair)
    pair.tenant("late", 5)
    turns(pair)
    assert handled(pair, "late") == [0, 1, 2, 3, 4]
    assert [name for name in "ab" if "late" in held(pair, name)]


def test_a_tenant_removed_is_left_by_whoever_has_it(pair):
    turns(pair)
    pair.store.registry.set_tenant_state("t0", State.REMOVED)
    pair.send("t0", 5)
    turns(pair)
    assert handled(pair, "t0") == [0, 1, 2]


def test_use_cases_are_shared_by_those_who_have_them(pair):
    other = pair.make(name="other")
    pair.use_cases.append(other)
    pair.deploy()
    pair.drivers["c"] = pair.start(name="c", lease_s=LEASE_S)
    turns(pair, "abc", 20)
    assert {stream.use_case for stream in pair.drivers["a"].board.streams} == {"keep"}
    mine = {stream for stream in pair.drivers["c"].board.streams if stream.use_case == "other"}
    assert mine == {StreamId("other", name) for name in TENANTS}


def test_a_driver_is_ready_when_it_has_joined_and_observed_and_until_it_drains(pair):
    first = pair.drivers["a"]
    assert not first.ready
    first.turn()
    assert first.ready
    first.drain()
    assert not first.ready


def test_a_driver_learns_who_left_whichever_beat_told_it(pair):
    turns(pair)
    sooner, later = pair.drivers["a"], pair.drivers["b"]
    sooner.drain()
    turns(pair, "a", 2)
    later.leases.confirm(pair.clock.monotonic_s())
    sooner.leave()
    for name in ("new", "newer"):
        pair.tenant(name)
    # It takes its share as before, and the beat just before that is the one that tells.
    turns(pair, "b", 8, seconds=LEASE_S / 10)
    assert held(pair, "b") == {*TENANTS, "new", "newer"}


def test_an_heir_that_did_not_hear_that_it_inherits_finds_the_recorded_waves(world):
    recorded = {wave.id for wave in recorded_by_one_that_dies(world)}
    heir = world.drivers["b"] = world.start(name="b", lease_s=LEASE_S)
    adopt = world.store.membership.adopt

    def unheard(name, number, dead):
        heir.leases.membership.adopt = adopt
        adopt(name, number, dead)
        raise OutcomeUnknown("lost")

    world.store.membership.adopt = unheard
    turns(world, "b", 40)
    assert recorded <= {wave.id for wave in world.engine.started}
    assert world.store.progress.pending_intents() == []


def test_a_driver_that_was_replaced_while_it_slept_writes_no_wave_down(world):
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    world.tenant("acme")
    sleeper = world.start(name="a", lease_s=LEASE_S)
    world.turns(3)
    record = world.store.progress.record_intent

    def asleep(wave, driver):
        world.store.progress.record_intent = record
        world.start(name="a", lease_s=LEASE_S)
        world.turns(3)
        return record(wave, driver)

    world.store.progress.record_intent = asleep
    world.send("acme", 5)
    engine = sleeper.parts.engine
    sleeper.turn()
    assert engine.started == []
    assert world.positions() == {("acme", 0): 5}


def test_a_driver_that_was_replaced_does_not_forget_its_successors_waves(world):
    world.use_cases = [world.make(guarantee="exactly-once")]
    world.deploy()
    world.tenant("acme", 5)
    sleeper = world.start(name="a", lease_s=LEASE_S)
    sleeper.turn()
    successor = world.start(name="a", lease_s=LEASE_S)
    successor.parts.engine.paused = True
    successor.turn()
    assert [wave.id for wave in world.store.progress.pending_intents()]
    with pytest.raises(Fenced):
        sleeper.turn()
    assert len(world.store.progress.pending_intents()) == 1
    successor.parts.engine.paused = False
    world.turns(6)
    assert world.positions() == {("acme", 0): 5}
    assert world.store.progress.pending_intents() == []


def test_an_heir_that_was_replaced_in_the_same_moment_inherits_nothing(pair):
    turns(pair)
    theirs, adopt = held(pair, "a"), pair.store.membership.adopt

    def replaced(name, number, dead):
        pair.store.membership.adopt = adopt
        pair.store.membership.join("b", ["of another version"])
        return adopt(name, number, dead)

    pair.store.membership.adopt = replaced
    with pytest.raises(Fenced):
        turns(pair, "b", 40)
    assert {
        stream.id.tenant for stream in pair.store.registry.streams() if stream.holder == "a"
    } == theirs


def test_streams_in_the_name_of_no_driver_are_served_after_a_lease(world):
    world.deploy()
    for name in TENANTS:
        world.tenant(name, 3)
    world.store.membership.hold([StreamId("keep", name) for name in TENANTS[:4]], "lost")
    world.drivers = {name: world.start(name=name, lease_s=LEASE_S) for name in "ab"}
    turns(world, "ab", 4)
    assert held(world, "a") | held(world, "b") == set(TENANTS[4:]), "and nobody gives its own away"
    turns(world, "ab", 30)
    assert held(world, "a") | held(world, "b") == set(TENANTS)
    assert all(handled(world, name) == [0, 1, 2] for name in TENANTS)
