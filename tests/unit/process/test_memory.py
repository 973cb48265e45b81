"""Where garbage of a driver is collected, and what Python itself would have collected then."""

import subprocess
import sys
import traceback
import weakref

import pytest
from structlog.testing import capture_logs

from headrace.process.memory import Freeing, clear_frames, due_generation

THRESHOLDS = (700, 10, 10)

IN_A_PROCESS = """
import gc, sys, threading, time
from headrace.process import memory
memory._COLLECT_AFTER_OBJECTS = 1_000
memory._LOOK_EVERY_S, memory.HANGS_S = 0.01, 0.5
memory.collect_apart()
memory.collect_apart()

class Left:
    def __init__(self):
        self.me = self
    def __del__(self):
        print(threading.current_thread().name, flush=True)
        time.sleep(600)

Left()
if "elsewhere" in sys.argv:
    threading.Thread(target=gc.collect, name="elsewhere", daemon=True).start()
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


@pytest.mark.parametrize("where", ["headrace-collecting", "elsewhere"])
def test_what_hangs_where_it_is_freed_holds_one_thread_and_no_turn_and_is_told(where):
    command = [sys.executable, "-c", IN_A_PROCESS, where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    thread, told, turns = done.stdout.splitlines()
    assert (thread, turns) == (where, "1 True False")
    assert "does not come back where it is freed" in told


def test_garbage_that_is_freed_is_no_news():
    script = IN_A_PROCESS.replace("time.sleep(600)", "pass")
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["headrace-collecting", "1 True False"]


TURNED_ON = """
import gc, time
from headrace.process import memory
memory.collect_by_itself(does=True)
before = gc.isenabled()
memory._LOOK_EVERY_S = 0.01
memory.collect_apart()
memory.collect_by_itself(does=True)
put_back = gc.isenabled()
gc.enable()
until_s = time.monotonic() + 20
while gc.isenabled() and time.monotonic() < until_s:
    time.sleep(0.01)
print(before, put_back, gc.isenabled())
"""


def test_python_collects_nothing_by_itself_in_a_driver_whoever_turns_it_on():
    command = [sys.executable, "-c", TURNED_ON]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True False False\n"


NO_THREAD_AT_FIRST = """
import gc, threading, time, weakref
from headrace.process import memory
memory._COLLECT_AFTER_OBJECTS, memory._LOOK_EVERY_S = 1_000, 0.01
start, refused = threading.Thread.start, []

def refuse_some(thread):
    if thread.name == "headrace-collecting" and len(refused) < 3:
        refused.append(thread)
        raise RuntimeError("can't start new thread")
    start(thread)

threading.Thread.start = refuse_some
memory.collect_apart()
ring = weakref.ref(memory._Ring())
kept, until_s = [], time.monotonic() + 20
while ring() is not None and time.monotonic() < until_s:
    kept.append([])
    time.sleep(0.0001)
print(len(refused), "freed" if ring() is None else "kept")
"""


def test_where_no_thread_can_be_started_for_a_moment_garbage_is_freed_later():
    command = [sys.executable, "-c", NO_THREAD_AT_FIRST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "3 freed\n"


def test_a_collection_that_hangs_is_told_once_and_so_is_its_end():
    freeing = Freeing()
    with capture_logs() as told:
        for now_s, is_freed in [(0, True), (1, False), (5, True), (6, False), (15, False)]:
            freeing.heard(is_freed=is_freed, now_s=now_s)
        assert told == []
        for now_s in (16, 30):
            freeing.heard(is_freed=False, now_s=now_s)
        freeing.heard(is_freed=True, now_s=31)
        freeing.heard(is_freed=True, now_s=32)
    assert ["freed at last" in line["event"] for line in told] == [False, True]


class Held:
    """What a call has opened."""


def held_by_an_error():
    """An error, and what a call held that it came through."""

    def inner():
        held = Held()
        watched.append(weakref.ref(held))
        raise ValueError("no")

    watched = []
    with pytest.raises(ValueError, match="no") as raised:
        inner()
    assert watched[0]() is not None
    return raised.value, watched[0]


def ring(error):
    """Is its own cause, through another one."""
    error.__cause__ = RuntimeError("why")
    error.__cause__.__cause__ = error
    return error


def context_of_one_with_a_cause(error):
    """As where a handler of errors fails, and says why."""
    made = RuntimeError("one")
    made.__cause__, made.__context__ = OSError("two"), error
    return made


def group(error):
    """As `asyncio.TaskGroup` raises."""
    return ExceptionGroup("all", [OSError("one"), ExceptionGroup("two", [error])])


@pytest.mark.parametrize("raised", [ring, context_of_one_with_a_cause, group])
def test_an_error_lets_go_what_the_calls_held_that_it_came_through(raised):
    error, held = held_by_an_error()
    clear_frames(raised(error))
    assert held() is None
    assert "in inner" in "".join(traceback.format_tb(error.__traceback__))


class Endless(ExceptionGroup):
    """Has other errors whenever it is asked."""

    @property
    def exceptions(self):
        """Made up."""
        return [Endless("more", [ValueError("no")])]


def test_errors_without_end_are_not_followed_for_ever(monkeypatch):
    monkeypatch.setattr("headrace.process.memory._MOST_ERRORS", 100)
    error, held = held_by_an_error()
    endless = Endless("more", [ValueError("no")])
    endless.__context__ = error
    clear_frames(endless)
    assert held() is not None
