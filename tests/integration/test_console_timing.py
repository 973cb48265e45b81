"""The time of an answer does not tell a tenant whether something of another's is there."""

import asyncio
import statistics
import time
from contextlib import closing

import httpx
import pytest

from headrace.console.api import Parts, create_app
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.model.credentials import Role
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.store import open_store
from headrace.testing.clock import FakeClock

SECRET = b"0123456789abcdef0123456789abcdef"
ROUNDS = 150


@pytest.fixture
def store(tmp_path):
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        store.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
        for tenant in ("acme", "bolt"):
            store.add_tenant(Tenant(tenant))
            store.start_lanes([LaneStart(StreamId("score", tenant), "id", {0: 3})])
        yield store


def keep_failure(store):
    """One of bolt's, with as much as a failure has."""
    error = SliceError(
        temporary=False,
        code="HandlerError",
        message="no JSON",
        offset=3,
        raw_value=b"x" * 100_000,
        raw_headers=tuple((f"h{at}", b"v") for at in range(20)),
        traceback="line\n" * 200,
    )
    piece = Slice(LaneId("score", "bolt", 0), "bolt.visits", 3, 9, 1)
    return store.keep_failure(Failure(piece, error, 5.0))


@pytest.fixture
def times_of(store):
    """How long each of two paths takes, asked by turns by tenant acme."""
    clock = FakeClock()
    text, key = new_key(Role.TENANT, "acme", "", SECRET, clock.now_s())
    store.keys.add(key)
    guard = Guard(store.keys, SECRET, clock=clock.now_s)
    app = create_app(Parts(store, None, guard, SECRET, clock))
    headers = {"Authorization": f"Bearer {text}"}

    async def measured(paths):
        transport = httpx.ASGITransport(app)
        times = {each: [] for each in paths}
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            for _ in range(ROUNDS):
                for each in paths:
                    begun_s = time.perf_counter()
                    answer = await client.get(each, headers=headers)
                    times[each].append(time.perf_counter() - begun_s)
                    assert answer.status_code == 404
        return list(times.values())

    return lambda *paths: asyncio.run(measured(paths))


def alike(some, others):
    """Whether the middle of each lies well within the other."""
    these, those = (statistics.quantiles(each, n=10) for each in (some, others))
    return those[0] < these[4] < those[8] and these[0] < those[4] < these[8]


@pytest.mark.parametrize("what", ["tenants", "streams", "failures"])
def test_what_is_another_tenants_takes_as_long_as_what_is_nobodys(store, times_of, what):
    foreign, unknown = {
        "tenants": lambda: ("/v1/tenants/bolt", "/v1/tenants/nobody"),
        "streams": lambda: ("/v1/streams/bolt/score", "/v1/streams/nobody/score"),
        "failures": lambda: (f"/v1/failures/{keep_failure(store)}", "/v1/failures/99"),
    }[what]()
    # A difference that is there is there each time; a busy machine makes one now and then.
    assert any(alike(*times_of(foreign, unknown)) for _ in range(3))
