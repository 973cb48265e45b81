"""Which servers a driver is without, and since when.

A driver that has lost its store or Kafka waits and goes on by itself, so it does not end, and its
loop turns. Whoever asks how it is must be told all the same: it does no work. A restart of a broker
is no news, so a server counts as missing after a while.

While the store does not answer Kafka is not asked: what was known of it stands until it is.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from headrace.errors import BrokerUnavailable, HeadraceError, StoreUnavailable
from headrace.model.statistics import Missing
from headrace.ports import Clock

#: a server that has not answered for so long is missing
MISSING_AFTER_S = 10.0


class NeededServer(StrEnum):
    """What a driver cannot work without."""

    STORE = "store"
    #: which is called so to people, who have but one kind of log so far
    LOG = "kafka"


class _Moment(NamedTuple):
    steady_s: float
    wall_s: float


class Reach:
    """What a driver's turns tell of its servers."""

    def __init__(self, clock: Clock) -> None:
        """Both are taken to be there."""
        self._clock = clock
        self._asked = NeededServer.STORE
        self._began = self._now()
        #: servers that did not answer when they were asked last, with the first time
        self._silent: dict[NeededServer, _Moment] = {}

    def begin(self) -> None:
        """A turn begins; it asks the store first."""
        self._asked, self._began = NeededServer.STORE, self._now()

    def asks(self, server: NeededServer) -> None:
        """From here on the turn asks this one."""
        self._asked = server

    def answered(self, *servers: NeededServer) -> None:
        """All that was asked of these was answered."""
        for server in servers:
            self._silent.pop(server, None)

    def waits(self, server: NeededServer) -> None:
        """This one was asked, in this turn or before, and has not answered yet."""
        self._silent.setdefault(server, self._began)

    def failed(self, trouble: HeadraceError) -> None:
        """The turn met this and goes no further."""
        server = self._asked
        if isinstance(trouble, StoreUnavailable):
            server = NeededServer.STORE
        elif isinstance(trouble, BrokerUnavailable):
            server = NeededServer.LOG
        if server is NeededServer.LOG:
            self.answered(NeededServer.STORE)  # it is asked first in each turn
        self._silent.setdefault(server, self._began)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The servers that have not answered for a while."""
        now_s = self._clock.monotonic_s()
        return tuple(
            Missing(server.value, since.wall_s)
            for server, since in sorted(self._silent.items())
            if now_s - since.steady_s >= MISSING_AFTER_S
        )

    def _now(self) -> _Moment:
        return _Moment(self._clock.monotonic_s(), self._clock.now_s())
