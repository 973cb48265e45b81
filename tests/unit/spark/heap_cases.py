"""What a worker freezes, counted in objects that the collector still walks.

These are run by `test_heap.py`, or by hand: ``pytest tests/unit/spark/heap_cases.py``.
"""

import _thread
import faulthandler
import gc
import signal
import subprocess
import sys
import threading
import weakref

import pytest

from headrace.policies.watchdog import limit_s
from headrace.process import watchdog
from headrace.spark import heap
from headrace.spark.heap import EVERY_S, EVERY_TASKS, MOST_LOOSE, Heap, is_due

#: as much as a worker has loaded, of whatever
LOADED = [[] for _ in range(6 * MOST_LOOSE)]


class Node:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self):
        self.me = self


def manager():
    """As of the daemon: what a worker does between two tasks."""
    gc.collect()


def is_manager(frame):
    return frame.f_code is manager.__code__


class Worker:
    """A worker with its heap."""

    def __init__(self, heap):
        self.heap = heap

    def settle(self, *, changed, dropped=()):
        """A task is over; whether everything was frozen anew."""
        self.heap.settle_behind_task(dropped, changed=changed)
        del dropped
        manager()
        return self.heap._tasks == 0


@pytest.fixture
def now():
    """A clock by hand; what was frozen is thawed at the end."""
    time_s, before = [0.0], list(gc.callbacks)
    gc.collect()  # what other tests left is none of these
    yield time_s
    gc.callbacks[:] = before
    gc.unfreeze()
    gc.collect()


@pytest.fixture
def settled(now):
    """A worker that has frozen all there is."""
    made = Worker(Heap(clock=lambda: now[0], is_between=is_manager, end=lambda: None))
    assert made.settle(changed=False)
    return made


def walked():
    """How many objects the collection after a task walks."""
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize(
    ("changed", "loose", "tasks", "age_s", "due"),
    [
        (False, 0, 1, 0.0, False),
        (True, 0, 1, 0.0, True),
        (False, MOST_LOOSE, 10 * EVERY_TASKS, 0.0, False),
        (False, MOST_LOOSE + 1, EVERY_TASKS - 1, 0.0, False),
        (False, MOST_LOOSE + 1, EVERY_TASKS, 0.0, True),
        (False, 0, 1, EVERY_S - 0.1, False),
        (False, 0, 1, EVERY_S, True),
        (False, 0, 1, float("inf"), True),
    ],
)
def test_when_to_freeze(changed, loose, tasks, age_s, due):
    assert is_due(changed=changed, loose=loose, tasks=tasks, age_s=age_s) is due


def test_after_the_first_task_what_was_loaded_is_not_walked_again(settled):
    assert gc.get_freeze_count() > 5 * MOST_LOOSE
    assert walked() < MOST_LOOSE


def test_a_task_that_loads_nothing_freezes_nothing(settled):
    before = gc.get_freeze_count()
    loose = [Node() for _ in range(100)]
    assert not settled.settle(changed=False)
    assert gc.get_freeze_count() <= before
    assert len(loose) == 100


def test_what_a_task_has_loaded_is_frozen_at_its_end(settled):
    code = [Node() for _ in range(5_000)]
    before = gc.get_freeze_count()
    assert settled.settle(changed=True)
    assert gc.get_freeze_count() >= before + len(code)
    assert walked() < len(code)


