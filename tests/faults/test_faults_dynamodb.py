"""A table in DynamoDB: drivers killed in the write, then the service away and short.

It is moto's, which this process has, so it forgets nothing while it is away. The others go on
meanwhile; afterwards each record has its item there.
"""

import pytest
from matrix import FULL, SERVICE, in_order, note, row_of
from rig import NAMES, Rig, until

from dynamodb_server import SECRET, USER, DynamoDb
from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
#: puts a second that it takes when it is short
SHORT_PER_S = 2.0
TABLE = """
from headrace.sinks import DynamoTable

@use_case(
    topic=TOPIC,
    sink=DynamoTable(
        "elsewhere",
        {{**COLUMNS, "newness": "version"}},
        key=("topic", "part", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="there",
    ),
    guarantee="exactly-once",
)
def elsewhere(table, context):
    return places(table, context)
"""


@pytest.fixture
def service():
    """A service of the test's own."""
    with DynamoDb() as made:
        yield made


@pytest.mark.parametrize("order", ["lane", "key"])
@pytest.mark.matrix
def test_in_dynamodb_each_item_is_there_whatever_is_killed_away_or_too_much(
    kafka, service, tmp_path, order
):
    there = {"url": service.server.url, "user": USER, "password": SECRET}
    settings = {"connections": {"there": there}}
    rig = Rig(
        tmp_path / "service",
        kafka.bootstrap_servers,
        settings=settings,
        more=in_order(TABLE, order),
    )

    def away():
        service.away = True

    def back():
        service.away = False

    with rig.sending(PER_S):
        rig.killed_and_away(
            "elsewhere", lambda: len(service.items("elsewhere")), away, back, DOWN_S
        )
        with rig.start() as driver:
            service.per_s = SHORT_PER_S
            until(lambda: service.refused > 20, driver.tail)
            rig.progressing(driver)
            service.per_s = None
            before = len(service.items("elsewhere"))
            until(lambda: len(service.items("elsewhere")) > before + 50, driver.tail)
            driver.drain()
    rig.kills += 4
    rig.caught_up((*NAMES, "elsewhere"))
    row = row_of(
        f"killed in writes to DynamoDB, which is then away for {DOWN_S:.0f} s, and throttles", order
    )
    rig.judge(row)
    found = [
        Found(one["_tenant"], Place(one["topic"], int(one["part"]), int(one["record"])))
        for one in service.items("elsewhere")
    ]
    verdict = rig.judged(sorted(found, key=lambda one: one.place), order)
    note(f"{row}: its items", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not any((verdict.lost, verdict.twice, verdict.foreign)), verdict
