"""Where garbage of a driver is collected, and what Python itself would have collected then."""

import subprocess
import sys
import threading

import pytest
from structlog.testing import capture_logs

from headrace.process.daemon_threads import DaemonThreads
from headrace.process.memory import _collect, due_generation

THRESHOLDS = (700, 10, 10)

IN_A_PROCESS = """
import gc, threading, time
from headrace.process import memory
memory._COLLECT_AFTER_OBJECTS = 1_000
memory._LOOK_EVERY_S = 0.01
memory.collect_apart()
memory.collect_apart()

class Left:
    def __init__(self):
        self.me = self
    def __del__(self):
        print(threading.current_thread().name, flush=True)
        time.sleep(600)

Left()
kept, turns = [], 0
until_s = time.monotonic() + 2
while time.monotonic() < until_s:
    kept.append([])
    turns += 1
    time.sleep(0.0001)
names = [thread.name for thread in threading.enumerate()]
print(names.count("headrace-collector"), turns > 1_000, gc.isenabled())
"""


@pytest.mark.parametrize(
    ("counts", "due"),
    [
        ((700, 99, 99), None),
        ((701, 10, 99), 0),
        ((701, 11, 10), 1),
        ((701, 11, 11), 2),
        ((701, 0, 11), 0),
    ],
)
def test_the_oldest_generation_that_is_due_is_collected(counts, due):
    assert due_generation(counts, THRESHOLDS) == due


def test_what_hangs_where_it_is_freed_holds_a_thread_of_its_own_and_no_turn():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["headrace-collecting", "1 True False"]


def test_a_collection_that_hangs_is_told_once_and_so_is_its_end():
    freed, threads = threading.Event(), DaemonThreads(1, "test")
    threading.Timer(0.3, freed.set).start()
    with capture_logs() as told:
        _collect(threads, freed.wait, 0.05)
        _collect(threads, freed.wait, 5.0)
    texts = [line["event"] for line in told]
    assert len(texts) == 2
    assert "does not come back where it is freed" in texts[0]
    assert "collected again" in texts[1]
