"""Standard error that holds nobody up who writes to it.

A driver logs in its turns, and a door in its event loop. Where standard error is a pipe that nobody
reads, or a disk that hangs, such a write waits for ever, and with it all tenants; and a process
that is asked to end waits at its last word.

So while `written_by_a_thread` lasts, what Python writes to ``sys.stderr`` is queued, and a thread
writes it, in order. Whoever writes waits a moment for that: as long as somebody reads, a line is
out before its writer goes on, and a process that is killed, or ends itself by ``os._exit``, owes
none. What is not out in that moment is left to the thread, and nobody waits until it is; nor for
more than a tenth of the time, where many lines come in a busy process. When the queue is full, what
comes is left out, and a line of the log counts it. At the end what is queued has a time limit; then
nobody reads, and standard error leads nowhere from there on.

Descriptors stay as they are meanwhile: what C code and `faulthandler` write goes there by itself,
and waits. A forked child has no such thread, and writes by itself. A program that is started, as
Spark's JVM, which also writes what its workers do, is given a pipe whose lines are queued apart, in
half of the room: what it floods that with is left out, and pushes out none of the process's own
lines. Those are written first; each waits for one text of a program at most, which is on its way.
Nothing waits for what a program wrote.
"""

from __future__ import annotations

import io
import os
import queue
import select
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

import structlog

from headrace.policies.throttle import TokenBucket

log = structlog.get_logger(__name__)

#: of all that waits
MOST_CHARACTERS = 4_000_000
#: longest wait of whoever writes, once for each time that it is not read
WRITER_WAIT_S = 0.25
#: seconds of waits that all writers have at once, and for each second that passes: where threads
#: are busy, each wait takes milliseconds
_WAITS_AT_ONCE_S, _WAITS_PER_S = 1.0, 0.1
#: bytes of a program that are read at once, so that one that floods its pipe does not hold the lock
#: that all writers need
_AT_ONCE = 16_384
#: bytes of a program's line at most; a longer one is cut
_MOST_OF_A_LINE = 65_536
#: for all that is queued, at the end
END_S = 2.0
#: between two lines that count what was left out
_TOLD_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Text:
    """What somebody wrote; None: nothing more comes."""

    text: str | None
    is_out: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class _Room:
    """What waits of one kind."""

    #: characters that wait at most
    most: int
    #: characters that wait
    waiting: int = 0
    # One that signals and forks can interrupt, which its writers are.
    texts: queue.SimpleQueue[_Text] = field(default_factory=queue.SimpleQueue)


