"""Executors that are killed in the middle of a slice, all at once, or but for one task of theirs.

And one that lacks the disk which all are to share. A cluster of Spark's own, a store and a table in
PostgreSQL, and three executors of one core each.
"""

import contextlib
import os

import psutil
import pytest
from driver_process import gone, until
from matrix import ROW, SEEDS, note
from rig import NAMES, OUTLIVES, Rig

from blind_worker import blind_worker
from headrace.embedded import EmbeddedSparkCluster
from headrace.process.crash_points import VARIABLE

pytestmark = ROW
#: three executors that start at once on few cores take their time
COLD_S = 240.0
#: what must not move a position, and what would leave its effects where nobody looks
FILES = """
@use_case(topic=TOPIC, sink=ParquetFiles("claims_files"), guarantee="at-most-once")
def claims_files(table, context):
    return places(table, context)

@use_case(topic=TOPIC, sink=ParquetFiles("repeats_files"), guarantee="at-least-once")
def repeats_files(table, context):
    return places(table, context)
"""
EXECUTOR = "CoarseGrainedExecutorBackend"


class Cluster:
    """Executors, of which the first to be in the middle of a slice for the third time stops."""

    def __init__(self, folder, kafka, database, use_case="", *, cores=3, more=""):
        self.use_case = use_case
        # Executors have the environment of the worker, which has the test's.
        self.mark = folder / "stopped"
        step = f"mid-slice@{use_case}" if use_case else "mid-slice"
        os.environ[VARIABLE] = f"{step}:3:{self.mark}"
        self.spark = EmbeddedSparkCluster(folder / "spark", cores=cores, memory="3g")
        try:
            self.spark.start()
        finally:
            del os.environ[VARIABLE]
        settings = {
            "master": self.spark.master_url,
            "driver": {"most_slots": 3, "least_slots": 3},
        }
        self.rig = Rig(
            folder / "service",
            kafka.bootstrap_servers,
            database.url,
            settings=settings,
            environment=self.spark.environment,
            more=more,
        )

    @property
    def executors(self):
        children = psutil.Process(self.spark.worker_pid).children(recursive=True)
        return [child for child in children if child.name() == "java" and is_executor(child)]

    def start(self):
        """A driver, of which the executors' tasks stop at the mark."""
        driver = self.rig.start()
        driver.mark = self.mark
        return driver

    def kill(self, processes):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, 20)
        self.rig.kills += 1


def is_executor(process):
    with contextlib.suppress(psutil.Error):
        return any(EXECUTOR in word for word in process.cmdline())
    return False


def of_its_executor(worker):
    """The processes of the executor that a worker is one of, itself included."""
    executor = next(parent for parent in worker.parents() if is_executor(parent))
    return [executor, *executor.children(recursive=True)]


@pytest.fixture
def cluster(request, kafka, database, tmp_path):
    use_case = getattr(request, "param", "")
    made = Cluster(tmp_path, kafka, database, use_case, more=OUTLIVES if use_case else "")
    yield made
    made.spark.stop()


def test_executors_killed_in_a_slice_cost_a_second_run_of_it(cluster):
    rig = cluster.rig
    with rig.sending(), cluster.start() as driver:
        for worker in driver.stops(max(2, SEEDS // 2), COLD_S):
            cluster.kill(of_its_executor(worker))
            rig.progressing(driver, deadline_s=COLD_S)
        driver.drain()
    rig.settle(COLD_S)
    rig.judge("executor killed, in a slice")


def test_all_executors_killed_at_once_cost_time_alone(cluster):
    rig = cluster.rig
    with rig.sending(), cluster.start() as driver:
        driver.let_go()
        for _ in range(max(2, SEEDS // 5)):
            rig.progressing(driver, deadline_s=COLD_S)
            lost = cluster.executors
            assert len(lost) == 3
            cluster.kill(
                [one for process in lost for one in (process, *process.children(recursive=True))]
            )
            until(lambda: len(cluster.executors) == 3, driver.tail, COLD_S)
        rig.progressing(driver, deadline_s=COLD_S)
        driver.drain()
    rig.settle(COLD_S)
    rig.judge("all executors killed at once")


@pytest.mark.parametrize("cluster", NAMES, indirect=True)
def test_a_task_that_outlives_its_executor_wakes_up_harmless(cluster):
    """Its driver lives, and has had the slice run elsewhere under the same epoch."""
    rig = cluster.rig
    with rig.sending(), cluster.start() as driver:
        worker = driver.until_stopped(COLD_S)
        cluster.kill([process for process in of_its_executor(worker) if process != worker])
        rig.progressing(driver, by=500, deadline_s=COLD_S)
        assert not gone(worker)
        driver.let_go()
        until(lambda: gone(worker), driver.tail)
        rig.progressing(driver, deadline_s=COLD_S)
        driver.drain()
    rig.settle(COLD_S)
    row = f"task that outlives its executor, in a slice of {cluster.use_case}"
    found = rig.judge(row, late=("claims",))
    # What needs no fence shows that the sleeper did write.
    assert cluster.use_case != "repeats" or found["repeats"].twice


def refusals(driver):
    """How often something was left undone for want of the shared disk."""
    return driver.log.read_text().count("is not the folder that the driver has there")


def test_an_executor_without_the_shared_disk_loses_nothing_be_it_late_or_early(
    kafka, database, tmp_path
):
    """Files on its own disk would be lost, and the positions would have moved past them."""
    cluster = Cluster(tmp_path, kafka, database, cores=2, more=FILES)
    rig, hidden = cluster.rig, tmp_path / "service" / "files"
    names = (*NAMES, "claims-files", "repeats-files")
    with contextlib.ExitStack() as ending:
        ending.callback(cluster.spark.stop)
        with rig.sending(), cluster.start() as driver:
            driver.let_go()
            rig.progressing(driver, deadline_s=COLD_S)
            assert not refusals(driver)
            ending.enter_context(blind_worker(cluster.spark, tmp_path / "blind", hidden))
            rig.kills += 1
            until(lambda: refusals(driver) > 5, driver.tail, COLD_S)
            rig.progressing(driver, by=500, deadline_s=COLD_S)
            driver.drain()
        # A sentinel of the first driver is there now, and it proves nothing to the second.
        with cluster.start() as driver:
            driver.let_go()
            rig.kills += 1
            with rig.sending():
                until(lambda: refusals(driver), driver.tail, COLD_S)
            until(lambda: not rig.behind(names), lambda: (rig.behind(names), driver.tail()), COLD_S)
            driver.drain()
    row = "executor without the shared disk"
    rig.judge(row)
    told = {name: rig.ledger.judge(rig.files(f"{name}_files")) for name in ("repeats", "claims")}
    note(f"{row}: files", told, faults=rig.kills, records=len(rig.ledger))
    for verdict in told.values():
        assert not verdict.lost, str(verdict)
        assert not verdict.twice, str(verdict)
        assert not verdict.foreign, str(verdict)
