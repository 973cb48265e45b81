"""Tenants by HTTP: lists whose pages do not slip, and changes that overwrite nobody's."""

import pytest
from told import figures, report

from headrace.model.records import Deployment
from headrace.model.streams import State, Stopper, Tenant, Throttle

BY_OPERATOR = frozenset({Stopper.OPERATOR})


def names(answer):
    return [item["name"] for item in answer["items"]]


def of(store, name):
    return next(tenant for tenant in store.registry.tenants() if tenant.name == name)


# --- lists -------------------------------------------------------------------------------------


def test_a_tenant_is_shown_with_the_figures_of_its_streams(api, store, clock):
    store.statistics.publish(report(figures(), at_s=clock.now_s()))
    acme, bolt = api.items("/v1/tenants")
    assert acme["state"] == "active"
    assert acme["figures"]["lag_records"] == 4
    assert acme["figures"]["delay"]["p99_s"] == 0.5
    assert acme["figures"]["streams_total"] == 1
    assert bolt["figures"] is None


def test_pages_follow_each_other_though_tenants_come_and_go_between(api, store, clock):
    for name in ("c", "e", "g"):
        store.registry.add_tenant(Tenant(name))
    first = api.get("/v1/tenants?limit=3").json()
    assert names(first) == ["acme", "bolt", "c"]
    store.registry.add_tenant(Tenant("b"))  # before the cursor
    store.registry.add_tenant(Tenant("d"))  # behind it
    store.registry.set_tenant_state("c", State.REMOVED)  # the one it names
    clock.move(2)
    second = api.get(f"/v1/tenants?limit=3&cursor={first['next']}").json()
    assert names(second) == ["d", "e", "g"]
    assert second["next"] is None


@pytest.mark.parametrize("cursor", ["%20", "e30", "WzFd", "WyJhIiwiYiJd", "=", "ä"])
def test_a_cursor_that_is_none_of_ours_is_refused(api, cursor):
    assert api.get(f"/v1/tenants?cursor={cursor}").status_code == 422


def test_a_list_is_cut_down_by_state_and_by_a_part_of_the_name(api, store):
    store.registry.set_tenant_state("acme", State.SUSPENDED)
    store.registry.set_tenant_state("bolt", State.REMOVED)
    assert names(api.get("/v1/tenants").json()) == ["acme"]
    assert names(api.get("/v1/tenants?state=suspended").json()) == ["acme"]
    assert names(api.get("/v1/tenants?state=removed").json()) == ["bolt"]
    assert names(api.get("/v1/tenants?q=cm").json()) == ["acme"]
    assert names(api.get("/v1/tenants?q=zz").json()) == []


# --- changes -----------------------------------------------------------------------------------


def test_what_is_left_out_of_a_change_stays_as_it_is(api, store):
    store.registry.set_weight("acme", 3.0)
    answer = api("PUT", "/v1/tenants/acme", json={"throttle": {"records_per_s": 5}})
    assert answer.status_code == 200
    assert of(store, "acme") == Tenant("acme", weight=3.0, throttle=Throttle(5.0))
    assert answer.json()["throttle"] == {"records_per_s": 5, "bytes_per_s": None, "burst_s": 1.0}
    api("PUT", "/v1/tenants/acme", json={"throttle": {}})
    assert of(store, "acme").throttle == Throttle()


def test_a_change_is_seen_by_the_next_look_at_once(api):
    api.items("/v1/tenants")
    api("PUT", "/v1/tenants/acme", json={"state": "suspended"})
    assert api.items("/v1/tenants")[0]["state"] == "suspended"


def test_the_same_change_again_changes_nothing_more(api, store):
    api("PUT", "/v1/tenants/acme", json={"weight": 2})
    before = store.revision()
    assert api("PUT", "/v1/tenants/acme", json={"weight": 2}).status_code == 200
    assert store.revision() == before


def test_a_tenant_that_is_not_there_is_added_with_its_streams(api, store):
    answer = api("PUT", "/v1/tenants/cove", json={"weight": 2, "state": "suspended"})
    assert answer.status_code == 201
    assert of(store, "cove") == Tenant("cove", State.SUSPENDED, 2.0, stopped_by=BY_OPERATOR)
    assert api.items("/v1/streams?tenant=cove")[0]["topic"] == "cove.visits"
    assert api("PUT", "/v1/tenants/cove", json={}).status_code == 200


def test_a_change_meant_for_an_older_version_is_refused(api, store):
    etag = api.get("/v1/tenants/acme").headers["etag"]
    store.registry.set_weight("acme", 5.0)
    for method in ("PUT", "DELETE"):
        body = {"json": {"weight": 2}} if method == "PUT" else {}
        answer = api(method, "/v1/tenants/acme", headers={"If-Match": etag}, **body)
        assert answer.status_code == 412
    assert of(store, "acme").weight == 5.0


