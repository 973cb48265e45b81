"""What is decided by HTTP is what the driver does, from its next turn on."""

import asyncio
from contextlib import nullcontext

import httpx
import pytest

from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.redrive import Redriven
from headrace.connectors.kafka.seals import Message, sealed
from headrace.console.api import ApiParts, create_app
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.model.credentials import Role
from headrace.testing.log_fake import Row

SECRET = b"0123456789abcdef0123456789abcdef"
STREAM = "/v1/streams/acme/keep"


class Tools:
    """Kafka in memory, which sends letters back as a cluster would."""

    def __init__(self, world):
        self.world = world

    def log(self):
        return nullcontext(self.world.log)

    def letters(self):
        return nullcontext(self.world.dead_letters)

    def send_back(self, stream, topic, *, generation, limit, dry_run):
        letters = self.world.dead_letters.letters
        if not dry_run:
            at, key = TopicPartition(topic, 0), self.world.connections.seal_key
            values = [letter.error.raw_value for letter in letters]
            found = [sealed(Message(None, v, ()), at, stream.use_case, 1, key) for v in values]
            self.world.log.append(
                topic, 0, [Row(message.value, None, message.headers) for message in found]
            )
        return Redriven(len(letters), (), 0)


@pytest.fixture
def call(world):
    """A driver that cannot take offset 2 of acme until it is mended, and the API beside it."""
    world.mended = False

    def handler(table, context):
        for row, offset in enumerate(table["offset"].to_pylist()):
            if not world.mended and (context.tenant, offset) == ("acme", 2):
                raise context.bad_record(row, "no")
            world.seen.append((context.tenant, offset))
        return table.select(["offset"])

    world.use_cases = [world.make(handler)]
    world.deploy()
    for tenant in ("acme", "bolt"):
        world.tenant(tenant, 5)
    world.start()
    text, key = new_key(Role.OPERATOR, None, "", SECRET, world.clock.now_s())
    world.store.keys.add(key)
    guard = Guard(world.store.keys, SECRET, clock=world.clock.now_s)
    app = create_app(ApiParts(world.store, Tools(world), guard, SECRET, world.clock))

    async def send(method, path, body):
        transport = httpx.ASGITransport(app)
        headers = {"Authorization": f"Bearer {text}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            return await client.request(method, path, headers=headers, json=body)

    def ask(method, path, body=None):
        answer = asyncio.run(send(method, path, body))
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


def offsets(world, tenant):
    return [offset for name, offset in world.seen if name == tenant]


def stopped(call):
    (failure,) = call("GET", "/v1/failures?state=open")["items"]
    return failure["id"]


def test_a_suspended_stream_stands_and_a_resumed_one_goes_on(world, call):
    call("POST", "/v1/streams/bolt/keep/suspend")
    world.turns()
    assert offsets(world, "bolt") == []
    assert world.row("bolt").state == "suspended"
    call("POST", "/v1/streams/bolt/keep/resume")
    world.turns()
    assert offsets(world, "bolt") == [0, 1, 2, 3, 4]


def test_a_suspended_tenant_stands_and_a_resumed_one_goes_on(world, call):
    call("PUT", "/v1/tenants/bolt", {"state": "suspended"})
    world.turns()
    assert offsets(world, "bolt") == []
    call("PUT", "/v1/tenants/bolt", {"state": "active"})
    world.turns()
    assert offsets(world, "bolt") == [0, 1, 2, 3, 4]


def test_a_sought_stream_reads_again_from_there(world, call):
    world.turns()
    call("PUT", "/v1/streams/bolt/keep/positions", {"offsets": {"0": 3}})
    world.turns()
    assert offsets(world, "bolt") == [0, 1, 2, 3, 4, 3, 4]


def test_a_failure_that_is_retried_goes_on_at_its_record(world, call):
    world.turns()
    assert offsets(world, "acme")[-1] == 1
    world.mended = True
    assert call("POST", f"/v1/failures/{stopped(call)}/retry")["next_offset"] == "2"
    world.turns()
    assert world.positions()["acme", 0] == 5


def test_what_was_skipped_is_sent_back_and_handled_once_it_can_be(world, call):
    world.turns()
    assert call("POST", f"/v1/failures/{stopped(call)}/skip")["next_offset"] == "3"
    world.turns()
    assert offsets(world, "acme")[-2:] == [3, 4]
    world.mended = True
    assert call("POST", f"{STREAM}/redrive", {"dry_run": True})["sent"] == 1
    world.turns()
    assert world.positions()["acme", 0] == 5
    assert call("POST", f"{STREAM}/redrive")["sent"] == 1
    world.turns()
    assert offsets(world, "acme")[-1] == 5
    assert world.positions()["acme", 0] == 6
