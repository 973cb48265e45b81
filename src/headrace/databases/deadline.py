"""When what a thread does with a database has to be over, whatever it waits for.

A limit of each statement is none of a transaction, and none of what comes before it: a name server
that is silent is waited for inside the client, which has no limit for that. So there is one second
by which all of it is over. What the server can end it ends itself, a little earlier; else the
client gives its connection up. A commit is lost with that like with any other connection.

A server is connected to in a thread of its own where there is such an end. One that is late finds
that nobody waits, and closes what it made.

What is answered within the time may still be more than there is memory for, as a server that is
somebody else's may not stop. So it may have a size as well.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

#: nothing has less: even a server next door takes a moment
_LEAST_S: Final = 0.05
#: the part of it that a server has, so that it answers before it is given up
_SERVERS_PART: Final = 0.9
#: what a server may answer that has next to nothing to say; with room for long errors of many rows
ANSWER_BYTES: Final = 64 * 2**20
#: how it is told
IN_TIME: Final = "within the time that there was for it"


class Deadline(threading.local):
    """The end of what each thread does with one pool of connections."""

    #: of the steady clock
    until_s: float = math.inf

    def __init__(self, most_bytes: float = math.inf) -> None:
        """Have no end yet.

        Args:
            most_bytes: of what comes back in a block.
        """
        self._most_bytes = most_bytes
        self._bytes = 0

    @contextmanager
    def until(self, until_s: float) -> Iterator[None]:
        """Everything in the block is over by then."""
        before = self.until_s, self._bytes
        self.until_s, self._bytes = until_s, 0
        try:
            yield
        finally:
            self.until_s, self._bytes = before

    def brought(self, bytes_: int) -> None:
        """So much came back.

        Raises:
            OSError: that is too much by now.
        """
        self._bytes += bytes_
        if self._bytes > self._most_bytes:
            raise OSError(f"an answer of more than {self._most_bytes / 2**20:g} MB; given up")

    def left_s(self, most_s: float = math.inf) -> float:
        """Seconds that are left, if they are fewer than these."""
        return min(most_s, max(_LEAST_S, self.until_s - time.monotonic()))

    def wait_s(self, most_s: float) -> float:
        """Seconds that the next wait of many may take.

        Raises:
            TimeoutError: the time is over, so there is none.
        """
        if time.monotonic() >= self.until_s:
            raise TimeoutError(f"not {IN_TIME}")
        return self.left_s(most_s)

    def servers_s(self, most_s: float) -> float:
        """The same, for what the server ends itself."""
        return min(most_s, self.left_s() * _SERVERS_PART)

    def connected(self, connect: Callable[[], Any]) -> Any:
        """What ``connect`` makes.

        Where memory is too short for a thread, it is waited for as long as it takes.

        Raises:
            TimeoutError: it had not when the time was over.
        """
        if self.until_s == math.inf:
            return connect()
        made: Future[Any] = Future()
        try:
            threading.Thread(target=_connect, args=(connect, made), daemon=True).start()
        except RuntimeError:
            return connect()
        try:
            return made.result(self.left_s())
        except TimeoutError:
            if made.cancel():
                raise
            return made.result()


def _connect(connect: Callable[[], Any], made: Future[Any]) -> None:
    try:
        connection = connect()
    except BaseException as error:  # it is told to whoever waits
        if made.set_running_or_notify_cancel():
            made.set_exception(error)
        return
    if made.set_running_or_notify_cancel():
        made.set_result(connection)
    else:
        connection.close()
