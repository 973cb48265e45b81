"""What a call changes for its whole process, put back when it is over.

A worker calls the handlers of many tenants, one after the other. A library that goes to another
folder, makes its files private, traps inexact decimals, deepens the stack or gives every socket a
millisecond does so for all calls to come, of other tenants and other use cases, whose results would
then depend on who was there before. So these few are as they were after each call, however it
ended; and each call has context variables of its own, where log lines have the tenant perhaps.

So are signals that its thread blocks, the processors that it may use, what new threads get of
memory and know of decimals, the locale, how many threads Arrow computes and reads with, where
modules are looked for, and whether anything is logged at all. So is the timer of the process: one
that rings when nobody takes its signal ends the process. The limit of a call uses it as well
(`timeouts.py`), so one that ran before runs on.

Other threads have all this until then. What a thread has for itself, that thread alone puts back.

What a module or a library sets for good is left alone, for it is set once and meant to stay: the
environment, filters of warnings, the garbage collector, what it puts in the place of others'
functions, `threading.excepthook` and its like among them. So are threads that a call leaves behind,
which nobody can end. What an import changes, the collector with it, is in `load_settings.py`.
"""

from __future__ import annotations

import contextvars
import decimal
import locale
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from headrace.spark.c_signals import handler_of

_T = TypeVar("_T")
_Pairs = dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]

