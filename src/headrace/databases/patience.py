"""A connection to PostgreSQL that gives up a server which is there and does not answer.

A machine that is gone is found out by TCP, and a statement that takes long is ended by the server.
A server that was stopped, or whose disk hangs, does neither: the system below it takes what is
sent, and who waits for the answer waits for ever. So each connection waits for the next word of its
server for so long and no longer, and is closed then. Whether a commit happened is not known in that
case, as where a connection is lost. Where all of a transaction has to be over by some time
(``deadline``), its connection is given up then as well, also in the middle of an answer.

An answer is kept whole before anybody sees it, by code in C that nobody can stop. In between it is
waited for here, and the system below counts what has come by TCP (RFC 4898, as ``tcp_info`` of
Linux has it): so what is more than may be is given up. A server that answers through a socket
in a folder is not counted, nor is one where the system does not count. Nor is it looked
between the parts of one message while they come faster than they are read: the client takes one
that says it is large as far as it goes.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen, PQGenConn

from headrace.databases.deadline import IN_TIME, Deadline

_T = TypeVar("_T")
#: where ``tcp_info`` of Linux has how many bytes were received, from 4.1 on
_RECEIVED_AT: Final = 128
_INFO_BYTES: Final = 136


class PatientConnection(psycopg.Connection[Any]):
    """psycopg's connection, with an end to every wait for an answer."""

    #: seconds without a word; changed by whoever knows what is waited for
    patience_s = float("inf")
    #: of its pool
    deadline: Deadline | None = None
    _received = 0

    def wait(self, gen: PQGen[_T], *args: Any, **options: Any) -> _T:
        """Have one exchange with the server.

        Raises:
            OperationalError: it did not answer in time; the connection is closed.
        """
        exchange = _ended(gen, self.patience_s, self._until_s, self._count)
        try:
            return super().wait(exchange, *args, **options)
        except _GivenUp as exc:
            self.close()
            raise psycopg.OperationalError(str(exc)) from None

    @classmethod
    def _connect_gen(cls, *args: Any, **options: Any) -> PQGenConn[Any]:
        # A server may talk on and on before it has let in.
        made, received = super()._connect_gen(*args, **options), 0
        try:
            wanted = next(made)
            while True:
                ready = yield wanted
                received = _counted(cls.deadline, wanted[0], received)
                wanted = made.send(ready)
        except StopIteration as end:
            return end.value
        except _GivenUp as exc:
            made.close()
            raise psycopg.OperationalError(str(exc)) from None

    def _count(self) -> None:
        self._received = _counted(self.deadline, self.pgconn.socket, self._received)

    @property
    def _until_s(self) -> float:
        return math.inf if self.deadline is None else self.deadline.until_s


class _GivenUp(Exception):
    """The server says nothing, or too much."""


def _counted(deadline: Deadline | None, file: int, before: int) -> int:
    """What a socket has received by now; what is new is told to its pool."""
    now = _received(file)
    if deadline is not None:
        try:
            # A socket may be another one by now, of the same number.
            deadline.brought(now - before if now >= before else now)
        except OSError as error:
            raise _GivenUp(str(error)) from None
    return now


def _received(file: int) -> int:
    """How many bytes have come by a socket; 0: the system does not tell."""
    asked = getattr(socket, "TCP_INFO", None)
    if asked is None:
        return 0
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=file)
    try:
        with suppress(OSError, struct.error):
            info = one.getsockopt(socket.IPPROTO_TCP, asked, _INFO_BYTES)
            return int(struct.unpack_from("=Q", info, _RECEIVED_AT)[0])
    finally:
        one.detach()  # it is the connection's
    return 0


def _ended(
    gen: PQGen[_T], patience_s: float, until_s: float, count: Callable[[], None]
) -> PQGen[_T]:
    """The same exchange; psycopg looks in between, at times with nothing to tell."""
    heard_s = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            now_s = time.monotonic()
            if now_s > until_s:  # whatever has come: an answer may come byte by byte, or never end
                raise _GivenUp(f"the server did not answer {IN_TIME}")
            if ready:
                count()
                heard_s = now_s
            elif now_s - heard_s > patience_s:
                raise _GivenUp(f"the server has not answered for {patience_s:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: _T = end.value
        return result
