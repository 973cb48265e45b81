"""Keeps a server no longer than the process that asked for it.

A server that outlives a killed test or driver holds its folder and its port, and nobody knows why.
The kernel's parent-death signal alone is wrong here: it fires when the *thread* that started the
server ends. So this small program stands between. It holds a pipe to its parent; when the pipe
closes or the parent is gone, it ends the server, gently first. Should the guard itself be killed,
its only thread is gone with it, and there the parent-death signal is right.

The guard has a session of its own: Ctrl-C reaches the driver, which drains while its servers still
run.

Run by path, ``python guard.py PARENT_PID GRACE_S STOP_SIGNAL USER COMMAND...``, with the pipe as
standard input; it prints the server's pid as its first line and ends with the server's exit code.
``USER`` is ``UID:GID``, which only root may name, or ``-`` for its own. Standard library only, and
nothing of Headrace, so that it is small and up at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.2


def main(arguments: Sequence[str]) -> int:
    """Run the command until it ends, or until the parent does."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # a guard asked to stop acts as if its parent had gone
    asked_to_stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_stop.append(number))
    parent, grace_s, stop_signal = int(arguments[0]), float(arguments[1]), int(arguments[2])
    user, command = arguments[3], arguments[4:]
    uid, gid = (None, None) if user == "-" else map(int, user.split(":"))
    server = subprocess.Popen(  # noqa: S603 - the command is ours
        command,
        user=uid,
        group=gid,
        extra_groups=None if gid is None else [],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        close_fds=False,
        preexec_fn=_die_with_guard,  # noqa: PLW1509 - this process has one thread
    )
    print(server.pid, flush=True)  # noqa: T201 - the parent waits for this line
    while server.poll() is None:
        if asked_to_stop or os.getppid() != parent or _pipe_closed(_LOOK_EVERY_S):
            return _end(server, stop_signal, grace_s)
    return server.returncode


def _die_with_guard() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # not on macOS; there only the guard's own death goes unnoticed
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _pipe_closed(timeout_s: float) -> bool:
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], timeout_s)
    return bool(readable) and os.read(sys.stdin.fileno(), 1) == b""


def _end(server: subprocess.Popen[bytes], stop_signal: int, grace_s: float) -> int:
    server.send_signal(stop_signal)
    try:
        return server.wait(grace_s)
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
