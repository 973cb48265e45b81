"""What a piece of work takes by itself, whatever else the machine does and however fast it is.

A second on the clock is as much work as the other processes, the threads that earlier tests left
and a look through a large heap for garbage leave of it; on another machine it is another amount. So
steps are counted where that can be done, and else a thread's own time is compared with what the
same thread takes for a known loop. It does not tell how long anything takes on the clock.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType

#: of the known loop, on the machine that promises in seconds were measured on
_LOOP_STEPS, _LOOP_S = 500_000, 0.0055


def calls_of(work: Callable[[], object], most: int) -> int:
    """How many functions are called, begun again and left for it; more than ``most`` are no end."""
    seen = 0

    def count(_frame: FrameType, _event: str, _about: object) -> None:
        nonlocal seen
        seen += 1
        if seen > most:
            raise AssertionError(f"there is no end after {most} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return seen


def own_s(work: Callable[[], object]) -> float:
    """Seconds that it takes of its thread, on a machine of the known speed."""
    before_s = _thread_s(_loop)
    took_s = _thread_s(work)
    slowness = max(before_s, _thread_s(_loop)) / _LOOP_S
    return took_s / slowness


def _thread_s(work: Callable[[], object]) -> float:
    collects = gc.isenabled()
    gc.disable()
    began_s = time.thread_time()
    try:
        work()
        return time.thread_time() - began_s
    finally:
        if collects:
            gc.enable()


def _loop() -> None:
    for _ in range(_LOOP_STEPS):
        pass
