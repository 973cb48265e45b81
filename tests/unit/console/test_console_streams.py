"""Streams by HTTP: where they are, and what a person does to them."""

import time
from dataclasses import replace
from uuid import UUID

import pytest
from told import figures, report

from headrace.console import streams
from headrace.console.api import equip
from headrace.console.places import Places
from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import number_of
from headrace.model.places import FIRST
from headrace.model.records import LaneStart, Move
from headrace.model.state import StateChanges, StateKey, StateLoaded, StateSize
from headrace.model.statistics import WriterFigures
from headrace.model.streams import LaneId, State, StreamId
from headrace.model.topic_lists import id_of_list
from headrace.model.topic_patterns import pattern_text
from headrace.ports import SchemaKind
from headrace.ports.schema_subjects import NewSchema

ACME = StreamId("score", "acme")
PATH = "/v1/streams/acme/score"


def state(store):
    return next(stream.state for stream in store.registry.streams() if stream.id == ACME)


def offsets(store):
    return {
        number_of(position.lane.name): position.next_offset
        for position in store.progress.load_positions([ACME])
    }


def test_a_stream_is_shown_with_its_lanes_and_what_stops_them(api, store, clock, fail):
    number = fail()
    store.statistics.publish(report(figures(), at_s=clock.now_s()))
    shown = api.get(PATH).json()
    assert shown["figures"]["records_total"] == 100
    assert shown["lanes"] == [
        {
            "lane": "acme.visits[0]",
            "partition": 0,
            "next_offset": "3",
            "end": "9",
            "lag_records": 6,
            "lag_is": "exact",
            "failure": number,
            "waits_for": [],
        },
        {
            "lane": "acme.visits[1]",
            "partition": 1,
            "next_offset": "3",
            "end": None,
            "lag_records": None,
            "lag_is": "unknown",
            "failure": None,
            "waits_for": [],
        },
    ]


def test_how_a_stream_stands_is_told_with_why(api, store, clock):
    assert api.get(PATH).json()["condition"]["state"] == "not held"
    told = figures(state="retrying", note="nobody there", retry_at_s=clock.now_s() + 7)
    store.statistics.publish(report(told, at_s=clock.now_s()))
    clock.move(1)
    expected = {"state": "retrying", "reason": "nobody there", "retry_at_s": clock.now_s() + 6}
    assert api.items("/v1/streams", "tenant")[0]["condition"] == expected
    store.registry.set_tenant_state("acme", State.SUSPENDED)
    how = api("POST", f"{PATH}/resume").json()["condition"]
    assert how["state"] == "suspended"
    assert "headrace tenants resume acme" in how["reason"]


def test_streams_come_in_pages_by_tenant_and_use_case(api, store):
    first = api.get("/v1/streams?limit=1").json()
    assert [item["tenant"] for item in first["items"]] == ["acme"]
    second = api.get(f"/v1/streams?limit=1&cursor={first['next']}").json()
    assert [item["tenant"] for item in second["items"]] == ["bolt"]
    assert second["next"] is None


def test_a_stream_of_a_suspended_tenant_is_suspended(api, store):
    store.registry.set_tenant_state("acme", State.SUSPENDED)
    assert [item["tenant"] for item in api.items("/v1/streams?state=suspended")] == ["acme"]
    assert [item["tenant"] for item in api.items("/v1/streams?tenant=bolt")] == ["bolt"]
    assert api.items("/v1/streams?use_case=none") == []


def test_suspend_and_resume_are_done_to_the_stream_alone(api, store):
    for _ in range(2):
        assert api("POST", f"{PATH}/suspend", "tenant").json()["state"] == "suspended"
    assert state(store) is State.SUSPENDED
    assert {tenant.state for tenant in store.registry.tenants()} == {State.ACTIVE}
    assert api("POST", f"{PATH}/resume", "tenant").json()["state"] == "active"


def test_to_resume_retries_what_failed(api, store, fail):
    fail()
    api("POST", f"{PATH}/resume")
    assert store.failures.every(only_open=True) == []


def test_the_state_can_be_put_and_the_same_again_changes_nothing(api, store, fail):
    etag = api.get(PATH).headers["etag"]
    body = {"json": {"state": "suspended"}}
    assert api("PUT", PATH, headers={"If-Match": etag}, **body).status_code == 200
    before = store.revision()
    assert api("PUT", PATH, **body).status_code == 200
    assert store.revision() == before
    assert api("PUT", PATH, headers={"If-Match": etag}, **body).status_code == 412


