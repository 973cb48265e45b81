"""Drivers that are paused, doubled, or lose their workers; brokers that die or stand still."""

import contextlib
import sqlite3
import threading

import psutil
import pytest
from driver_process import gone, until
from matrix import FULL, SEEDS, SERVICE
from rig import NAMES, OUTLIVES, Rig

from headrace.embedded import EmbeddedKafka
from headrace.embedded.addresses import free_ports

pytestmark = SERVICE


@pytest.fixture
def rig(request, kafka, tmp_path):
    settings, more = {"driver": {"lease": "3s"}}, getattr(request, "param", "")
    return Rig(tmp_path / "service", kafka.bootstrap_servers, settings=settings, more=more)


def holders(rig):
    with rig.store() as store:
        return {stream.holder for stream in store.registry.streams()}


def stopped_outside_the_store(rig, driver):
    """Stop a driver between two of its transactions.

    SQLite's lock is a lock of the file: a process that is stopped while it holds it keeps everybody
    out until it goes on. PostgreSQL ends a session that idles within a transaction.
    """
    while True:
        tree = driver.tree()
        for process in tree:
            process.suspend()
        with contextlib.closing(sqlite3.connect(f"{rig.folder}/store.db", timeout=0.2)) as store:
            try:
                store.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                for process in tree:
                    process.resume()
                continue
            store.execute("ROLLBACK")
        return tree


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.matrix if name != NAMES[0] else []) for name in NAMES],
)
def test_a_driver_asleep_in_a_slice_for_longer_than_its_lease_wakes_up_harmless(rig, name):
    with rig.sending(), rig.start(f"mid-slice@{name}:3", "--name", "a") as first:
        first.until_stopped()
        tree = stopped_outside_the_store(rig, first)
        rig.kills += 1
        with rig.start("", "--name", "b") as second:
            until(lambda: holders(rig) == {"b"}, second.tail)
            rig.progressing(second, by=500)
            # The task has its effects in its hands, and writes them now.
            first.let_go()
            for process in tree:
                process.resume()
            until(lambda: holders(rig) == {"a", "b"}, first.tail)
            assert "given up for dead" in first.log.read_text()
            rig.progressing(first)
            first.drain()
            second.drain()
    rig.settle()
    found = rig.judge(f"driver asleep past its lease, in a slice of {name}", late=("claims",))
    # What needs no fence shows that the sleeper did write.
    assert name != "repeats" or found["repeats"].twice


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rig", [pytest.param(OUTLIVES, id="alone")], indirect=True)
def test_a_task_that_outlives_its_driver_wakes_up_harmless(rig, name):
    with rig.sending(), rig.start(f"mid-slice@{name}:3", "--name", "a") as first:
        # SIGSTOP would not do: the kernel hangs up on stopped processes that nobody looks after.
        worker = first.until_stopped()
        first.kill(but={worker.pid})
        try:
            with rig.start("", "--name", "b") as second:
                rig.progressing(second, by=500)
                assert not gone(worker)
                first.let_go()
                until(lambda: gone(worker), second.tail)
                rig.progressing(second)
                second.drain()
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
    rig.settle()
    found = rig.judge(f"task that outlives its driver, in a slice of {name}", late=("claims",))
    # What needs no fence shows that the sleeper did write.
    assert name != "repeats" or found["repeats"].twice


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
@pytest.mark.parametrize("step", ["claimed", "mid-slice", "mid-write", "sink-written"])
def test_killed_workers_cost_a_second_run_and_nothing_else(rig, step):
    with rig.sending(), rig.start(f"{step}:3") as driver:
        driver.until_stopped()
        with driver.watched():
            for worker in driver.stops(SEEDS):
                worker.kill()
                rig.kills += 1
                rig.progressing(driver, by=50)
        driver.drain()
    rig.settle()
    rig.judge(f"Python worker killed: {step}")


@pytest.mark.matrix
def test_a_file_that_is_half_written_is_nobodys(rig):
    with rig.sending(), rig.start("mid-write@intends:3") as driver:
        driver.until_stopped()
        assert list((rig.folder / "files" / "intends" / "_unfinished").iterdir())
        driver.kill()
    rig.settle()
    rig.judge("half-written file left behind")


@pytest.mark.matrix
def test_a_broker_that_is_killed_and_one_that_stands_still(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka", port=free_ports(1)[0]) as broker:
        rig = Rig(tmp_path / "service", broker.bootstrap_servers)
        with rig.sending(), rig.start() as driver:
            rig.progressing(driver)
            with driver.watched():
                kill_and_stop(broker, rig, driver)
            driver.drain()
        rig.kills += 6 if FULL else 3
        rig.settle()
        rig.judge("broker killed, and stopped for a while")


def kill_and_stop(broker, rig, driver):
    for _ in range(5 if FULL else 2):
        broker.kill()
        broker.start()
        rig.progressing(driver)
    stopped = psutil.Process(broker.pid)
    stopped.suspend()
    threading.Event().wait(60.0 if FULL else 10.0)
    stopped.resume()
    rig.progressing(driver)


@pytest.mark.matrix
def test_after_a_kill_with_much_waiting_it_goes_on(rig):
    rig.send(200 if FULL else 50)
    with rig.start("committed:1") as driver:
        driver.until_stopped()
        driver.kill()
    rig.settle()
    rig.judge("driver killed, a backlog waiting")
