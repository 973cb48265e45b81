"""Other tools see where the lanes are, and no turn ever waits for them."""

import time

import pytest
from structlog.testing import capture_logs

from headrace.cycle.mirror import AGAIN_S, EVERY_S, LOOK_S, TROUBLE_S
from headrace.cycle.topics import TOPICS_EVERY_S
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.lane_names import named
from headrace.model.streams import DataLossPolicy, State, StreamId
from headrace.policies.data_loss import LIST_PATIENCE_S
from headrace.testing.mirror_fake import MemoryMirror

ACME, BOLT = (named(f"{name}.visits", 0) for name in ("acme", "bolt"))


@pytest.fixture
def shown(world):
    """A driver that has done 5 and 3 records of two tenants, and what others see of it."""
    world.use_cases = [world.make(), world.make(name="other")]
    world.mirror = MemoryMirror()
    world.deploy(data_loss=DataLossPolicy.SKIP)
    world.tenant("acme", 5)
    world.tenant("bolt", 3)
    world.start()
    world.driver.mirror._pool = AtOnce()
    turns(world)
    return world


class AtOnce:
    """A thread that is done with everything as soon as it is asked."""

    def __init__(self):
        self.busy = False

    def submit(self, do, *args):
        answer = do(*args)
        return Came(self, answer)

    def shutdown(self, wait, cancel_futures):
        assert cancel_futures


class Came:
    def __init__(self, pool, answer):
        self.pool, self.answer = pool, answer

    def done(self):
        return not self.pool.busy

    def exception(self, timeout=None):
        self.pool.busy = False

    def result(self):
        return self.answer


def turns(world, seconds=EVERY_S):
    """Long enough for a look, whatever happened just before."""
    world.turns(3, seconds=0.1)
    world.turns(2, seconds=seconds + 0.1)


def news(world):
    found, world.mirror.calls[:] = list(world.mirror.calls), []
    return found


def test_the_positions_of_each_use_case_are_shown(shown):
    done = {ACME: 5, BOLT: 3}
    assert shown.mirror.shown == {"keep": done, "other": done}


def test_only_what_moved_is_shown_again(shown):
    news(shown)
    shown.send("bolt", 2)
    turns(shown)
    assert sorted(news(shown)) == [("keep", {BOLT: 5}), ("other", {BOLT: 5})]
    turns(shown)
    assert news(shown) == []


def test_a_lane_that_was_sent_back_is_shown_where_it_is(shown):
    shown.store.registry.set_tenant_state("acme", State.SUSPENDED)
    shown.store.progress.seek(StreamId("keep", "acme"), {"acme.visits[0]": 1})
    turns(shown)
    assert shown.mirror.shown["keep"][ACME] == 1


def test_looks_are_a_few_seconds_apart_however_many_turns_there_are(shown):
    news(shown)
    for _ in range(20):
        shown.send("acme", 1)
        shown.turns(2, seconds=EVERY_S / 10)
    assert 3 <= [name for name, _ in news(shown)].count("keep") <= 4


def test_a_turn_looks_at_some_streams_and_all_are_shown_together(shown, monkeypatch):
    news(shown)
    shown.send("acme", 1)
    shown.send("bolt", 1)
    shown.turns(4, seconds=0.0)
    assert news(shown) == []
    monkeypatch.setattr("headrace.cycle.mirror.STREAMS_A_TURN", 1)
    later_s = shown.clock.monotonic_s() + EVERY_S
    for _ in range(4):
        shown.driver.mirror.poll(later_s)
    assert news(shown) == []
    shown.driver.mirror.poll(later_s)
    assert dict(news(shown)) == {"keep": {ACME: 6, BOLT: 4}, "other": {ACME: 6, BOLT: 4}}


def test_what_idles_is_shown_again_before_kafka_forgets_it(shown):
    news(shown)
    turns(shown, seconds=AGAIN_S)
    assert dict(news(shown)) == {"keep": {ACME: 5, BOLT: 3}, "other": {ACME: 5, BOLT: 3}}


def test_of_a_topic_made_again_the_same_offset_is_shown_again(shown):
    core = named("core.visits", 0)
    shown.tenant("core", 0)
    turns(shown)
    assert dict(news(shown)) == {"keep": {core: 0}, "other": {core: 0}}
    shown.log.delete_topic("core.visits")
    turns(shown)
    shown.log.create_topic("core.visits")
    shown.turns(round(TOPICS_EVERY_S + LIST_PATIENCE_S), seconds=1.0)
    assert dict(news(shown)) == {"keep": {core: 0}, "other": {core: 0}}


