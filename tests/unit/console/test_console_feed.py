"""Live events: everything once, then what changed, and no queue for who does not read."""

import json

import pytest
from told import figures, report, wave

from headrace.console.feed import NOTHING, REMEMBERED, Feed
from headrace.console.watcher import Watcher
from headrace.model.streams import State, Tenant


@pytest.fixture
def step(store, clock):
    """Let a feed take the state as it is now."""
    feed, watcher = Feed(), Watcher(store, clock)

    def take():
        clock.move(1)
        feed.take(watcher.changed())
        return feed

    return take


def events(data):
    found = {}
    for block in data.decode().split("\n\n")[:-1]:
        name, text = block.split("\n")
        found[name.removeprefix("event: ")] = json.loads(text.removeprefix("data: "))
    return found


def named(event):
    return [item["name"] for item in event["items"]]


def test_who_knows_nothing_gets_everything(step, store, fail):
    fail()
    store.statistics.publish(report(waves=(wave(),)))
    found = events(step().since(NOTHING, None))
    assert list(found) == ["drivers", "tenants", "waves", "use-cases", "alerts"]
    assert found["tenants"]["whole"]
    assert named(found["tenants"]) == ["acme", "bolt"]
    assert found["waves"]["items"][0]["wave"] == "w1"
    assert found["alerts"]["items"][0]["tenant"] == "acme"


def test_who_is_up_to_date_gets_the_summary_alone(step):
    step()
    feed = step()
    assert list(events(feed.since(feed.number - 1, None))) == ["drivers"]


def test_only_rows_that_changed_are_sent_again(step, store):
    step()
    store.registry.set_weight("bolt", 2.0)
    feed = step()
    found = events(feed.since(feed.number - 1, None))
    assert named(found["tenants"]) == ["bolt"]
    assert not found["tenants"]["whole"]


def test_who_was_slow_skips_states_and_misses_no_row(step, store):
    known = step().number
    store.registry.set_weight("acme", 2.0)
    step()
    store.registry.set_weight("bolt", 3.0)
    feed = step()
    found = events(feed.since(known, None))["tenants"]
    assert sorted(named(found)) == ["acme", "bolt"]


def test_what_is_gone_is_named_until_it_comes_back(step, store):
    known = step().number
    store.registry.set_tenant_state("acme", State.REMOVED)
    feed = step()
    assert events(feed.since(known, None))["tenants"] == {
        "whole": False, "items": [], "gone": ["acme"],
    }  # fmt: skip
    store.registry.add_tenant(Tenant("acme"))
    found = events(step().since(known, None))["tenants"]
    assert (named(found), found["gone"]) == (["acme"], [])


def test_who_is_too_far_behind_gets_everything_anew(step, store):
    known = step().number
    for _ in range(REMEMBERED - 1):
        feed = step()
    assert "tenants" not in events(feed.since(known, None))
    assert events(step().since(known, None))["tenants"]["whole"]


def test_a_tenant_gets_its_own_rows_and_nothing_else(step, store, fail, clock):
    fail()
    fail("bolt")
    found = events(step().since(NOTHING, "acme"))
    assert list(found) == ["tenants", "alerts"]
    assert named(found["tenants"]) == ["acme"]
    assert [item["tenant"] for item in found["alerts"]["items"]] == ["acme"]
    store.registry.set_weight("bolt", 2.0)
    feed = step()
    assert feed.since(feed.number - 1, "acme") == b""
    store.registry.set_weight("acme", 2.0)
    feed = step()
    assert named(events(feed.since(feed.number - 1, "acme"))["tenants"]) == ["acme"]
    store.registry.set_tenant_state("acme", State.REMOVED)
    feed = step()
    assert events(feed.since(feed.number - 1, "acme"))["tenants"]["gone"] == ["acme"]


def test_what_many_need_is_encoded_once(step, store):
    feed = step()
    assert feed.since(NOTHING, None) is feed.since(NOTHING, None)
    first = feed.since(NOTHING, None)
    store.registry.set_weight("acme", 2.0)
    assert step().since(NOTHING, None) is not first


def test_rows_that_are_forgotten_leave_nothing_behind(step, store, clock):
    for number in range(3 * REMEMBERED):
        told = report(figures(), at_s=clock.now_s(), waves=(wave(f"w{number}"),))
        store.statistics.publish(told)
        feed = step()
    assert len(feed._waves.rows) == len(feed._waves.changed) == 1
    assert len(feed._waves.gone) <= REMEMBERED
