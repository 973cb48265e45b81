"""Streams on a real cluster: executors follow the load, and one that dies takes nobody with it.

Spark allows one session a process and the other tests have theirs, so drivers run in processes of
their own (``cluster_app.py``).
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from blind_worker import blind_worker
from headrace.embedded import EmbeddedSparkCluster
from headrace.embedded.addresses import HOST
from headrace.embedded.guarded import Ending, GuardedProcess

pytestmark = [pytest.mark.spark, pytest.mark.servers]
APP = Path(__file__).with_name("cluster_app.py")


def eventually(condition, deadline_s=60.0):
    """Whether ``condition`` comes true in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with EmbeddedSparkCluster(tmp_path_factory.mktemp("spark"), cores=4, memory="4g") as made:
        yield made


def run(cluster, scenario, folder):
    """What the driver saw."""
    command = [sys.executable, str(APP), scenario, str(folder), cluster.master_url]
    environment = {**os.environ, **cluster.environment}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    *said, seen = done.stdout.splitlines()
    return {**json.loads(seen), "said": "\n".join(said)}


def secret_of(cluster):
    return cluster.environment["_SPARK_AUTH_SECRET"]


def test_executors_follow_the_load_and_no_slice_runs_twice_when_they_go(cluster, tmp_path):
    seen = run(cluster, "elastic", tmp_path)
    assert seen["first"]
    assert seen["asked_for"] == [3, 3]
    assert (seen["most"], seen["slots_at_most"]) == (4, 4)
    assert seen["released_to"] == 2, "a trickle keeps executors that are not released"
    assert seen["stayed"] == [2] * 8
    assert seen["shrunk"], "idle executors stay"
    assert not seen["ever_more"]
    assert seen["errors"] == []
    assert seen["reached"] == [10] * seen["started"]
    assert set(seen["ran"].values()) == {1}
    assert len(seen["ran"]) == seen["started"]
    assert not [key for key, value in seen["settings"].items() if secret_of(cluster) in value]


def test_a_killed_executor_costs_its_own_wave_a_second_run_and_no_other_wave_anything(
    cluster, tmp_path
):
    seen = run(cluster, "killed", tmp_path)
    assert seen["both"]
    assert seen["apart"], "both waves ran on one executor"
    assert seen["orphan_gone"]
    assert seen["returned"] == ["w0", "w1"]
    assert seen["victim_error"] == ""
    assert seen["victim"] == [[10, ""]]
    assert seen["other_error"] == ""
    assert seen["ran"] == {"tenant0": 2, "tenant1": 1, "tenant2": 1}
    assert seen["after_error"] == ""
    assert "CoarseGrainedExecutorBackend" in seen["command"]
    assert secret_of(cluster) not in seen["command"]


def test_a_dataframe_that_died_with_its_executors_is_read_again_only_if_it_is_the_same(
    cluster, tmp_path
):
    seen = run(cluster, "read_again", tmp_path)
    assert seen["errors"] == ["ReadOtherwise", None]
    assert seen["reached"] == [[], [10]]
    assert seen["seen"] == [list(range(10))]


def test_with_all_executors_killed_at_once_every_wave_still_comes_to_its_end(cluster, tmp_path):
    seen = run(cluster, "all_killed", tmp_path)
    assert seen["victims"] == 4
    assert seen["errors"] == []
    assert seen["returned"] == seen["started"]
    assert seen["reached"] == [10] * seen["started"]


def test_use_cases_share_the_executors_by_their_priority(cluster, tmp_path):
    seen = run(cluster, "fair", tmp_path)
    assert seen["errors"] == []
    assert seen["all"] == {"quick": 24, "gold": 24}
    # Three to one is 12 of 16; eight would be no priority.
    assert 9 <= seen["both"]["gold"] <= 15


