"""Questions to the log, asked beside the turns.

Brokers answer within milliseconds, and one that hangs after seconds. A turn that waited for it
would commit nothing, start nothing and not beat. But what is asked next depends on the answers, and
code that is cut into pieces at each question cannot be read. So a *talk* is a generator: it yields
a question and is given the answer, as if it had called the log. A thread asks, and each turn goes
on with the talk as far as answers are there; it waits a moment for them, as most come at once.

Between a question and its answer turns pass. So whoever talks looks again, after each answer, at
whether what it asked for is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.ports import Log

R = TypeVar("R")
#: what is asked; called in a thread
Question = Callable[[Log], Any]
#: questions, and what comes of their answers
Talk = Generator[Question, Any, R]

#: how long a turn waits for an answer to a question that it asks
_MOMENT_S = 0.1


@dataclass(slots=True)
class Asker:
    """Has one talk at a time with the log."""

    log: Log
    #: of all who ask this log, as it is asked by one thread
    thread: Executor
    _talk: Talk[None] | None = None
    _answer: Future[Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a talk waits for an answer."""
        return self._talk is not None

    @property
    def asked(self) -> Future[Any] | None:
        """The answer that the talk waits for, if it does."""
        return self._answer

    def begin(self, talk: Talk[None]) -> None:
        """Take up a talk; the last one is over."""
        assert self._talk is None, "one talk at a time"
        self._talk = talk

    def go_on(self) -> bool:
        """Go on with the talk as far as answers are there; whether none is left.

        Raises:
            HeadraceError: what the talk ended with.
        """
        patience_s = 0.0
        while self._talk is not None:
            if self._answer is not None and not _came(self._answer, patience_s):
                return False
            question = self._next(self._talk)
            if question is not None:
                self._answer, patience_s = self.thread.submit(question, self.log), _MOMENT_S
        return True

    def _next(self, talk: Talk[None]) -> Question | None:
        """Give the talk its answer; what it asks then, if anything."""
        # Should it raise, it is over.
        answer, self._answer, self._talk = self._answer, None, None
        error = None if answer is None else answer.exception()
        try:
            if error is not None:
                question = talk.throw(error)
            else:
                question = talk.send(None if answer is None else answer.result())
        except StopIteration:
            return None
        self._talk = talk
        return question


def _came(answer: Future[Any], patience_s: float) -> bool:
    """Wait a moment for an answer; whether it is there."""
    try:
        answer.exception(patience_s)
    except TimeoutError:
        return False
    return True