def test_a_removed_stream_is_shown_no_more(shown):
    shown.store.registry.set_stream_state(StreamId("keep", "acme"), State.REMOVED)
    turns(shown)
    news(shown)
    turns(shown, seconds=AGAIN_S)
    assert dict(news(shown))["keep"] == {BOLT: 3}


def test_while_something_is_on_its_way_nothing_else_is_sent_and_the_newest_follows(shown):
    shown.driver.mirror._pool.busy = True
    shown.send("acme", 1)
    turns(shown)
    news(shown)
    for _ in range(3):
        shown.send("acme", 1)
        turns(shown)
    assert news(shown) == []
    shown.driver.mirror._pool.busy = False
    turns(shown)
    assert dict(news(shown))["keep"] == {ACME: 9}


def test_a_use_case_in_trouble_is_told_once_tried_later_and_shown_whole(shown):
    shown.mirror.troubles["keep"] = ConfigError("we may not")
    with capture_logs() as logs:
        for _ in range(12):
            shown.send("acme", 1)
            turns(shown)
        tried = [name for name, _ in news(shown)].count("keep")
        assert 2 <= tried <= 12 * EVERY_S * 2 / TROUBLE_S + 2
        assert shown.mirror.shown["other"][ACME] == 17
        shown.mirror.troubles.clear()
        turns(shown, seconds=TROUBLE_S)
    assert shown.mirror.shown["keep"] == {ACME: 17, BOLT: 3}
    told = [log for log in logs if log["event"] == "positions are not shown"]
    assert [(line["use_case"], line["log_level"]) for line in told] == [("keep", "warning")]
    turns(shown, seconds=TROUBLE_S)


def test_after_a_broker_that_is_down_the_others_are_not_even_tried(shown):
    down = BrokerUnavailable("down")
    shown.mirror.troubles |= {"keep": down, "other": down}
    shown.send("acme", 1)
    turns(shown)
    assert len(news(shown)) >= 1
    shown.mirror.troubles.clear()
    turns(shown, seconds=TROUBLE_S)
    assert {positions[ACME] for positions in shown.mirror.shown.values()} == {6}


@pytest.mark.parametrize("streams", [1, 500])
def test_a_driver_that_ends_shows_how_far_it_came(shown, monkeypatch, streams):
    monkeypatch.setattr("headrace.cycle.mirror.STREAMS_A_TURN", streams)
    shown.clock.move(EVERY_S)
    shown.send("acme", 1)
    shown.turns(3, seconds=0.0)
    shown.driver.close()
    assert shown.mirror.shown["keep"][ACME] == 6


def test_a_driver_that_ends_shows_what_was_in_trouble_as_well(shown):
    shown.mirror.troubles["keep"] = ConfigError("we may not")
    shown.send("acme", 1)
    turns(shown)
    shown.mirror.troubles.clear()
    shown.driver.close()
    assert shown.mirror.shown["keep"] == {ACME: 6, BOLT: 3}


def test_a_driver_that_ends_waits_once_for_a_cluster_that_does_not_answer(shown):
    """Each wait takes seconds of the time in which it is to end."""
    down = BrokerUnavailable("down")
    shown.mirror.troubles |= {"keep": down, "other": down}
    shown.send("acme", 1)
    shown.turns(3, seconds=0.0)
    news(shown)
    shown.driver.close()
    assert len(news(shown)) == 1


def test_a_driver_that_ends_without_kafka_waits_no_more_for_what_was_tried_in_vain(shown):
    down = BrokerUnavailable("down")
    shown.mirror.troubles |= {"keep": down, "other": down}
    shown.send("acme", 1)
    turns(shown)
    assert news(shown)
    shown.driver.close()
    assert news(shown) == []


def test_a_mirror_that_hangs_stops_no_turn(world):
    """With the real thread."""
    world.mirror = MemoryMirror()
    world.mirror.free.clear()
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    turns(world)
    world.send("acme", 5)
    turns(world)
    assert world.positions()["acme", 0] == 10
    assert world.mirror.shown == {}
    world.mirror.free.set()
    world.driver.close()
    assert world.mirror.shown == {"keep": {ACME: 10}}


def test_a_mirror_that_hangs_is_left_behind_by_a_driver_that_ends(world, monkeypatch):
    monkeypatch.setattr("headrace.cycle.driver.CLOSE_S", 0.05)
    world.mirror = MemoryMirror()
    world.mirror.free.clear()
    world.deploy()
    world.tenant("acme", 5)
    world.start()
    turns(world)
    began_s = time.monotonic()
    world.driver.close()
    assert time.monotonic() - began_s < 60.0
    assert world.mirror.shown == {}
    world.mirror.free.set()


