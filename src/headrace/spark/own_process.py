"""What a Python worker does not share: its group of processes, and its connection to Spark.

All workers of an executor are born in the group of their daemon. A library that ends "its own"
processes with one signal to the group so kills the daemon and what runs in all other slots, and no
marker names it, as the next attempt has another parent. So a worker has a group of its own. The
daemon ends its workers by a signal to the group, too; that does not arrive any more, so the kernel
is asked to end the worker with the daemon. Where it cannot (macOS), the group stays the common one.

A process that a handler forks has all of the worker's open files, and the connection with them.
Should the worker die, Spark waits for the end of a connection that the child holds, for as long as
that lives. So what is forked has nothing in its place: reading ends, what is written is gone.

Only what Python forks is seen, not a C library's own `fork`; programs that are started never have
the connection. A program that a handler leaves behind lives on when the daemon ends.

What cannot be taken back in a worker, no other task is to share either: it ends, between two tasks.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import stat
import sys
from contextlib import suppress
from types import FrameType

from headrace.spark.standard_files import Behind, behind_of

_PR_SET_PDEATHSIG = 1
#: what Spark forks workers from, as a program
_DAEMON = "pyspark.daemon"
#: the function of it that a worker is in between two tasks
_BETWEEN_TASKS = "manager"
_OPEN_FILES = "/dev/fd"

#: of a process and not of those that it forks: the connection of its task, and the process
_connection: tuple[Behind, int] | None = None


def keep_to_itself() -> None:
    """Take group and connection for this process alone; before every task of a worker."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == _DAEMON:
        take_group()
    found = _connection_of_task()
    if found is not None:
        keep_connection(found)


def take_group() -> None:
    """Have a group of our own, and end with the daemon; its only thread forked this process."""
    if os.getpgrp() == os.getpid():
        return
    with suppress(OSError, AttributeError):
        # In this order: either the daemon's signal reaches the group, or the kernel's reaches us.
        if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0:
            os.setpgid(0, 0)


def keep_connection(behind: Behind) -> None:
    """Let no process that is forked from now on have the files that lead there."""
    global _connection  # noqa: PLW0603 - as files are the process's own
    if _connection is None:
        os.register_at_fork(after_in_child=_let_go)
    _connection = behind, os.getpid()


def end_behind_task() -> None:
    """End this process when all that its task has to say is with Spark, so that no task is lost.

    Spark's daemon collects garbage behind each task that a worker may be used after. Spark finds
    the worker dead before it gives it another task. Where it was just about to, that attempt is
    lost and there is another one.
    """
    if _end not in gc.callbacks:
        gc.callbacks.append(_end)


def is_between_tasks(frame: FrameType) -> bool:
    """Whether a frame is that of the daemon's code in which a worker waits for its next task."""
    return frame.f_code.co_name == _BETWEEN_TASKS and frame.f_globals.get("__name__") == "__main__"


def _end(_phase: str, _told: dict[str, int]) -> None:
    if is_between_tasks(sys._getframe(1)):
        os._exit(0)


def _connection_of_task() -> Behind | None:
    """What is behind the file that Spark's worker reads its task from; None: this is no worker."""
    frame = sys._getframe()  # the file is handed to nobody else
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "main" and "infile" in frame.f_code.co_varnames:
            number = frame.f_locals["infile"].fileno()
            return behind_of(number) if stat.S_ISSOCK(os.fstat(number).st_mode) else None
    return None


def _let_go() -> None:
    """In a new child; numbers stay taken, as files of this name are closed some day."""
    if _connection is None or _connection[1] == os.getpid():
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in map(int, os.listdir(_OPEN_FILES)):
        if behind_of(number) == _connection[0]:
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)
