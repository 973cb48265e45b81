"""One look-up at a time, which goes on where whoever began it waits no more.

A look-up may take seconds where a registry hangs, and it is met inside the call of a handler, which
may have half a second in all. Its time would be up, and that is held against a record that did
nothing. So a thread of its own looks up, and who reads waits for a short while: a registry that is
well answers in some milliseconds. Whoever waited in vain is told to come again soon, and finds what
was found meanwhile. Looks that follow one another at once share that short while, since one call
may meet many ids.

Nobody begins another look-up meanwhile, so that a registry that hangs costs one thread here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, TypeVar

from headrace.connectors.schema_registry.pauses import Pauses
from headrace.errors import RegistryUnavailable
from headrace.process.daemon_threads import DaemonThreads

Found = TypeVar("Found")

#: for all that one look-up needs to ask
LOOKUP_S = 5.0
#: who reads waits for so long, in one call
WAIT_S = 0.4
#: looks with less than this between them are taken for those of one call
_BETWEEN_CALLS_S = 0.5
#: who waited in vain may come again after this
_SOON_S = 0.25


class _UnderWay(NamedTuple):
    key: Hashable
    began_s: float
    future: Future[Any]


class Lookups:
    """Looks up in a thread of its own. For one caller at a time."""

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        self._threads = DaemonThreads(1, "registry-lookup")
        self._under_way: _UnderWay | None = None
        self._waited_s, self._waited_until_s = 0.0, 0.0

    def read(self, key: Hashable, look: Callable[[float], Found]) -> Found:
        """As ``written``, and waits a short while only."""
        began_s = time.monotonic()
        if began_s - self._waited_until_s > _BETWEEN_CALLS_S:
            self._waited_s = 0.0
        left_s = WAIT_S - self._waited_s
        under_way = self._others_look()
        if under_way is not None:  # it was waited for, or still is
            left_s = min(left_s, under_way.began_s + WAIT_S - began_s)
        try:
            found = self._looked(key, look, began_s + left_s)
        except RegistryUnavailable:
            self._waited_s = 0.0  # a call that is told so is over
            raise
        self._waited_until_s = time.monotonic()
        self._waited_s += self._waited_until_s - began_s
        return found

    def written(self, key: Hashable, look: Callable[[float], Found]) -> Found:
        """What a look finds.

        Args:
            key: what is looked for; of two looks for the same one is made.
            look: is given the monotonic second at which it gives up; made in another thread, so
                it keeps what it found itself.

        Raises:
            RegistryUnavailable: in a pause, or it was not found while one waits.
        """
        return self._looked(key, look, time.monotonic() + LOOKUP_S)

    def _others_look(self) -> _UnderWay | None:
        under_way = self._under_way
        return None if under_way is None or under_way.future.done() else under_way

    def _looked(self, key: Hashable, look: Callable[[float], Found], until_s: float) -> Found:
        under_way = self._others_look()
        if under_way is not None and under_way.key != key:
            _await(under_way.future, until_s)
            under_way = None
        if under_way is None:
            self._pauses.refuse(key)
            future = self._threads.submit(self._look, key, look)
            under_way = self._under_way = _UnderWay(key, time.monotonic(), future)
        _await(under_way.future, until_s)
        found: Found = under_way.future.result()
        return found

    def _look(self, key: Hashable, look: Callable[[float], Found]) -> Found:
        with self._pauses.between(key):
            return look(time.monotonic() + LOOKUP_S)


def _await(future: Future[Any], until_s: float) -> None:
    wait([future], max(until_s - time.monotonic(), 0))
    if not future.done():
        raise RegistryUnavailable(
            "the schema registry has not answered yet; it is still waited for",
            retry_after_s=_SOON_S,
        )
