"""Code of versions that is large, fetched by each executor once and not with each wave.

The code of a use case travels with its tasks, so that a version needs no file. One that brings
megabytes (a model among its values, say) would do so for every wave: pickled, written to a disk of
the driver, made a broadcast and read by every worker again, several times a second. So what is
large is a broadcast of its version: made by the first wave that runs it, read by a worker that has
not loaded the version yet, and taken away when no wave can ask for it any more. Where it is not
found, for its file was swept away say, that wave is tried again and the next one makes it anew.

All of this is done by the threads of waves. What is small goes with its tasks as ever.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import Broadcast
from pyspark.sql import SparkSession

from headrace.errors import CodeNotFetched, words_of
from headrace.spark.task import Work

#: bytes of code that travel with tasks; Spark makes a broadcast for each job of a million
MOST_BYTES: Final = 250_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """Code as a worker finds it."""

    broadcast: Broadcast[bytes]

    @property
    def value(self) -> bytes:
        """What it is, read anew each time.

        Raises:
            CodeNotFetched: it is not there, as Spark's files are where somebody sweeps them away.
        """
        try:
            code: bytes = self.broadcast.value
        except Exception as error:  # what Spark raises where it has lost it, it does not say
            raise CodeNotFetched(
                f"its code is not found on executor {socket.gethostname()}: {words_of(error)}; it "
                "is sent once more: let nothing sweep the folders that Spark works in"
            ) from error
        if getattr(self.broadcast, "_path", None):
            # Else a worker had it a second time, beside what it has made of it.
            vars(self.broadcast).pop("_value", None)
        return code


@dataclass(slots=True)
class SharedCode:
    """Broadcasts of code, by its digest."""

    session: SparkSession
    _made: dict[str, Broadcast[bytes]] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def shared(self, work: Work) -> Work:
        """The same work, as it is sent; the digest of its code is needed until its wave is over."""
        if len(work.code) <= MOST_BYTES:
            return work
        with self._lock:
            made = self._made.get(work.digest)
            if made is None:
                made = self.session.sparkContext.broadcast(work.code)
                self._made[work.digest] = made
        return work.fetching(Fetched(made))

    def lost(self, sent: Work) -> None:
        """Code was not found where a wave ran; the next wave makes it anew.

        Args:
            sent: the work as it was sent with that wave; what was made since is let be.
        """
        with self._lock:
            made = self._made.get(sent.digest)
            if made is None or sent.fetched != Fetched(made):
                return
            del self._made[sent.digest]
        _take_away([made])

    def keep_only(self, needed: Callable[[], Collection[str]]) -> None:
        """Take away what no wave runs or will run.

        Args:
            needed: digests of code that waves in flight and to come ask for; a wave is among them
                before its work is shared.
        """
        if not self._made:
            return
        with self._lock:
            over = [self._made.pop(digest) for digest in self._made.keys() - needed()]
        _take_away(over)


def _take_away(broadcasts: Iterable[Broadcast[bytes]]) -> None:
    for broadcast in broadcasts:
        with suppress(Py4JError, OSError):  # Spark has ended, and all that it had; or its file has
            broadcast.destroy()
