"""The watchdog of `faulthandler`, which ends a process that hangs, and of which there is one.

A process that ends, or that checks a version, sets it for itself. A module that is imported may
take it, and be gone: then it ends a driver of all tenants in the middle of its work, and what it
was set for may hang for ever. So who sets it here has it again after that, and others' are stopped.

`faulthandler` does not say whether it watches. But it keeps the file that it would write to, and no
longer than it watches; so ours is taken when that is gone.
"""

from __future__ import annotations

import faulthandler
import time
import weakref
from dataclasses import dataclass

#: it takes no 0
_LEAST_S = 0.001


class _File:
    """A file that is kept by `faulthandler` alone."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def flush(self) -> None:
        """Nothing: what it writes passes by."""


@dataclass(frozen=True, slots=True)
class _Watch:
    #: monotonic
    until_s: float
    number: int
    file: weakref.ref[_File]


#: what was asked for last, and not stopped
_ours: _Watch | None = None


def end_after(within_s: float, number: int) -> None:
    """End this process then, and write to this file first where its threads stand."""
    global _ours  # noqa: PLW0603 - there is one in a process
    file = _File(number)
    # First: who puts it back in another thread meanwhile then sets it as well.
    _ours = _Watch(time.monotonic() + within_s, number, weakref.ref(file))
    faulthandler.dump_traceback_later(max(within_s, _LEAST_S), exit=True, file=file)


def stop() -> None:
    """Have the process go on for as long as it takes."""
    global _ours  # noqa: PLW0603 - there is one in a process
    _ours = None
    faulthandler.cancel_dump_traceback_later()


def is_taken() -> bool:
    """Whether somebody has set or stopped it since it was set here."""
    return _ours is not None and _ours.file() is None


def put_back() -> None:
    """Stop what others have set, and have ours watch for the time that is left."""
    if _ours is not None and not is_taken():
        return
    faulthandler.cancel_dump_traceback_later()
    if _ours is not None:
        end_after(_ours.until_s - time.monotonic(), _ours.number)
