"""What a Python worker cannot live without, and a handler may take from it and then return.

A library that makes itself at home closes all files of its process, the worker's connection to
Spark among them; another one lowers how many may be open, or how much memory there is. The call
itself goes well. The worker dies later, in the middle of a neighbour or with the receipts of the
whole bin, and nothing names who it was. So after each call it is looked whether a file that nobody
else has business with is still there, and whether no limit is lower than before. A lower one is
raised again. Where something is gone for good the process ends at once, while its marker still
names the slice (`crash_markers.py`).

Files that a call leaves open are gone for all to come, and the one who finds none left might be a
neighbour. So a call after which few are left ends its worker. The three that every process has are
set right (`standard_files.py`).

Threads cannot be ended, so a call after which there are some hundreds of them more than when the
worker began ends it as well: the next one that needs a thread might be a neighbour.

A profiler's timer, or a watchdog of `faulthandler`, that outlives its call would kill the worker in
a neighbour's, who were to blame then. Both are stopped.

It finds what ranges of files close, and not a single one that is closed by its number, but for
those three. The limit of core dumps is left alone, for a lower one hurts nobody and some libraries
want it. Where Spark itself is asked for dumps by `faulthandler`, that is left alone.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
from dataclasses import dataclass

from headrace.process import watchdog
from headrace.spark.standard_files import StandardFile, behind_of, standard_files

#: all that the system has; each look costs a call of it
_LIMITS = tuple(
    {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    - {resource.RLIMIT_CORE}
)
#: timers whose signal ends a process; the third is looked after in `process_settings.py`
_TIMERS = (signal.ITIMER_PROF, signal.ITIMER_VIRTUAL)
#: threads that there may be more than before the first bin of the process
_MORE_THREADS = 500
#: part of the files that a process may have open; beyond it few are left
_MANY_FILES = 0.75
#: where there is no limit that could be met
_FILES_WITHOUT_LIMIT = 1_000_000
#: seconds after which Spark asks its workers for a dump, again and again, if it does
_SPARKS_DUMPS = "PYTHON_TRACEBACK_DUMP_INTERVAL_SECONDS"

#: one for the process, and not for those that it forks: the file, how many threads there were, and
#: the process
_first: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Vitals:
    """What there was before a handler was called."""

    #: an open file, and what is behind it
    file: int
    behind: tuple[int, int]
    #: the other files that have to be there
    standard: tuple[StandardFile, ...]
    #: a number that is free; files get the lowest one
    free: int
    #: what holds, by the number of the limit; how far that may be raised is the handler's affair
    limits: dict[int, int]
    #: the timers that run
    timers: frozenset[int]
    #: how many there were at first; those that a library keeps for itself are some dozens at most
    threads: int

    def are_there(self) -> bool:
        """Whether all of it is there, or could be set right."""
        end_nobody_later(self.timers)
        if threading.active_count() > self.threads + _MORE_THREADS:
            return False
        if behind_of(self.file) != self.behind or behind_of(self.free) is not None:
            return False
        are_right = all(file.is_set_right() for file in self.standard)
        return are_right and are_as_high(self.limits)


def timers_now() -> frozenset[int]:
    """Those that run, whose signal ends a process."""
    return frozenset(timer for timer in _TIMERS if signal.getitimer(timer)[0] > 0)


def end_nobody_later(timers: frozenset[int]) -> None:
    """Stop all other timers, and a watchdog that is not ours."""
    for timer in timers_now() - timers:
        signal.setitimer(timer, 0.0)
    if not are_dumps_of_spark():
        watchdog.put_back()


def are_dumps_of_spark() -> bool:
    """Whether Spark itself has the watchdog of `faulthandler`, in all of its workers."""
    return os.environ.get(_SPARKS_DUMPS, "") not in ("", "0")


def limits_now() -> dict[int, int]:
    """What holds, by the number of the limit; how far it may be raised is not asked."""
    return {number: resource.getrlimit(number)[0] for number in _LIMITS}


def are_as_high(limits: dict[int, int]) -> bool:
    """Whether none is lower than it was, or all of these could be raised again."""
    kept = [_is_kept(number, before) for number, before in limits.items()]
    return all(kept)


def is_one_lower(limits: dict[int, int]) -> bool:
    """Whether one is lower than it was."""
    now = limits_now()
    return any(_is_lower(now[number], before) for number, before in limits.items())


def _is_kept(number: int, before: int) -> bool:
    now, highest = resource.getrlimit(number)
    if not _is_lower(now, before):
        return True
    try:
        resource.setrlimit(number, (before, highest))
    except (OSError, ValueError):
        return False
    return True


def vitals_now() -> Vitals:
    """What there is in this process now.

    Raises:
        OSError: it may open no file.
    """
    global _first  # noqa: PLW0603 - as files are the process's own
    if _first is None or _first[2] != os.getpid():
        kept, other = os.pipe()  # no other file has the same behind it
        os.close(other)
        _first = kept, threading.active_count(), os.getpid()
    file, threads, _ = _first
    behind = behind_of(file)
    assert behind is not None, "whoever closed it ended this process"
    limits = limits_now()
    free = _free_above(limits[resource.RLIMIT_NOFILE])
    return Vitals(file, behind, standard_files(), free, limits, timers_now(), threads)


def _free_above(limit: int) -> int:
    many = _FILES_WITHOUT_LIMIT if limit == resource.RLIM_INFINITY else int(limit * _MANY_FILES)
    # Nothing is opened there: the table of files of the process would grow up to it.
    for free in range(many, max(limit, many + 1)):
        if behind_of(free) is None:
            return free
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _is_lower(limit: int, before: int) -> bool:
    if resource.RLIM_INFINITY in (limit, before):
        return limit != before == resource.RLIM_INFINITY
    return limit < before
