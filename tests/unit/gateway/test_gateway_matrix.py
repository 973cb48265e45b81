"""The authorisation matrix of the gateway: every route, asked by everybody.

It is made from the routes that there are; who may what is the table ``app.ACCESS``. Nothing in a
request names a tenant that counts, so foreign and unknown tenants are tried in every place where
somebody could think of one.
"""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from gateway_parts import FakeRecords, FakeTopics, rules

from headrace.doors import door
from headrace.doors.guard import SESSION_COOKIE, Guard
from headrace.doors.keys import new_key
from headrace.gateway.app import ACCESS, gateway_app
from headrace.model.credentials import Role
from headrace.model.streams import Tenant
from headrace.settings.doors import DoorsSettings
from headrace.testing.memory_store import MemoryStore

SECRET = b"0123456789abcdef0123456789abcdef"
ROUTES = sorted(
    (method, route.path)
    for route in iter_route_contexts(gateway_app(rules(), FakeRecords(), FakeTopics()).routes)
    for method in route.methods or ()
    if method != "HEAD"
)
TENANTS = ("acme", "bolt", "nobody")
CALLERS = {
    "operator": (Role.OPERATOR, None),
    "viewer": (Role.VIEWER, None),
    "tenant": (Role.TENANT, "acme"),
    "sender": (Role.SENDER, "acme"),
    "schemas": (Role.SCHEMAS, "acme"),
    "schemas of all": (Role.SCHEMAS, None),
}
each_route = pytest.mark.parametrize(
    ("method", "path"), ROUTES, ids=[" ".join(route) for route in ROUTES]
)


class World:
    """A gateway behind its door, with topics of acme and bolt."""

    def __init__(self):
        self.store, self.records = MemoryStore(), FakeRecords()
        for name in ("acme", "bolt"):
            self.store.registry.add_tenant(Tenant(name))
        self.keys = {}
        for who, (role, tenant) in CALLERS.items():
            self.keys[who], key = new_key(role, tenant, who, SECRET, 1.0)
            self.store.keys.add(key)
        self.guard = Guard(self.store.keys, SECRET)
        topics = FakeTopics("acme.visits", "bolt.visits")
        self.app = gateway_app(rules(), self.records, topics)
        limits = door.RequestLimits(10_000)
        door.install_door(self.app, self.guard, DoorsSettings(), "0.0.0.0", limits)

    @asynccontextmanager
    async def client(self):
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            yield client

    def ask(self, method, path, who=None, *, headers=(), query=""):
        """Ask as somebody; ``who`` may also be the text of a credential."""
        given = {"Content-Type": "application/json", **dict(headers)}
        if who is not None:
            given["Authorization"] = f"Bearer {self.keys.get(who, who)}"
        target = path.replace("{type}", "visit") + query

        async def asked():
            async with self.client() as client:
                body = b'{"tenant": "bolt"}' if method == "POST" else None
                return await client.request(method, target, headers=given, content=body)

        return asyncio.run(asked())


@pytest.fixture
def world():
    return World()


def test_every_route_is_declared_and_every_declaration_has_its_route():
    assert set(ROUTES) == set(ACCESS)


def test_only_who_belongs_to_a_tenant_sends_and_only_who_sees_all_reads_figures():
    assert ACCESS["POST", "/v1/events/{type}"] == (Role.SENDER, Role.TENANT)
    assert set(ACCESS["GET", "/metrics"]) == {Role.OPERATOR, Role.VIEWER}
    opened = {route for route, roles in ACCESS.items() if roles is None}
    assert opened == {("GET", "/livez"), ("GET", "/readyz"), ("GET", "/v1/openapi.json")}


@each_route
def test_everybody_is_let_in_or_refused_as_the_table_says(world, method, path):
    roles = ACCESS[method, path]
    for who in (None, "wrong", f"hr_nobody00_{'a' * 43}"):
        assert world.ask(method, path, who).status_code == (401 if roles is not None else 200)
    for who, (role, _) in CALLERS.items():
        before = len(world.records.stored)
        answer = world.ask(method, path, who)
        if roles is None or role in roles:
            assert answer.status_code in (200, 202), answer.text
        else:
            assert answer.status_code == 403
            assert len(world.records.stored) == before


@pytest.mark.parametrize("tenant", TENANTS)
@pytest.mark.parametrize("who", ["tenant", "sender"])
def test_whatever_tenant_a_request_names_events_are_the_callers(world, who, tenant):
    spoofs = [
        {"headers": {"X-Tenant": tenant}},
        {"headers": {"Tenant": tenant, "X-Headrace-Tenant": tenant, "ce-tenant": tenant}},
        {"headers": {"X-Forwarded-Client-Cert": f"URI=spiffe://{tenant}"}},
        {"headers": {"Host": f"{tenant}.example"}},
        {"query": f"?tenant={tenant}"},
    ]
    statuses = {
        world.ask("POST", "/v1/events/{type}", who, **spoof).status_code for spoof in spoofs
    }
    assert statuses == {202}
    assert {topic for topic, _ in world.records.stored} == {"acme.visits"}


@pytest.mark.parametrize("name", ["..%2Fbolt.visits", "bolt.visits", "bolt", "nobody.visits"])
def test_no_name_of_a_type_reaches_another_tenants_topic(world, name):
    answers = [world.ask("POST", f"/v1/events/{kind}", "sender") for kind in (name, "nothing")]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert world.records.stored == []


def test_a_session_of_the_console_sends_nothing_for_another_site(world):
    _, cookie = world.guard.session(world.keys["tenant"])
    shown = {"Cookie": f"{SESSION_COOKIE}={cookie}"}
    assert world.ask("POST", "/v1/events/{type}", headers=shown).status_code == 403
    assert world.records.stored == []