def test_the_version_is_that_of_what_can_be_set_and_not_of_figures(api, store, clock):
    first = api.get("/v1/tenants/acme").headers["etag"]
    store.statistics.publish(report(figures(), at_s=clock.now_s()))
    clock.move(2)
    shown = api.get("/v1/tenants/acme")
    assert shown.json()["figures"] is not None
    assert shown.headers["etag"] == first
    answer = api("PUT", "/v1/tenants/acme", headers={"If-Match": first}, json={"weight": 2})
    assert answer.status_code == 200
    assert answer.headers["etag"] != first


def test_what_is_to_be_made_only_if_it_is_not_there_is_not_overwritten(api, store):
    only_new = {"If-None-Match": "*"}
    assert api("PUT", "/v1/tenants/cove", headers=only_new, json={}).status_code == 201
    again = api("PUT", "/v1/tenants/cove", headers=only_new, json={"weight": 9})
    assert again.status_code == 412
    assert of(store, "cove").weight == 1.0
    missing = api("PUT", "/v1/tenants/dune", headers={"If-Match": "*"}, json={})
    assert missing.status_code == 412


def test_of_two_changes_at_once_neither_is_lost(api, store, monkeypatch):
    real = store.registry.change_tenant

    def late(before, after):
        monkeypatch.setattr(store.registry, "change_tenant", real)
        store.registry.set_weight("acme", 4.0)  # somebody else, in between
        return real(before, after)

    monkeypatch.setattr(store.registry, "change_tenant", late)
    assert api("PUT", "/v1/tenants/acme", json={"state": "suspended"}).status_code == 200
    assert of(store, "acme") == Tenant("acme", State.SUSPENDED, 4.0, stopped_by=BY_OPERATOR)


def test_a_change_that_others_always_come_before_is_refused_in_the_end(api, store, monkeypatch):
    monkeypatch.setattr(store.registry, "change_tenant", lambda before, after: False)
    assert api("PUT", "/v1/tenants/acme", json={"weight": 2}).status_code == 409
    assert api("DELETE", "/v1/tenants/acme").status_code == 409


def test_a_removed_tenant_stays_removed_and_can_be_added_anew(api, store):
    assert api("DELETE", "/v1/tenants/acme").status_code == 204
    assert api("DELETE", "/v1/tenants/acme").status_code == 204
    assert api.get("/v1/tenants/acme").json()["state"] == "removed"
    assert api("POST", "/v1/tenants/acme/resume").status_code == 409
    assert api("PUT", "/v1/tenants/acme", json={}).status_code == 201


def test_suspend_and_resume_are_seen_in_the_store_and_in_the_answer(api, store):
    for _ in range(2):
        answer = api("POST", "/v1/tenants/acme/suspend", "tenant")
        assert (answer.status_code, answer.json()["state"]) == (200, "suspended")
        assert of(store, "acme").state is State.SUSPENDED
    assert api("POST", "/v1/tenants/acme/resume", "tenant").json()["state"] == "active"


