"""Lanes of an earlier division are forgotten: also where the store's answer to that is lost."""

import pytest
from lanes_of_acme import ACME, LANE, divide_by_key, places
from structlog.testing import capture_logs

from headrace.errors import OutcomeUnknown
from headrace.model.buckets import divided
from headrace.model.lineage import Parent
from headrace.model.places import place_at
from headrace.model.records import LaneStart
from headrace.model.streams import Tenant


def all_of(tenant, records):
    return [(tenant, offset) for offset in range(records)]


def begun(world, buckets):
    """Acme by key in so many buckets, and Bolt; nothing of them waits."""
    kind = {"order": "key", "buckets": buckets} if buckets > 1 else {}
    world.use_cases = [world.make(**kind)]
    world.deploy()
    world.tenant("acme", 20)
    world.tenant("bolt", 20)
    world.start()
    world.turns()


def losing(world, monkeypatch):
    """The answer to the first transaction that forgets lanes of Acme is lost; lists their names."""
    progress, forgotten = world.store.progress, []
    forget = progress.forget_lanes

    def unheard(stream, names, epoch):
        done = forget(stream, names, epoch)
        if stream == ACME and not forgotten:
            forgotten.extend(names)
            raise OutcomeUnknown("the answer to COMMIT was lost")
        return done

    monkeypatch.setattr(progress, "forget_lanes", unheard)
    return forgotten


@pytest.mark.parametrize("before_and_then", [(2, 3), (3, 2), (2, 1), (1, 2)])
@pytest.mark.parametrize("anything_changes", [False, True])
def test_an_answer_that_is_lost_changes_nothing(
    world, monkeypatch, before_and_then, anything_changes
):
    before, then = before_and_then
    begun(world, before)
    forgotten = losing(world, monkeypatch)
    divide_by_key(world, then)
    world.turns(3, seconds=1.0)
    world.send("acme", 4)
    while not forgotten:
        world.turns(1, seconds=1.0)
    if anything_changes:
        world.store.registry.add_tenant(Tenant("corp"))
    world.send("acme", 6)
    world.send("bolt", 6)
    world.turns(100, seconds=1.0)
    assert {*places(world)} == {*divided(LANE, then)}
    assert world.row("acme").state == "active"
    assert sorted(world.seen) == [*all_of("acme", 30), *all_of("bolt", 26)]


def test_of_a_stream_that_an_heir_took_meanwhile_nothing_odd_is_told(world, monkeypatch):
    begun(world, 2)
    asleep, registry = world.driver, world.store.registry
    tenants = registry.tenants

    def falls_asleep():
        monkeypatch.setattr(registry, "tenants", tenants)
        world.clock.move(60.0)
        divide_by_key(world, 3)
        world.start(name="heir")
        world.turns(150, seconds=1.0)
        assert {*places(world)} == {*divided(LANE, 3)}
        return tenants()

    registry.add_tenant(Tenant("corp"))
    monkeypatch.setattr(registry, "tenants", falls_asleep)
    with capture_logs() as logs:
        asleep.turn()
    held = asleep.board.streams.get(ACME)
    assert held is None or not held.waits
    assert not [line for line in logs if "not in the store any more" in line["event"]]


@pytest.mark.parametrize("earlier", [2, 5])
def test_what_a_backup_has_of_an_earlier_division_is_not_read_again(world, earlier):
    begun(world, 3)
    (topic_id,) = {one.topic_id for one in world.store.registry.streams() if one.id == ACME}
    rows = dict.fromkeys(divided(LANE, earlier), place_at(10))
    world.store.progress.start_lanes([LaneStart(ACME, topic_id, rows)])
    world.start()
    world.send("acme", 4)
    world.turns(100, seconds=1.0)
    row = world.row("acme")
    assert row.state == "waiting"
    assert "headrace streams seek acme/keep" in row.note
    assert [one for one in world.seen if one[0] == "acme"] == all_of("acme", 20)


def test_a_lane_that_follows_itself_stops_nobody(world):
    """What a version of before may have stored."""
    begun(world, 2)
    (topic_id,) = {one.topic_id for one in world.store.registry.streams() if one.id == ACME}
    itself = {LANE: (Parent(LANE, place_at(20)),)}
    start = LaneStart(ACME, topic_id, {LANE: place_at(20)}, parents=itself)
    world.store.progress.start_lanes([start])
    world.start()
    world.send("bolt", 6)
    world.turns(60, seconds=1.0)
    assert sorted(world.seen) == [*all_of("acme", 20), *all_of("bolt", 26)]
    assert {*places(world)} == {*divided(LANE, 2)}
