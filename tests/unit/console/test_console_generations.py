"""A tenant that was added under the name of a removed one sees nothing of it; operators do."""

import pytest
from told import figures, report

from headrace.doors.keys import new_key
from headrace.model.credentials import Role
from headrace.model.receipts import SliceError
from headrace.model.records import Failure
from headrace.model.statistics import Point, Spread
from headrace.model.streams import LaneId, Slice, StreamId

SECRET = b"0123456789abcdef0123456789abcdef"
ACME = StreamId("score", "acme")


def point(from_s, tenant="acme"):
    return Point(StreamId("score", tenant), from_s, 60.0, 4, 2.0, 8, 120, 1.0, Spread())


def generation(store):
    return next(tenant.generation for tenant in store.registry.tenants() if tenant.name == "acme")


@pytest.fixture
def again(api, store, clock, fail):
    """Acme failed twice, once for good, was removed and added again; gives what it left."""
    store.membership.hold([ACME])
    minute = clock.wall_s = clock.now_s() // 60 * 60
    store.statistics.keep([point(minute - 120), point(minute - 60)])
    store.statistics.publish(report(figures(note="acme sent rubbish"), at_s=clock.now_s()))
    open_one, retried = fail(), fail(partition=1)
    store.failures.retry(retried)
    clock.move(1)
    assert api("DELETE", "/v1/tenants/acme").status_code == 204
    assert api("PUT", "/v1/tenants/acme", json={}).status_code == 201
    text, key = new_key(Role.TENANT, "acme", "new", SECRET, clock.now_s())
    store.keys.add(key)
    api.keys["tenant"] = text
    return open_one, retried


def test_the_keys_of_an_earlier_tenant_open_nothing(api, store, again, clock):
    text, _ = new_key(Role.TENANT, "acme", "old", SECRET, clock.now_s())
    api.keys["old"] = text
    assert api.get("/v1/failures", "old").status_code == 401
    assert api.get("/v1/failures", "sender").status_code == 401


def test_its_failures_are_operators_to_see(api, again):
    assert api.items("/v1/failures", "tenant") == []
    assert api.items("/v1/failures?state=retried", "tenant") == []
    for number in again:
        for method, path in (("GET", ""), ("POST", "/retry"), ("POST", "/skip")):
            answer = api(method, f"/v1/failures/{number}{path}", "tenant")
            missing = api(method, f"/v1/failures/9{number}9{path}", "tenant")
            assert answer.status_code == missing.status_code == 404
            assert answer.text == missing.text.replace(f"9{number}9", str(number))
        assert api.get(f"/v1/failures/{number}").json()["earlier_tenant"] is True
    seen = api.items("/v1/failures?tenant=acme")
    assert [(failure["id"], failure["earlier_tenant"]) for failure in seen] == [
        (n, True) for n in again
    ]
    assert {failure["state"] for failure in seen} == {"retried"}, "nothing of it stops a lane"


def test_what_fails_from_now_on_is_its_own(api, store, again):
    epoch = store.membership.hold([ACME])[ACME]
    piece = Slice(LaneId("score", "acme", "acme.visits[0]"), "acme.visits", 3, 9, epoch)
    number = store.failures.keep([Failure(piece, SliceError(False, "X", "no"), 5.0)])[0]
    shown = api.items("/v1/failures", "tenant")
    assert [(failure["id"], failure["earlier_tenant"]) for failure in shown] == [(number, False)]
    assert api.get(f"/v1/failures/{number}", "tenant").status_code == 200


def test_its_history_is_operators_to_see(api, store, again, clock):
    path = "/v1/tenants/acme/history"
    assert api.get(path, "tenant").json()["items"] == []
    assert [item["earlier_tenant"] for item in api.get(path).json()["items"]] == [True, True]
    clock.move(59)
    minute = clock.now_s()
    store.statistics.keep([point(minute)])
    clock.move(1)
    own = api.get(f"{path}?from_s={minute - 3600}", "tenant").json()["items"]
    assert [(row["from_s"], row["earlier_tenant"]) for row in own] == [(minute, False)]


def test_its_spark_line_is_operators_to_see(api, store, again, clock):
    clock.move(59)
    store.statistics.keep([point(clock.now_s())])
    (own,) = api.get("/v1/sparks", "tenant").json()["tenants"].values()
    assert own["lag_s"] == [None] * 29 + [2.0]
    seen = api.get("/v1/sparks").json()["tenants"]["acme"]["lag_s"]
    assert seen[-4:] == [2.0, 2.0, None, 2.0]


def test_no_figures_are_shown_before_a_driver_tells_of_it(api, store, again, clock):
    assert api.get("/v1/tenants/acme", "tenant").json()["figures"] is None
    assert api.get("/v1/streams/acme/score", "tenant").json()["figures"] is None
    clock.move(2)
    store.statistics.publish(report(figures(), at_s=clock.now_s()))
    clock.move(2)
    assert api.get("/v1/tenants/acme", "tenant").json()["figures"] is not None


def test_a_redrive_sends_back_what_is_its_own(api, store, tools, again):
    assert api("POST", "/v1/streams/acme/score/redrive", "tenant").status_code == 200
    ((_, _, told, _, _),) = tools.redriven
    assert told == generation(store) > 0


def test_who_read_the_earlier_one_does_not_change_the_later_one(api, store, fail):
    etag = api.get("/v1/tenants/acme").headers["etag"]
    api("DELETE", "/v1/tenants/acme")
    api("PUT", "/v1/tenants/acme", json={})
    refused = api("PUT", "/v1/tenants/acme", headers={"If-Match": etag}, json={"weight": 2})
    assert refused.status_code == 412


def test_the_audit_log_tells_one_from_the_other(api, store, again):
    api("PUT", "/v1/tenants/acme", json={"weight": 2})
    lines = api.items("/v1/audit?tenant=acme")
    assert [line["generation"] for line in lines] == [generation(store)] * 2 + [0]
