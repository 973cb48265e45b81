"""Keys are shown once; every attempt to change something is noted, whatever came of it."""

import asyncio
import json
import threading

import pytest
import structlog

from headrace.connectors.kafka.redrive import Redriven
from headrace.console.access import ChangeLimit
from headrace.console.audit import without_secrets
from headrace.console.refused import RefusedLog
from headrace.errors import StoreUnavailable


def noted(store):
    return [(change.action, change.tenant, change.status) for change in store.audit.changes()]


# --- keys --------------------------------------------------------------------------------------


def test_a_new_key_works_and_is_never_shown_again(api):
    body = {"role": "tenant", "tenant": "bolt", "label": "ops", "expires_in_s": 60}
    made = api("POST", "/v1/keys", json=body)
    assert made.status_code == 201
    key = made.json()["key"]
    me = api.get("/v1/me", None, headers={"Authorization": f"Bearer {key}"})
    assert me.json()["tenant"] == "bolt"
    assert key not in api.get("/v1/keys").text
    listed = next(item for item in api.items("/v1/keys") if item["label"] == "ops")
    assert "digest" not in listed
    assert listed["expires_at_s"] == listed["created_at_s"] + 60


def test_a_key_of_some_subjects_is_listed_with_them(api):
    body = {"role": "schemas", "label": "team", "subjects": "acme.*"}
    assert api("POST", "/v1/keys", json=body).json()["subjects"] == "acme.*"
    (listed,) = [item for item in api.items("/v1/keys") if item["label"] == "team"]
    assert (listed["subjects"], listed["tenant"]) == ("acme.*", None)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"role": "sender", "label": "x"}, 422),
        ({"role": "operator", "tenant": "acme", "label": "x"}, 422),
        ({"role": "king", "label": "x"}, 422),
        ({"role": "viewer", "label": ""}, 422),
        ({"role": "viewer", "label": "x", "expires_in_s": 0}, 422),
        ({"role": "sender", "tenant": "nobody", "label": "x"}, 404),
        ({"role": "viewer", "label": "x", "subjects": "acme.*"}, 422),
        ({"role": "schemas", "label": "x", "subjects": "a*.b"}, 422),
        ({"role": "schemas", "label": "x", "subjects": ""}, 422),
    ],
)
def test_a_key_that_cannot_be_is_not_made(api, store, body, status):
    before = len(store.keys.every())
    assert api("POST", "/v1/keys", json=body).status_code == status
    assert len(store.keys.every()) == before


