"""A whole service on PostgreSQL: drivers are killed, the positions locked, the database down."""

import threading

import psycopg
from matrix import FULL, ROW, SEEDS
from rig import Rig

pytestmark = ROW
DOWN_S = 300.0 if FULL else 15.0
#: longer than the store waits for a lock, where there is time
LOCKED_S = 60.0 if FULL else 5.0


def test_drivers_on_postgresql_are_killed(kafka, database, tmp_path):
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, database.url)
    with rig.sending():
        for _ in range(max(2, SEEDS)):
            with rig.start() as driver:
                rig.progressing(driver)
                driver.kill()
    rig.settle()
    rig.judge("driver killed, store and SQL sink in PostgreSQL")


def test_somebody_holds_a_lock_on_all_positions_for_long(kafka, database, tmp_path):
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, database.url)
    with rig.sending(50.0), rig.start() as driver:
        rig.progressing(driver)
        with psycopg.connect(database.url) as other:
            other.execute("SELECT FROM headrace_positions FOR UPDATE")
            threading.Event().wait(LOCKED_S)
        rig.kills += 1
        rig.progressing(driver)
        driver.drain()
    rig.settle()
    rig.judge(f"positions locked for {LOCKED_S:.0f} s")


def test_store_and_sql_sink_are_down_for_long(kafka, database, tmp_path):
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, database.url)
    with rig.sending(50.0), rig.start() as driver:
        rig.progressing(driver)
        with driver.watched():
            database.kill()
            rig.kills += 1
            threading.Event().wait(DOWN_S)
            database.start()
            rig.progressing(driver)
        driver.drain()
    rig.settle()
    rig.judge(f"PostgreSQL killed, and down for {DOWN_S:.0f} s")
