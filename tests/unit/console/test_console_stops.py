"""Who may resume what: the table of who stopped it, by who asks, by every way to ask."""

import pytest

from headrace.model.credentials import Role
from headrace.model.receipts import SliceError
from headrace.model.records import Failure
from headrace.model.streams import LaneId, Slice, State, Stopper, StreamId
from headrace.policies.stops import _LIFTED

ACME = StreamId("score", "acme")
STREAM = "/v1/streams/acme/score"
TENANT = "/v1/tenants/acme"
OPERATOR_ALONE = {Role.OPERATOR}
#: who stopped it, and who may let it go on
TABLE = [
    (("operator",), OPERATOR_ALONE),
    (("tenant",), {Role.OPERATOR, Role.TENANT}),
    (("failure",), OPERATOR_ALONE),
    (("tenant", "operator"), OPERATOR_ALONE),
    (("operator", "tenant"), OPERATOR_ALONE),
    (("tenant", "failure"), OPERATOR_ALONE),
    (("failure", "tenant"), OPERATOR_ALONE),
]
STREAM_WAYS = {
    "POST": (f"{STREAM}/resume", None),
    "PUT": (STREAM, {"state": "active"}),
}


def stop_for_all(store):
    piece = Slice(LaneId("score", "bolt", "bolt.visits[0]"), "bolt.visits", 3, 9, 1)
    store.failures.keep([Failure(piece, SliceError(False, "X", "no"), 5.0)], stop_use_case=True)[0]


def stream(store):
    return next(found for found in store.registry.streams() if found.id == ACME)


def tenant(store):
    return next(found for found in store.registry.tenants() if found.name == "acme")


@pytest.mark.parametrize(("by", "may"), TABLE, ids=["+".join(by) for by, _ in TABLE])
@pytest.mark.parametrize("who", [Role.OPERATOR, Role.TENANT])
@pytest.mark.parametrize("method", STREAM_WAYS)
def test_who_may_resume_a_stream(api, store, by, may, who, method):
    for stopper in by:
        if stopper == "failure":
            stop_for_all(store)
        else:
            assert api("POST", f"{STREAM}/suspend", stopper).status_code == 200
    path, body = STREAM_WAYS[method]
    answer = api(method, path, who.value, json=body)
    if who in may:
        assert answer.status_code == 200
        assert (answer.json()["state"], answer.json()["stopped_by"]) == ("active", [])
    else:
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:headrace:problem:forbidden"
        assert "stream acme/score stays suspended: a" in answer.json()["detail"]
        assert "only an operator resumes it; ask yours" in answer.json()["detail"]
        assert stream(store).state is State.SUSPENDED
        assert store.audit.changes()[0].status == 403


@pytest.mark.parametrize(("by", "may"), [row for row in TABLE if "failure" not in row[0]])
@pytest.mark.parametrize("who", [Role.OPERATOR, Role.TENANT])
def test_who_may_resume_a_tenant(api, store, by, may, who):
    for stopper in by:
        assert api("POST", f"{TENANT}/suspend", stopper).status_code == 200
    answer = api("POST", f"{TENANT}/resume", who.value)
    assert answer.status_code == (200 if who in may else 403)
    assert tenant(store).state is (State.ACTIVE if who in may else State.SUSPENDED)
    if who not in may:
        assert "tenant acme stays suspended: an operator stopped it" in answer.json()["detail"]


def test_what_an_operator_suspends_besides_counts_however_it_is_said(api, store):
    for path in (STREAM, TENANT):
        api("POST", f"{path}/suspend", "tenant")
        assert api("PUT", path, json={"state": "suspended"}).json()["state"] == "suspended"
        assert api("POST", f"{path}/resume", "tenant").status_code == 403
    assert stream(store).stopped_by == tenant(store).stopped_by == set(Stopper) - {"failure"}


def test_a_change_of_weight_does_not_make_a_tenants_stop_the_operators(api, store):
    api("POST", f"{TENANT}/suspend", "tenant")
    api("PUT", TENANT, json={"weight": 2})
    assert api("POST", f"{TENANT}/resume", "tenant").status_code == 200


def test_a_retry_by_the_tenant_leaves_its_stream_stopped(api, store, fail):
    number = fail()
    stop_for_all(store)
    answer = api("POST", f"/v1/failures/{number}/retry", "tenant").json()
    assert answer["suspended"] == "use case stopped by a failure of another tenant"
    assert stream(store).state is State.SUSPENDED


def test_a_tenant_is_told_of_no_command_that_only_an_operator_has(api, store):
    store.registry.set_stream_state(ACME, State.REMOVED)
    told = {
        who: api("POST", f"{STREAM}/resume", who).json()["detail"] for who in ("operator", "tenant")
    }
    assert told["operator"].endswith("; 'headrace streams add acme score' starts it afresh")
    assert told["tenant"] == "stream acme/score was removed; an operator can do more"


def test_the_table_of_who_lifts_what_has_everybody():
    assert _LIFTED.keys() == set(Stopper)
    assert _LIFTED[Stopper.OPERATOR] == set(Stopper)
