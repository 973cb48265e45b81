"""Judges: processes that look at schemas, so that none can hold up or take along the registry.

Whoever registers chooses the text, and to compare two texts may take minutes or gigabytes: unions
within unions, alternatives within alternatives. The libraries that do it cannot be stopped, and
some hold the interpreter. So each question goes to a process that is kept warm, with a limit of
memory and a deadline; one that overruns is ended, another takes its place, and the schema is
refused. One that was just started says that it is ready before it is asked, so the deadline is the
same for all. There are few judges; ``turns`` says whose turn it is.

A judge and the ``protoc`` that it runs are one group of processes, which is ended as one: by the
registry, which also removes what they wrote, or by the kernel when the registry itself is gone. In
that case the next one that starts removes it (``judge_folders``).
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import queue
import resource
import signal
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import structlog

from headrace.errors import ConfigError
from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry import judging
from headrace.schema_registry.judge_folders import made_folder, remove_left_folders
from headrace.schema_registry.rules.compatibility import Level
from headrace.schema_registry.rules.texts import BadSchema, Compared, Form
from headrace.schema_registry.turns import JudgesBusy, Looked, Turns

__all__ = ["Judges", "JudgesApart", "JudgesBusy", "JudgesHere"]

log = structlog.get_logger(__name__)

_MOST_MEMORY = 2 * 1024**3
_START_S = 30.0
#: between two tries to start one
_AGAIN_S = 1.0
_READY = "ready"
#: until it is known how one ended whose pipe has
_DEATH_S = 1.0
#: what the kernel sends where memory runs out, and how a library ends that gets none
_NO_ROOM = (signal.SIGKILL, signal.SIGABRT)


class Judges(ABC):
    """Looks at schemas; ``JudgesApart`` in processes, ``JudgesHere`` where nobody is served."""

    def form(
        self, schema: WrittenSchema, tenant: str | None = None, looked: Looked | None = None
    ) -> Form:
        """The texts by which it is told whether two schemas are the same; ``BadSchema``.

        Args:
            schema: what is looked at.
            tenant: whose it is; None: an operator's.
            looked: for how long it was looked before for the same request; this is added.
        """
        found = self._ask(tenant, looked or Looked(), "form_of", schema)
        assert isinstance(found, Form)
        return found

    def faults(
        self,
        new: WrittenSchema,
        before: Sequence[Compared],
        level: Level,
        tenant: str | None = None,
        looked: Looked | None = None,
    ) -> list[str]:
        """What a new schema breaks of the versions before; ``BadSchema``."""
        found = self._ask(tenant, looked or Looked(), "faults_among", new, [*before], level)
        assert isinstance(found, list)
        return found

    @abstractmethod
    def busy(self) -> int:
        """How many look at a schema now."""

    @abstractmethod
    def close(self) -> None:
        """End what was started."""

    @abstractmethod
    def _ask(self, tenant: str | None, looked: Looked, what: str, *about: object) -> object:
        """What ``judging`` answers to a question."""


class JudgesHere(Judges):
    """Looks itself; for one's own schemas, at a terminal and in tests."""

    def busy(self) -> int:
        """There are none."""
        return 0

    def close(self) -> None:
        """Nothing was started."""

    def _ask(self, tenant: str | None, looked: Looked, what: str, *about: object) -> object:
        del tenant, looked
        found: object = getattr(judging, what)(*about)
        return found


