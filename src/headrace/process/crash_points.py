"""Named steps at which a process can be made to stop, so that a test can kill it exactly there.

A promise such as "killed at any moment, nothing is lost" is only as good as the moments tried, and
a kill after a random number of seconds nearly always hits the same long step. So the steps between
which a kill makes a difference have names, and say when they are reached. Normally that is one
comparison. Where the environment variable ``HEADRACE_STOP_AT`` is ``step:number:file``, the first
process to reach the step for that many times (counted in each process) makes the file, with its
process id in it, and does nothing more; whoever waits for the file kills the process, or what it
belongs to, or writes ``GO_ON`` into the file, and then the process goes on. As long as the file is
there, everybody else passes the step. ``step@use case:number:file`` is that step of one use case.

The idea is FreeBSD's fail(9); PingCAP's ``fail-rs`` brought it to databases. Nothing is killed
here, and no error is ever raised. Where all runs in one process, as in the simulation, a test
raises ``PlayedKill`` instead.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

VARIABLE = "HEADRACE_STOP_AT"
GO_ON = "go on"
#: seconds between two looks of a process that is stopped
_LOOK_EVERY_S = 0.05

Step = Literal[
    "planned",  # the driver knows what it wants to run, and nobody else does
    "intent-recorded",  # the wave is written down, not started
    "submitted",  # the wave is with the engine
    "claimed",  # at-most-once: the positions are moved, nothing is handled
    "mid-slice",  # effects are made, not written
    "mid-write",  # effects are with the sink, nothing of them is durable or seen yet
    "sink-written",  # effects are written, nobody has been told
    "mid-commit",  # the receipts are here, the positions are not moved yet
    "committed",  # the positions are moved, the driver does not know it yet
]
STEPS: tuple[Step, ...] = get_args(Step)

_counts: dict[str, int] = {}


class PlayedKill(BaseException):
    """Raised by a test where a kill is played in its own process: whatever is on its way ends.

    What takes any error of somebody else lets this one by, since a kill asks nobody.
    """


def reached(step: Step, use_case: str = "") -> None:
    """Say that a step is reached; returns at once unless a test asked to stop here.

    Args:
        step: which.
        use_case: whose step it is; empty for one of the driver as a whole.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted is not None:
        _stop(step, use_case, wanted)


def _stop(step: str, use_case: str, wanted: str) -> None:
    name, number, path = wanted.split(":", 2)
    if name not in (step, f"{step}@{use_case}"):
        return
    _counts[name] = _counts.get(name, 0) + 1
    if _counts[name] < int(number):
        return
    mark = Path(path)
    try:
        with mark.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return
    while True:
        time.sleep(_LOOK_EVERY_S)
        with suppress(FileNotFoundError):
            if mark.read_text() == GO_ON:
                return
