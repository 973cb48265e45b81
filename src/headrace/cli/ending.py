"""Saying what an end waits for.

Servers and drivers that close may take many seconds, each after the other: a silent terminal looks
as if nobody had heard. So whatever takes longer than a moment is named, and again every few
seconds. What a driver drains is told in `running/draining.py`. Nothing is ended here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from headrace.cli.console import err, say

_T = TypeVar("_T")

#: until it is said first
FIRST_S = 1.0
#: between two lines
EVERY_S = 3.0


@contextmanager
def told_at_its_end(what: str, made: AbstractContextManager[_T]) -> Iterator[_T]:
    """The same, which says so while somebody waits for its end."""
    over = threading.Event()
    telling = threading.Thread(target=_tell, args=(what, over), daemon=True)
    with ExitStack() as stack:
        stack.callback(over.set)
        opened = stack.enter_context(made)
        stack.callback(telling.start)
        yield opened


def _tell(what: str, over: threading.Event) -> None:
    began_s, wait_s = time.monotonic(), FIRST_S
    while not over.wait(wait_s):
        say(f"waits for the end of {what}, {time.monotonic() - began_s:.0f} s so far", err)
        wait_s = EVERY_S
