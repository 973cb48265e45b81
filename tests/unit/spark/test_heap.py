"""What a worker freezes, counted in objects that the collector still walks."""

import gc
import time
import weakref
from typing import ClassVar

import pytest

from headrace.errors import HandlerSlow
from headrace.spark import heap
from headrace.spark.heap import EVERY_S, EVERY_TASKS, MOST_LOOSE, Heap, is_due, left_behind


class Node:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self):
        self.me = self


@pytest.fixture
def now():
    """A clock by hand; what was frozen is thawed at the end."""
    time_s = [0.0]
    yield time_s
    gc.unfreeze()
    gc.collect()


@pytest.fixture
def settled(now):
    """A heap that has frozen all there is."""
    made = Heap(clock=lambda: now[0])
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
    for _ in range(30):
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

    ended: ClassVar[list[float]] = []

    def __init__(self):
        self.me = self

    def __del__(self):
        """Wait for long."""
        began_s = time.monotonic()
        try:
            time.sleep(30)
        finally:
            self.ended.append(time.monotonic() - began_s)


def test_a_task_ends_what_hangs_where_its_calls_left_it_and_hears_of_it(now, recwarn):
    gc.collect()
    Hangs.ended.clear()
    Hangs()
    Hangs()
    told = left_behind("score", gc.collect, 0.2, time.monotonic)
    assert isinstance(told, HandlerSlow)
    assert "score left behind took over 0.2 s" in str(told)
    assert len(Hangs.ended) == 2
    assert sum(Hangs.ended) < 5
    assert left_behind("score", gc.collect, 20.0, time.monotonic) is None


def test_each_task_collects_also_if_nothing_is_due(settled):
    gone = weakref.ref(Node())
    assert gone() is not None
    assert not settled.settle(changed=False)
    assert gone() is None
