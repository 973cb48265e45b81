"""What a handler prints or logs on an executor, with whose records it was about.

Spark passes what a Python worker writes on to the executor's standard error, as it comes. There the
lines of hundreds of tenants lie in a heap: nobody can tell whose `print` it was. A worker has one
task at a time and a task one call, so it is enough to remember which call is under way. Its
standard output, standard error and root logger are ours, and each line of a handler becomes one
line of the log, with tenant, use case and slice. It is written at once, in one piece, so that what
was said before a crash is there.

A handler that prints each record would fill a disk and take the time of others. So a call has a
bound, and a worker one for all of its calls; what is left out is counted, and the count is told.

The two streams are the process's. A handler that puts something else in their place, or closes
them, does so for its own call: ours are there again after it, and to close one does nothing.

What is written between two calls (by a sink, or while a module is imported) passes as it is, and so
does what a thread says that was there before the call: it may speak of another one. Forms that run
on the driver are not looked at: there many calls run at once.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO, TypeVar

from headrace.errors import plain, shortened
from headrace.model.streams import Slice
from headrace.policies.throttle import TokenBucket
from headrace.telemetry.log_fields import WORKER_LOGS, of_slice, of_stream

_T = TypeVar("_T")

MOST_LINES_OF_A_CALL = 100
#: of all calls of a worker together, in the long run; so many may come at once
LINES_PER_S, MOST_LINES_AT_ONCE = 100.0, 1_000.0
MOST_CHARACTERS_OF_A_LINE = 2_000
_NUMBERS = {"stdout": 1, "stderr": 2}
_LEVELS = logging.getLevelNamesMapping()
#: they say each request that they send, at level INFO
_TALKATIVE = ("httpx", "httpx2")


def about(slices: tuple[Slice, ...]) -> dict[str, str]:
    """The fields of lines that a call with these slices writes."""
    return of_slice(slices[0]) if len(slices) == 1 else of_stream(slices[0].lane.stream)


class HandlerOutput:
    """Who is spoken for in this process, and how much was said."""

    def __init__(
        self,
        send: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take where lines go; None: the standard error of the process itself."""
        self._send = send or _to_stderr
        self._clock = clock
        self._lock = threading.RLock()
        #: of the call that is under way; most calls say nothing, so fields are made when one does
        self._slices: tuple[Slice, ...] = ()
        #: threads that were there before it
        self._earlier: frozenset[threading.Thread] = frozenset()
        self._lines = self._left_out = 0
        self._bucket = TokenBucket.full(LINES_PER_S, clock(), MOST_LINES_AT_ONCE / LINES_PER_S)
        self._pretty, self._least = shape_of(os.environ)
        self._streams: tuple[_Stream, ...] = ()

    def install(self) -> None:
        """Take over what this process writes; may be called before every task."""
        if not self._streams:
            self._streams = tuple(
                _installed(self, name, level) for name, level in (("stdout", 20), ("stderr", 30))
            )
        self._put_back()
        root = logging.getLogger()
        if not any(isinstance(handler, _Handler) for handler in root.handlers):
            # There before a module is imported: its own basicConfig() then changes nothing.
            root.addHandler(_Handler(self))
            if root.level == logging.WARNING:
                root.setLevel(self._least)
                _hush(self._least)

    def during(self, slices: tuple[Slice, ...], call: Callable[[], _T]) -> _T:
        """Run a call; what it writes meanwhile is about these slices."""
        if not self._streams:
            return call()
        self._put_back()
        self._lines = self._left_out = 0
        self._earlier = _other_threads()
        self._slices = slices
        try:
            return call()
        finally:
            try:
                self._end_of_call()
            finally:
                self._slices = ()
                self._put_back()

    def _put_back(self) -> None:
        for stream in self._streams:
            stream.put_back()

    def _end_of_call(self) -> None:
        for stream in self._streams:
            stream.end_line()
        if self._left_out:
            told = f"{self._left_out} more lines of this call are left out"
            self._write(told, "headrace", logging.WARNING)

    @property
    def is_of_a_call(self) -> bool:
        """Whether who speaks now is the handler that is called."""
        return bool(self._slices) and threading.current_thread() not in self._earlier

    def line(self, text: str, logger: str, level: int) -> None:
        """Say one line of the handler that is called now, within bounds."""
        with self._lock:
            if level < self._least:
                return
            if self._lines >= MOST_LINES_OF_A_CALL or not self._has_token():
                self._left_out += 1
                return
            self._lines += 1
            self._write(text, logger, level)

    def _has_token(self) -> bool:
        self._bucket = self._bucket.refilled(self._clock())
        if self._bucket.tokens < 1:
            return False
        self._bucket = self._bucket.spend(1)
        return True

    def _write(self, text: str, logger: str, level: int) -> None:
        row = {
            **about(self._slices),
            "logger": logger,
            "event": shortened(text, MOST_CHARACTERS_OF_A_LINE),
            "level": logging.getLevelName(level).lower(),
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        self._send(_pretty(row) if self._pretty else json.dumps(row))


def _other_threads() -> frozenset[threading.Thread]:
    # There are seldom any, and to count them costs little.
    if threading.active_count() == 1:
        return frozenset()
    return frozenset(threading.enumerate()) - {threading.current_thread()}


def shape_of(environment: Mapping[str, str]) -> tuple[bool, int]:
    """Whether lines are for people, and the least level: as the driver's, or as executors say."""
    words = environment.get(WORKER_LOGS, "").split()
    form, level = words if len(words) == 2 else ("", "")
    form = form or environment.get("LOG_FORMAT", "")
    level = level or environment.get("LOG_LEVEL", "")
    return form == "pretty", _LEVELS.get(level.upper(), logging.INFO)


def _hush(least: int) -> None:
    """Where Python would not show what clients of servers say at each request, neither do we.

    Who asks for all of it, or sets the level of such a logger, hears it.
    """
    if least < logging.INFO:
        return
    for logger in map(logging.getLogger, _TALKATIVE):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


class _Stream(io.TextIOBase):
    """Standard output or standard error, line by line."""

    def __init__(self, output: HandlerOutput, real: TextIO, name: str, level: int) -> None:
        self._output, self._real, self._name, self._level = output, real, name, level
        self._begun = ""

    @property
    def buffer(self) -> Any:
        """For whoever writes bytes, which pass as they are."""
        return self._real.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As whoever asks the real one is told."""
        return self._real.encoding

    def fileno(self) -> int:
        return self._real.fileno()

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._real.flush()

    def close(self) -> None:
        """Whoever closes it is not the last who speaks."""
        self.flush()

    def put_back(self) -> None:
        """Be what the process speaks with, and its file be open."""
        if self._real.closed:
            with suppress(OSError):  # until the number is set right (`standard_files.py`)
                self._real = os.fdopen(
                    _NUMBERS[self._name], "w", 1, "utf-8", "backslashreplace", closefd=False
                )
        setattr(sys, self._name, self)

    def write(self, text: str) -> int:
        if not self._output.is_of_a_call:
            # As a line of a call: where it cannot be written, it is lost.
            with suppress(OSError, ValueError):
                self._real.write(text)
            return len(text)
        *lines, rest = (self._begun + text).split("\n")
        # Who never ends a line is not to fill the memory.
        self._begun = rest[: MOST_CHARACTERS_OF_A_LINE * 2]
        for line in lines:
            if line:
                self._output.line(line, self._name, self._level)
        return len(text)

    def end_line(self) -> None:
        """Say what was begun and not ended."""
        rest, self._begun = self._begun, ""
        if rest:
            self._output.line(rest, self._name, self._level)


class _Handler(logging.Handler):
    """The root logger's."""

    def __init__(self, output: HandlerOutput) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        if self._output.is_of_a_call:
            self._output.line(self.format(record), record.name, record.levelno)
        elif record.levelno >= logging.WARNING:
            # As Python does where nobody has set up anything.
            sys.stderr.write(self.format(record) + "\n")


def _installed(output: HandlerOutput, name: str, level: int) -> _Stream:
    found = getattr(sys, name)
    return found if isinstance(found, _Stream) else _Stream(output, found, name, level)


def _pretty(row: Mapping[str, str]) -> str:
    shown = " ".join(
        f"{name}={value}"
        for name, value in row.items()
        if name not in ("event", "level", "timestamp", "stream")
    )
    text = "\n".join(plain(line) for line in row["event"].split("\n"))
    return f"{row['timestamp']} [{row['level']:<8}] {text}  {shown}"


def _to_stderr(line: str) -> None:
    # In one call, so that lines of several workers do not mix. Where it cannot be written, as when
    # a handler has closed the file, the line is lost, and not the call of whoever speaks next.
    with suppress(OSError):
        os.write(2, f"{line}\n".encode("utf-8", "backslashreplace"))


#: of this process, a Python worker; does nothing where it is not installed
OUTPUT = HandlerOutput()
