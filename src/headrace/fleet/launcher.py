"""Ties a driver to its supervisor, then becomes the driver.

A supervisor may be killed with -9, and whoever starts it again must not find drivers that nobody
looks after. A driver should not die with it, though: it has waves in flight, and can end them. So
the kernel is asked to send the driver SIGTERM when its parent is gone, which is the order to drain.

The order survives ``exec``, so this small program asks for it and then replaces itself with the
driver: there is no process in between, and the driver need not know. Between a ``fork`` and an
``exec`` no Python may run in a process with threads, which is why it is not done there.

The kernel watches the *thread* that started the driver; the supervisor starts drivers from its main
thread, which ends with the process. On systems without parent-death signals (macOS) nothing is
sent; there the next supervisor asks for the drain (`process.py`, `end_leftovers`).

Run by path, ``python launcher.py PARENT_PID COMMAND...``. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> int:
    """Become the command, unless the parent is gone already."""
    parent, command = int(arguments[0]), list(arguments[1:])
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return 1
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command is the supervisor's
    except OSError as exc:
        sys.stderr.write(f"{command[0]} cannot be started: {exc.strerror}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
