"""No text that anybody sends breaks a door: not one that a database does not take, either.

PostgreSQL refuses a NUL, and no database keeps half a character. So such texts, a very long one and
an empty one stand in turn for each parameter of each route, as the OpenAPI documents name them, and
for each value and name in a body. Whatever is wrong with them is the caller's fault, and is said
so: a 5xx would be tried again, and blamed on us.
"""

import asyncio
import json
from contextlib import closing
from urllib.parse import quote

import pytest

from doors_in_memory import AllTopics, Nowhere, Tools
from headrace.console.api import ApiParts, create_app
from headrace.doors import door
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.gateway.app import gateway_app
from headrace.gateway.opening import rules_of
from headrace.model.credentials import Role
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart
from headrace.model.streams import LaneId, Slice, Tenant
from headrace.settings.doors import DoorsSettings
from headrace.settings.gateway import GatewaySettings
from headrace.store import open_store
from headrace.testing.clock import FakeClock

SECRET = b"0123456789abcdef0123456789abcdef"
STREAM = "/v1/streams/{tenant}/{use_case}"
#: what stands for a text, and its bytes in a path, a query or a header
ODD = {
    "a NUL": ("a\0b", b"a\0b"),
    "half a character": ("a\ud800", b"a\xed\xa0\x80"),
    "10 kB": ("a" * 10_000, b"a" * 10_000),
    "nothing": ("", b""),
}
#: what a path names, where nothing odd does
NAMED = {
    "tenant": "acme",
    "use_case": "score",
    "number": "1",
    "prefix": "nobody00",
    "type": "visit",
}
#: bodies that are taken, by method and path
BODIES = {
    ("POST", "/v1/session"): [{"key": "hr_nobody00_" + "a" * 43}],
    ("POST", "/v1/tenants"): [
        {
            "items": [{"name": "new", "state": "active", "throttle": {"records_per_s": 5}}],
            "exists": "skip",
            "dry_run": True,
        }
    ],
    ("POST", "/v1/tenant-states"): [{"names": ["bolt"], "state": "active", "dry_run": True}],
    ("PUT", "/v1/tenants/{tenant}"): [
        {"state": "active", "weight": 2, "throttle": {"records_per_s": 5, "burst_s": 2}}
    ],
    ("PUT", STREAM): [{"state": "active"}],
    ("PUT", f"{STREAM}/positions"): [{"offsets": {"0": "3"}, "dry_run": True}],
    ("POST", f"{STREAM}/redrive"): [{"limit": 5, "dry_run": True}],
    ("POST", "/v1/failures/{number}/skip"): [{"whole_slice": False}],
    ("POST", "/v1/keys"): [
        {"role": "viewer", "label": "wall", "expires_in_s": 60},
        {"role": "sender", "tenant": "acme", "label": "shop"},
        {"role": "schemas", "tenant": "acme", "label": "team", "subjects": "a.*"},
    ],
    ("POST", "/v1/keys/{prefix}/rotate"): [{"overlap_s": 5}],
    ("POST", "/v1/events/{type}"): [
        {"lead": "ada", "page": "/prices"},
        [{"lead": "ada"}, {"lead": "bob"}],
    ],
}


@pytest.fixture
def store(made_store_url):
    """Acme and bolt, each with a stream; one of acme's records has failed."""
    with closing(open_store(made_store_url)) as made:
        made.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
        for tenant in ("acme", "bolt"):
            made.registry.add_tenant(Tenant(tenant))
        lane = LaneId("score", "acme", "acme.visits[0]")
        made.progress.start_lanes([LaneStart(lane.stream, "id", {lane.name: 3})])
        error = SliceError(temporary=False, code="HandlerError", message="no JSON", offset=3)
        made.failures.keep([Failure(Slice(lane, "acme.visits", 3, 9, 1), error, 5.0, behind=4)])[0]
        yield made


@pytest.fixture
def console(store):
    guard = Guard(store.keys, SECRET)
    return Door(create_app(ApiParts(store, Tools(), guard, SECRET, FakeClock())), store, "operator")


