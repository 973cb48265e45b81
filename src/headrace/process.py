"""What a process that runs for long has to settle with Python: its signals, and its memory.

Not here: what it does when it is asked to stop.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

#: more than a turn over 10,000 lanes makes
_COLLECT_AFTER_OBJECTS = 200_000


def calm_garbage_collection() -> None:
    """Keep Python's collector out of the middle of a turn.

    What is there now (modules, settings, use cases) stays for good, and need not be walked by
    every full collection; and a turn over 10,000 lanes makes tens of thousands of short-lived
    objects without a cycle among them, which by default starts dozens of collections. Measured,
    the two made the slowest turns two to three times as long.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and Ctrl-C ask for a drain; a second Ctrl-C ends at once."""
    before: Mapping[int, object] = {}

    def handler(number: int, _: FrameType | None) -> None:
        stop()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {each: signal.signal(each, handler) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)  # type: ignore[arg-type]