class ThreadedStream(io.TextIOBase):
    """A stream in the place of a real one, which a thread writes to."""

    def __init__(self, real: TextIO, most: int) -> None:
        """Start the thread.

        Args:
            real: where it leads.
            most: characters that wait at most.
        """
        self._real = real
        # Not by Python's buffer: a thread that is stuck in that one breaks the interpreter's end.
        self._number = _number_of(real)
        self._own, self._programs = _Room(most - most // 2), _Room(most // 2)
        #: one for each text that is in a room
        self._signs: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._lock = threading.RLock()
        #: lines that were not written
        self._left_out = 0
        self._told_s = 0.0
        now_s = time.monotonic()
        self._waits = TokenBucket.full(_WAITS_PER_S, now_s, _WAITS_AT_ONCE_S / _WAITS_PER_S)
        #: was not out in time, when last looked at
        self._late = _Text("")
        self._late.is_out.set()
        real.flush()
        work = threading.Thread(target=self._work, name="headrace-stderr", daemon=True)
        self._thread: threading.Thread | None = work
        work.start()
        _threaded.add(self)

    def write(self, text: str) -> int:
        """Hand it to the thread, and wait a moment; what there is no room for is left out."""
        if self._thread is None:
            return self._real.write(text)
        is_ours = threading.current_thread() is self._thread
        queued = _Text(text)
        if self._is_queued(queued, self._own, is_ours) and not is_ours:
            self._wait_for(queued)
        return len(text)

    def _is_queued(self, queued: _Text, room: _Room, always: bool = False) -> bool:
        length = len(queued.text or "")
        with self._lock:
            if room.waiting + length > room.most and not always:
                self._left_out += _lines_in(queued.text)
                return False
            room.waiting += length
            room.texts.put(queued)
            self._signs.put(None)
        return True

    def _wait_for(self, queued: _Text) -> None:
        began_s = time.monotonic()
        with self._lock:
            self._waits = self._waits.refilled(began_s)
            patience_s = min(WRITER_WAIT_S, self._waits.tokens)
        if patience_s <= 0.0 or not self._late.is_out.is_set():
            return
        if not queued.is_out.wait(patience_s):
            self._late = queued
        with self._lock:
            self._waits = self._waits.spend(time.monotonic() - began_s)

    def flush(self) -> None:
        """Nothing: the thread lets nothing lie."""
        if self._thread is None:
            self._real.flush()

    def end(self, within_s: float = END_S) -> bool:
        """Have all that waits written, and end the thread; whether that was done in time."""
        thread, last = self._thread, _Text(None)
        if thread is None:
            return True
        self._is_queued(last, self._own, always=True)
        is_over = last.is_out.wait(within_s)
        self._thread = None
        return is_over

    @contextmanager
    def for_a_program(self) -> Iterator[int]:
        """A file to start a program with in this block, whose lines are written as if by this one.

        It is always read, so the program never waits for whoever reads this one.
        """
        reads, writes = os.pipe()
        lines = threading.Thread(
            target=self._pass_on, args=(reads,), name="headrace-stderr-pipe", daemon=True
        )
        lines.start()
        try:
            yield writes
        finally:
            os.close(writes)  # by now the program has its own

    def _pass_on(self, reads: int) -> None:
        with open(reads, "rb", buffering=0) as pipe:
            rest = b""
            while read := pipe.read(_AT_ONCE):
                lines, rest = _whole_lines(rest + read)
                self._of_a_program(lines)
            self._of_a_program(rest)

    def _of_a_program(self, lines: bytes) -> None:
        if not lines:
            return
        text = lines.decode("utf-8", "backslashreplace")
        if self._thread is not None:
            self._is_queued(_Text(text), self._programs)
        else:
            self._out(text)

    @property
    def buffer(self) -> Any:
        """For whoever writes bytes, which pass by."""
        return self._real.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of the real one."""
        return self._real.encoding

    def fileno(self) -> int:
        """The number of the real one, for processes that are started."""
        return self._real.fileno()

    def isatty(self) -> bool:
        """Whether the real one is a terminal."""
        return self._real.isatty()

    def writable(self) -> bool:
        """Yes."""
        return True

    def write_alone(self) -> None:
        """Have no thread, as in a forked child: what waits is its parent's to write."""
        self._thread = None

    def _work(self) -> None:
        while (queued := self._next()).text is not None:
            self._out(queued.text)
            queued.is_out.set()
            self._tell_left_out(_TOLD_EVERY_S)
        self._tell_left_out(0.0)
        # No more than there is: what programs write may never end.
        for room in (self._own, self._programs):
            for _ in range(room.texts.qsize()):
                self._out(room.texts.get().text or "")
        queued.is_out.set()

    def _next(self) -> _Text:
        """What is to be written now, taken out of its room: the process's own first."""
        self._signs.get()
        for room in (self._own, self._programs):
            with suppress(queue.Empty):
                queued = room.texts.get_nowait()
                with self._lock:
                    room.waiting -= len(queued.text or "")
                return queued
        raise AssertionError("a sign is given after its text is queued")

    def _out(self, text: str) -> None:
        # What cannot be written is lost as what nobody reads: its writer can do nothing about it.
        try:
            if self._number is None:
                self._real.write(text)
                self._real.flush()
            else:
                _write(self._number, text.encode(self._real.encoding, "backslashreplace"))
        except (OSError, ValueError):
            with self._lock:
                self._left_out += _lines_in(text)

    def _tell_left_out(self, every_s: float) -> None:
        now_s = time.monotonic()
        if not self._left_out or now_s - self._told_s < every_s:
            return
        with self._lock:
            left_out, self._left_out = self._left_out, 0
        self._told_s = now_s
        log.warning(
            "lines were not written, standard error takes them too slowly", left_out=left_out
        )


#: those of this process
_threaded: weakref.WeakSet[ThreadedStream] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for stream in _threaded:
        stream.write_alone()


os.register_at_fork(after_in_child=_leave_to_parent)


@contextmanager
def written_by_a_thread(most: int = MOST_CHARACTERS) -> Iterator[None]:
    """Meanwhile standard error holds nobody up; then all of it is written, or nobody reads it."""
    before = sys.stderr
    stream = sys.stderr = ThreadedStream(before, most)
    try:
        yield
    finally:
        if sys.stderr is stream:
            sys.stderr = before
        if not stream.end():
            _lead_nowhere(before)


def _number_of(stream: TextIO) -> int | None:
    """Its file descriptor, if it is the process's own; a stream that a test put there has none."""
    return stream.fileno() if stream is sys.__stderr__ else None


def _whole_lines(read: bytes) -> tuple[bytes, bytes]:
    """Lines that have ended, and the one that has not."""
    end = read.rfind(b"\n") + 1
    return (read[:end], read[end:]) if end or len(read) < _MOST_OF_A_LINE else (read, b"")


def _lines_in(text: str | None) -> int:
    return max(1, (text or "").count("\n"))


def _write(number: int, rest: bytes) -> None:
    while rest:
        try:
            rest = rest[os.write(number, rest) :]
        except BlockingIOError:  # somebody who shares the pipe wants that of it
            select.select([], [number], [])


def _lead_nowhere(stream: TextIO) -> None:
    """Have nobody wait for a reader who does not read: not the last word, nor Python's own end."""
    if _number_of(stream) is None:
        return
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