@pytest.fixture
def gateway(store):
    settings = GatewaySettings.model_validate(
        {"types": {"visit": {"topic": "visits", "key": "/lead"}}}
    )
    app = gateway_app(rules_of(settings), Nowhere(), AllTopics())
    limits = door.RequestLimits(1_000_000)
    door.install_door(app, Guard(store.keys, SECRET), DoorsSettings(), "127.0.0.1", limits)
    return Door(app, store, "sender")


class Door:
    """An application, and a key that opens all of it."""

    def __init__(self, app, store, role):
        self.app = app
        tenant = None if role == "operator" else "acme"
        self.key, key = new_key(Role(role), tenant, "", SECRET, FakeClock().now_s())
        store.keys.add(key)

    def asked(self):
        """Every request with something odd in it, and what that is."""
        document = self.app.openapi()
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                route = (method.upper(), path)
                for name, odd in ODD.items():
                    for parameter in operation.get("parameters", ()):
                        sent = with_parameter(route, parameter, odd[1])
                        yield (*route, parameter["name"], name), sent
                    yield (*route, "authorization", name), {"authorization": odd[1]}
                    for body in BODIES.get(route, ()):
                        for where, changed in oddly(body, odd[0]):
                            yield (*route, where, name), {"body": changed}

    def send(self, method, path, sent):
        """Status and text of the answer; of one that does not end, as far as it begins."""
        target = sent.get("path", filled(path, {}))
        headers = {
            "host": b"127.0.0.1",
            "content-type": b"application/json",
            "x-headrace": b"1",
            "authorization": b"Bearer " + sent.get("authorization", self.key.encode()),
            **sent.get("headers", {}),
        }
        body = sent.get("body", next(iter(BODIES.get((method, path), [None]))))
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": target.decode(errors="surrogateescape"),
            "raw_path": quote(target).encode(),
            "query_string": sent.get("query", b""),
            "headers": [(name.encode(), value) for name, value in headers.items()],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        return asyncio.run(answered(self.app, scope, body))


async def answered(app, scope, body):
    status, parts, begun = None, [], asyncio.Event()
    unread = [b"" if body is None else json.dumps(body).encode()]

    async def receive():
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
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


def filled(path, odd):
    """A path as bytes, with what it names."""
    for name, value in NAMED.items():
        path = path.replace(f"{{{name}}}", odd.get(name, value))
    return path.encode("latin-1")


def with_parameter(route, parameter, value):
    name = parameter["name"]
    if parameter["in"] == "path":
        return {"path": filled(route[1], {name: value.decode("latin-1")})}
    if parameter["in"] == "query":
        return {"query": f"{name}={quote(value)}".encode()}
    return {"headers": {name.lower(): value}}


def oddly(body, text):
    """The body with the text in the place of each value and each name in it, one at a time."""
    places = enumerate(body) if isinstance(body, list) else list(body.items())
    for place, value in places:
        yield place, replaced(body, place, text)
        if isinstance(value, dict | list):
            for inner, changed in oddly(value, text):
                yield f"{place}/{inner}", replaced(body, place, changed)
        if isinstance(body, dict):
            others = {name: kept for name, kept in body.items() if name != place}
            yield f"{place} as a name", {**others, text: value}


def replaced(body, place, value):
    changed = body.copy()
    changed[place] = value
    return changed


def test_no_odd_text_is_answered_by_a_failure_of_the_console(console):
    seen = statuses_of(console)
    # Else all of it came no further than to the first look at who calls.
    assert {200, 401, 404, 422} <= seen


def test_no_odd_text_is_answered_by_a_failure_of_the_gateway(gateway):
    assert {202, 400, 401, 404} <= statuses_of(gateway)


def statuses_of(asked):
    """All statuses there are, once none of them is a failure."""
    answers = {what: asked.send(*what[:2], sent) for what, sent in asked.asked()}
    broken = {what: told for what, told in answers.items() if told[0] is None or told[0] >= 500}
    assert broken == {}
    return {status for status, _ in answers.values()}


@pytest.mark.parametrize("name", ["a NUL", "half a character", "10 kB"])
def test_a_filter_that_no_tenant_can_be_called_is_refused_by_its_name(console, name):
    asked = f"tenant={quote(ODD[name][1])}".encode()
    status, text = console.send("GET", "/v1/keys", {"query": asked})
    assert status == 422
    assert "tenant" in text
