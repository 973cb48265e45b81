"""A table in HBase: drivers killed in the write, and HBase killed and away for a minute.

The others go on meanwhile; afterwards each record has its row there.
"""

import happybase
import pytest
from matrix import FULL, ORDERS, SERVICE, in_order, note, row_of
from rig import NAMES, Rig
from thriftpy2.thrift import TException

from headrace.embedded import EmbeddedHBase
from headrace.embedded.addresses import free_ports
from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
ENTITIES = """
from headrace.sinks import HBaseTable

@use_case(
    topic=TOPIC,
    sink=HBaseTable(
        "elsewhere",
        {{**COLUMNS, "newness": "version"}},
        key=("topic", "part", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="entities",
    ),
    guarantee="exactly-once",
)
def elsewhere(table, context):
    return places(table, context)
"""


@pytest.fixture
def server(tmp_path, hbase_jars):
    """A server of the test's own, whose port stays the same."""
    with EmbeddedHBase(tmp_path / "hbase", *free_ports(1)) as made:
        yield made


def rows_in(server):
    """What is in the table; nothing if it is not there, or nobody answers."""
    try:
        connection = happybase.Connection("127.0.0.1", server.port, timeout=10_000)
        try:
            keys = [key.decode() for key, _ in connection.table("elsewhere").scan()]
        finally:
            connection.close()
    except (OSError, TException):
        return []
    places = [key.split(":") for key in keys]
    return [
        Found(tenant, Place(topic, int(part), int(record)))
        for tenant, topic, part, record in places
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_in_hbase_each_row_is_there_whatever_is_killed_or_away(kafka, server, tmp_path, order):
    settings = {"connections": {"entities": {"url": server.url}}}
    rig = Rig(
        tmp_path / "service",
        kafka.bootstrap_servers,
        settings=settings,
        more=in_order(ENTITIES, order),
    )
    with rig.sending(PER_S):
        rig.killed_and_away(
            "elsewhere", lambda: len(rows_in(server)), server.kill, server.start, DOWN_S
        )
    rig.kills += 4
    rig.caught_up((*NAMES, "elsewhere"))
    row = row_of(
        f"killed in writes to HBase, which is then killed and down for {DOWN_S:.0f} s", order
    )
    rig.judge(row)
    found = rows_in(server)
    verdict = rig.judged(sorted(found, key=lambda one: one.place), order)
    note(f"{row}: its rows", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not any((verdict.lost, verdict.twice, verdict.foreign)), verdict
