"""A whole service on PostgreSQL: its drivers are killed, then the database is, and stays down."""

import os
import threading

import pytest
from rig import Rig

from headrace.embedded import EmbeddedPostgres
from headrace.embedded.addresses import free_ports

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.matrix,
    pytest.mark.timeout(1800),
]
SEEDS = int(os.environ.get("HEADRACE_FAULT_SEEDS", "1"))
DOWN_S = 300.0 if SEEDS > 1 else 15.0


@pytest.fixture
def database(open_folder, request):
    folder = open_folder / request.node.name
    with EmbeddedPostgres(folder, free_ports(1)[0]) as server:
        yield server


def test_drivers_on_postgresql_are_killed(kafka, database, tmp_path):
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, database.url)
    with rig.sending():
        for _ in range(max(2, SEEDS)):
            with rig.start() as driver:
                rig.progressing(driver)
                driver.kill()
    rig.settle()
    rig.judge("driver killed, store and SQL sink in PostgreSQL")


def test_store_and_sql_sink_are_down_for_long(kafka, database, tmp_path):
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, database.url)
    with rig.sending(50.0), rig.start() as driver:
        rig.progressing(driver)
        database.kill()
        rig.kills += 1
        threading.Event().wait(DOWN_S)
        database.start()
        rig.progressing(driver)
        driver.drain()
    rig.settle()
    rig.judge(f"PostgreSQL killed, and down for {DOWN_S:.0f} s")
