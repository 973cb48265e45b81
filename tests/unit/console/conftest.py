"""The control API in this process, on a store in memory, asked by each role."""

import asyncio
from contextlib import nullcontext

import httpx
import pytest
import structlog

from headrace.connectors.kafka.redrive import Redriven
from headrace.console.api import ApiParts, create_app, equip
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.errors import BrokerUnavailable
from headrace.model.credentials import Role
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.log_fake import MemoryLog, Row
from headrace.testing.memory_store import MemoryStore

SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def _quiet_logs():
    structlog.configure(
        processors=[structlog.processors.KeyValueRenderer()],
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    yield
    structlog.reset_defaults()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    """Tenants acme and bolt, each with a stream of two lanes at offset 3 in the use case score."""
    store = MemoryStore()
    store.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
    for tenant, topic_id in (("acme", "topic-1"), ("bolt", "topic-2")):
        store.registry.add_tenant(Tenant(tenant))
        store.progress.start_lanes(
            [
                LaneStart(
                    StreamId("score", tenant),
                    topic_id,
                    {f"{tenant}.visits[0]": 3, f"{tenant}.visits[1]": 3},
                )
            ]
        )
    return store


class FakeTools:
    """Kafka in memory; redrives are noted."""

    def __init__(self):
        self.kafka = MemoryLog()
        self.kept = MemoryDeadLetters()
        self.redriven = []
        self.down = False

    def log(self):
        return nullcontext(self.kafka)

    def letters(self):
        return nullcontext(self.kept)

    def send_back(self, stream, topic, *, generation, limit, dry_run):
        if self.down:
            raise BrokerUnavailable
        self.redriven.append((stream, topic, generation, limit, dry_run))
        return Redriven(7, ("offset 3: too often",), 2)


@pytest.fixture
def tools():
    made = FakeTools()
    for tenant in ("acme", "bolt"):
        made.kafka.create_topic(f"{tenant}.visits", 2)
        for partition in (0, 1):
            made.kafka.append(f"{tenant}.visits", partition, [Row(b"{}")] * 9)
    return made


class Api:
    """Asks as somebody; ``who`` is a role, ``bolt`` the other tenant, None nobody."""

    def __init__(self, app, store, now_s):
        self.app, self.keys = app, {}
        for who, role, tenant in (
            ("operator", Role.OPERATOR, None),
            ("viewer", Role.VIEWER, None),
            ("tenant", Role.TENANT, "acme"),
            ("sender", Role.SENDER, "acme"),
            ("schemas", Role.SCHEMAS, None),
            ("bolt", Role.TENANT, "bolt"),
        ):
            text, key = new_key(role, tenant, who, SECRET, now_s)
            store.keys.add(key)
            self.keys[who] = text

    def __call__(self, method, path, who="operator", headers=(), **more):
        given = dict(headers)
        if who is not None:
            given["Authorization"] = f"Bearer {self.keys[who]}"
        return asyncio.run(self._send(method, path, given, more))

    async def _send(self, method, path, headers, more):
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            return await client.request(method, path, headers=headers, **more)

    def get(self, path, who="operator", **more):
        return self("GET", path, who, **more)

    def items(self, path, who="operator"):
        answer = self("GET", path, who)
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]


@pytest.fixture
def parts(store, tools, clock):
    guard = Guard(store.keys, SECRET, clock=clock.now_s, steady=clock.monotonic_s)
    return ApiParts(store, tools, guard, SECRET, clock)


@pytest.fixture(scope="session")
def built():
    """One app for all tests, since to build it takes longer than most of them."""
    store = MemoryStore()
    return create_app(ApiParts(store, FakeTools(), Guard(store.keys, SECRET), SECRET, FakeClock()))


@pytest.fixture
def app(built, parts):
    equip(built, parts)
    return built


@pytest.fixture
def api(app, store, clock):
    return Api(app, store, clock.now_s())


@pytest.fixture
def fail(store):
    """Keep a failure at offset 3 of a lane that stands there."""

    def keep(tenant="acme", partition=0, *, until=9, **error):
        lane = LaneId("score", tenant, f"{tenant}.visits[{partition}]")
        given = {
            "code": "HandlerError",
            "message": "no JSON",
            "offset": 3,
            "raw_value": b"\xff{",
            "raw_key": b"k",
            "raw_headers": (("h", b"1"), ("n", None)),
            "traceback": "Traceback ...",
            **error,
        }
        piece = Slice(lane, f"{tenant}.visits", 3, until, 1, records=until - 3)
        wrong = SliceError(temporary=False, **given)
        behind = None if wrong.offset is None else wrong.offset + 1
        return store.failures.keep([Failure(piece, wrong, 5.0, 4, behind=behind)])[0]

    return keep
