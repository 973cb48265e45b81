"""What an import changes for its whole process, put back when it is over.

A module that is imported does to a worker what a call does, and to a driver as well, whose
connections to Spark are everybody's; and what it leaves behind ends the driver of all tenants some
seconds later, as a profiler's timer or a watchdog of `faulthandler`. So all that is put back after
a call (`process_settings.py`, `vitals.py`, `rights.py`) is put back after an import, and besides it
what only a module sets: where signals are told, how soon the machine takes this process when
memory is short, and whether and how Python collects garbage: a module that reads a large file with
that off turns it on then, which in a driver it was not; and one that has it seldom, or keeps all
that is found, has its process grow. What may not be put back is told by the name of what sets it.

Files that it closes, and threads that it leaves, are not looked for.
"""

from __future__ import annotations

import contextvars
import gc
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headrace.process import watchdog
from headrace.process.memory import collect_by_itself
from headrace.spark.process_settings import ProcessSettings, settings_now
from headrace.spark.rights import Rights, rights_now
from headrace.spark.vitals import (
    are_as_high,
    end_nobody_later,
    is_one_lower,
    limits_now,
    timers_now,
)

_T = TypeVar("_T")

#: how soon Linux takes this process when memory is short; higher is sooner
_TAKEN_FIRST = Path("/proc/self/oom_score_adj")
#: no file is told of signals
_NOWHERE = -1


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
class BeforeLoad:
    """How a process was before something was imported."""

    settings: ProcessSettings
    limits: dict[int, int]
    rights: Rights
    #: those that ran, whose signal ends a process
    timers: frozenset[int]
    #: the file that is told of signals; None: only the main thread may ask
    told_file: int | None
    #: None where the system has no such thing
    taken_first: int | None
    #: garbage, in whatever thread makes one object too many
    collects: bool
    #: after how many objects, and what is told or kept of them
    collector: tuple[tuple[int, int, int], int]

    def put_back(self) -> list[str]:
        """Let it be so again, as far as it may; what may not, by the names of what sets it."""
        end_nobody_later(self.timers)
        self.settings.put_back()
        collect_by_itself(does=self.collects)
        thresholds, debug = self.collector
        gc.set_threshold(*thresholds)
        gc.set_debug(debug)
        if self.told_file is not None and _told_file() not in (self.told_file, None):
            with suppress(OSError, ValueError):  # it is closed
                signal.set_wakeup_fd(self.told_file, warn_on_full_buffer=False)
        if self._is_taken_sooner():
            with suppress(OSError):
                _TAKEN_FIRST.write_text(str(self.taken_first), encoding="ascii")
        are_as_high(self.limits)
        self.rights.are_kept()
        return self._given_up()

    def changed(self) -> list[str]:
        """What is otherwise now, by the names of what sets it."""
        before, now = self.settings.values(), settings_now().values()
        names = {name for name, value in before.items() if now[name] != value}
        if timers_now() - self.timers:
            names.add("signal.setitimer")
        if watchdog.is_taken():
            names.add("faulthandler.dump_traceback_later")
        if self.told_file is not None and _told_file() not in (self.told_file, None):
            names.add("signal.set_wakeup_fd")
        if gc.isenabled() != self.collects:
            names.add("gc.disable" if self.collects else "gc.enable")
        names |= self._collects_otherwise()
        return sorted({*self._given_up(), *names})

    def _given_up(self) -> list[str]:
        """What the process may do less than before."""
        limits = ["resource.setrlimit"] if is_one_lower(self.limits) else []
        taken = ["oom_score_adj"] if self._is_taken_sooner() else []
        return sorted([*limits, *taken, *self.rights.given_up()])

    def _collects_otherwise(self) -> set[str]:
        pairs = zip(("gc.set_threshold", "gc.set_debug"), self.collector, _collector(), strict=True)
        return {name for name, before, now in pairs if now != before}

    def _is_taken_sooner(self) -> bool:
        now = _taken_first()
        return self.taken_first is not None and now is not None and now > self.taken_first


def before_load() -> BeforeLoad:
    """How this process is before something is imported."""
    own = settings_now(), limits_now(), rights_now()
    taken = _told_file(), _taken_first()
    return BeforeLoad(*own, timers_now(), *taken, gc.isenabled(), _collector())


def _collector() -> tuple[tuple[int, int, int], int]:
    return gc.get_threshold(), gc.get_debug()


def _told_file() -> int | None:
    if not _is_main():
        return None
    # There is no call that only asks.
    number = signal.set_wakeup_fd(_NOWHERE)
    if number != _NOWHERE:
        signal.set_wakeup_fd(number, warn_on_full_buffer=False)
    return number


def _taken_first() -> int | None:
    try:
        return int(_TAKEN_FIRST.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
