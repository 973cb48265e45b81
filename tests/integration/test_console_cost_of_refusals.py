"""The cost of an answer does not tell a tenant whether something of another's is there."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest
from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from headrace.console.api import ApiParts, create_app
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.model.credentials import Role
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.store import open_store
from headrace.testing.clock import FakeClock

SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def asked():
    """Each statement that a database is asked, and "row" for each row that it gives."""
    done = []

    def count_rows(connection, _):
        connection.row_factory = lambda _, row: done.append("row") or row

    def note(_, __, statement, *rest):
        done.append(statement)

    event.listen(Pool, "connect", count_rows)
    event.listen(Engine, "before_cursor_execute", note)
    yield done
    event.remove(Engine, "before_cursor_execute", note)
    event.remove(Pool, "connect", count_rows)


@pytest.fixture
def store(tmp_path, asked):
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        store.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
        for tenant in ("acme", "bolt"):
            store.registry.add_tenant(Tenant(tenant))
            store.progress.start_lanes(
                [LaneStart(StreamId("score", tenant), "id", {f"{tenant}.visits[0]": 3})]
            )
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
    piece = Slice(LaneId("score", "bolt", "bolt.visits[0]"), "bolt.visits", 3, 9, 1)
    return store.failures.keep([Failure(piece, error, 5.0, behind=4)])[0]


@pytest.fixture
def work_of(store, asked):
    """What the database is asked, and how many rows it gives, for a path that tenant acme asks."""
    clock = FakeClock()
    text, key = new_key(Role.TENANT, "acme", "", SECRET, clock.now_s())
    store.keys.add(key)
    guard = Guard(store.keys, SECRET, clock=clock.now_s)
    app = create_app(ApiParts(store, None, guard, SECRET, clock))
    headers = {"Authorization": f"Bearer {text}"}

    async def done(path):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            # Once before, so that what is remembered is so for both.
            await client.get(path, headers=headers)
            asked.clear()
            answer = await client.get(path, headers=headers)
            assert answer.status_code == 404
            return list(asked)

    def work(path):
        with ThreadPoolExecutor(1) as threads:  # a browser's tests leave a loop in this one
            return threads.submit(asyncio.run, done(path)).result()

    return work


@pytest.mark.parametrize("what", ["tenants", "streams", "failures"])
def test_what_is_another_tenants_costs_as_much_as_what_is_nobodys(store, work_of, what):
    # Counted, not timed: a difference of microseconds shows on a quiet machine only.
    foreign, unknown = {
        "tenants": lambda: ("/v1/tenants/bolt", "/v1/tenants/nobody"),
        "streams": lambda: ("/v1/streams/bolt/score", "/v1/streams/nobody/score"),
        "failures": lambda: (f"/v1/failures/{keep_failure(store)}", "/v1/failures/99"),
    }[what]()
    assert work_of(foreign) == work_of(unknown)


def test_what_the_database_does_is_seen(store, work_of, asked):
    store.failures.one(keep_failure(store))
    assert "row" in asked
    assert any("FROM headrace_failures" in statement for statement in work_of("/v1/failures/99"))