@pytest.mark.parametrize(
    "body",
    [
        {"weight": 0},
        {"weight": -1},
        {"state": "removed"},
        {"wait": 1},
        {"throttle": {"records_per_s": 0}},
        {"throttle": {"burst_s": -1}},
        [],
        None,
    ],
)
def test_what_makes_no_sense_is_refused_by_its_place(api, store, body):
    before = store.registry.tenants()
    answer = api("PUT", "/v1/tenants/acme", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert store.registry.tenants() == before


def test_nobody_added_is_404_whatever_is_asked(api):
    for method, path in (
        ("GET", "/v1/tenants/nobody"),
        ("GET", "/v1/tenants/nobody/history"),
        ("DELETE", "/v1/tenants/nobody"),
        ("POST", "/v1/tenants/nobody/suspend"),
    ):
        answer = api(method, path)
        assert answer.status_code == 404
        assert "an operator adds it: PUT /v1/tenants/nobody" in answer.json()["detail"]


# --- many at once ------------------------------------------------------------------------------


def test_many_tenants_are_added_in_one_change(api, store):
    before = store.revision()
    items = [
        {"name": "corp", "weight": 2, "throttle": {"records_per_s": 5}},
        {"name": "dune", "state": "suspended"},
    ]
    answer = api("POST", "/v1/tenants", json={"items": items})
    assert answer.status_code == 200
    assert answer.json() == {
        "added": ["corp", "dune"],
        "again": [],
        "there": [],
        "differs": {},
        "dry_run": False,
    }
    assert of(store, "corp") == Tenant("corp", weight=2.0, throttle=Throttle(5.0))
    assert of(store, "dune").stopped_by == BY_OPERATOR
    assert names(api.get("/v1/tenants").json()) == ["acme", "bolt", "corp", "dune"]
    assert store.revision() > before
    assert api.items("/v1/audit")[0]["detail"].endswith('"added":2,"there":0}')


def test_of_many_tenants_none_is_added_if_one_cannot_be_and_each_fault_is_named(api, store):
    store.registry.set_tenant_state("bolt", State.REMOVED)
    items = [{"name": "new"}, {"name": "acme"}, {"name": "new"}, {"name": "heavy", "weight": 1e9}]
    answer = api("POST", "/v1/tenants", json={"items": items})
    assert answer.status_code == 409
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [
        "/items/1",
        "/items/2",
        "/items/3",
    ]
    assert "acme is there already, active" in answer.json()["errors"][0]["detail"]
    assert names(api.get("/v1/tenants").json()) == ["acme"]
    skipped = api("POST", "/v1/tenants", json={"items": items[:2], "exists": "skip"})
    assert (skipped.json()["added"], skipped.json()["there"]) == (["new"], ["acme"])
    assert skipped.json()["differs"] == {}


def test_of_what_an_item_leaves_out_nothing_is_said_to_differ(api, store):
    store.registry.set_weight("acme", 2)
    store.registry.set_throttle("bolt", Throttle(50.0, burst_s=7.0))
    items = [
        {"name": "acme", "throttle": {"bytes_per_s": None}},
        {"name": "bolt", "weight": 3, "throttle": {"records_per_s": None}},
    ]
    answer = api("POST", "/v1/tenants", json={"items": items, "exists": "skip"}).json()
    assert answer["differs"] == {
        "bolt": "weight 1 (listed: weight 3), records_per_s 50 (listed: records_per_s none)"
    }


def test_the_tenant_of_topics_for_all_is_added_by_nobody_and_set_as_others_are(api, store):
    def adding():
        one = api("PUT", "/v1/tenants/everyone", json={"weight": 20})
        return one, api("POST", "/v1/tenants", json={"items": [{"name": "everyone"}]})

    for refused in adding():
        assert refused.status_code == 409
        assert "the name is reserved" in refused.json()["detail"]
    store.registry.deploy(Deployment("count", "m.py", "00", "impressions"))
    changed, refused = adding()
    assert (changed.status_code, of(store, "everyone").weight) == (200, 20.0)
    assert refused.status_code == 409
    (stream,) = api.items("/v1/streams?tenant=everyone")
    assert (stream["topic"], stream["use_case"]) == ("impressions", "count")


def test_many_tenants_have_a_state_in_one_change(api, store):
    store.registry.add_tenant(Tenant("corp"))
    store.registry.set_tenant_state("acme", State.SUSPENDED)
    asked = {"names": ["bolt", "acme", "corp"], "state": "suspended"}
    told = {"state": "suspended", "changed": ["bolt", "corp"], "already": ["acme"]}
    dry = api("POST", "/v1/tenant-states", json={**asked, "dry_run": True})
    assert dry.json() == {**told, "dry_run": True}
    assert of(store, "corp").state is State.ACTIVE
    answer = api("POST", "/v1/tenant-states", json=asked)
    assert (answer.status_code, answer.json()) == (200, {**told, "dry_run": False})
    assert of(store, "corp").stopped_by == BY_OPERATOR
    assert api.items("/v1/tenants")[2]["state"] == "suspended"
    api("POST", "/v1/tenant-states", json={"names": ["acme", "corp"], "state": "removed"})
    assert names(api.get("/v1/tenants").json()) == ["bolt"]
    assert api.items("/v1/audit")[0]["detail"].endswith('"changed":2}')


def test_of_many_tenants_none_is_changed_if_one_cannot_be_and_each_fault_is_named(api, store):
    store.registry.set_tenant_state("bolt", State.REMOVED)
    asked = {"names": ["acme", "nobody", "bolt", "acme"], "state": "suspended"}
    answer = api("POST", "/v1/tenant-states", json=asked)
    assert answer.status_code == 409
    faults = {fault["pointer"]: fault["detail"] for fault in answer.json()["errors"]}
    assert "no tenant nobody" in faults["/names/1"]
    assert "bolt was removed" in faults["/names/2"]
    assert "twice" in faults["/names/3"]
    assert len(faults) == 3
    assert of(store, "acme").state is State.ACTIVE


def test_a_dry_run_of_many_tenants_adds_nothing(api, store):
    store.registry.set_tenant_state("bolt", State.REMOVED)
    asked = {"items": [{"name": "new"}, {"name": "bolt"}], "dry_run": True}
    answer = api("POST", "/v1/tenants", json=asked).json()
    assert answer == {
        "added": ["new", "bolt"],
        "again": ["bolt"],
        "there": [],
        "differs": {},
        "dry_run": True,
    }
    assert names(api.get("/v1/tenants").json()) == ["acme"]


@pytest.mark.parametrize(
    "items",
    [
        [],
        [{}],
        [{"name": "Acme"}],
        [{"name": "x", "wait": 1}],
        [{"name": f"t{n}"} for n in range(1001)],
    ],
    ids=["none", "no name", "no such name", "no such field", "too many"],
)
def test_many_tenants_are_bounded_and_well_formed(api, store, items):
    answer = api("POST", "/v1/tenants", json={"items": items})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("/items")
    assert len(store.registry.tenants()) == 2