def test_what_a_handler_keeps_for_itself_is_frozen_some_tasks_later(settled):
    cache = []
    for number in range(EVERY_TASKS - 1):
        cache += [Node() for _ in range(MOST_LOOSE // 4)]
        assert walked() > number * MOST_LOOSE // 4
        assert not settled.settle(changed=False)
    assert settled.settle(changed=False)
    assert walked() < MOST_LOOSE


def test_garbage_is_never_frozen(settled):
    nodes = [Node() for _ in range(1_000)]
    watched = weakref.ref(nodes[0])
    del nodes
    settled.settle(changed=True)
    assert watched() is None


def test_code_that_was_dropped_goes_though_it_was_frozen(settled):
    code = [Node() for _ in range(1_000)]
    watched = weakref.ref(code[0])
    settled.settle(changed=True)
    del code
    gc.collect()
    assert watched() is not None, "a collection does not see what is frozen"
    settled.settle(changed=True)
    assert watched() is None


def test_what_a_handler_has_replaced_goes_within_a_minute(settled, now):
    model = Node()
    watched = weakref.ref(model)
    settled.settle(changed=True)
    model = Node()
    now[0] += EVERY_S - 1
    settled.settle(changed=False)
    gc.collect()
    assert watched() is not None
    now[0] += 1
    assert settled.settle(changed=False)
    assert watched() is None


def test_many_versions_leave_no_more_frozen_than_one(settled):
    code = [Node() for _ in range(1_000)]
    settled.settle(changed=True)
    before = gc.get_freeze_count()
    for _ in range(5):
        code = [Node() for _ in range(1_000)]
        settled.settle(changed=True)
    assert gc.get_freeze_count() < before + len(code)


def test_a_handler_that_fills_and_empties_a_cache_is_not_followed_at_each_task(settled):
    frozen = 0
    for _ in range(3 * EVERY_TASKS):
        cache = [Node() for _ in range(MOST_LOOSE + 1)]
        gc.collect()
        frozen += settled.settle(changed=False)
    assert frozen == 3
    assert len(cache) > MOST_LOOSE


def test_the_oldest_generation_is_the_one_that_came_through_a_collection():
    kept = Node()
    gc.collect()
    assert any(object_ is kept for object_ in gc.get_objects(heap._OLD))


class Hangs:
    """Waits for a server when it is freed, and only a collection frees it."""

    def __init__(self):
        self.me = self

    def __del__(self):
        """Wait until somebody says that the process has ended."""
        OVER.wait(30)


OVER = threading.Event()


@pytest.fixture
def watched(now):
    """A worker that says so in place of ending, and hears of it a moment after that is due."""
    OVER.clear()
    return Worker(Heap(is_between=is_manager, end=OVER.set, patience_s=0.1))


@pytest.mark.parametrize("how", ["left", "dropped"])
def test_a_worker_that_is_held_between_two_tasks_ends(watched, how):
    gc.collect()
    if how == "left":
        Hangs()
    watched.settle(changed=False, dropped=[Hangs()] if how == "dropped" else ())
    assert OVER.is_set()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_walk_that_takes_long_ends_no_worker(watched):
    kept = [Node() for _ in range(300_000)]
    watched.heap.patience_s = 0.01
    for _ in range(5):
        watched.settle(changed=True)
    assert not OVER.is_set()
    assert len(kept) == 300_000


class Quick:
    """Only a collection frees it, and it is done at once."""

    def __init__(self):
        self.me = self

    def __del__(self):
        """Hear what rang meanwhile."""
        for _ in range(3):
            pass


def test_a_walk_that_is_heard_by_quick_code_of_a_use_case_ends_no_worker(watched):
    kept = [Node() for _ in range(300_000)]
    watched.heap.patience_s = 0.01
    gc.collect()
    Quick()
    watched.settle(changed=True)
    assert not OVER.is_set()
    assert len(kept) == 300_000


def test_a_collection_in_a_thread_with_no_python_under_it_is_none_of_its_business(watched):
    """As in a thread of a C library, which calls back."""
    collected, heard = threading.Event(), []
    watched.heap.settle_behind_task([], changed=True)
    gc.callbacks.append(lambda phase, _: collected.set() if phase == "stop" else None)
    sys.unraisablehook, before = heard.append, sys.unraisablehook
    try:
        _thread.start_new_thread(gc.collect, ())
        assert collected.wait(10)
    finally:
        sys.unraisablehook = before
    assert heard == []


IN_A_WORKER = """
import ctypes, gc, time
from headrace.spark.heap import Heap

class Left:
    def __init__(self):
        self.me = self
    def __del__(self):
        lock = ctypes.create_string_buffer(64)
        ctypes.CDLL(None).pthread_mutex_lock(lock)
        ctypes.CDLL(None).pthread_mutex_lock(lock)

def manager():
    gc.collect()

heap = Heap(is_between=lambda frame: frame.f_code is manager.__code__, most_s=0.5)
heap.settle_behind_task([], changed=False)
manager()
time.sleep(1)
print("a task", flush=True)
Left()
manager()
"""


def test_a_worker_that_is_held_between_two_tasks_in_c_ends_and_says_where():
    """As a client library that joins its threads; and it ends nothing after a collection."""
    command = [sys.executable, "-c", IN_A_WORKER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (1, "a task\n")
    assert "in __del__" in done.stderr


def test_no_wave_is_ended_for_a_worker_that_is_held_between_two_tasks():
    assert heap.PATIENCE_S < heap.MOST_S < limit_s(0.0, 0.0, shared=True)


@pytest.fixture
def no_threads(monkeypatch):
    """The machine has no thread left."""

    def refuses(*_, **__):
        raise RuntimeError("unable to start watchdog thread")

    monkeypatch.setattr(faulthandler, "dump_traceback_later", refuses)


@pytest.mark.usefixtures("no_threads")
def test_where_there_is_no_thread_for_the_watchdog_all_else_is_as_it_was(watched):
    assert watched.settle(changed=True)
    gc.collect()
    Hangs()
    watched.settle(changed=False)
    assert OVER.is_set()


def test_dumps_that_spark_was_asked_for_are_left_alone(watched, monkeypatch):
    monkeypatch.setenv("PYTHON_TRACEBACK_DUMP_INTERVAL_SECONDS", "60")
    asked = []
    monkeypatch.setattr(watchdog, "end_after", lambda *_: asked.append("set"))
    monkeypatch.setattr(watchdog, "stop", lambda: asked.append("stopped"))
    watched.settle(changed=True)
    assert asked == []
    monkeypatch.delenv("PYTHON_TRACEBACK_DUMP_INTERVAL_SECONDS")
    watched.settle(changed=True)
    assert asked == ["set", "stopped"]


def test_what_is_collected_within_a_task_is_none_of_its_business(watched):
    watched.heap.settle_behind_task([], changed=True)
    before = gc.get_freeze_count()
    gc.collect()
    assert (gc.get_freeze_count(), OVER.is_set()) == (before, False)
