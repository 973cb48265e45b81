"""A server process that ends with us, seen from our side.

``guard.py`` says why there is a guard in between and what it does. Here it is started, asked to
stop, and the tail of the server's log is found when something went wrong.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.embedded import guard
from headrace.embedded.stand_in import StandIn
from headrace.errors import ServerError

_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a server is asked to end."""

    #: how long it may take; then it is killed
    grace_s: float
    signal: signal.Signals = signal.SIGTERM


class GuardedProcess:
    """A running command whose output goes to a log file.

    ``pid`` is the server's own process id.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        descriptors: Sequence[int],
        ending: Ending,
        environment: Mapping[str, str] | None = None,
        user: StandIn | None = None,
    ) -> None:
        """Start ``command``; ``descriptors`` stay open in it (the lock of its folder).

        It has our own environment with ``environment`` on top, and is run by us or by ``user``.

        It is asked to end when ``stop`` is called, and when this process ends.

        Raises:
            ServerError: the log cannot be written or the command cannot be run.
        """
        self._log = log
        self._stop_s = ending.grace_s + 5
        name = "-" if user is None else f"{user.uid}:{user.gid}"
        how = [str(ending.grace_s), str(int(ending.signal))]
        arguments = [str(os.getpid()), *how, name, *command]
        try:
            with log.open("wb") as output:
                self._guard = subprocess.Popen(  # noqa: S603 - the command is ours
                    [sys.executable, "-I", "-S", guard.__file__, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    pass_fds=tuple(descriptors),
                    start_new_session=True,
                    env={**os.environ, **(environment or {})},
                )
        except OSError as exc:
            raise ServerError(f"{command[0]} cannot be started: {exc}") from exc
        assert self._guard.stdout is not None
        with self._guard.stdout as answer:
            line = answer.readline()
        if not line.strip().isdigit():
            self.stop()
            raise ServerError(f"{command[0]} cannot be started: {self.tail()}")
        self.pid = int(line)

    @property
    def running(self) -> bool:
        """Whether the server has not ended."""
        return self._guard.poll() is None

    def stop(self) -> None:
        """Ask the server to end and wait until it has."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        try:
            self._guard.wait(self._stop_s)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()

    def kill(self) -> None:
        """End the server at once, as a crash would, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def tail(self) -> str:
        """The last lines of the server's log."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 32_768))
                text = log.read().decode("utf-8", "replace")
        except OSError as exc:
            return f"({self._log} cannot be read: {exc})"
        return last_lines(text) or f"({self._log} is empty)"


def last_lines(text: str, count: int = 12) -> str:
    """The end of what a server said, without Java's stack frames, which push the reason away."""
    lines = [line for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    return "\n".join(lines[-count:])
