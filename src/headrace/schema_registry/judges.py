"""Judges: processes that look at schemas, so that none can hold up or take along the registry.

Whoever registers chooses the text, and to compare two texts may take minutes or gigabytes: unions
within unions, alternatives within alternatives. The libraries that do it cannot be stopped, and
some hold the interpreter. So each question goes to a process that is kept warm, with a limit of
memory and a deadline; one that overruns is ended, another takes its place, and the schema is
refused. There are few judges, and a tenant has one of them at a time.
"""

from __future__ import annotations

import multiprocessing
import queue
import resource
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, Protocol

from headrace.errors import ConfigError, Temporary
from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry import judging
from headrace.schema_registry.rules.compatibility import Level
from headrace.schema_registry.rules.texts import BadSchema, Compared, Form

_MOST_MEMORY = 2 * 1024**3
_START_S = 30.0


class JudgesBusy(Temporary):
    """As many schemas as can be looked at are; this one has to wait."""


class Judges(Protocol):
    """Looks at schemas; ``JudgesApart`` in processes, ``JudgesHere`` where nobody is served."""

    def form(self, schema: WrittenSchema, tenant: str | None = None) -> Form:
        """The texts by which it is told whether two schemas are the same; ``BadSchema``."""

    def faults(
        self,
        new: WrittenSchema,
        before: Sequence[Compared],
        level: Level,
        tenant: str | None = None,
    ) -> list[str]:
        """What a new schema breaks of the versions before; ``BadSchema``."""

    def close(self) -> None:
        """End what was started."""


class JudgesHere:
    """Looks itself; for one's own schemas, at a terminal and in tests."""

    def form(self, schema: WrittenSchema, tenant: str | None = None) -> Form:
        """The texts by which it is told whether two schemas are the same."""
        del tenant
        return judging.form_of(schema)

    def faults(
        self,
        new: WrittenSchema,
        before: Sequence[Compared],
        level: Level,
        tenant: str | None = None,
    ) -> list[str]:
        """What a new schema breaks of the versions before."""
        del tenant
        return judging.faults_among(new, before, level)

    def close(self) -> None:
        """Nothing was started."""


class JudgesApart:
    """Has it done in processes of their own. Safe in several threads."""

    def __init__(self, number: int = 2, deadline_s: float = 10.0, wait_s: float = 5.0) -> None:
        """Start them.

        Args:
            number: how many look at the same time.
            deadline_s: how long one may look at one schema.
            wait_s: how long a request waits for one that is free.
        """
        self._deadline_s = deadline_s
        self._wait_s = wait_s
        self._lock = threading.Lock()
        #: who is looked at for now
        self._tenants: set[str] = set()
        self._free: queue.LifoQueue[_Judge] = queue.LifoQueue()
        for _ in range(number):
            self._free.put(_Judge())

    def form(self, schema: WrittenSchema, tenant: str | None = None) -> Form:
        """The texts by which it is told whether two schemas are the same."""
        found = self._ask(tenant, "form_of", schema)
        assert isinstance(found, Form)
        return found

    def faults(
        self,
        new: WrittenSchema,
        before: Sequence[Compared],
        level: Level,
        tenant: str | None = None,
    ) -> list[str]:
        """What a new schema breaks of the versions before."""
        found = self._ask(tenant, "faults_among", new, [*before], level)
        assert isinstance(found, list)
        return found

    def close(self) -> None:
        """End those that are free."""
        with suppress(queue.Empty):
            while True:
                self._free.get_nowait().end()

    def _ask(self, tenant: str | None, what: str, *about: object) -> object:
        with self._one_of(tenant), self._judge() as judge:
            return judge.ask(what, about, self._deadline_s)

    @contextmanager
    def _one_of(self, tenant: str | None) -> Iterator[None]:
        """One at a time of a tenant, so that none has all judges."""
        if tenant is None:
            yield
            return
        with self._lock:
            if tenant in self._tenants:
                raise JudgesBusy(f"another schema of {tenant} is looked at")
            self._tenants.add(tenant)
        try:
            yield
        finally:
            with self._lock:
                self._tenants.discard(tenant)

    @contextmanager
    def _judge(self) -> Iterator[_Judge]:
        try:
            judge = self._free.get(timeout=self._wait_s)
        except queue.Empty:
            raise JudgesBusy("as many schemas as can be looked at are") from None
        try:
            yield judge
        finally:
            self._free.put(judge if judge.lives else _Judge())


class _Judge:
    """One process, asked by one thread at a time."""

    def __init__(self) -> None:
        # Not forked: threads of this process may hold locks that nobody would ever open there.
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(
            target=_judge, args=(theirs,), name="headrace-judge", daemon=True
        )
        self._process.start()
        theirs.close()
        self.lives = True
        self._is_ready = False

    def ask(self, what: str, about: Sequence[object], deadline_s: float) -> object:
        try:
            self._ours.send((what, about))
            if not self._ours.poll(deadline_s if self._is_ready else deadline_s + _START_S):
                self.end()
                raise BadSchema(f"to look at it takes longer than {deadline_s:g} s")
            kind, answer = self._ours.recv()
        except (EOFError, OSError) as exc:
            self.end()
            raise BadSchema("to look at it takes more than there is room for") from exc
        self._is_ready = True
        if kind == "answer":
            return answer
        raise BadSchema(answer) if kind == "bad" else ConfigError(answer)

    def end(self) -> None:
        self.lives = False
        self._process.kill()
        self._process.join()
        self._ours.close()


def _judge(questions: Connection) -> None:
    """Answers questions until nobody asks any more."""
    # Ctrl-C at a terminal reaches all processes; the registry ends its judges itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    with suppress(EOFError, OSError):
        while True:
            what, about = questions.recv()
            questions.send(_answer(what, about))


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