#: whose handlers decide how the worker ends, and what becomes of processes that it begins
_SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD),
    *(signal.SIGPIPE, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2),
)
#: what each new thread has; some library may have put another one in its place
_DEFAULT_DECIMALS = decimal.DefaultContext
_OF_DECIMALS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
#: what is asked by one function and set by the other
_OF_ALL: _Pairs = {
    "locale.setlocale": (
        lambda: locale.setlocale(locale.LC_ALL),
        lambda value: locale.setlocale(locale.LC_ALL, value),
    ),
    "logging.disable": (lambda: logging.root.manager.disable, logging.disable),
    "pyarrow.set_cpu_count": (pa.cpu_count, pa.set_cpu_count),
    "pyarrow.set_io_thread_count": (pa.io_thread_count, pa.set_io_thread_count),
    "socket.setdefaulttimeout": (socket.getdefaulttimeout, socket.setdefaulttimeout),
    "sys.setdlopenflags": (sys.getdlopenflags, sys.setdlopenflags),
    "sys.set_int_max_str_digits": (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    "sys.setrecursionlimit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "sys.setswitchinterval": (sys.getswitchinterval, sys.setswitchinterval),
    "threading.setprofile": (threading.getprofile, threading.setprofile),
    "threading.settrace": (threading.gettrace, threading.settrace),
    "threading.stack_size": (threading.stack_size, threading.stack_size),
}
_OF_A_THREAD: _Pairs = {
    "sys.setprofile": (sys.getprofile, sys.setprofile),
    "sys.settrace": (sys.gettrace, sys.settrace),
}
#: where a thread finds what its process makes files with, and may not set it for a moment to know
_STATUS = Path("/proc/self/status")
_UMASK = re.compile(r"^Umask:\s*([0-7]+)$", re.MULTILINE)


def run_apart(call: Callable[[], _T]) -> _T:
    """Make a call; what it changed for its process or its thread is then as before."""
    before = settings_now()
    try:
        return contextvars.copy_context().run(call)
    finally:
        before.put_back()


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """How a process, and the thread that asked, were set."""

    folder: str | None
    mode: int
    #: the list, and what was in it
    searched: list[str]
    path: list[str]
    given: list[Any]
    #: of threads that begin
    decimals: decimal.Context
    timer: TimerSetting
    thread: ThreadSettings

    def put_back(self) -> None:
        """Let it be so again; what is of a thread alone, only in that."""
        self.timer.put_back()
        os.umask(self.mode)
        sys.path = self.searched
        if self.path != self.searched:
            self.searched[:] = self.path
        _put(_OF_ALL, self.given)
        if _told(_DEFAULT_DECIMALS) != _told(self.decimals):
            _set(_DEFAULT_DECIMALS, self.decimals)
        if self.folder is not None and _folder() != self.folder:
            with suppress(OSError):  # somebody has taken it away
                os.chdir(self.folder)
        if self.thread.number == threading.get_ident():
            self.thread.put_back()

    def values(self) -> dict[str, Any]:
        """What was set, by what sets it."""
        own: dict[str, Any] = {
            "os.chdir": self.folder,
            "os.umask": self.mode,
            "sys.path": self.path,
        }
        own |= {
            "decimal.DefaultContext": _told(self.decimals),
            "signal.setitimer": self.timer.runs,
        }
        return own | dict(zip(_OF_ALL, self.given, strict=True)) | self.thread.values()


@dataclass(frozen=True, slots=True)
class TimerSetting:
    """The timer of the process whose signal is SIGALRM."""

    #: seconds until it rings, 0 if it does not run; and from then on
    left_s: float
    again_s: float
    #: when that was so; monotonic
    at_s: float

    @property
    def runs(self) -> bool:
        """Whether it will ring."""
        return self.left_s > 0

    def put_back(self) -> None:
        """Let it be so again."""
        if not self.runs:
            # Else it is the limit of a call that the main thread has begun meanwhile.
            if _may_set_timer() and timer_now().runs:
                signal.setitimer(signal.ITIMER_REAL, 0)
        elif _is_main():
            left_s = max(self.left_s - (time.monotonic() - self.at_s), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, left_s, self.again_s)


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """What a thread has for itself, and what the main thread alone may set."""

    number: int
    processors: set[int]
    decimals: decimal.Context
    given: list[Any]
    handlers: list[tuple[signal.Signals, Any]]
    blocked: set[int | signal.Signals]

    def put_back(self) -> None:
        """Let it be so again."""
        decimal.setcontext(self.decimals.copy())
        _put(_OF_A_THREAD, self.given)
        if _processors() != self.processors:
            with suppress(OSError):  # they are taken away meanwhile
                os.sched_setaffinity(0, self.processors)
        for number, handler in self.handlers:
            if handler is not None and handler_of(number) is not handler:
                signal.signal(number, handler)
        if signal.pthread_sigmask(signal.SIG_BLOCK, ()) != self.blocked:
            _let_through(self.blocked)

    def values(self) -> dict[str, Any]:
        """What was set, by what sets it."""
        return {
            "decimal.getcontext": _told(self.decimals),
            "os.sched_setaffinity": self.processors,
            "signal.pthread_sigmask": self.blocked,
            "signal.signal": self.handlers,
            **dict(zip(_OF_A_THREAD, self.given, strict=True)),
        }


def settings_now() -> ProcessSettings:
    """How this process and this thread are set."""
    thread = ThreadSettings(
        threading.get_ident(),
        _processors(),
        # A mutable thing: the call's own context variables hold the same one.
        decimal.getcontext().copy(),
        _ask(_OF_A_THREAD),
        [(number, handler_of(number)) for number in _SIGNALS] if _is_main() else [],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    )
    searched = sys.path
    own = _folder(), _file_mode(), searched, list(searched)
    decimals = _DEFAULT_DECIMALS.copy()
    return ProcessSettings(*own, _ask(_OF_ALL), decimals, timer_now(), thread)


def timer_now() -> TimerSetting:
    """How the timer is set, but for the limit of a call in another thread."""
    left_s, again_s = signal.getitimer(signal.ITIMER_REAL) if _may_set_timer() else (0.0, 0.0)
    return TimerSetting(left_s, again_s, time.monotonic())


def _ask(pairs: _Pairs) -> list[Any]:
    return [ask() for ask, _ in pairs.values()]


def _put(pairs: _Pairs, values: list[Any]) -> None:
    for value, (ask, put) in zip(values, pairs.values(), strict=True):
        now = ask()
        if now is not value and now != value:
            put(value)


def _let_through(blocked: set[int | signal.Signals]) -> None:
    """Block these signals and no others; what came for a call that is over is dropped."""
    # Python lets no other thread ignore a signal.
    for number in signal.sigpending() - blocked if _is_main() else ():
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
    # Another thread would make its files in the way that is set for a moment.
    if not _is_main():
        with suppress(OSError):
            told = _UMASK.search(_STATUS.read_text(encoding="ascii", errors="replace"))
            if told:
                return int(told[1], 8)
    # There is no call that only asks.
    mode = os.umask(0o077)
    os.umask(mode)
    return mode


def _may_set_timer() -> bool:
    """Whether the timer is no limit of another thread's call, which has a handler for it."""
    return _is_main() or signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _told(decimals: decimal.Context) -> tuple[object, ...]:
    traps = frozenset(kind for kind, is_on in decimals.traps.items() if is_on)
    return *(getattr(decimals, name) for name in _OF_DECIMALS), traps


def _set(decimals: decimal.Context, before: decimal.Context) -> None:
    for name in _OF_DECIMALS:
        setattr(decimals, name, getattr(before, name))
    for kind, is_on in before.traps.items():
        decimals.traps[kind] = is_on
