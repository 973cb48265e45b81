"""Hashes in Valkey: drivers killed in the write, and the server killed and away for a minute.

The others go on meanwhile; afterwards each record has its entry there.
"""

import pytest
import redis
from matrix import FULL, ORDERS, SERVICE, in_order, note, row_of
from rig import NAMES, Rig

from headrace.embedded import EmbeddedValkey
from headrace.embedded.addresses import free_ports
from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
CACHE = """
from headrace.sinks import RedisHashes

@use_case(
    topic=TOPIC,
    sink=RedisHashes(
        "{{tenant}}",
        {{**COLUMNS, "newness": "version"}},
        key=("topic", "part", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="cache",
    ),
    guarantee="exactly-once",
)
def elsewhere(table, context):
    return places(table, context)
"""


@pytest.fixture
def server(tmp_path):
    """A server of the test's own, whose port stays the same."""
    with EmbeddedValkey(tmp_path / "valkey", *free_ports(1)) as made:
        yield made


def entries_in(server):
    """What is there; nothing if nobody answers."""
    try:
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            keys = list(client.scan_iter(count=10_000))
    except redis.RedisError:
        return []
    places = [key.split(":") for key in keys]
    return [
        Found(tenant, Place(topic, int(part), int(record)))
        for tenant, topic, part, record in places
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_in_valkey_each_entry_is_there_whatever_is_killed_or_away(kafka, server, tmp_path, order):
    settings = {"connections": {"cache": {"url": server.url}}}
    rig = Rig(
        tmp_path / "service",
        kafka.bootstrap_servers,
        settings=settings,
        more=in_order(CACHE, order),
    )
    with rig.sending(PER_S):
        rig.killed_and_away(
            "elsewhere", lambda: len(entries_in(server)), server.kill, server.start, DOWN_S
        )
    rig.kills += 4
    rig.caught_up((*NAMES, "elsewhere"))
    row = row_of(
        f"killed in writes to Valkey, which is then killed and down for {DOWN_S:.0f} s", order
    )
    rig.judge(row)
    found = entries_in(server)
    verdict = rig.judged(sorted(found, key=lambda one: one.place), order)
    note(f"{row}: its entries", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not any((verdict.lost, verdict.twice, verdict.foreign)), verdict