class JudgesApart(Judges):
    """Has it done in processes of their own. Safe in several threads."""

    def __init__(
        self,
        number: int = 2,
        deadline_s: float = 10.0,
        wait_s: float = 5.0,
        rest_s: float | None = None,
    ) -> None:
        """Start them.

        Args:
            number: how many look at the same time.
            deadline_s: how long may be looked for one request, however many look one after the
                other.
            wait_s: how long a request waits for its turn and one that is free.
            rest_s: how long a tenant rests whose schema was ended; None: as long as it may take.
        """
        self._deadline_s = deadline_s
        self._turns = Turns(number, wait_s, deadline_s if rest_s is None else rest_s)
        self._busy, self._counting = 0, threading.Lock()
        remove_left_folders()
        self._closed = threading.Event()
        self._free: queue.LifoQueue[_Judge] = queue.LifoQueue()
        starting = [self._start_one() for _ in range(number)]
        for thread in starting:
            thread.join()

    def busy(self) -> int:
        """How many look at a schema now."""
        return self._busy

    def close(self) -> None:
        """End those that are free now, and the others when they are."""
        self._closed.set()
        with suppress(queue.Empty):
            while True:
                self._free.get_nowait().end()

    def _ask(self, tenant: str | None, looked: Looked, what: str, *about: object) -> object:
        if looked.seconds > self._deadline_s:
            # This one is not to blame, and whoever asks again finds what is known by now.
            raise JudgesBusy(
                f"what was looked at before took all {self._deadline_s:g} s that there are"
            )
        with self._turns.of(tenant) as left_s, self._judge(left_s) as judge:
            since_s = time.monotonic()
            try:
                return judge.ask(what, about, self._deadline_s, looked.seconds)
            finally:
                took_s = time.monotonic() - since_s
                looked.seconds += took_s
                self._turns.took(tenant, took_s, ended=not judge.lives)

    @contextmanager
    def _judge(self, wait_s: float) -> Iterator[_Judge]:
        judge = self._taken(wait_s)
        try:
            self._count(1)
            yield judge
        finally:
            self._count(-1)
            if judge.lives:
                self._give(judge)
            else:
                self._start_one()

    def _taken(self, wait_s: float) -> _Judge:
        """One that is free; in place of one that is gone, which no schema ended, another starts."""
        until_s = time.monotonic() + wait_s
        while True:
            try:
                judge = self._free.get(timeout=max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                raise JudgesBusy("as many schemas as can be looked at are") from None
            if judge.is_there():
                return judge
            judge.end()
            self._start_one()

    def _count(self, more: int) -> None:
        with self._counting:
            self._busy += more

    def _start_one(self) -> threading.Thread:
        """Start one in the background; it is free when it says that it is ready."""
        thread = threading.Thread(target=self._started, name="headrace-judge-start", daemon=True)
        thread.start()
        return thread

    def _started(self) -> None:
        told = ""
        while not self._closed.is_set():
            try:
                judge = _Judge()
            except OSError as error:  # no room for its folder, no file, no process
                why = str(error)
            else:
                if judge.is_ready():
                    self._give(judge)
                    return
                judge.end()
                why = "it does not say that it is ready"
            if why != told:
                log.warning("a process that judges schemas cannot be started yet", error=why)
            told = why
            self._closed.wait(_AGAIN_S)

    def _give(self, judge: _Judge) -> None:
        self._free.put(judge)
        if self._closed.is_set():
            self.close()


class _Judge:
    """One process, asked by one thread at a time."""

    def __init__(self) -> None:
        # Not forked: threads of this process may hold locks that nobody would ever open there.
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        # Nothing is sent here: its end says that this process is gone, however it went.
        gone, self._here = context.Pipe(duplex=False)
        self._folder = made_folder()
        self._process = context.Process(
            target=_judge,
            args=(theirs, gone, self._folder.path),
            name="headrace-judge",
            daemon=True,
        )
        self.lives = True
        try:
            self._process.start()
        except BaseException:
            self._leave()
            raise
        finally:
            theirs.close()
            gone.close()

    def is_ready(self) -> bool:
        """Wait until it can be asked."""
        try:
            return self._ours.poll(_START_S) and self._ours.recv() == _READY
        except (EOFError, OSError):
            return False

    def is_there(self) -> bool:
        """Whether it is alive while nobody asks."""
        return self._process.is_alive()

    def ask(
        self, what: str, about: Sequence[object], deadline_s: float, spent_s: float = 0.0
    ) -> object:
        until_s = time.monotonic() + deadline_s - spent_s
        try:
            self._ours.send((what, about))
            if not self._ours.poll(max(0.0, until_s - time.monotonic())):
                self.end()
                raise BadSchema(f"to look at it takes longer than {deadline_s:g} s")
            kind, answer = self._ours.recv()
        except (EOFError, OSError) as exc:
            told = self._death()
            self.end()
            raise BadSchema(told) from exc
        except MemoryError as exc:
            self.end()
            raise BadSchema("to look at it takes more than there is room for") from exc
        if kind == "answer":
            return answer
        raise BadSchema(answer) if kind == "bad" else ConfigError(answer)

    def _death(self) -> str:
        """What is told of one that ended while it was asked."""
        self._process.join(_DEATH_S)
        code = self._process.exitcode
        if code is None or code >= 0:
            return "the process that looked at it ended"
        name = signal.Signals(-code).name
        if -code in _NO_ROOM:
            return f"the process that looked at it ended ({name}): it may take more than there is"
        return f"the process that looked at it ended ({name})"

    def end(self) -> None:
        """End it with all that it runs, and remove what they wrote."""
        self.lives = False
        pid = self._process.pid
        with suppress(ProcessLookupError, PermissionError):
            if pid is not None:
                os.killpg(pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self._leave()

    def _leave(self) -> None:
        """Give back what it had here."""
        self._ours.close()
        self._here.close()
        self._folder.remove()


def _judge(questions: Connection, gone: Connection, folder: str) -> None:
    """Answers questions until nobody asks any more."""
    # Ctrl-C at a terminal reaches all processes; the registry ends its judges itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    os.setpgrp()
    _end_with(gone)
    tempfile.tempdir = folder
    with suppress(EOFError, OSError):
        questions.send(_READY)
        while True:
            what, about = questions.recv()
            questions.send(_answer(what, about))


def _end_with(gone: Connection) -> None:
    """Have the kernel end this group when the other side of a pipe is gone.

    A thread that waits for it would not do: a library that holds the interpreter holds it too.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(gone.fileno(), fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(gone.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(gone.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
    if gone.poll(0):
        sys.exit()


def _answer(what: str, about: Sequence[Any]) -> tuple[str, object]:
    try:
        return "answer", getattr(judging, what)(*about)
    except BadSchema as error:
        return "bad", str(error)
    except MemoryError:
        return "bad", "to look at it takes more memory than there is"
    except ConfigError as error:
        return "config", str(error)
    except Exception as error:
        return "bad", f"it cannot be read: {type(error).__name__}: {str(error)[:300]}"