def test_a_seek_moves_the_lanes_it_names_and_no_other(api, store):
    answer = api("PUT", f"{PATH}/positions", json={"offsets": {"0": "7"}})
    told = answer.json()
    assert (told["offsets"], told["again"], told["passed"]) == ({"0": "7"}, 0, 4)
    assert offsets(store) == {0: 7, 1: 3}


def test_a_lane_may_be_named_as_its_log_names_it(api, store):
    body = {"offsets": {"acme.visits[1]": 5, "0": 7}}
    assert api("PUT", f"{PATH}/positions", json=body).json()["offsets"] == {"0": "7", "1": "5"}
    assert offsets(store) == {0: 7, 1: 5}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"acme.visits[0]": 1, "0": 2}, "acme.visits[0] is named twice"),
        ({"bolt.visits[0]": 1}, "acme.visits has no partition 0 of bolt.visits"),
        ({"acme.visits[00]": 1}, "acme.visits has no lane acme.visits[00]"),
        ({"x": 1}, "acme.visits has no lane x"),
    ],
)
def test_a_lane_that_is_none_or_named_twice_is_refused(api, store, wanted, why):
    answer = api("PUT", f"{PATH}/positions", json={"offsets": wanted})
    assert (answer.status_code, answer.json()["detail"]) == (409, why)
    assert offsets(store) == {0: 3, 1: 3}


def test_a_dry_run_of_a_seek_counts_says_what_it_means_and_moves_nothing(api, store):
    before = store.revision()
    body = {"offsets": {"0": 7, "1": 1}, "dry_run": True}
    told = api("PUT", f"{PATH}/positions", json=body).json()
    assert (told["offsets"], told["again"], told["passed"]) == ({"0": "7", "1": "1"}, 2, 4)
    again, passed, running = told["consequences"]
    assert "suspend it and wait first" in running
    assert "effects of up to 2 records of acme/score are made again" in again
    assert "also exactly-once, guards against kills, not against this" in again
    assert "no effect is made of up to 4 records" in passed
    assert (store.revision(), offsets(store)) == (before, {0: 3, 1: 3})


def test_a_seek_lets_a_stopped_lane_go_on(api, store, fail):
    fail()
    api("PUT", f"{PATH}/positions", json={"offsets": {"0": 3}})
    assert store.failures.every(only_open=True) == []


@pytest.mark.parametrize("wanted", [{"0": 10}, {"7": 0}, {"0": 1, "1": 99}])
def test_a_seek_to_where_the_log_is_not_does_nothing_at_all(api, store, wanted):
    answer = api("PUT", f"{PATH}/positions", json={"offsets": wanted})
    assert answer.status_code == 409
    told = answer.json()["detail"]
    assert "holds offsets" in told or "has no partition 7" in told
    assert offsets(store) == {0: 3, 1: 3}


@pytest.mark.parametrize(
    ("to", "at"), [("earliest", {0: 0, 1: 0}), ('{"acme.visits": {"1": -1}}', {0: 3, 1: 9})]
)
def test_a_whole_stream_is_sought_in_the_words_of_the_command(api, store, to, at):
    assert api("PUT", f"{PATH}/positions", json={"to": to}).status_code == 200
    assert offsets(store) == at


def test_only_what_is_done_waits_until_the_log_was_asked_for_long_enough(api, monkeypatch):
    waits, planned = [], streams.planned

    def planning(*args):
        waits.append(args[-1])
        return planned(*args)

    monkeypatch.setattr(streams, "planned", planning)
    for dry_run in (True, False):
        api("PUT", f"{PATH}/positions", json={"offsets": {"0": 5}, "dry_run": dry_run})
    assert [wait is time.sleep for wait in waits] == [False, True]


def test_words_that_say_nothing_are_refused_with_what_may_be_said(api, store):
    answer = api("PUT", f"{PATH}/positions", json={"to": "tomorrow"})
    assert (answer.status_code, "earliest" in answer.json()["detail"]) == (409, True)
    assert offsets(store) == {0: 3, 1: 3}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"to": ""},
        {"to": "earliest", "offsets": {"0": 1}},
        {"offsets": {}},
        {"offsets": {"0": -1}},
        {"offsets": {"": 1}},
        {"offsets": {"0": False}},
        {"offsets": {"0": "07"}},
        {"offsets": {"0": 2**53}},
    ],
)
def test_offsets_that_are_none_are_refused(api, store, body):
    assert api("PUT", f"{PATH}/positions", json=body).status_code == 422
    assert offsets(store) == {0: 3, 1: 3}


