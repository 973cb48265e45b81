"""How a process that runs somebody's module answers whoever started it: lines of JSON.

What was standard output is for these alone; what the module prints goes to standard error.
"""

from __future__ import annotations

import os
from json import dumps  # as it is now: a module may put another in its place
from typing import TextIO


def private_output() -> TextIO:
    """What was standard output; what a module prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def tell(out: TextIO, **told: object) -> None:
    """Say something, at once."""
    out.write(dumps(told) + "\n")
    out.flush()
