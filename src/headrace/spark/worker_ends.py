"""Waiting until the Python workers of a failed job are dead.

Spark calls a task over when it has told the daemon of the workers to kill the one that ran it. For
some milliseconds that one lives on, and does what it was at. A wave that came back meanwhile would
be planned again, and its lane be in two hands. So whoever gives a failed wave back waits here, for
the processes that left a marker and did not clear it away.

Only what runs on the driver's own machine can be seen. Of workers elsewhere it holds what Spark
promises, and what the guarantees say of a task that outlives its driver.
"""

from __future__ import annotations

import time

import psutil
import structlog

from headrace.spark.crash_markers import processes_of

log = structlog.get_logger(__name__)

#: longest wait: a killed process that is still there then hangs in the kernel, on a dead disk say
_PATIENCE_S = 15.0
_LOOK_EVERY_S = 0.005


def still_alive(job: str, patience_s: float = _PATIENCE_S) -> set[int]:
    """Wait for the workers of a job that is over; those that live on after ``patience_s``."""
    end_s = time.monotonic() + patience_s
    try:
        alive = {pid for pid in processes_of(job) if _lives(pid)}
    except OSError as error:
        # A full disk, say. The wave has to come back all the same.
        log.warning("workers of a failed wave are not known", error=str(error))
        return set()
    while alive and time.monotonic() < end_s:
        time.sleep(_LOOK_EVERY_S)
        alive = {pid for pid in alive if _lives(pid)}
    return alive


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, ValueError):
        return False  # or it is somebody else's by now, or what was left is no number of a process
