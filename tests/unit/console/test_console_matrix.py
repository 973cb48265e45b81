"""The authorisation matrix: every route, asked by everybody, about everybody's things.

It is made from the routes that there are, so a new one is in it without a word here. What each
caller may do is the table ``access.RULES``; here stands what the table means: who is refused is
refused before anything is changed, and a tenant cannot tell what is another's from what is
nobody's.
"""

import asyncio
import json
import re
from types import SimpleNamespace
from urllib.parse import quote, urlencode

import pytest

from headrace.console.access import OPEN, RULES, routes_of
from headrace.console.api import ApiParts, create_app
from headrace.doors.guard import SESSION_COOKIE, Guard
from headrace.model.credentials import Role
from headrace.testing.clock import FakeClock
from headrace.testing.memory_store import MemoryStore

STORE = MemoryStore()
SECRET = b"0123456789abcdef0123456789abcdef"
ROUTES = sorted(
    routes_of(create_app(ApiParts(STORE, None, Guard(STORE.keys, SECRET), SECRET, FakeClock())))
)
BY_ROLE = {
    "operator": Role.OPERATOR,
    "viewer": Role.VIEWER,
    "tenant": Role.TENANT,
    "sender": Role.SENDER,
    "schemas": Role.SCHEMAS,
}
#: whose things a path names
OWNERS = ("own", "foreign", "unknown")
STREAM = "/v1/streams/{tenant}/{use_case}"
#: what is sent, where a route needs something
BODIES = {
    ("POST", "/v1/tenants"): {"items": [{"name": "new"}]},
    ("POST", "/v1/tenant-states"): {"names": ["bolt"], "state": "suspended"},
    ("PUT", "/v1/tenants/{tenant}"): {"weight": 2},
    ("PUT", STREAM): {"state": "active"},
    ("PUT", f"{STREAM}/positions"): {"offsets": {"0": 3}},
    ("POST", "/v1/keys"): {"role": "viewer", "label": "wall"},
}
each_route = pytest.mark.parametrize(
    ("method", "path"), ROUTES, ids=[" ".join(route) for route in ROUTES]
)


@pytest.fixture
def world(app, api, store, fail):
    """Acme asks; bolt is the other one; each has a stream, a failure and a key."""
    failures = {"own": fail("acme"), "foreign": fail("bolt"), "unknown": 99}
    keys = {key.label: key.prefix for key in store.keys.every()}
    named = {
        owner: {
            "tenant": tenant,
            "use_case": "score",
            "number": str(failures[owner]),
            "prefix": prefix,
            "table": "seen",
            "path:path": "index.html",
        }
        for owner, tenant, prefix in (
            ("own", "acme", keys["sender"]),
            ("foreign", "bolt", keys["bolt"]),
            ("unknown", "nobody", "nobody00"),
        )
    }
    return SimpleNamespace(app=app, store=store, keys=api.keys, named=named)


def ask(world, method, path, who, owner="own", query="", **headers):
    """Ask, and go as soon as the answer begins, if it is one that does not end."""
    target = re.sub(r"\{([^}]+)\}", lambda match: world.named[owner][match[1]], path)
    body = BODIES.get((method, path))
    if path == "/v1/session" and method == "POST":
        body = {"key": world.keys["operator"]}
        headers = {"x-headrace": "1", **headers}
    sent = {"host": "console", "content-type": "application/json", **headers}
    if who is not None:
        sent["authorization"] = f"Bearer {world.keys.get(who, who)}"
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": target,
        "raw_path": quote(target).encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 5),
        "server": ("console", 80),
        "state": {},
    }
    return asyncio.run(_asked(world.app, scope, b"" if body is None else json.dumps(body).encode()))


async def _asked(app, scope, body):
    parts, status, begun = [], None, asyncio.Event()
    unread = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if unread:
            return unread.pop()
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            if b"text/event-stream" in dict(message["headers"]).get(b"content-type", b""):
                begun.set()
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts).decode()


def kept(store):
    """All that could be changed, but for the audit log, which is to have every attempt."""
    others = ("lock", "changes", "changes_total", "statistics")
    names = (slot for slot in store.data.__slots__ if slot not in others)
    return {name: repr(getattr(store.data, name)) for name in names}


def concerns(path):
    """Whether a path names something of a tenant."""
    return "{tenant}" in path or "{number}" in path


def let_in(role, rule):
    return rule is OPEN or role in rule


# --- the table -----------------------------------------------------------------------------------


