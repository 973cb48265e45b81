"""A use case of many tenants gets other buckets: drivers have to beat meanwhile."""

from dataclasses import replace

from headrace.model.streams import Order


def test_streams_of_a_use_case_are_divided_together(world, monkeypatch):
    world.use_cases = [world.make()]
    world.deploy()
    for number in range(5):
        world.tenant(f"t{number}", 3)
    world.start()
    world.turns()
    progress, asked = world.store.progress, []
    start, pending = progress.start_lanes, progress.pending_intents
    monkeypatch.setattr(progress, "start_lanes", lambda of: asked.append(len(of)) or start(of))
    monkeypatch.setattr(progress, "pending_intents", lambda *of: asked.append("?") or pending(*of))
    world.use_cases = [replace(world.use_cases[0], order=Order.KEY, buckets=4)]
    world.deploy()
    world.take()
    world.driver.turn()
    assert [of for of in asked if of != "?"] == [5]
    assert asked.count("?") < 5
