"""Python's collector of garbage, kept out of the turns of a driver and the requests of a door.

What is there when a process begins its work (modules, settings, use cases) stays for good, and need
not be walked by every full collection; and a turn over 10,000 lanes makes tens of thousands of
short-lived objects without a cycle among them, which by default starts dozens of collections.
Measured, the two made the slowest turns two to three times as long.

A collection runs in whatever thread makes one object too many, and closes what it finds. Among that
may be what code of a use case left, in the driver: a module that was replaced, or what a handler of
DataFrames made. Closing it (`__del__`) may hang. So in a driver a thread of its own collects, and
nothing else waits for it (`collect_apart`), and Python's own collecting stays off, whoever turns it
on. Python has one collection at a time: as long as one hangs, here or in a thread that takes a
version apart, there is no other, the process grows, and its log says so.

What a Python worker keeps is decided in `spark/heap.py`.
"""

from __future__ import annotations

import gc
import threading
import time
import traceback
import weakref
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from headrace.process.daemon_threads import DaemonThreads

#: more than a turn over 10,000 lanes makes
_COLLECT_AFTER_OBJECTS = 200_000
#: how often it is looked whether there is enough to collect
_LOOK_EVERY_S = 1.0
#: a collection that takes longer is told
HANGS_S = 10.0
#: a group has an error of each call that failed; a class of somebody's own may make them up
_MOST_ERRORS = 100_000

_apart = threading.Lock()


def calm_garbage_collection() -> None:
    """Leave what is there alone for good, and collect seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)


def collect_apart() -> None:
    """The same, and collect in a thread of its own from now on; once in a process."""
    calm_garbage_collection()
    gc.disable()
    if _apart.acquire(blocking=False):
        threading.Thread(target=_collecting, name="headrace-collector", daemon=True).start()


def collect_by_itself(*, does: bool) -> None:
    """Let Python collect in any thread or in none, as it did; in none where one of its own does."""
    if does and not _apart.locked():
        gc.enable()
    else:
        gc.disable()


def due_generation(counts: tuple[int, int, int], thresholds: tuple[int, int, int]) -> int | None:
    """What Python would collect by itself now: the oldest generation that is due, or none.

    Args:
        counts: new objects; collections of the youngest and of the middle generation since the
            next older one was collected.
        thresholds: what each may come to.
    """
    if counts[0] <= thresholds[0]:
        return None
    return max(
        generation
        for generation in range(3)
        if all(counts[older] > thresholds[older] for older in range(1, generation + 1))
    )


def clear_frames(raised: BaseException) -> None:
    """Let go what calls held that an error came through, or one that it is of; its text stays.

    What an error has for itself, as an attribute, goes with the error.
    """
    cleared: dict[int, BaseException] = {}  # a chain may be a ring
    left: list[BaseException | None] = [raised]
    with suppress(Exception):  # classes of errors are somebody's code
        while left and len(cleared) < _MOST_ERRORS:
            error = left.pop()
            if error is None or id(error) in cleared:
                continue
            traceback.clear_frames(error.__traceback__)
            cleared[id(error)] = error
            left += [error.__cause__, error.__context__]
            if isinstance(error, BaseExceptionGroup):
                left += error.exceptions


def _warn(event: str) -> None:
    # What checks a use case, or calls one, has no other use for it.
    import structlog  # noqa: PLC0415

    structlog.get_logger(__name__).warning(event)


def _tell_hangs() -> None:
    _warn(
        "what a use case left behind does not come back where it is freed (__del__): nothing waits "
        "for it, but this process frees no other garbage and grows; let its code close what it "
        "opens, deploy it, and start this driver again"
    )


def _tell_freed() -> None:
    _warn("what a use case left behind is freed at last: garbage is collected again")


class _Ring:
    """Only a collection frees it."""

    def __init__(self) -> None:
        self.me = self


@dataclass(slots=True)
class Freeing:
    """Whether garbage is freed, told once when it is not and once when it is again."""

    since_s: float | None = None
    told: bool = False

    def heard(self, *, is_freed: bool, now_s: float) -> None:
        """Whether the last collection came back and freed what it was to, by the steady clock."""
        if is_freed:
            if self.told:
                _tell_freed()
            self.since_s, self.told = None, False
        elif self.since_s is None:
            self.since_s = now_s
        elif now_s - self.since_s >= HANGS_S and not self.told:
            self.told = True
            _tell_hangs()


def _collecting() -> None:
    """Look every second whether to collect; the thread that does it is not waited for."""
    threads, freeing = DaemonThreads(1, "collecting"), Freeing()
    collected: Future[object] = Future()
    collected.set_result(None)
    ring: weakref.ref[object] = weakref.ref(set())  # it is gone at once
    while True:
        time.sleep(_LOOK_EVERY_S)
        gc.disable()  # code of a use case, or a library, may have turned it on
        is_back = collected.done()
        generation = due_generation(gc.get_count(), gc.get_threshold())
        # Where another thread collects, this one comes back at once, and has freed nothing.
        freeing.heard(is_freed=is_back and ring() is None, now_s=time.monotonic())
        if generation is not None and is_back:
            left: weakref.ref[object] = weakref.ref(_Ring())
            with suppress(RuntimeError):  # no thread can be started just now
                collected = threads.submit(partial(gc.collect, generation))
                ring = left
