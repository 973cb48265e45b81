"""A connection to PostgreSQL that gives up a server which is there and does not answer.

A machine that is gone is found out by TCP, and a statement that takes long is ended by the server.
A server that was stopped, or whose disk hangs, does neither: the system below it takes what is
sent, and who waits for the answer waits for ever. So each connection waits for the next word of its
server for so long and no longer, and is closed then. Whether a commit happened is not known in that
case, as where a connection is lost. Where all of a transaction has to be over by some time
(``deadline``), its connection is given up then as well, also in the middle of an answer. How much
may be read until then is not bounded.
"""

from __future__ import annotations

import math
import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from headrace.databases.deadline import IN_TIME, Deadline

_T = TypeVar("_T")


class PatientConnection(psycopg.Connection[Any]):
    """psycopg's connection, with an end to every wait for an answer."""

    #: seconds without a word; changed by whoever knows what is waited for
    patience_s = float("inf")
    #: of its pool
    deadline: Deadline | None = None

    def wait(self, gen: PQGen[_T], *args: Any, **options: Any) -> _T:
        """Have one exchange with the server.

        Raises:
            OperationalError: it did not answer in time; the connection is closed.
        """
        try:
            return super().wait(_ended(gen, self.patience_s, self._until_s), *args, **options)
        except _Silence as exc:
            self.close()
            raise psycopg.OperationalError(str(exc)) from None

    @property
    def _until_s(self) -> float:
        return math.inf if self.deadline is None else self.deadline.until_s


class _Silence(Exception):
    """The server says nothing."""


def _ended(gen: PQGen[_T], patience_s: float, until_s: float) -> PQGen[_T]:
    """The same exchange; psycopg looks in between, at times with nothing to tell."""
    heard_s = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            now_s = time.monotonic()
            if now_s > until_s:  # whatever has come: an answer may come byte by byte, or never end
                raise _Silence(f"the server did not answer {IN_TIME}")
            if ready:
                heard_s = now_s
            elif now_s - heard_s > patience_s:
                raise _Silence(f"the server has not answered for {patience_s:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: _T = end.value
        return result
