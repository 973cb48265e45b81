"""A table in Cassandra: drivers killed in the write, and the node killed and away for a minute.

The others go on meanwhile; afterwards each record has its row there.
"""

import pytest
from matrix import FULL, ORDERS, SERVICE, in_order, note, row_of
from rig import NAMES, Rig

from headrace.connectors.cassandra.servers import cluster_of
from headrace.embedded import EmbeddedCassandra
from headrace.embedded.addresses import free_ports
from headrace.errors import HeadraceError
from headrace.ports import Connections, Server
from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
HISTORY = """
from headrace.sinks import CassandraTable

@use_case(
    topic=TOPIC,
    sink=CassandraTable(
        "elsewhere",
        {{**COLUMNS, "newness": "version"}},
        key=("tenant", "topic", "part", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="history",
    ),
    guarantee="exactly-once",
)
def elsewhere(table, context):
    return places(table, context)
"""


@pytest.fixture
def node(tmp_path, cassandra_jars):
    """A node of the test's own, whose port stays the same."""
    with EmbeddedCassandra(tmp_path / "cassandra", *free_ports(1)) as server:
        yield server


def rows_in(node):
    """What is in the table; nothing if it is not there, or nobody answers."""
    cluster = cluster_of(Connections({}, "", servers={"history": Server(node.url)}), "history")
    try:
        rows = cluster.asked("SELECT tenant, topic, part, record FROM headrace.elsewhere")
    except HeadraceError:
        return []
    return [Found(tenant, Place(*place)) for tenant, *place in rows]


@pytest.mark.parametrize("order", ORDERS)
def test_in_cassandra_each_row_is_there_whatever_is_killed_or_away(kafka, node, tmp_path, order):
    settings = {"connections": {"history": {"url": node.url}}}
    rig = Rig(
        tmp_path / "service",
        kafka.bootstrap_servers,
        settings=settings,
        more=in_order(HISTORY, order),
    )
    with rig.sending(PER_S):
        rig.killed_and_away("elsewhere", lambda: len(rows_in(node)), node.kill, node.start, DOWN_S)
    rig.kills += 4
    rig.caught_up((*NAMES, "elsewhere"))
    row = row_of(
        f"killed in writes to Cassandra, which is then killed and down for {DOWN_S:.0f} s", order
    )
    rig.judge(row)
    found = rows_in(node)
    verdict = rig.judged(sorted(found, key=lambda one: one.place), order)
    note(f"{row}: its rows", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not any((verdict.lost, verdict.twice, verdict.foreign)), verdict