def test_a_stream_that_keeps_state_is_sent_back_where_that_is_to_be_forgotten(api, store):
    (lane, *_) = store.progress.load_positions([ACME])
    seen = StateChanges(lane.lane, {StateKey("seen", b"ada"): b"{}"}, StateSize(1, 5))
    move = Move(lane.lane, lane.next_offset, 4, lane.epoch)
    assert store.positions.advance_groups([[move]], [seen]) == [True]
    refused = api("PUT", f"{PATH}/positions", json={"offsets": {"0": 1}})
    assert refused.status_code == 409
    assert "there is none of an earlier place" in refused.json()["detail"]
    body = {"offsets": {"0": 1}, "forget_state": True}
    told = api("PUT", f"{PATH}/positions", json=body).json()
    gone = "what acme/score remembers of the keys of these partitions is gone then"
    assert told["consequences"][-1] == gone
    (lane, *_) = store.progress.load_positions([ACME])
    assert lane.next_offset == 1
    found = store.positions.load_state(Move(lane.lane, 1, 1, lane.epoch), "seen", [b"ada"])
    assert found == StateLoaded({}, StateSize())


def test_a_tenant_may_not_seek(api, store):
    answer = api("PUT", f"{PATH}/positions", "tenant", json={"offsets": {"0": "7"}})
    assert answer.status_code == 403
    assert offsets(store) == {0: 3, 1: 3}


def test_dead_letters_are_sent_back_up_to_a_limit(api, tools):
    answer = api("POST", f"{PATH}/redrive", "tenant", json={"limit": 5, "dry_run": True})
    assert answer.json() == {
        "sent": 7,
        "refused": ["offset 3: too often"],
        "left": 2,
        "topics": ["acme.visits"],
        "dead_letters": ["acme.visits.dlq"],
    }
    assert api("POST", f"{PATH}/redrive").status_code == 200
    assert tools.redriven == [
        (ACME, "acme.visits", 0, 5, True),
        (ACME, "acme.visits", 0, 10_000, False),
    ]


@pytest.mark.parametrize(
    ("topic", "topic_id"),
    [
        ("{tenant}.clicks,{tenant}.visits[3],{tenant}.visits[5]", None),
        (pattern_text(r"(?P<tenant>[a-z]{1,9})\.(visits|clicks)"), True),
    ],
)
def test_dead_letters_are_offered_from_the_topics_that_are_read(api, tools, store, topic, topic_id):
    """Those of a pattern were offered from the pattern, cut at its commas."""
    known = next(one for one in store.registry.deployments() if one.use_case == "score")
    store.registry.deploy(replace(known, use_case="several", topic=topic))
    stream = StreamId("several", "acme")
    path = "/v1/streams/acme/several/redrive"
    none = api("POST", path).json()
    read = ["acme.clicks", "acme.visits"]
    assert none["topics"] == ([] if topic_id else read)
    if topic_id:
        ids = id_of_list(dict.fromkeys(read, "1"))
        store.progress.start_lanes([LaneStart(stream, ids, {"acme.visits[0]": FIRST})])
    found = api("POST", path).json()
    assert found["topics"] == read
    assert found["dead_letters"] == ["acme.clicks.dlq", "acme.visits.dlq"]
    assert tools.redriven[-1][1] == "acme.clicks,acme.visits"


def test_kafka_that_does_not_answer_is_503_and_says_no_more(api, tools, store):
    tools.down = True
    answer = api("POST", f"{PATH}/redrive")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    tools.kafka.down = True
    assert api("PUT", f"{PATH}/positions", json={"offsets": {"0": 7}}).status_code == 503
    assert offsets(store) == {0: 3, 1: 3}


@pytest.fixture
def meanwhile(tools):
    """Ask something while the next redrive runs; gives a place for what is answered."""
    asked, answers, real = [], [], tools.send_back

    def slow(*args, **more):
        while asked:
            answers.append(asked.pop()().status_code)
        return real(*args, **more)

    tools.send_back = slow
    return lambda ask: asked.append(ask) or answers


def redriven(api, who="operator"):
    tenant = "bolt" if who == "bolt" else "acme"
    return api("POST", f"/v1/streams/{tenant}/score/redrive", who)


@pytest.mark.parametrize(
    ("places", "runs", "asks", "status"),
    [
        pytest.param(1, "operator", "operator", 503, id="no more than there is room for"),
        pytest.param(4, "tenant", "tenant", 503, id="one of each tenant"),
        pytest.param(4, "tenant", "bolt", 200, id="several tenants at once"),
        pytest.param(4, "operator", "operator", 200, id="several of an operator"),
        pytest.param(2, "tenant", "bolt", 503, id="the last place is no tenant's"),
        pytest.param(2, "tenant", "operator", 200, id="the last place is an operator's"),
    ],
)
def test_a_decision_that_needs_kafka_has_a_place(api, meanwhile, places, runs, asks, status):
    api.app.state.desk = replace(api.app.state.desk, at_kafka=Places(places))
    answers = meanwhile(lambda: redriven(api, asks))
    assert redriven(api, runs).status_code == 200
    assert answers == [status]
    assert redriven(api, runs).status_code == 200, "a place is given back"


