"""Parts of a gateway that tests hold in their hands."""

import asyncio
from contextlib import asynccontextmanager

import httpx

from headrace.connectors.kafka.ingest import Stored
from headrace.doors import door
from headrace.doors.door import install_door
from headrace.errors import BrokerUnavailable
from headrace.gateway.app import gateway_app
from headrace.gateway.event_schemas import compiled
from headrace.gateway.event_types import EventType
from headrace.gateway.events import EventLimits
from headrace.gateway.idempotency import IdempotencyMemory
from headrace.gateway.intake import IntakeRules
from headrace.gateway.rates import Rate, Rates, RequestRoom
from headrace.model.credentials import Caller, Role
from headrace.settings.doors import DoorsSettings

SCHEMA = {"required": ["id"], "properties": {"id": {"type": "integer"}}}
TYPES = {
    "visit": EventType("visit", "visits"),
    "form": EventType("form", "forms", schema=compiled(SCHEMA, "form.json")),
}


def rules(**changes):
    made = {
        "types": TYPES,
        "limits": EventLimits(items=10),
        "rates": Rates(Rate(), {"slow": Rate(records_per_s=3)}),
        "room": RequestRoom(1_000_000),
        "memory": IdempotencyMemory(60.0, 100_000),
    }
    return IntakeRules(**{**made, **changes})


class FakeRecords:
    """Stores everything, but what it was told not to."""

    def __init__(self):
        self.stored = []
        #: by value: the error in its place, once
        self.errors = {}
        #: values that nobody hears of until somebody tells
        self.silent = set()
        self.sendings = []
        self.gate = None
        self.closed = False

    async def store(self, topic, records):
        if self.gate is not None:
            await self.gate.wait()
        return [self._one(topic, record) for record in records]

    def begin(self, topic, records):
        sending = FakeSending(self, len(records))
        results = [
            None if record.value in self.silent else self._one(topic, record) for record in records
        ]
        sending.tell(results)
        return sending

    def _one(self, topic, record):
        if record.value in self.errors:
            return self.errors.pop(record.value)
        self.stored.append((topic, record))
        return Stored(0, len(self.stored) - 1)

    async def close(self):
        self.closed = True


class FakeSending:
    """Records on their way; those that are silent are told of by ``tell``."""

    def __init__(self, owner, count):
        owner.sendings.append(self)
        self.owner = owner
        self.results = [None] * count
        self.fates = asyncio.get_running_loop().create_future()

    def tell(self, results):
        self.results = results
        if None not in results:
            self.fates.set_result(results)

    async def wait(self):
        if self.owner.gate is not None:
            await self.owner.gate.wait()


class FakeTopics:
    """Knows these topics."""

    def __init__(self, *names):
        self.names = set(names)
        self.up = True
        self.forgotten = []

    async def is_there(self, topic):
        if not self.up:
            raise BrokerUnavailable("no Kafka broker answers at secret:9092")
        return topic in self.names

    def forget(self, topic):
        self.forgotten.append(topic)

    async def broker_answers(self):
        return self.up

    def close(self):
        pass


class Believing:
    """A doorkeeper that takes ``role tenant`` for a credential."""

    async def of(self, request):
        role, _, tenant = request.headers.get("authorization", "sender acme").partition(" ")
        return Caller(f"key:{role}", Role(role), tenant or None)


def parts(**changes):
    topics = FakeTopics("acme.visits", "acme.forms", "slow.visits")
    return rules(**changes), FakeRecords(), topics


@asynccontextmanager
async def client_of(rules, records, topics, **more):
    app = gateway_app(rules, records, topics, **more)
    install_door(
        app, Believing(), DoorsSettings(hosts=["gateway"]), "127.0.0.1", door.RequestLimits(10_000)
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


def in_loop(test):
    """Run a test that is a coroutine."""

    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
