"""A seek while something runs, before a driver looks at what people changed."""

from lanes_of_acme import ACME, LANE, divide_by_key, places

from headrace.model.buckets import divided
from headrace.model.streams import Tenant
from headrace.operating.seeking import seek

FOUR = divided(LANE, 4)


def look_slowly(world, monkeypatch):
    """The next look at what people changed takes long, so the one after it comes later."""
    registry = world.store.registry
    tenants = registry.tenants

    def slow():
        monkeypatch.setattr(registry, "tenants", tenants)
        world.clock.move(5.0)
        return tenants()

    registry.add_tenant(Tenant("corp"))
    monkeypatch.setattr(registry, "tenants", slow)
    world.turns(1, seconds=0.01)


def test_lanes_of_before_beside_those_of_now_are_not_told_as_two_divisions(world, monkeypatch):
    world.use_cases = [world.make()]
    world.deploy()
    world.tenant("acme", 20)
    world.start()
    world.turns()
    divide_by_key(world, 4)
    while FOUR[0] not in places(world):
        world.turns(1, seconds=1.0)
    world.send("acme", 4)
    look_slowly(world, monkeypatch)
    assert world.driver.board.flights
    seek(world.store, world.log, ACME, "earliest")
    assert set(places(world)) == set(FOUR)
    world.turns(1, seconds=0.01)
    assert world.driver.board.streams[ACME].is_outdated
    row = world.row("acme")
    assert (row.state, row.note) == (
        "waiting",
        "the store has not all of its lanes any more, so it is taken up anew",
    )
    world.turns(20, seconds=1.0)
    assert world.row("acme").state == "active"
    assert places(world) == dict.fromkeys(FOUR, 24)
