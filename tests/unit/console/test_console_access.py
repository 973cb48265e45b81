"""Who may call what: nothing opens that the table does not name."""

import asyncio
import json
import time

import httpx
import pytest
from fastapi import APIRouter

from headrace.console.access import OPEN, RULES, ChangeLimit, GuardedRoute, routes_of, sees
from headrace.console.api import create_app
from headrace.doors.problems import Problem
from headrace.model.credentials import Caller, Role

#: what our pages send with a change
PAGE = {"X-Headrace": "1"}
FILLED = {
    "tenant": "acme",
    "use_case": "score",
    "number": "1",
    "prefix": "00000000",
    "path": "x",
    "table": "seen",
}


def filled(path):
    return path.replace("{path:path}", "x").format(**FILLED)


def test_the_table_names_every_route_and_no_other(app):
    assert sorted(routes_of(app)) == sorted(RULES)


def test_a_route_that_nobody_declared_is_refused_to_everybody(parts, api):
    router = APIRouter(route_class=GuardedRoute)

    @router.get("/v1/forgotten")
    def forgotten():
        return "open to all"

    api.app = create_app(parts)
    api.app.include_router(router)
    for who in ("operator", None):
        assert api.get("/v1/forgotten", who).status_code == 403


@pytest.mark.parametrize(("method", "path"), [key for key, rule in RULES.items() if rule != OPEN])
def test_nobody_gets_in_without_a_credential(api, method, path):
    answer = api(method, filled(path), None)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "path"), [key for key, rule in RULES.items() if rule != OPEN])
def test_a_sender_has_no_business_here(api, method, path):
    assert api(method, filled(path), "sender").status_code == 403


def test_who_calls_is_asked_before_the_body_is_read(api):
    broken = {"content": b"{", "headers": {"Content-Type": "application/json"}}
    assert api("PUT", "/v1/tenants/acme", None, **broken).status_code == 401
    assert api("PUT", "/v1/tenants/acme", "viewer", **broken).status_code == 403
    assert api("PUT", "/v1/tenants/acme", **broken).status_code == 422


def test_a_foreign_tenant_reads_like_one_that_is_not_there(api):
    for method, path in RULES:
        if "{tenant}" not in path or Role.TENANT not in RULES[method, path]:
            continue
        answers = [
            api(method, filled(path.replace("{tenant}", name)), "tenant")
            for name in ("bolt", "none")
        ]
        assert [answer.status_code for answer in answers] == [404, 404]
        texts = [answer.text.replace("bolt", "*").replace("none", "*") for answer in answers]
        assert texts[0] == texts[1]


@pytest.mark.parametrize("path", ["/v1/tenants", "/v1/streams", "/v1/failures"])
def test_a_tenant_finds_only_its_own_in_lists(api, fail, path):
    fail()
    fail("bolt")
    name = "name" if path == "/v1/tenants" else "tenant"
    assert {item[name] for item in api.items(path, "tenant")} == {"acme"}
    assert {item[name] for item in api.items(path, "bolt")} == {"bolt"}
    assert {item[name] for item in api.items(path, "viewer")} == {"acme", "bolt"}


def test_what_concerns_nobody_in_particular_is_not_shown_to_a_tenant():
    tenant = Caller("key:1", Role.TENANT, "acme")
    assert sees(tenant, "acme")
    assert not sees(tenant, "bolt")
    assert not sees(tenant, None)
    assert sees(Caller("key:2", Role.VIEWER), None)


def test_a_method_that_is_not_there_is_answered_with_those_that_are(api):
    answer = api("PATCH", "/v1/tenants/acme")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "PUT", "DELETE"}


def test_the_document_declares_no_more_routes_than_the_table(app):
    declared = {
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }
    assert declared <= RULES.keys()


def test_a_session_is_a_cookie_that_needs_a_header_to_change_something(api):
    begun = api("POST", "/v1/session", None, headers=PAGE, json={"key": api.keys["tenant"]})
    assert begun.json() == {
        "name": f"key:{api.keys['tenant'][3:11]}",
        "role": "tenant",
        "tenant": "acme",
    }
    cookie = begun.headers["set-cookie"]
    for word in ("HttpOnly", "SameSite=strict", "Max-Age=43200"):
        assert word in cookie
    sent = {"Cookie": cookie.split(";")[0]}
    assert api.get("/v1/me", None, headers=sent).json()["tenant"] == "acme"
    path = "/v1/tenants/acme/suspend"
    assert api("POST", path, None, headers=sent).status_code == 403
    assert api("POST", path, None, headers=sent | {"X-Headrace": "1"}).status_code == 200


@pytest.mark.parametrize(
    "media", ["application/json", "text/plain", "application/x-www-form-urlencoded"]
)
def test_a_page_of_another_site_logs_nobody_in_as_its_author(api, media):
    sent = {"Content-Type": media, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    body = json.dumps({"key": api.keys["tenant"]})
    answer = api("POST", "/v1/session", None, headers=sent, content=body)
    assert answer.status_code in (403, 422)
    assert "set-cookie" not in answer.headers


def test_over_tls_no_other_name_of_the_domain_sets_the_cookie_of_a_session(app, api):
    async def play():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="https://console") as client:
            key = {"key": api.keys["tenant"]}
            begun = await client.post("/v1/session", headers=PAGE, json=key)
            client.cookies.clear()
            name, value = begun.headers["set-cookie"].split(";")[0].split("=")
            own = await client.get("/v1/me", headers={"Cookie": f"{name}={value}"})
            plain = name.removeprefix("__Host-")
            return begun, own, await client.get("/v1/me", headers={"Cookie": f"{plain}={value}"})

    begun, own, tossed = asyncio.run(play())
    assert begun.headers["set-cookie"].startswith("__Host-headrace_session=")
    assert "; Path=/" in begun.headers["set-cookie"]
    assert "; Secure" in begun.headers["set-cookie"]
    assert "Domain" not in begun.headers["set-cookie"]
    assert (own.status_code, tossed.status_code) == (200, 401)


def test_a_wrong_key_and_that_of_a_sender_begin_no_session(api):
    for key, status in (("hr_nonsense", 401), (api.keys["sender"], 403)):
        answer = api("POST", "/v1/session", None, headers=PAGE, json={"key": key})
        assert answer.status_code == status
        assert "set-cookie" not in answer.headers
        assert key not in answer.text


def test_a_session_that_is_ended_takes_its_cookie_back(api):
    answer = api("DELETE", "/v1/session")
    assert answer.status_code == 204
    assert 'headrace_session=""' in answer.headers["set-cookie"]


def test_what_keys_are_made_with_is_shown_nowhere(app, parts):
    for shown in (repr(parts), repr(app.state.desk)):
        assert parts.secret.decode() not in shown


def test_a_tenant_that_tried_too_much_waits_for_the_rest_of_a_minute_also_if_the_clock_is_set_back(
    monkeypatch,
):
    steady_s = 0.0
    patience, caller = ChangeLimit(1, lambda: steady_s), Caller("key:a", Role.TENANT, "acme")
    patience.count(caller)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with pytest.raises(Problem) as refused:
        patience.count(caller)
    assert refused.value.headers == {"Retry-After": "60"}
    steady_s += 60.0
    patience.count(caller)
