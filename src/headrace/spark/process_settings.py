"""What a call changes for its whole process, put back when it is over; and so for an import.

A worker calls the handlers of many tenants, one after the other. A library that goes to another
folder, makes its files private, traps inexact decimals, deepens the stack or gives every socket a
millisecond does so for all calls to come, of other tenants and other use cases, whose results would
then depend on who was there before. So these few are as they were after each call, however it
ended; and each call has context variables of its own, where log lines have the tenant perhaps.

So are signals that its thread blocks, the processors that it may use, what new threads get of
memory, where modules are looked for, and whether anything is logged at all. So is the timer of
the process: one that rings when nobody takes its signal ends the process. The limit of a call uses
it as well (`timeouts.py`), so one that ran before runs on.

A module that is imported does the same to a worker, and to a driver, whose connections to Spark
are everybody's. So all of this is put back after an import, and what `vitals.py` and `rights.py`
put back after a call besides. Other threads have it until then. What a thread has for itself, that
thread alone puts back.

What a module or a library sets for good is left alone, for it is set once and meant to stay: the
environment, filters of warnings, the garbage collector, what it puts in the place of others'
functions. So are threads that a call leaves behind, which nobody can end.
"""

from __future__ import annotations

import contextvars
import decimal
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

from headrace.spark.rights import Rights, rights_now
from headrace.spark.vitals import are_as_high, is_one_lower, limits_now

_T = TypeVar("_T")
_Pairs = dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]

#: whose handlers decide how the worker ends, and what becomes of processes that it begins
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGALRM)
#: what is asked by one function and set by the other
_OF_ALL: _Pairs = {
    "logging.disable": (lambda: logging.root.manager.disable, logging.disable),
    "socket.setdefaulttimeout": (socket.getdefaulttimeout, socket.setdefaulttimeout),
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


def load_apart(
    load: Callable[[], _T], refuse: Callable[[list[str]], None] = lambda _lost: None
) -> _T:
    """Import something; what that changed for its process or its thread is then as before.

    Args:
        load: imports it.
        refuse: is called where something cannot be put back, with the names of what sets it.
    """
    before = before_load()
    try:
        return contextvars.copy_context().run(load)
    finally:
        if lost := before.put_back():
            refuse(lost)


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """How a process, and the thread that asked, were set."""

    folder: str | None
    mode: int
    #: the list, and what was in it
    searched: list[str]
    path: list[str]
    given: list[Any]
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
        if self.folder is not None and _folder() != self.folder:
            with suppress(OSError):  # somebody has taken it away
                os.chdir(self.folder)
        if self.thread.number == threading.get_ident():
            self.thread.put_back()

    def values(self) -> dict[str, Any]:
        """What was set, by what sets it."""
        own = {"os.chdir": self.folder, "os.umask": self.mode, "sys.path": self.path}
        own["signal.setitimer"] = self.timer.runs
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
            if handler is not None and signal.getsignal(number) is not handler:
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


@dataclass(frozen=True, slots=True)
class BeforeLoad:
    """How a process was before something was imported."""

    settings: ProcessSettings
    limits: dict[int, int]
    rights: Rights

    def put_back(self) -> list[str]:
        """Let it be so again, as far as it may; what may not, by the names of what sets it."""
        self.settings.put_back()
        are_as_high(self.limits)
        self.rights.are_kept()
        return self._given_up()

    def changed(self) -> list[str]:
        """What is otherwise now, by the names of what sets it."""
        before, now = self.settings.values(), settings_now().values()
        settings = [name for name, value in before.items() if now[name] != value]
        return sorted([*self._given_up(), *settings])

    def _given_up(self) -> list[str]:
        """What the process may do less than before."""
        limits = ["resource.setrlimit"] if is_one_lower(self.limits) else []
        return sorted([*limits, *self.rights.given_up()])


def settings_now() -> ProcessSettings:
    """How this process and this thread are set."""
    thread = ThreadSettings(
        threading.get_ident(),
        _processors(),
        # A mutable thing: the call's own context variables hold the same one.
        decimal.getcontext().copy(),
        _ask(_OF_A_THREAD),
        [(number, signal.getsignal(number)) for number in _SIGNALS] if _is_main() else [],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    )
    searched = sys.path
    own = _folder(), _file_mode(), searched, list(searched)
    return ProcessSettings(*own, _ask(_OF_ALL), timer_now(), thread)


def timer_now() -> TimerSetting:
    """How the timer is set, but for the limit of a call in another thread."""
    left_s, again_s = signal.getitimer(signal.ITIMER_REAL) if _may_set_timer() else (0.0, 0.0)
    return TimerSetting(left_s, again_s, time.monotonic())


def before_load() -> BeforeLoad:
    """How this process is before something is imported."""
    return BeforeLoad(settings_now(), limits_now(), rights_now())


def _ask(pairs: _Pairs) -> list[Any]:
    return [ask() for ask, _ in pairs.values()]


def _put(pairs: _Pairs, values: list[Any]) -> None:
    for value, (ask, put) in zip(values, pairs.values(), strict=True):
        if ask() is not value:
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
    return decimals.prec, decimals.rounding, decimals.Emin, decimals.Emax, traps
