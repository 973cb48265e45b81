"""How a process is asked to end. Not here: what it does then."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType


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