def test_nothing_of_a_removed_stream_goes_on(api, store):
    store.registry.set_stream_state(ACME, State.REMOVED)
    assert api("POST", f"{PATH}/redrive").status_code == 409
    assert api("PUT", f"{PATH}/positions", json={"offsets": {"0": 7}}).status_code == 409
    assert api("POST", f"{PATH}/resume").status_code == 409


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "", {"state": "active"}),
        ("POST", "/suspend", None),
        ("PUT", "/positions", {"offsets": {"0": 1}}),
        ("POST", "/redrive", None),
    ],
)
def test_a_stream_that_nobody_added_is_404(api, method, path, body):
    assert api(method, f"/v1/streams/acme/other{path}", json=body).status_code == 404


def test_a_store_that_does_not_answer_is_503(api, store, monkeypatch):
    def down():
        raise BrokerUnavailable("10.0.0.7 is down")

    monkeypatch.setattr(store.registry, "streams", down)
    answer = api.get(PATH)
    assert answer.status_code == 503
    assert "10.0.0.7" not in answer.text


def test_by_which_schemas_records_of_the_last_hour_were_written_is_shown(api, store, clock):
    seen = store.schema_subjects.seen("acme.visits-value")
    new = NewSchema(SchemaKind.AVRO, '"long"', b"long", UUID(int=1))
    made = store.schema_subjects.register(seen, new)
    now_s = clock.now_s()
    writers = [("value", str(made.id), 5, now_s - 9, now_s - 2), ("value", "", 2, now_s, now_s)]
    told = figures(writers=tuple(WriterFigures(*writer) for writer in writers))
    store.statistics.publish(report(told, at_s=now_s))
    shown = api.get(PATH, "tenant").json()["schemas"]
    assert shown == [
        {
            "column": "value",
            "schema_id": str(made.id),
            "subject": "acme.visits-value",
            "version": 1,
            "records": 5,
            "first_at_s": now_s - 9,
            "last_at_s": now_s - 2,
        },
        {
            "column": "value",
            "schema_id": None,
            "subject": None,
            "version": None,
            "records": 2,
            "first_at_s": now_s,
            "last_at_s": now_s,
        },
    ]


def test_where_drivers_ask_another_registry_its_ids_are_not_named_by_ours(
    app, parts, api, store, clock
):
    seen = store.schema_subjects.seen("acme.visits-value")
    made = store.schema_subjects.register(
        seen, NewSchema(SchemaKind.AVRO, '"long"', b"long", UUID(int=1))
    )
    now_s = clock.now_s()
    told = figures(writers=(WriterFigures("value", str(made.id), 5, now_s - 9, now_s - 2),))
    store.statistics.publish(report(told, at_s=now_s))
    equip(app, replace(parts, own_registry=False))
    (shown,) = api.get(PATH).json()["schemas"]
    assert (shown["schema_id"], shown["subject"], shown["version"]) == (str(made.id), None, None)


def test_a_lane_that_keeps_state_goes_back_only_where_it_is_forgotten(api, store):
    epoch = store.membership.hold([ACME])[ACME]
    lane = LaneId(*ACME, "acme.visits[0]")
    kept = StateChanges(lane, {StateKey("seen", b"ada"): b"{}"}, StateSize(1, 5))
    assert store.positions.advance_groups([[Move(lane, 3, 5, epoch)]], [kept]) == [True]
    body = {"offsets": {"0": 1}}
    for how in ({}, {"dry_run": True}):
        refused = api("PUT", f"{PATH}/positions", json={**body, **how})
        assert (refused.status_code, offsets(store)) == (409, {0: 5, 1: 3}), how
        assert "forget_state" in refused.json()["detail"]
    dry = api("PUT", f"{PATH}/positions", json={**body, "forget_state": True, "dry_run": True})
    assert (dry.status_code, store.data.state.sizes[lane].rows) == (200, 1)
    assert "remembers of the keys of these partitions is gone" in dry.json()["consequences"][-1]
    assert api("PUT", f"{PATH}/positions", json={**body, "forget_state": True}).status_code == 200
    assert (offsets(store), store.data.state.sizes) == ({0: 1, 1: 3}, {})


def test_a_place_that_cannot_be_is_told_at_its_lane(api):
    told = api("PUT", f"{PATH}/positions", json={"offsets": {"0": "-1", "1": 3}}).json()
    assert {error["pointer"] for error in told["errors"]} == {"/offsets/0"}