def test_what_idles_and_was_set_back_by_somebody_is_put_right(shown):
    """As by a driver that slept between its note and its call, and holds nothing any more."""
    news(shown)
    shown.mirror.shown["keep"][ACME] = 2
    del shown.mirror.shown["other"][BOLT]
    turns(shown, seconds=LOOK_S)
    assert sorted(news(shown)) == [("keep", {ACME: 5}), ("other", {BOLT: 3})]
    turns(shown, seconds=LOOK_S)
    assert news(shown) == []


def test_a_partition_that_is_not_there_is_shown_in_vain_once_a_look(shown):
    shown.mirror.missing.add(ACME)
    del shown.mirror.shown["keep"][ACME]
    news(shown)
    for _ in range(10):
        turns(shown)
    tried = news(shown).count(("keep", {ACME: 5}))
    assert 1 <= tried <= 10 * 2.5 * EVERY_S / LOOK_S + 1


def test_what_moves_is_not_looked_at(shown):
    shown.mirror.looks.clear()
    for _ in range(2 * int(LOOK_S / EVERY_S)):
        shown.send("acme", 1)
        turns(shown)
    assert all(ACME not in lanes for _, lanes in shown.mirror.looks)
    assert any(BOLT in lanes for _, lanes in shown.mirror.looks)


def test_a_round_looks_at_some_lanes_and_all_have_their_turn(shown, monkeypatch):
    monkeypatch.setattr("headrace.cycle.mirror.LANES_A_LOOK", 1)
    shown.clock.move(LOOK_S)
    shown.mirror.looks.clear()
    seen = []
    for _ in range(4):
        shown.turns(2, seconds=0.0)
        shown.clock.move(EVERY_S)
        seen.append(len(shown.mirror.looks))
    assert seen == [1, 2, 3, 4]
    looked = {(name, lane) for name, lanes in shown.mirror.looks for lane in lanes}
    assert len(looked) == 4


def test_a_look_that_fails_is_trouble_as_any_other(shown):
    shown.mirror.troubles["keep"] = ConfigError("we may not")
    shown.mirror.shown["keep"][ACME] = 2
    turns(shown, seconds=LOOK_S)
    shown.mirror.troubles.clear()
    turns(shown, seconds=TROUBLE_S)
    assert shown.mirror.shown["keep"] == {ACME: 5, BOLT: 3}


@pytest.fixture
def both_shown(world, monkeypatch):
    """A driver of a topic of Kafka and of a stream of a connection, each with its own mirror."""
    monkeypatch.setattr(
        "headrace.cycle.mirror.connection_of", lambda topic: "clicks" if "acme" in topic else None
    )
    world.mirror, world.lease_mirror = MemoryMirror(), MemoryMirror()
    world.deploy()
    world.tenant("acme", 5)
    world.tenant("bolt", 3)
    world.start()
    return world


def at_once(world):
    for mirror in (world.driver.mirror, world.driver.lease_mirror):
        mirror._pool = AtOnce()


def test_a_stream_of_a_connection_is_shown_as_leases_and_a_topic_of_kafka_as_a_group(both_shown):
    at_once(both_shown)
    turns(both_shown)
    assert both_shown.mirror.shown == {"keep": {BOLT: 3}}
    assert both_shown.lease_mirror.shown == {"keep": {ACME: 5}}


@pytest.mark.parametrize("silent", ["mirror", "lease_mirror"])
def test_where_one_of_the_two_is_silent_the_other_is_shown_and_no_turn_waits(both_shown, silent):
    mirrors = {"mirror": both_shown.mirror, "lease_mirror": both_shown.lease_mirror}
    mirrors[silent].free.clear()
    other = next(name for name in mirrors if name != silent)
    began_s = time.monotonic()
    try:
        for _ in range(5):
            both_shown.send("acme", 1)
            both_shown.send("bolt", 1)
            turns(both_shown)
        lane, there = {"mirror": (BOLT, 8), "lease_mirror": (ACME, 10)}[other]
        deadline_s = time.monotonic() + 10
        while mirrors[other].shown.get("keep") != {lane: there}:
            assert time.monotonic() < deadline_s
            turns(both_shown)
            time.sleep(0.01)
        assert both_shown.positions() == {("acme", 0): 10, ("bolt", 0): 8}
        assert mirrors[silent].shown == {}
        assert time.monotonic() - began_s < 10
    finally:
        mirrors[silent].free.set()


def test_what_leases_meet_is_told_by_their_name(both_shown):
    both_shown.lease_mirror.troubles["keep"] = ConfigError("table headrace.keep is another's")
    at_once(both_shown)
    with capture_logs() as logs:
        turns(both_shown)
        turns(both_shown)
    told = [(line["event"], line["mirror"]) for line in logs if "positions" in line["event"]]
    assert told == [("positions are not shown", "lease table")]
