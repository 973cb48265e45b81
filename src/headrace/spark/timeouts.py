"""Ending a call that takes too long, inside the Python worker.

A handler that waits for a server without a time limit holds its worker for ever, and nothing
outside knows in which call it is. A timer of the process does: when it rings, an exception is
raised in the middle of the handler, wherever it is in Python code or in a system call that waits.
It rings again until the call is over, so a handler that catches everything in a loop ends as well.

An import that is ended halfway leaves half a package behind, which this process can never import
again, for no tenant. So within an import the exception waits until the import is over.

Only the main thread can be interrupted this way; Spark's Python worker runs tasks there. C code
that neither returns nor waits in the kernel is beyond it, and so is an import that never ends, or a
call that sets the timer for itself: the driver ends that wave, and the process with it.

A handler that forks and lets the child return would answer Spark twice on one connection. The
child is ended here, quietly.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from headrace.spark.c_signals import IGNORED, set_handler

_T = TypeVar("_T")

#: the timer rings again after so long, should the first exception have been swallowed
_AGAIN_S = 0.25
#: seconds for what an error says of itself
TELLING_S = 1.0
#: where the frames of an import are
_IMPORTING = "<frozen importlib._bootstrap>"


class CallOverdue(BaseException):
    """Raised inside the call. No ``Exception``, so that a handler's own ``except`` lets it by."""


def bounded(call: Callable[[], _T], seconds: float) -> _T:
    """Run ``call``; end it after ``seconds``, which may be infinite.

    Raises:
        CallOverdue: it took longer. What it raised meanwhile is lost.
    """
    if math.isinf(seconds) or threading.current_thread() is not threading.main_thread():
        return _in_this_process(call)
    # What rings before the call has begun would leave its timer behind; it rings again in there.
    ringing = False

    def ring(number: int, frame: FrameType | None) -> None:
        if ringing and not _imports(frame):
            raise CallOverdue

    # An earlier call may have blocked the signal; to ignore it for a moment drops what waits of it.
    before = set_handler(signal.SIGALRM, IGNORED)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    set_handler(signal.SIGALRM, ring)
    running, again = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    began_s = time.monotonic()
    try:
        try:
            ringing = True
            return _in_this_process(call)
        finally:
            ringing = False
    finally:
        # Reached even if it rings in the very moment in which the call ends.
        ringing = False
        # Of a timer that ran already, this was a part of the time; 0 would be none at all.
        left = max(running - (time.monotonic() - began_s), 1e-6) if running else 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
        set_handler(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left, again)


def guarded(make: Callable[[], _T], otherwise: Callable[[], _T]) -> _T:
    """What somebody's own error says of itself, be its texts and attributes code of theirs.

    That may raise anything, and take any time: then it is what we say ``otherwise``. No garbage is
    collected meanwhile: in a large process that alone can take longer, and then what ends the call
    would be raised in somebody's finalizer, and lost.
    """
    collects = gc.isenabled()
    try:
        gc.disable()
        return bounded(make, TELLING_S)
    except BaseException:  # SystemExit, say
        return otherwise()
    finally:
        if collects:
            gc.enable()


def _imports(frame: FrameType | None) -> bool:
    """Whether the call imports something at a frame of it."""
    while frame is not None and frame.f_code is not bounded.__code__:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False


def _in_this_process(call: Callable[[], _T]) -> _T:
    process = os.getpid()
    try:
        return call()
    finally:
        if os.getpid() != process:
            os._exit(0)
