"""A table in another database than the store's: killed in the write, and the database away.

The others go on meanwhile; afterwards each record has its row there, once.
"""

import pytest
from matrix import FULL, ORDERS, SERVICE, in_order, note, row_of
from rig import NAMES, WHEN_MADE, Rig
from sqlalchemy import NullPool, create_engine, make_url, text
from sqlalchemy.exc import OperationalError, ProgrammingError

import mariadb_server
from headrace.databases.addresses import parse_elsewhere
from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
HISTORY = """
@use_case(
    topic=TOPIC, sink=SqlTable("elsewhere", columns=COLUMNS, at="history"), guarantee="exactly-once"
)
def elsewhere(table, context):
    return places(table, context)
"""


#: the order in which rows came; a table of MariaDB without a key lies in it
KINDS = {"postgresql": WHEN_MADE["postgresql"], "mariadb": "NULL"}


@pytest.fixture(params=["postgres", "mariadb"])
def elsewhere(request, tmp_path):
    """A server of the test's own."""
    if request.param == "postgres":
        yield request.getfixturevalue("database")
        return
    mariadb_server.needed()
    with mariadb_server.MariaDbServer(tmp_path / "mariadb") as server:
        yield server


def rows_in(server):
    """What is in the table, in the order it was made."""
    kind = make_url(server.url).drivername
    wanted = "SELECT tenant, topic, part, record FROM elsewhere"
    engine = create_engine(parse_elsewhere(server.url, "the test").url, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            rows = connection.execute(text(f"{wanted} ORDER BY {KINDS[kind]}")).all()
    except (OperationalError, ProgrammingError):
        return []  # it is not there yet
    return [Found(tenant, Place(topic, part, at)) for tenant, topic, part, at in rows]


@pytest.mark.parametrize("order", ORDERS)
def test_in_another_database_each_row_is_there_once_whatever_is_killed_or_away(
    kafka, elsewhere, tmp_path, order
):
    settings = {"connections": {"history": {"url": elsewhere.url}}}
    rig = Rig(
        tmp_path / "service",
        kafka.bootstrap_servers,
        settings=settings,
        more=in_order(HISTORY, order),
    )
    with rig.sending(PER_S):
        rig.killed_and_away(
            "elsewhere", lambda: len(rows_in(elsewhere)), elsewhere.stop, elsewhere.start, DOWN_S
        )
    rig.kills += 1
    rig.caught_up((*NAMES, "elsewhere"))
    kind = make_url(elsewhere.url).drivername
    row = row_of(
        f"killed in writes to another database ({kind}), which is then down for {DOWN_S:.0f} s",
        order,
    )
    rig.judge(row)
    verdict = rig.judged(rows_in(elsewhere), order)
    note(f"{row}: its rows", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    found = (verdict.lost, verdict.twice, verdict.foreign, verdict.out_of_order)
    assert not any(found), str(verdict)