def test_every_route_is_declared_and_every_declaration_has_its_route():
    assert set(ROUTES) == set(RULES)


def test_what_the_table_says_of_roles_is_what_people_are_told():
    assert {route for route in RULES if RULES[route] is OPEN} == {
        ("GET", "/"),
        ("GET", "/livez"),
        ("GET", "/pages/{path:path}"),
        ("GET", "/readyz"),
        ("GET", "/v1/openapi.json"),
        ("POST", "/v1/session"),
    }
    closed = {route: rule for route, rule in RULES.items() if rule is not OPEN}
    assert all(Role.OPERATOR in rule and Role.SENDER not in rule for rule in closed.values())
    seeing = {route for route, rule in closed.items() if Role.VIEWER in rule}
    assert {route for route in seeing if route[0] != "GET"} == {("DELETE", "/v1/session")}
    of_tenants = {route for route, rule in closed.items() if Role.TENANT in rule}
    never = ("/v1/keys", "/v1/audit", "/v1/waves", "/v1/use-cases", "/v1/summary", "/metrics")
    assert not any(path.startswith(never) for _, path in of_tenants)
    assert ("PUT", f"{STREAM}/positions") not in of_tenants
    assert ("PUT", "/v1/tenants/{tenant}") not in of_tenants


def test_a_route_that_nobody_declared_opens_for_nobody(world, monkeypatch):
    # Another table: to put an entry back into this one would change its order for other tests.
    rules = {route: rule for route, rule in RULES.items() if route != ("GET", "/v1/tenants")}
    monkeypatch.setattr("headrace.console.access.RULES", rules)
    for who in (None, *BY_ROLE):
        status, body = ask(world, "GET", "/v1/tenants", who)
        assert status == 403
        assert "nobody has said" in body


# --- the matrix ----------------------------------------------------------------------------------


@each_route
def test_whoever_the_table_does_not_name_is_refused_and_nothing_is_changed(world, method, path):
    rule = RULES[method, path]
    if rule is OPEN:
        return
    before = kept(world.store)
    for who in (None, "wrong", f"hr_nobody00_{'a' * 43}"):
        for owner in OWNERS:
            assert ask(world, method, path, who, owner)[0] == 401, (who, owner)
    for who, role in BY_ROLE.items():
        if role not in rule:
            for owner in OWNERS:
                assert ask(world, method, path, who, owner)[0] == 403, (who, owner)
    if method != "GET":
        refuses_sessions_without_header(world, method, path, rule)
    assert kept(world.store) == before


def refuses_sessions_without_header(world, method, path, rule):
    for who in (name for name, role in BY_ROLE.items() if role in rule):
        cookie = f"{SESSION_COOKIE}={world.app.state.guard.session(world.keys[who])[1]}"
        status, body = ask(world, method, path, None, cookie=cookie)
        assert (status, "forged" in body) == (403, True), who


@each_route
def test_what_is_another_tenants_is_as_what_is_nobodys(world, method, path):
    if not concerns(path) or Role.TENANT not in RULES[method, path]:
        return
    before = kept(world.store)
    shown = []
    for owner in ("foreign", "unknown"):
        status, body = ask(world, method, path, "tenant", owner)
        assert status == 404
        place = world.named[owner]
        shown.append(re.sub(rf"\b({place['tenant']}|{place['number']})\b", "?", body))
    assert shown[0] == shown[1]
    assert kept(world.store) == before


#: what a path may have in place of a name, if somebody decodes, folds or trims once too often
DISGUISES = {
    "case": str.upper,
    "first in upper case": str.title,
    "space before": " {}".format,
    "space behind": "{} ".format,
    "dot": "{}.".format,
    "NUL": "{}\0".format,
    "new line": "{}\n".format,
    "slash": "{}/".format,
    "parameter": "{};x=1".format,
    "ours, then up": "acme/../{}".format,
    "ours, then up, encoded": "acme%2F..%2F{}".format,
    "ours, then theirs": "acme,{}".format,
    "encoded twice": lambda name: "".join(f"%{ord(letter):02x}" for letter in name),
    "full width (NFKC)": lambda name: "".join(chr(ord(letter) + 0xFEE0) for letter in name),
    "no width": "{}\u200b".format,
    "Cyrillic": lambda name: name.replace("o", "\u043e"),
    "signed": "+{}".format,
    "zeros": "00{}".format,
    "fraction": "{}.0".format,
    "wildcard": lambda name: name[:-1] + "%",
}


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
@each_route
def test_no_spelling_of_another_tenants_name_opens_what_is_its_own(world, method, path, disguise):
    if not concerns(path) or Role.TENANT not in RULES[method, path]:
        return
    before = kept(world.store)
    shown = []
    for owner in ("foreign", "unknown"):
        place = world.named[owner]
        spelled = {
            **place,
            "tenant": disguise(place["tenant"]),
            "number": disguise(place["number"]),
        }
        world.named["spelled"] = spelled
        status, body = ask(world, method, path, "tenant", "spelled")
        assert status in (404, 405, 422), body
        shown.append((status, told_of_nobody(body, spelled, place)))
    assert shown[0] == shown[1]
    assert kept(world.store) == before


