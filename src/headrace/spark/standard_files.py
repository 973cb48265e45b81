"""The three files that every process has, as they were before a handler was called.

A new file gets the lowest number that is free. So where a handler closes its standard error, the
next file of its process is taken for it: with the next task that is the worker's connection to
Spark. What a neighbour logs then goes into it, the JVM takes a warning for the length of a record,
and ends with all that runs in it. So after each call the three are set right again, from copies.

Where somebody's connection has got the number already, nothing can be set right: its owner goes on
to write to that number, and closes it some day.
"""

from __future__ import annotations

import fcntl
import os
import stat
from dataclasses import dataclass

_NUMBERS = (0, 1, 2)
_FIRST_OTHER = 3

#: of each number: what it is
Behind = tuple[int, int]
_copies: dict[int, tuple[int, Behind]] = {}


@dataclass(frozen=True, slots=True)
class StandardFile:
    """One of the three."""

    number: int
    copy: int
    behind: Behind

    def is_set_right(self) -> bool:
        """Whether it is as it was, or could be made so."""
        if behind_of(self.number) == self.behind:
            return True
        if behind_of(self.copy) != self.behind or not _is_nobodys(self.number):
            return False
        os.dup2(self.copy, self.number)
        return True


def standard_files() -> tuple[StandardFile, ...]:
    """Those that are there now, with a copy of each, which is kept.

    Raises:
        OSError: this process may open no file.
    """
    there = ((number, behind_of(number)) for number in _NUMBERS)
    return tuple(_kept(number, found) for number, found in there if found is not None)


def behind_of(file: int) -> Behind | None:
    """What tells an open file from others; None: there is none of this number."""
    try:
        found = os.fstat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _kept(number: int, behind: Behind) -> StandardFile:
    copy, of = _copies.get(number, (None, None))
    if copy is None or of != behind:
        if copy is not None:
            os.close(copy)
        copy = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _FIRST_OTHER)
        _copies[number] = copy, behind
    return StandardFile(number, copy, behind)


def _is_nobodys(number: int) -> bool:
    """Whether it is free, a file or `/dev/null`, say: what was said is wanted elsewhere."""
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)