ROLES = "'tenant', 'sender', 'schemas', 'operator', 'viewer'"


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({"role": "viewer"}, "/label", "Field required"),
        ({"role": "viewer", "label": ""}, "/label", "String should have at least 1 character"),
        ({"role": "sender", "label": "x"}, "/tenant", "Field required"),
        ({"role": "king", "label": "x"}, "/role", f"Input should be one of {ROLES}"),
        ({"role": ["s3cret"], "label": "x"}, "/role", f"Input should be one of {ROLES}"),
        ({"label": "x"}, "/role", "Field required"),
        ({"role": "viewer", "label": "x", "a/b": 1}, "/a~1b", "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_with_a_key_is_told_at_the_field_that_was_sent(api, body, pointer, detail):
    told = api("POST", "/v1/keys", json=body).json()
    assert told["errors"] == [{"pointer": pointer, "detail": detail}]
    assert told["detail"] == f"{pointer}: {detail}"


def test_a_key_that_is_rotated_works_on_for_a_while(api, clock):
    old = api.keys["viewer"]
    fresh = api("POST", f"/v1/keys/{old[3:11]}/rotate", json={"overlap_s": 60}).json()["key"]
    for text, passed, status in ((old, 0, 200), (fresh, 0, 200), (old, 61, 401), (fresh, 0, 200)):
        clock.move(passed)
        shown = {"Authorization": f"Bearer {text}"}
        assert api.get("/v1/me", None, headers=shown).status_code == status


def test_a_key_that_is_revoked_ends_and_stays_listed(api, clock):
    path = f"/v1/keys/{api.keys['viewer'][3:11]}"
    for _ in range(2):
        assert api("DELETE", path).status_code == 204
    clock.move(6)
    assert api.get("/v1/me", "viewer").status_code == 401
    ended = [item for item in api.items("/v1/keys") if item["revoked_at_s"] is not None]
    assert [key["label"] for key in ended] == ["viewer"]


def test_the_last_key_of_an_operator_is_not_revoked(api):
    path = f"/v1/keys/{api.keys['operator'][3:11]}"
    assert api("DELETE", path).status_code == 409
    assert api("POST", "/v1/keys", json={"role": "operator", "label": "b"}).status_code == 201
    assert api("DELETE", path).status_code == 204


def test_a_key_that_is_not_there_is_404(api):
    assert api("DELETE", "/v1/keys/00000000").status_code == 404
    assert api("POST", "/v1/keys/00000000/rotate").status_code == 404


def test_keys_come_in_pages_and_by_tenant(api):
    first = api.get("/v1/keys?limit=4").json()
    second = api.get(f"/v1/keys?limit=4&cursor={first['next']}").json()
    prefixes = [item["prefix"] for item in first["items"] + second["items"]]
    assert len(set(prefixes)) == len(prefixes) == 6
    assert {item["tenant"] for item in api.items("/v1/keys?tenant=acme")} == {"acme"}


# --- audit -------------------------------------------------------------------------------------


def test_every_attempt_is_noted_with_its_outcome(api, store, fail):
    number = fail("bolt")
    api("PUT", "/v1/tenants/acme", json={"weight": 2})
    api("PUT", "/v1/tenants/acme", json={"weight": -2})
    api("POST", "/v1/tenants/bolt/suspend", "tenant")
    api("DELETE", "/v1/tenants/acme", "viewer")
    api("POST", f"/v1/failures/{number}/retry")
    assert noted(store) == [
        (f"POST /v1/failures/{number}/retry", "bolt", 200),
        ("DELETE /v1/tenants/acme", "acme", 403),
        ("POST /v1/tenants/bolt/suspend", "bolt", 404),
        ("PUT /v1/tenants/acme", "acme", 422),
        ("PUT /v1/tenants/acme", "acme", 200),
    ]
    first = store.audit.changes()[-1]
    assert first.who == f"key:{api.keys['operator'][3:11]}"
    assert first.detail == '{"weight":2}'


def test_of_a_list_each_tenant_that_changes_has_a_line_of_its_own(api, store):
    def of(name):
        lines = store.audit.changes(tenant=name)
        return [(line.action, line.status, line.detail, line.generation) for line in lines]

    states, added = "POST /v1/tenant-states", "POST /v1/tenants"
    asked = {"names": ["acme", "bolt"], "state": "suspended"}
    api("POST", "/v1/tenant-states", json={**asked, "dry_run": True})
    assert of("bolt") == []
    api("POST", "/v1/tenant-states", json=asked)
    assert of("bolt") == of("acme") == [(states, 200, '{"state":"suspended"}', 0)]
    api("POST", "/v1/tenant-states", json={"names": ["acme", "bolt"], "state": "active"})
    api("POST", "/v1/tenant-states", json={"names": ["acme"], "state": "removed"})
    assert len(of("bolt")) == 2
    items = [{"name": "acme", "weight": 2}, {"name": "bolt"}, {"name": "corp"}]
    api("POST", "/v1/tenants", json={"items": items, "exists": "skip"})
    generation = next(
        known for known in store.registry.tenants() if known.name == "acme"
    ).generation
    assert of("acme")[:2] == [
        (added, 200, '{"weight":2.0}', generation),
        (states, 200, '{"state":"removed"}', 0),
    ]
    assert (of("corp"), len(of("bolt"))) == ([(added, 200, "{}", 0)], 2)
    newest = store.audit.changes(limit=1)[0]
    assert (newest.action, newest.tenant) == (added, None)


def test_a_list_as_long_as_may_be_is_noted_for_each(api, store):
    names = [f"t{number:03}-{'x' * 50}" for number in range(1000)]
    api("POST", "/v1/tenants", json={"items": [{"name": name} for name in names]})
    with structlog.testing.capture_logs() as lines:
        api("POST", "/v1/tenant-states", json={"names": names, "state": "removed"})
    assert store.audit.changes(tenant=names[999])[0].detail == '{"state":"removed"}'
    assert store.audit.changes()[0].detail == '{"state":"removed","changed":1000}'
    assert {line.get("tenant") for line in lines if line["event"] == "change"} == {None, *names}


def test_of_a_list_that_is_refused_no_tenant_has_a_line(api, store):
    api("POST", "/v1/tenant-states", json={"names": ["acme", "nobody"], "state": "removed"})
    assert noted(store) == [("POST /v1/tenant-states", None, 409)]


def test_a_mere_look_is_not_noted(api, store):
    api.get("/v1/tenants")
    api.get("/v1/tenants", "sender")
    assert noted(store) == []


def test_what_nobody_tries_fills_no_log_of_the_store(api, store):
    api("POST", "/v1/session", None, headers={"X-Headrace": "1"}, json={"key": "hr_wrong"})
    api("DELETE", "/v1/tenants/acme", None)
    assert noted(store) == []


def test_a_stranger_does_not_fill_the_log_and_what_was_left_out_is_counted(clock):
    with structlog.testing.capture_logs() as lines:
        refused = RefusedLog(clock.monotonic_s)
        for number in range(500):
            refused.note("DELETE /v1/x", 401, ("10.0.0.1", number))
        assert len(lines) == 10
        for other in range(500):
            refused.note("DELETE /v1/x", 401, (f"10.0.1.{other % 250}", 1))
        assert (len(lines), lines[10]["left_out"]) == (100, 490)
        clock.move(60.0)
        refused.note("DELETE /v1/x", 401, None)
    assert lines[-1]["left_out"] == 410


def test_a_long_path_is_noted_in_short(api, store):
    with structlog.testing.capture_logs() as lines:
        api("DELETE", "/v1/tenants/" + "a" * 20_000, None)
    (line,) = [line for line in lines if line["event"] == "change refused"]
    assert len(line["action"]) < 300
    api("DELETE", "/v1/tenants/" + "a" * 20_000)
    assert len(noted(store)[0][0]) < 300


def test_a_tenant_cannot_wash_the_log_away(app, api, store):
    app.state.patience = ChangeLimit(per_minute=3)
    path = "/v1/tenants/acme/suspend"
    answers = [api("POST", path, "tenant") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert len(noted(store)) == 3
    assert api("POST", "/v1/tenants/bolt/suspend", "bolt").status_code == 200
    assert api("POST", path).status_code == 200
    assert api.get("/v1/tenants/acme", "tenant").status_code == 200


@pytest.mark.parametrize(
    ("who", "path"),
    [
        ("sender", "/v1/tenants/acme/suspend"),
        ("tenant", "/v1/tenants"),
        ("viewer", "/v1/tenants"),
    ],
)
def test_what_a_role_may_not_do_washes_it_away_neither(app, api, store, who, path):
    app.state.patience = ChangeLimit(per_minute=3)
    answers = [api("POST", path, who, json={"name": "x"}) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [403, 403, 403, 429, 429]
    assert len(noted(store)) == 3


@pytest.mark.parametrize("who", ["sender", "tenant", "viewer"])
def test_nor_do_sessions(app, api, store, who):
    app.state.patience = ChangeLimit(per_minute=3)
    given = {"headers": {"X-Headrace": "1"}, "json": {"key": api.keys[who]}}
    answers = [api("POST", "/v1/session", None, **given) for _ in range(5)]
    assert [answer.status_code == 429 for answer in answers] == [False, False, False, True, True]
    assert len(noted(store)) == 3
    given["json"] = {"key": api.keys["operator"]}
    assert api("POST", "/v1/session", None, **given).status_code == 200


def test_the_key_that_begins_a_session_is_not_noted(api, store):
    api("POST", "/v1/session", None, headers={"X-Headrace": "1"}, json={"key": api.keys["viewer"]})
    (line,) = store.audit.changes()
    assert (line.action, line.status) == ("POST /v1/session", 200)
    assert line.who == f"key:{api.keys['viewer'][3:11]}"
    assert api.keys["viewer"] not in line.detail


def test_the_log_says_which_key_and_whose(api, store):
    body = {"role": "sender", "tenant": "bolt", "label": "pump"}
    first = api("POST", "/v1/keys", json=body).json()["prefix"]
    second = api("POST", f"/v1/keys/{first}/rotate").json()["prefix"]
    third = api("POST", f"/v1/keys/{first}/rotate", json={"overlap_s": 5}).json()["prefix"]
    api("DELETE", f"/v1/keys/{first}")
    api("POST", "/v1/keys", json={**body, "tenant": "nobody"})
    lines = list(reversed(list(store.audit.changes())))
    assert [line.tenant for line in lines] == ["bolt"] * 4 + ["nobody"]
    assert [json.loads(line.detail or "{}") for line in lines] == [
        {**body, "prefix": first},
        {"prefix": second},
        {"overlap_s": 5, "prefix": third},
        {},
        {**body, "tenant": "nobody"},
    ]


def test_what_the_end_of_the_server_cuts_off_is_noted(api, store, tools):
    begun, go = threading.Event(), threading.Event()
    path = "/v1/streams/acme/score/redrive"

    def slow(*_, **__):
        begun.set()
        go.wait(60)
        return Redriven(0, (), 0)

    async def cut_off():
        shown = {"Authorization": f"Bearer {api.keys['operator']}"}
        asking = asyncio.create_task(api._send("POST", path, shown, {"json": {"limit": 5}}))
        await asyncio.to_thread(begun.wait, 60)
        asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            return
        finally:
            go.set()

    tools.send_back = slow
    asyncio.run(cut_off())
    assert noted(store) == [(f"POST {path}", "acme", 503)]
    assert store.audit.changes()[0].detail == '{"limit":5}'


def test_what_breaks_inside_is_noted_too(api, store, monkeypatch):
    monkeypatch.setattr(store.registry, "set_tenant_state", lambda name, state: 1 // 0)
    assert api("POST", "/v1/tenants/acme/suspend").status_code == 500
    assert noted(store) == [("POST /v1/tenants/acme/suspend", "acme", 500)]


def test_a_log_that_cannot_be_written_does_not_make_the_answer_a_lie(api, store, monkeypatch):
    def down(change):
        raise StoreUnavailable("locked")

    monkeypatch.setattr(store.audit, "note", down)
    assert api("PUT", "/v1/tenants/acme", json={"weight": 2}).status_code == 200


def test_the_log_is_read_newest_first_in_pages_and_by_tenant(api):
    for weight in (1, 2, 3):
        api("PUT", "/v1/tenants/acme", json={"weight": weight})
    api("POST", "/v1/tenants/bolt/suspend")
    first = api.get("/v1/audit?limit=2", "viewer").json()
    assert [item["tenant"] for item in first["items"]] == ["bolt", "acme"]
    second = api.get(f"/v1/audit?limit=2&cursor={first['next']}").json()
    assert [item["detail"] for item in second["items"]] == ['{"weight":2}', '{"weight":1}']
    assert second["next"] is None
    assert {item["tenant"] for item in api.items("/v1/audit?tenant=acme")} == {"acme"}


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"", ""),
        (b'{"key":"hr_x","a":[{"Token":1}]}', '{"key":"…","a":[{"Token":"…"}]}'),
        (b"no JSON hr_x", ""),
        (b"[" * 5000, ""),
        (b'"' + b"x" * 9000 + b'"', ""),
    ],
)
def test_nothing_secret_is_kept_of_a_body(body, kept):
    assert without_secrets(body) == kept
