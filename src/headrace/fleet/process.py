"""A driver as a process: Python, its JVM, and whatever those start, in one session.

What a user may expect:

- Ctrl-C on the supervisor's terminal does not reach a driver, which would die of it in the middle
  of a wave. It has a session of its own, and is asked to drain with SIGTERM.
- When a driver ends, however it ends, nothing of it is left: not the JVM, not a Python worker that
  hangs. All processes of its session are killed before its end is reported.
- Drivers of a supervisor that was killed with -9 drain and end (`launcher.py`). A supervisor that
  is started again before they have ended waits for them, and kills them after a drain's time.
  Should one be overlooked, it is replaced by the new driver of its name in the store, which refuses
  whatever it still commits (`cycle/leases.py`): it may waste work, but it does nothing twice that
  the guarantee does not allow.

Not here: when any of this is done (`decide.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from headrace.errors import ServerError
from headrace.fleet import launcher
from headrace.fleet.logs import DriverLog
from headrace.process.signals import WHERE

#: in the environment of all processes of a supervised driver: the folder of its supervisor
MARK = "HEADRACE_SUPERVISED"
_LOOK_EVERY_S = 0.1
#: what a driver has to say where it stands
_TELL_S = 0.3


class DriverProcess:
    """A driver that was started; ``pid`` is also its session's id."""

    def __init__(
        self,
        command: Sequence[str],
        log: DriverLog | None,
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start ``command``; its output goes to ``log``, or where ours goes.

        ``folder`` is its supervisor's, by which it is known as one of ours; ``environment`` comes
        on top of our own.

        Raises:
            ServerError: it cannot be started, or its log cannot be written.
        """
        words = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), *command]
        marked = {**os.environ, **(environment or {}), MARK: str(folder)}
        output = log.open() if log is not None else None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the command is the supervisor's
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output is not None else None,
                start_new_session=True,
                env=marked,
            )
        except OSError as exc:
            raise ServerError(f"{command[0]} cannot be started: {exc}") from exc
        finally:
            if output is not None:
                output.close()
        self.pid = self._process.pid

    def drain(self) -> None:
        """Ask it to end when what it has in flight has ended."""
        # Popen.send_signal would wait for one that has ended, and its number could go to another.
        if self._process.returncode is None:
            os.kill(self.pid, signal.SIGTERM)

    def tell_where(self) -> None:
        """Have it say in its log where its threads stand; for one that is killed since it hangs."""
        if self._process.returncode is None:
            os.kill(self.pid, WHERE)
            time.sleep(_TELL_S)

    def kill(self) -> None:
        """End everything in its session at once."""
        if self._process.returncode is None:
            _kill_session(self.pid)

    def ended(self) -> int | None:
        """Its exit code if it has ended, negative for a signal; then nothing of it is left."""
        if self._process.returncode is None:
            # As long as it is not waited for, nobody else can be given its number.
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, self.pid, flags) is None:
                return None
            _kill_session(self.pid)
            self._process.wait()
        return self._process.returncode


def told(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def reap_orphans(known: Sequence[int]) -> None:
    """For the first process of a container: bury children that are not ``known`` drivers.

    What a driver leaves behind becomes a child of process 1, and stays a zombie until it is waited
    for. Elsewhere this does nothing.
    """
    if os.getpid() != 1:
        return
    for child in psutil.Process().children():
        if child.pid not in known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)


def end_leftovers(folder: Path, patience_s: float) -> int:
    """Wait for the drivers of an earlier supervisor of ``folder``; return how many processes.

    They are asked to drain, and killed after ``patience_s``.
    """
    found = _marked(folder)
    for process in found:
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == process.pid:
                process.terminate()
    deadline_s = time.monotonic() + patience_s
    left = found
    while left and time.monotonic() < deadline_s:
        time.sleep(_LOOK_EVERY_S)
        left = _marked(folder)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return len(found)


def _marked(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            dead = process.status() == psutil.STATUS_ZOMBIE
            if (
                not dead
                and process.pid != os.getpid()
                and process.environ().get(MARK) == str(folder)
            ):
                found.append(process)
    return found


def _kill_session(leader: int) -> None:
    """Kill all processes of a session; Spark's Python workers have a group of their own in it."""
    with contextlib.suppress(OSError):
        os.killpg(leader, signal.SIGKILL)
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)
