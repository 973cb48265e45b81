"""A worker of a Spark cluster whose machine lacks the shared disk.

It is a process of this machine in a mount namespace of its own, where an empty disk lies over the
folder: as on a machine where nobody mounted it, all writing goes well there.
"""

import os
import subprocess
from contextlib import contextmanager

import psutil
import pytest

from headrace.embedded.guarded import Ending, GuardedProcess

#: root of a namespace of its own, where we are not root here
_APART = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
_OVER = 'mount -t tmpfs none "$1" && shift && exec "$@"'


@contextmanager
def blind_worker(cluster, folder, hidden):
    """Join the cluster with a worker like the one it has, that does not see the folder ``hidden``.

    Args:
        cluster: an ``EmbeddedSparkCluster`` that runs.
        folder: where the worker keeps what it says, and its executors.
        hidden: a folder that is there; executors of this worker find another one at its place.
    """
    mounts = [*_APART, "sh", "-c", _OVER, "sh", str(hidden)]
    if subprocess.run([*mounts, "true"], check=False, capture_output=True).returncode:
        pytest.skip("mount namespaces are not allowed here")
    folder.mkdir(exist_ok=True)
    seeing = psutil.Process(cluster.worker_pid)
    command = seeing.cmdline()
    command[command.index("--work-dir") + 1] = str(folder / "work")
    environment = {**seeing.environ(), "SPARK_LOCAL_DIRS": str(folder / "local")}
    log = folder / "worker.log"
    worker = GuardedProcess([*mounts, *command], log, [], Ending(15.0), environment)
    try:
        yield worker
    finally:
        worker.stop()