def told_of_nobody(body, spelled, place):
    """A refusal without the name that was asked for, however it is written."""
    for name in (*spelled.values(), *place.values()):
        for written in (name, json.dumps(name)[1:-1], json.dumps(name, ensure_ascii=False)[1:-1]):
            body = re.sub(rf"(?<!\w){re.escape(written)}(?!\w)", "?", body)
    return body


@each_route
def test_no_query_shows_what_is_another_tenants(world, method, path):
    if method != "GET" or Role.TENANT not in RULES[method, path] or path == "/v1/live":
        # A live view takes no query, and has tests of its own.
        return
    described = world.app.openapi()["paths"][path]["get"].get("parameters", ())
    for asked in {each["name"] for each in described if each["in"] == "query"} | {"tenant"}:
        for disguise in (str, *DISGUISES.values()):
            found = []
            for name in ("bolt", "none"):
                query = urlencode({asked: disguise(name)})
                status, body = ask(world, method, path, "tenant", query=query)
                found.append((status, told_of_nobody(body, {"": disguise(name)}, {"": name})))
            assert found[0] == found[1], (asked, query)


@pytest.mark.parametrize(
    ("method", "path", "who"),
    [
        pytest.param(*route, who, id=f"{route[0]} {route[1]} {who}")
        for route in ROUTES
        for who, role in BY_ROLE.items()
        if let_in(role, RULES.get(route, OPEN))
    ],
)
def test_whoever_the_table_names_is_let_in_and_a_change_is_noted(world, method, path, who):
    noted = len(world.store.audit.changes())
    status, body = ask(world, method, path, who)
    assert status < 300, body
    if who == "tenant" and RULES[method, path] is not OPEN:
        assert "bolt" not in body
    changes = world.store.audit.changes()
    # Of a list the tenant that it changes has a line of its own.
    listed = (method, path) in {("POST", "/v1/tenants"), ("POST", "/v1/tenant-states")}
    assert len(changes) == noted + (method != "GET") + listed
    if method != "GET":
        assert changes[0].status == status
        # A session is begun by whoever shows the key in the body.
        shown = "operator" if (method, path) == ("POST", "/v1/session") else who
        assert changes[0].who == f"key:{world.keys[shown][3:11]}"
        assert not any(text in changes[0].detail for text in world.keys.values())


@pytest.mark.parametrize("who", ["operator", "tenant"])
@pytest.mark.parametrize("path", ["/v1/tenants/{tenant}/suspend", f"{STREAM}/redrive"])
def test_a_session_of_our_own_pages_may_change_what_its_key_may(world, path, who):
    cookie = f"{SESSION_COOKIE}={world.app.state.guard.session(world.keys[who])[1]}"
    shown = {"cookie": cookie, "x-headrace": "1"}
    assert ask(world, "POST", path, None, **shown)[0] == 200


def test_what_a_role_may_not_do_is_noted_too(world):
    for who in ("sender", "viewer", "tenant"):
        assert ask(world, "DELETE", "/v1/tenants/{tenant}", who)[0] == 403
        change = world.store.audit.changes()[0]
        assert (change.who, change.status) == (f"key:{world.keys[who][3:11]}", 403)


@pytest.mark.parametrize("path", ["/v1/tenants", "/v1/streams", "/v1/failures", "/v1/alerts"])
def test_a_filter_does_not_tell_whether_another_tenant_is_there(world, path):
    found = [
        ask(world, "GET", path, "tenant", query=f"tenant={name}&q={name}")
        for name in ("bolt", "nobody")
    ]
    assert found[0] == found[1]


def test_a_viewer_sees_no_record(world):
    path = "/v1/failures/{number}"
    _, seen = ask(world, "GET", path, "operator")
    assert json.loads(seen)["record"] is not None
    _, seen = ask(world, "GET", path, "viewer")
    assert json.loads(seen)["record"] is None
