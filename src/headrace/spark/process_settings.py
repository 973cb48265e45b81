"""What a call changes for its whole process, put back when it is over.

A worker calls the handlers of many tenants, one after the other. A library that goes to another
folder, makes its files private, traps inexact decimals or deepens the stack does so for all calls
to come, of other tenants and other use cases, whose results would then depend on who was there
before. So these few are as they were after each call, however it ended.

What a module or a library sets for good is left alone, for it is set once and meant to stay: the
environment, filters of warnings, the garbage collector, what it puts in the place of others'
functions. So are threads that a call leaves behind, which nobody can end.
"""

from __future__ import annotations

import decimal
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: whose handlers decide how the worker ends, and what becomes of processes that it begins
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)


@contextmanager
def process_settings_kept() -> Iterator[None]:
    """Run the block; then folder, file mode, decimals, depth and signal handlers are as before."""
    folder, mode = _folder(), _file_mode()
    depth, decimals = sys.getrecursionlimit(), decimal.getcontext().copy()
    handlers = [(number, signal.getsignal(number)) for number in _SIGNALS]
    try:
        yield
    finally:
        os.umask(mode)
        sys.setrecursionlimit(depth)
        decimal.setcontext(decimals)
        if folder is not None and _folder() != folder:
            with suppress(OSError):  # somebody has taken it away
                os.chdir(folder)
        for number, handler in handlers:
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _file_mode() -> int:
    # There is no call that only asks.
    mode = os.umask(0o077)
    os.umask(mode)
    return mode
