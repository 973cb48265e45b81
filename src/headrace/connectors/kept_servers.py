"""Servers that this process speaks to: each is made when it is first asked for, and kept.

A name with its address is one server, whoever asks. A child that was forked has none of its
parent's. Where each tenant has its own there may be thousands, so some of these are given up.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from headrace.ports import Server

_S = TypeVar("_S")

#: tenants whose own servers a process keeps connections to
MOST_OF_TENANTS: Final = 50
#: since it was last asked for; then its tenant is not expected to come again soon
_LONG_AGO_S: Final = 60.0


class Key(NamedTuple):
    """What a server is kept under."""

    pid: int
    name: str
    #: empty: it is not for one tenant
    tenant: str
    server: Server
    #: others wait for what is done there
    in_company: bool


def key_of(name: str, tenant: str, server: Server, *, in_company: bool = False) -> Key:
    """The key of a server in this process."""
    return Key(os.getpid(), name, tenant, server, in_company)


class KeptServers(Generic[_S]):
    """Those of one kind. Safe in several threads."""

    def __init__(self, give_up: Callable[[_S], None] = lambda _: None) -> None:
        """Keep none yet; take what is done with one that is given up."""
        #: with the second of the steady clock at which each was last asked for, the latest one last
        self.held: dict[Key, tuple[_S, float]] = {}
        self._give_up = give_up
        self._asking = threading.Lock()

    def had(self, key: Key, make: Callable[[], _S]) -> _S:
        """The server of this key; if there is none, it is made, and kept.

        Args:
            key: of this process.
            make: contacts nobody; what it raises is raised, and it is asked again the next time.
        """
        with self._asking:
            found = self.held.pop(key, None)
            server = make() if found is None else found[0]
            self.held[key] = server, time.monotonic()
            self._give_up_of_tenants()
            return server

    def _give_up_of_tenants(self) -> None:
        # What a fork brought along is its parent's, who uses these connections.
        of_tenants = [key for key in self.held if key.tenant and key.pid == os.getpid()]
        if len(of_tenants) > MOST_OF_TENANTS:
            asked_s = [self.held[key][1] for key in of_tenants]
            server, _ = self.held.pop(of_tenants[_given_up(asked_s, time.monotonic())])
            self._give_up(server)


def _given_up(asked_s: Sequence[float], now_s: float) -> int:
    """Which of too many tenants' connections are given up.

    Who was asked for long ago. Where all come again and again, in turn, the one longest ago is the
    next to come, and each would connect anew; then it is the one before the last.

    Args:
        asked_s: when each was asked for last, the latest one last.
        now_s: by the same clock.
    """
    return 0 if now_s - asked_s[0] > _LONG_AGO_S else -2
