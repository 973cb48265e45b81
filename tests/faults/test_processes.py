"""Drivers that are paused, doubled, or lose their workers; brokers that die or stand still."""

import contextlib
import os
import random
import signal
import sqlite3
import threading
import time

import psutil
import pytest
from rig import Rig, until

from headrace.embedded import EmbeddedKafka
from headrace.embedded.addresses import free_ports
from headrace.store import open_store

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1800)]
SEEDS = int(os.environ.get("HEADRACE_FAULT_SEEDS", "1"))
FULL = SEEDS > 1


@pytest.fixture
def rig(kafka, tmp_path):
    return Rig(tmp_path / "service", kafka.bootstrap_servers, driver={"lease": "3s"})


def holders(rig):
    store = open_store(rig.database_url)
    try:
        return {each.holder for each in store.streams()}
    finally:
        store.close()


def workers(driver):
    """Python workers that run tasks."""
    found = []
    for each in driver.tree():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is none of them either
            mother = each.parent()
            if mother is not None and all("pyspark.daemon" in p.cmdline() for p in (each, mother)):
                found.append(each)
    return found


def stopped_outside_the_store(rig, driver):
    """Stop a driver between two of its transactions.

    SQLite's lock is a lock of the file: a process that is stopped while it holds it keeps everybody
    out until it goes on. PostgreSQL ends a session that idles within a transaction.
    """
    while True:
        tree = driver.tree()
        for each in tree:
            each.suspend()
        with contextlib.closing(sqlite3.connect(f"{rig.folder}/store.db", timeout=0.2)) as store:
            try:
                store.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                for each in tree:
                    each.resume()
                continue
            store.execute("ROLLBACK")
        return tree


def test_a_driver_stopped_for_longer_than_its_lease_wakes_up_harmless(rig):
    with rig.sending(), rig.start("", "--name", "a") as first:
        rig.progressing()
        tree = stopped_outside_the_store(rig, first)
        rig.kills += 1
        with rig.start("", "--name", "b") as second:
            until(lambda: holders(rig) == {"b"}, second.tail)
            rig.progressing()
            for each in tree:
                each.resume()
            until(lambda: holders(rig) == {"a", "b"}, first.tail)
            rig.progressing()
            first.drain()
            second.drain()
    rig.settle()
    rig.judge("driver paused past its lease (SIGSTOP, SIGCONT)")


@pytest.mark.matrix
def test_two_drivers_share_and_the_survivor_inherits(rig):
    with rig.sending(), rig.start("", "--name", "a") as first:
        with rig.start("", "--name", "b") as second:
            until(lambda: holders(rig) == {"a", "b"}, second.tail)
            rig.progressing()
            second.kill()
        until(lambda: holders(rig) == {"a"}, first.tail)
        rig.progressing()
        first.drain()
    rig.settle()
    rig.judge("two drivers, one killed")


@pytest.mark.matrix
def test_killed_workers_cost_a_second_run_and_nothing_else(rig):
    chance = random.Random(1)
    with rig.sending(), rig.start() as driver:
        for _ in range(max(3, SEEDS)):
            rig.progressing(by=50)
            found = workers(driver)
            assert found, driver.tail()
            try:
                chance.choice(found).send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
            rig.kills += 1
        rig.progressing(by=50)
        driver.drain()
    rig.settle()
    rig.judge("Python worker killed")


@pytest.mark.matrix
def test_files_that_were_half_written_are_nobodys(rig):
    with rig.sending(), rig.start("mid-slice:3") as driver:
        driver.until_stopped()
        driver.kill()
    unfinished = rig.folder / "files" / "intends" / "_unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    for number in range(20):
        (unfinished / f"half-{number}.parquet").write_bytes(b"PAR1 and then the disk was gone")
    rig.kills += 1
    rig.settle()
    rig.judge("half-written files left behind")


@pytest.mark.matrix
def test_a_broker_that_is_killed_and_one_that_stands_still(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka", port=free_ports(1)[0]) as broker:
        rig = Rig(tmp_path / "service", broker.bootstrap_servers)
        with rig.sending(), rig.start() as driver:
            for _ in range(5 if FULL else 2):
                rig.progressing()
                broker.kill()
                broker.start()
            rig.progressing()
            stopped = psutil.Process(broker.pid)
            stopped.suspend()
            waiting = threading.Event()
            waiting.wait(60.0 if FULL else 10.0)
            stopped.resume()
            rig.progressing()
            driver.drain()
        rig.kills += 6 if FULL else 3
        rig.settle()
        rig.judge("broker killed, and stopped for a while")


@pytest.mark.matrix
def test_after_a_kill_the_first_commit_comes_soon_whatever_waits(rig):
    rig.send(200 if FULL else 50)
    with rig.start("committed:1") as driver:
        driver.until_stopped()
        driver.kill()
    began = time.monotonic()
    before = len(rig.rows("transacts"))
    with rig.start() as driver:
        until(lambda: len(rig.rows("transacts")) > before, driver.tail)
        took_s = time.monotonic() - began
        until(lambda: not rig.behind(), lambda: rig.behind()[:5])
        driver.drain()
    rig.judge(f"driver killed; first commit after {took_s:.1f} s, start of Spark included")
