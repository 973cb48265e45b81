"""Executors that are killed in the middle of a slice, all at once, or but for one task of theirs.

A cluster of Spark's own, a store and a table in PostgreSQL, and three executors of one core each.
"""

import contextlib
import os

import psutil
import pytest
from driver_process import gone, until
from matrix import ROW, SEEDS
from rig import NAMES, Rig

from headrace.crash_points import VARIABLE
from headrace.embedded import EmbeddedSparkCluster

pytestmark = ROW
#: three executors that start at once on few cores take their time
COLD_S = 240.0
EXECUTOR = "CoarseGrainedExecutorBackend"


class Cluster:
    """Executors, of which the first to be in the middle of a slice for the third time stops."""

    def __init__(self, folder, kafka, database, use_case=""):
        self.use_case = use_case
        # Executors have the environment of the worker, which has the test's.
        self.mark = folder / "stopped"
        step = f"mid-slice@{use_case}" if use_case else "mid-slice"
        os.environ[VARIABLE] = f"{step}:3:{self.mark}"
        self.spark = EmbeddedSparkCluster(folder / "spark", cores=3, memory="3g")
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
        )

    @property
    def executors(self):
        children = psutil.Process(self.spark.worker_pid).children(recursive=True)
        return [each for each in children if each.name() == "java" and is_executor(each)]

    def start(self):
        """A driver, of which the executors' tasks stop at the mark."""
        driver = self.rig.start()
        driver.mark = self.mark
        return driver

    def kill(self, processes):
        for each in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(processes, 20)
        self.rig.kills += 1


def is_executor(process):
    with contextlib.suppress(psutil.Error):
        return any(EXECUTOR in word for word in process.cmdline())
    return False


def of_its_executor(worker):
    """The processes of the executor that a worker is one of, itself included."""
    executor = next(each for each in worker.parents() if is_executor(each))
    return [executor, *executor.children(recursive=True)]


@pytest.fixture
def cluster(request, kafka, database, tmp_path):
    made = Cluster(tmp_path, kafka, database, getattr(request, "param", ""))
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
            cluster.kill([one for each in lost for one in (each, *each.children(recursive=True))])
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
        cluster.kill([each for each in of_its_executor(worker) if each != worker])
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
