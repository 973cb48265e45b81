"""Threads beside the turns of a driver that is simulated: what they do is done at once, or later.

There is one thread in a simulation. So a call that a driver hands over is made within its turn, or
waits until the scheduler makes it, while turns of its driver and of others go on. It dies with its
driver's process.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.testing.simulation.actors import Actor


class LateAnswer(Future[Any]):
    """What came of a call; nobody waits for it, as there is nobody to wait for."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Its error, if it ended with one."""
        if not self.done():
            raise TimeoutError
        return super().exception(timeout)


@dataclass(eq=False, slots=True)
class Job:
    """A call that was handed over."""

    actor: Actor
    call: Callable[[], Any]
    answer: LateAnswer
    #: of which of its driver's threads
    of: str = ""

    def run(self) -> None:
        """Make the call; who is killed in it never answers."""
        try:
            self.answer.set_result(self.call())
        except Exception as error:
            self.answer.set_exception(error)


@dataclass(eq=False, slots=True)
class Beside(Executor):
    """One kind of calls of one driver, one after the other."""

    actor: Actor
    #: whether the next one begins later
    is_late: Callable[[], bool]
    #: where those are that did not begin
    jobs: list[Job]
    #: what its driver calls them
    of: str = ""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Make the call, or keep it for later."""
        job = Job(self.actor, partial(fn, *args, **kwargs), LateAnswer(), self.of)
        if self.is_late():
            self.jobs.append(job)
        else:
            job.run()
        return job.answer