def test_an_executor_that_comes_later_without_the_shared_disk_does_nothing_of_what_writes_there(
    tmp_path,
):
    """Without the look its files are on its own disk, and the positions have moved past them."""
    folder = tmp_path / "app"
    folder.mkdir()
    with (
        EmbeddedSparkCluster(tmp_path / "spark", cores=1, memory="1g") as cluster,
        ThreadPoolExecutor(1) as threads,
        ExitStack() as ending,
    ):
        app = threads.submit(run, cluster, "apart", folder)

        def told(sign):
            return eventually(lambda: (folder / sign).exists() or app.done(), 240.0)

        assert told("join")
        if not app.done():
            hidden = (folder / "join").read_text()
            ending.enter_context(blind_worker(cluster, tmp_path / "blind", hidden))
        assert told("leave")
        seeing = psutil.Process(cluster.worker_pid)
        # An executor outlives its worker for a moment, and would still do what it is given. And a
        # worker that is asked to end is given another one while it ends.
        its_executors = seeing.children(recursive=True)
        seeing.kill()
        psutil.wait_procs([seeing], 30)
        for process in its_executors:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(its_executors, 30)
        (folder / "left").touch()
        seen = app.result(550)
    assert seen["steps"] == [True, True, True]
    # The other executor did it all; what met this one has not moved.
    done = [row for row in seen["seen"] if row["error"] is None]
    assert len(done) == 40
    assert {(row["reached"], row["files"]) for row in done} == {(10, 1)}
    assert_untouched([row for row in seen["seen"] if row["error"]], seen["files"])
    assert "bins go to another executor" in seen["said"]
    # No bin had to meet it for that.
    assert "executor cannot do all that is deployed" in seen["said"]
    # Where no executor is left that sees the disk, nothing moves.
    assert {row["use_case"] for row in seen["refused"]} == {"quick", "gold"}
    assert_untouched(seen["refused"], seen["files"])


def assert_untouched(refused, files):
    for row in refused:
        assert (row["reached"], row["position"] or 0, row["files"]) == (0, 0, 0)
        code, temporary, message = row["error"]
        assert (code, temporary) == ("FolderNotShared", True)
        assert f"executor on {os.uname().nodename}: {files} is not the folder" in message


@pytest.mark.parametrize("secret", ["", "0" * 64])
def test_who_does_not_know_the_secret_is_not_let_in(cluster, tmp_path, secret):
    uninvited = list(psutil.Process(cluster.worker_pid).cmdline())
    uninvited[uninvited.index("--work-dir") + 1] = str(tmp_path / "work")
    if not secret:
        at = uninvited.index("--properties-file")
        del uninvited[at : at + 2]
    environment = {**cluster.environment, "_SPARK_AUTH_SECRET": secret, "SPARK_LOCAL_DIRS": ""}
    worker = GuardedProcess(uninvited, tmp_path / "log", [], Ending(5.0), environment)
    try:
        assert eventually(lambda: "Failed to connect to master" in worker.tail())
        assert "Successfully registered" not in (tmp_path / "log").read_text()
    finally:
        worker.kill()


def test_the_secret_is_on_no_command_line_and_in_no_file(cluster):
    for pid in (cluster.master_pid, cluster.worker_pid):
        assert secret_of(cluster) not in " ".join(psutil.Process(pid).cmdline())
    files = [path for path in cluster.folder.rglob("*") if path.is_file()]
    assert any(file.name == "worker.log" for file in files)
    assert not [file for file in files if secret_of(cluster).encode() in file.read_bytes()]


def test_master_and_worker_listen_on_this_machine_only(cluster):
    worker = psutil.Process(cluster.worker_pid)
    master = psutil.Process(cluster.master_pid)
    found = {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in (master, worker)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert found == {HOST}


def test_a_stopped_cluster_leaves_no_process_and_can_be_started_again(tmp_path):
    cluster = EmbeddedSparkCluster(tmp_path / "spark", cores=1, memory="1g")
    cluster.start()
    first = [cluster.master_pid, cluster.worker_pid]
    cluster.stop()
    assert not any(psutil.pid_exists(pid) for pid in first)
    assert not cluster.running
    with cluster:
        assert cluster.running
        assert not set(first) & {cluster.master_pid, cluster.worker_pid}
