"""Whose a subject is, whatever use cases read and write."""

import pytest
from registry_parts import where

from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import State, StreamId, Tenant
from headrace.model.topic_lists import id_of_list
from headrace.model.topic_patterns import pattern_text
from headrace.ports.sink import plain_fields
from headrace.schema_registry import owners as owners_module
from headrace.schema_registry.owners import Owners
from headrace.sinks import KafkaTopic, ParquetFiles
from headrace.testing.memory_store import MemoryStore


@pytest.fixture
def store():
    store = MemoryStore()
    for tenant in ("acme", "bolt"):
        store.registry.add_tenant(Tenant(tenant))
    return store


def deploy(store, name, reads, writes="", **more):
    sink = where(KafkaTopic(writes)) if writes else ""
    store.registry.deploy(Deployment(name, "m.py", "00", reads, sink=sink, **more))


def told(store, subject, gateway=()):
    """Who sees a subject, and who changes it."""
    owners = Owners(store, gateway)
    return owners.owner(subject), owners.changer(subject)


def test_what_a_sink_writes_a_tenant_is_its_own_to_read(store):
    deploy(store, "score", "{tenant}.visits", "{tenant}.scores")
    assert told(store, "acme.visits-value") == ("acme", "acme")
    assert told(store, "acme.scores-value") == ("acme", None)
    assert told(store, "bolt.scores-com.bolt.Score") == ("bolt", None)
    assert told(store, "carl.scores-value") == (None, None)


def test_what_a_sink_writes_and_another_use_case_reads_is_the_tenants_to_change(store):
    deploy(store, "score", "{tenant}.visits", "{tenant}.scores")
    deploy(store, "mail", "{tenant}.scores")
    assert told(store, "acme.scores-value") == ("acme", "acme")


def test_a_topic_for_all_tenants_is_nobodys_even_with_one_tenant(store):
    store.registry.set_tenant_state("bolt", State.REMOVED)
    deploy(store, "score", "{tenant}.visits", "scores")
    assert told(store, "scores-value") == (None, None)


def test_a_topic_of_all_that_is_also_read_for_a_tenant_is_nobodys(store):
    deploy(store, "score", "{tenant}.visits", "acme.visits")
    assert told(store, "acme.visits-value") == (None, None)
    assert told(store, "bolt.visits-value") == ("bolt", "bolt")


def test_a_topic_that_two_tenants_come_to_is_neithers_in_whatever_order(store):
    store.registry.add_tenant(Tenant("acme-b"))
    for first, second in (("one", "two"), ("two", "one")):
        deploy(store, first, "{tenant}.visits", "{tenant}-b.scores")
        deploy(store, second, "{tenant}.visits", "{tenant}.scores")
        assert told(store, "acme-b.scores-value") == (None, None)
        assert told(store, "acme.scores-value") == ("acme", None)
    assert told(store, "acme-b.scores-value", ["scores"]) == (None, None)


def test_only_tenants_whose_use_case_it_is_see_what_it_writes(store):
    deploy(store, "score", "{tenant}.visits", "{tenant}.scores", all_tenants=False)
    store.registry.add_stream(StreamId("score", "acme"))
    assert told(store, "bolt.scores-value") == (None, None)
    assert told(store, "acme.scores-value") == ("acme", None)
    store.registry.set_stream_state(StreamId("score", "acme"), State.SUSPENDED)
    assert told(store, "acme.scores-value") == ("acme", None)
    store.registry.set_stream_state(StreamId("score", "acme"), State.REMOVED)
    assert told(store, "acme.scores-value") == (None, None)


def test_a_deployment_whose_sink_writes_elsewhere_now_changes_who_sees_it(store):
    deploy(store, "score", "{tenant}.visits", "{tenant}.scores")
    deploy(store, "score", "{tenant}.visits", "{tenant}.points")
    assert told(store, "acme.scores-value") == (None, None)
    assert told(store, "acme.points-value") == ("acme", None)


@pytest.mark.parametrize("topic", ["{tenant}.a", "it's {tenant}", 'a "b"', "a\nb", "a(b=c)"])
def test_a_topic_is_read_back_from_what_a_sink_says_of_itself(topic):
    sink = KafkaTopic(topic, transactional=True, partitions=3)
    assert plain_fields(where(sink)) == ("KafkaTopic", {"topic": topic, "transactional": True})


@pytest.mark.parametrize(
    "text", ["", "KafkaTopic", "KafkaTopic(", "KafkaTopic(topic=x)", "a.b(c=1)", "(" * 9_999, "\0"]
)
def test_what_was_never_said_of_a_sink_says_nothing(text):
    assert plain_fields(text) == ("", {})


def test_another_sink_writes_no_topic(store):
    store.registry.deploy(
        Deployment("keep", "m.py", "00", "{tenant}.visits", sink=where(ParquetFiles("topic")))
    )
    assert told(store, "topic-value") == (None, None)


def test_topics_of_a_list_are_each_their_tenants(store):
    deploy(store, "both", "{tenant}.clicks,{tenant}.visits[3]")
    assert told(store, "acme.clicks-value") == ("acme", "acme")
    assert told(store, "bolt.visits-value") == ("bolt", "bolt")


def test_a_topic_that_comes_to_a_pattern_is_its_tenants_though_nobody_changed_anything(
    store, monkeypatch
):
    """Its subjects were refused until somebody changed something else."""
    deploy(store, "all", pattern_text(r"(?P<tenant>[a-z]+)\.(visits|clicks)"))
    stream, now_s = StreamId("all", "acme"), [0.0]
    monkeypatch.setattr(owners_module.time, "monotonic", lambda: now_s[0])
    begun, more = (
        id_of_list({"acme.visits": "1"}),
        id_of_list({"acme.visits": "1", "acme.clicks": "2"}),
    )
    store.progress.start_lanes([LaneStart(stream, begun, {"acme.visits[0]": 0})])
    owners = Owners(store)
    assert owners.owner("acme.visits-value") == "acme"
    store.progress.start_lanes([LaneStart(stream, more, {"acme.clicks[0]": 0}, begun)])
    reads, read = [], owners._read
    monkeypatch.setattr(owners, "_read", lambda: reads.append(now_s[0]) or read())
    for second in range(1, 22):
        now_s[0] = float(second)
        assert owners.changer("acme.clicks-value") == ("acme" if second >= 10 else None)
    assert reads == [10.0, 20.0]
