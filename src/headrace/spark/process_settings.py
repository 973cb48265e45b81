"""What a call changes for its whole process, put back when it is over.

A worker calls the handlers of many tenants, one after the other. A library that goes to another
folder, makes its files private, traps inexact decimals, deepens the stack or gives every socket a
millisecond does so for all calls to come, of other tenants and other use cases, whose results would
then depend on who was there before. So these few are as they were after each call, however it
ended; and each call has context variables of its own, where log lines have the tenant perhaps.

So are signals that its thread blocks, the processors that it may use, what new threads get of
memory, where modules are looked for, and whether anything is logged at all.

What a module or a library sets for good is left alone, for it is set once and meant to stay: the
environment, filters of warnings, the garbage collector, what it puts in the place of others'
functions. So are threads that a call leaves behind, which nobody can end.
"""

from __future__ import annotations

import contextvars
import decimal
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

_T = TypeVar("_T")

#: whose handlers decide how the worker ends, and what becomes of processes that it begins
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)
#: what is asked by one function and set by the other
_PLAIN: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (sys.getswitchinterval, sys.setswitchinterval),
    (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    (sys.gettrace, sys.settrace),
    (sys.getprofile, sys.setprofile),
    (threading.gettrace, threading.settrace),
    (threading.getprofile, threading.setprofile),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (threading.stack_size, threading.stack_size),
    (lambda: logging.root.manager.disable, logging.disable),
)


def run_apart(call: Callable[[], _T]) -> _T:
    """Make a call; what it changed for its process or its thread is then as before."""
    with _settings_kept():
        return contextvars.copy_context().run(call)


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Run the block; then folder, file mode, signal handlers and the like are as before."""
    folder, mode, processors = _folder(), _file_mode(), _processors()
    searched, path = sys.path, list(sys.path)
    plain = [(ask(), ask, put) for ask, put in _PLAIN]
    # A mutable thing: the call's own context variables hold the same one.
    decimals = decimal.getcontext().copy()
    handlers = [(number, signal.getsignal(number)) for number in _SIGNALS]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield
    finally:
        os.umask(mode)
        decimal.setcontext(decimals)
        sys.path = searched
        if path != searched:
            searched[:] = path
        for value, ask, put in plain:
            if ask() is not value:
                put(value)
        if folder is not None and _folder() != folder:
            with suppress(OSError):  # somebody has taken it away
                os.chdir(folder)
        if _processors() != processors:
            with suppress(OSError):  # they are taken away meanwhile
                os.sched_setaffinity(0, processors)
        for number, handler in handlers:
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        if signal.pthread_sigmask(signal.SIG_BLOCK, ()) != blocked:
            _let_through(blocked)


def _let_through(blocked: set[int | signal.Signals]) -> None:
    """Block these signals and no others; what came for a call that is over is dropped."""
    for number in signal.sigpending() - blocked:
        handler = signal.getsignal(number)
        # To ignore it for a moment drops what waits of it.
        signal.signal(number, signal.SIG_IGN)
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _processors() -> set[int]:
    # Not on macOS, which has no such limit.
    return os.sched_getaffinity(0) if sys.platform == "linux" else set()


def _file_mode() -> int:
    # There is no call that only asks.
    mode = os.umask(0o077)
    os.umask(mode)
    return mode
