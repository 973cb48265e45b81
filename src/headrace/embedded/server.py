"""What the embedded servers have in common: how they are begun and waited for.

Each is another program with its own way to say that it is ready, but all may find that a port which
was free a moment ago is taken, and all are looked at again and again until they answer, end, or
take too long. Each has its folder to itself. What it needs, and how it is launched, is its own.
"""

from __future__ import annotations

import errno
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Protocol, Self

from headrace.embedded.addresses import refuse_taken_port
from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ServerError

#: starts that may meet a port that was free a moment before
_TRIES = 3


class Running(Protocol):
    """What runs: a process, or several of which none is of use alone."""

    @property
    def pid(self) -> int:
        """The process id of the server itself."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""

    def stop(self) -> None:
        """Ask it to end and wait until it has."""

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""

    def tail(self) -> str:
        """The last lines of its log."""


class Missed(Enum):
    """Why a server did not become ready."""

    ENDED = "it ended while starting"
    SILENT = "it does not answer"


def until_ready(
    ready: Callable[[], bool], process: Running, deadline_s: float, look_every_s: float
) -> Missed | None:
    """Wait until a server is ready; None when it is.

    Args:
        ready: whether it answers.
        process: its process.
        deadline_s: monotonic second at which it has taken too long.
        look_every_s: time between two looks.
    """
    while not ready():
        if not process.running:
            return Missed.ENDED
        if time.monotonic() > deadline_s:
            return Missed.SILENT
        time.sleep(look_every_s)
    return None


def begin(attempt: Callable[[], str | None], port_taken: str) -> None:
    """Start a server, again if a port was taken meanwhile.

    Args:
        attempt: chooses ports and starts; returns what went wrong, and then nothing runs.
        port_taken: what stands in that if it was a port.

    Raises:
        ServerError: it did not start.
    """
    for tries_left in reversed(range(_TRIES)):
        problem = attempt()
        if problem is None:
            return
        if tries_left == 0 or port_taken not in problem:
            raise ServerError(problem)


def unwritable(folder: Path, error: OSError) -> ServerError:
    """A server cannot keep anything there."""
    return ServerError(f"folder {folder} cannot be written: {error.strerror}")


class OneProcess(ABC):
    """A server of one process in a folder: its start, whether it runs, and its end."""

    _process: Running | None = None
    #: seconds between two looks whether it answers
    _look_every_s = 0.02
    #: what stands in its log where its port was taken
    _port_taken = os.strerror(errno.EADDRINUSE)
    #: what people call it
    _name: str

    def __init__(self, folder: Path | str, port: int | None) -> None:
        """Say where, and on which port if not on any; nothing is touched before ``start``."""
        self.folder = Path(folder).resolve()
        self.port = port
        self._asked_port = port

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._process is not None and self._process.running

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop it."""
        self.stop()

    @abstractmethod
    def start(self, timeout_s: float = 60.0) -> None:
        """Start and wait until it answers."""

    def stop(self) -> None:
        """Let it write what it has and close its files; nothing happens if it does not run."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it at once, as a crash would. ``start`` brings it back with its data."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    @abstractmethod
    def _ready(self) -> bool:
        """Whether it answers."""

    @contextmanager
    def _place_of_its_own(self) -> Iterator[FolderLock]:
        """Its folder, locked while it starts.

        Raises:
            ServerError: the port that was asked for is taken, or the folder is in use or cannot
                be written.
        """
        if self._asked_port is not None:
            refuse_taken_port(self._asked_port, self._name)
        with FolderLock(self.folder) as lock:
            yield lock

    def _begin(self, launch: Callable[[], Running], timeout_s: float) -> None:
        """Launch it and wait until it answers, again if a port was taken meanwhile.

        Args:
            launch: chooses ports and starts the process.
            timeout_s: what each try may take.

        Raises:
            ServerError: it ended, or does not answer.
        """

        def attempt() -> str | None:
            self._process = launch()
            return self._await_answer(self._process, time.monotonic() + timeout_s)

        begin(attempt, self._port_taken)

    def _told(self, missed: Missed, tail: str) -> str:
        """What is said where it did not become ready, with the end of its log."""
        if missed is Missed.SILENT:
            return f"{self._name} does not answer:\n{tail}"
        return f"{self._name} ended while starting; the end of its log:\n{tail}"

    def _await_answer(self, process: Running, deadline_s: float) -> str | None:
        """Wait until it answers; if it does not, stop it and return what went wrong."""
        problem: str | None = "interrupted"
        try:
            missed = until_ready(self._ready, process, deadline_s, self._look_every_s)
            problem = None if missed is None else self._told(missed, process.tail())
        finally:
            if problem is not None:
                self.stop()
        return problem
