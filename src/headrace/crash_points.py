"""Named steps at which a process can be made to stop, so that a test can kill it exactly there.

A promise such as "killed at any moment, nothing is lost" is only as good as the moments tried, and
a kill after a random number of seconds nearly always hits the same long step. So the steps between
which a kill makes a difference have names, and say when they are reached. Normally that is one
comparison. Where the environment variable ``HEADRACE_STOP_AT`` is ``step:number:file``, the first
process to reach the step for that many times (counted in each process) makes the file and then
does nothing more, for ever; whoever waits for the file kills it, or what it belongs to. As the file
is there then, a next life passes the step.

The idea is FreeBSD's fail(9); PingCAP's ``fail-rs`` brought it to databases. Nothing is killed
here, and no error is ever raised.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal, get_args

VARIABLE = "HEADRACE_STOP_AT"

Step = Literal[
    "planned",  # the driver knows what it wants to run, and nobody else does
    "intent-recorded",  # the wave is written down, not started
    "submitted",  # the wave is with the engine
    "claimed",  # at-most-once: the positions are moved, nothing is handled
    "mid-slice",  # effects are made, not written
    "sink-written",  # effects are written, nobody has been told
    "mid-commit",  # the receipts are here, the positions are not moved yet
    "committed",  # the positions are moved, the driver does not know it yet
]
STEPS: tuple[Step, ...] = get_args(Step)

_counts: dict[str, int] = {}


def reached(step: Step) -> None:
    """Say that a step is reached; returns at once unless a test asked to stop here."""
    wanted = os.environ.get(VARIABLE)
    if wanted is not None:
        _stop(step, wanted)


def _stop(step: str, wanted: str) -> None:
    name, number, path = wanted.split(":", 2)
    if name != step:
        return
    _counts[step] = _counts.get(step, 0) + 1
    if _counts[step] < int(number):
        return
    try:
        Path(path).open("x").close()
    except FileExistsError:
        return
    while True:
        time.sleep(3600)
