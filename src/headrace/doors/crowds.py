"""Who gives way when a server has as many connections as it may have.

A connection on which nothing is asked costs whoever opens it nothing, and has no credential yet. So
one address could hold all that there are, and everybody else would be closed unheard. Therefore an
idle connection of the address with the most gives way, the oldest first, to one of an address that
has fewer; nobody loses one while there is room. What is being answered stays: requests have a limit
of their own (``places``).

Clients behind one proxy are one address here, also where the proxy is believed: what a connection
is for is not known before something is asked on it.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from headrace.doors.attempts import network_of


class Connection(Protocol):
    """What may have to go."""

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""

    def give_way(self) -> None:
        """End at once, for somebody else's sake."""


_C = TypeVar("_C", bound=Connection)


class Crowd(Generic[_C]):
    """The connections of a server, by address. For one event loop."""

    def __init__(self, most: int) -> None:
        """Take how many there may be."""
        self._most = most
        self._total = 0
        #: the oldest first
        self._of: dict[str, dict[_C, None]] = {}

    def enter(self, address: str, connection: _C) -> _C | None:
        """Let a connection in; the one that has to go for it, which may be itself."""
        network = network_of(address)
        self._of.setdefault(network, {})[connection] = None
        self._total += 1
        if self._total <= self._most:
            return None
        return self._one_of_the_most(network) or connection

    def leave(self, address: str, connection: _C) -> None:
        """It has ended, or is about to; once more changes nothing."""
        network = network_of(address)
        of_network = self._of.get(network, {})
        if connection in of_network:
            del of_network[connection]
            self._total -= 1
            if not of_network:
                del self._of[network]

    def _one_of_the_most(self, newcomer: str) -> _C | None:
        most = max(self._of.values(), key=len)
        if len(most) <= len(self._of[newcomer]):
            return None
        return next((connection for connection in most if connection.is_idle), None)
