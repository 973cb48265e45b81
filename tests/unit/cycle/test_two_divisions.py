"""A stream whose positions are in two divisions at once is not read, and others go on."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from headrace.cycle import turn_plan
from headrace.cycle.reruns import range_of
from headrace.errors import ConfigError
from headrace.model.buckets import divided
from headrace.model.places import place_at
from headrace.model.records import LaneStart
from headrace.model.streams import State, StreamId
from headrace.operating.seeking import seek
from headrace.planning import plan

ACME, LANE = StreamId("keep", "acme"), "acme.visits[0]"


def places(world):
    """Of the first partition."""
    found = world.store.progress.load_positions([ACME])
    lanes = {one.lane.name: one.next_offset for one in found}
    return {name: at for name, at in lanes.items() if name.startswith(LANE)}


def all_of(tenant, records):
    return [(tenant, offset) for offset in range(records)]


def torn(world, buckets=4):
    """Acme and Bolt by key; somebody gave Acme the whole partition a place beside its buckets."""
    world.use_cases = [world.make(order="key", buckets=buckets)]
    world.deploy()
    world.tenant("acme", 20, partitions=2)
    world.tenant("bolt", 20)
    world.start()
    world.turns()
    (topic_id,) = {one.topic_id for one in world.store.registry.streams() if one.id == ACME}
    world.store.progress.start_lanes([LaneStart(ACME, topic_id, {LANE: place_at(10)})])
    world.start()
    world.send("acme", 20)
    world.send("bolt", 20)


def test_it_stands_and_says_why_while_others_go_on(world):
    torn(world)
    world.turns(20)
    assert {at for (tenant, _), at in world.positions().items() if tenant == "bolt"} == {40}
    assert places(world) == dict.fromkeys(divided(LANE, 4), 20) | {LANE: 10}
    row = world.row("acme")
    assert row.state == "waiting"
    assert "headrace streams seek acme/keep" in row.note


def test_the_seek_that_it_names_mends_it(world):
    torn(world)
    world.turns(20)
    with pytest.raises(ConfigError, match="in two divisions at once"):
        seek(world.store, world.log, ACME, {"1": place_at(0)})
    seek(world.store, world.log, ACME, {"0": place_at(10), "1": place_at(0)})
    world.turns(60, seconds=1.0)
    assert places(world) == dict.fromkeys(divided(LANE, 4), 40)
    assert world.row("acme").state == "active"
    again = [("acme", offset) for offset in range(10, 20)]
    assert sorted(world.seen) == sorted([*all_of("acme", 40), *again, *all_of("bolt", 40)])


def test_a_rerun_of_it_is_refused(world):
    torn(world)
    with pytest.raises(ConfigError, match="in two divisions at once"):
        range_of(world.store, world.log, ACME, "earliest", None)


def test_a_fault_of_ours_that_one_stream_meets_stops_nobody_else(world, monkeypatch):
    def wrong_for_acme(snapshot, places):
        found = plan(snapshot, places)
        return replace(found, waves=tuple(map(deeper, found.waves)))

    def deeper(wave):
        bins = (replace(bin_, slices=tuple(map(deep, bin_.slices))) for bin_ in wave.bins)
        return replace(wave, bins=tuple(bins))

    def deep(piece):
        return replace(piece, depth=7) if piece.lane.tenant == "acme" else piece

    world.deploy()
    world.tenant("acme", 20)
    world.tenant("bolt", 20)
    with monkeypatch.context() as planted:
        planted.setattr(turn_plan, "plan", wrong_for_acme)
        world.start()
        with capture_logs() as logs:
            world.turns(20)
    assert world.positions() == {("acme", 0): 0, ("bolt", 0): 20}
    assert [line["stream"] for line in logs if line["log_level"] == "error"] == ["acme/keep"]
    assert "WRONG_DEPTH" in world.row("acme").note
    assert "headrace streams suspend acme/keep" in world.row("acme").note
    world.turns(20)
    assert world.positions()["acme", 0] == 0
    for state in (State.SUSPENDED, State.ACTIVE):
        world.store.registry.set_stream_state(ACME, state)
        world.turns(6)
    assert world.positions() == {("acme", 0): 20, ("bolt", 0): 20}
