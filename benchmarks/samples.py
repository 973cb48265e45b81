"""What is looked at twice a second beside a run: executors and tasks that are there now.

Asked of Spark itself, so that every contender is counted in the same way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

EVERY_S = 0.5

#: (seconds since 1970, what was seen)
Sample = tuple[float, Mapping[str, float]]


@contextmanager
def sampled(look: Callable[[], Mapping[str, float]]) -> Iterator[list[Sample]]:
    """Call ``look`` twice a second in a thread, and once at the end; the list grows meanwhile."""
    seen: list[Sample] = []
    over = threading.Event()

    def run() -> None:
        while not over.wait(EVERY_S):
            seen.append((time.time(), look()))

    thread = threading.Thread(target=run, name="samples", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(timeout=30)
    seen.append((time.time(), look()))


def of_spark(spark: Any) -> dict[str, float]:
    """Executors that are there, those on their way out included, and tasks that run on them."""
    tracker = spark.sparkContext.statusTracker()
    stages = [
        tracker.getStageInfo(getActiveStageId) for getActiveStageId in tracker.getActiveStageIds()
    ]
    running = sum(stage.numActiveTasks for stage in stages if stage is not None)
    context = spark.sparkContext._jsc.sc()
    executors = 1 if context.isLocal() else context.getExecutorIds().size()
    return {"executors": executors, "tasks": running}
