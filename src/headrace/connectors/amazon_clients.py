"""One client of a service of Amazon's, whose answers come in time or not at all.

A client holds a few connections, which all writers of a process share. Nothing is asked a second
time by it on its own: whether something may be written again, and when, is for the sink to say.
All of an answer has so many seconds, also where it comes byte by byte, and no more than what those
have who wait for it.

Which service it is, and what it says, its own room knows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.connectors.made_once import MadeOnce
from headrace.connectors.own_servers import ALONE
from headrace.databases.deadline import ANSWER_BYTES, Deadline
from headrace.databases.sockets import connecting_in_time


class AmazonService:
    """A service, as this process speaks to it; contacts nobody before it is asked for something."""

    def __init__(
        self, where: str, make: Callable[[], Any], waits: tuple[float, float] = ALONE
    ) -> None:
        """Take what messages call it, what makes its client, and the seconds for all of an answer.

        Args:
            where: what messages call it.
            make: makes its client; contacts nobody.
            waits: seconds to connect, and for all of an answer.
        """
        self.where = where
        self._new, self._waits = make, waits
        self._deadline = Deadline(ANSWER_BYTES)
        made = partial(_hurried, make, self._deadline)
        self._once = MadeOnce[Any](made, lambda client: client.close())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where})"

    def asked(self, operation: str, request: dict[str, Any], until_s: float = math.inf) -> Any:
        """The answer to a request.

        Args:
            operation: as the client calls it, such as ``put_item``.
            request: its parameters.
            until_s: second of the steady clock until which others wait.

        Raises:
            Exception: whatever the client does.
        """
        end_s = min(until_s, time.monotonic() + self._waits[1])
        with self._deadline.until(end_s):
            try:
                return getattr(self._client(), operation)(**request)
            except Exception as error:
                if type(error).__name__ == "NoCredentialsError":
                    # They may be there the next time.
                    self.close()
                raise

    def close(self) -> None:
        """Give the connections up."""
        self._once.close()

    def _client(self) -> Any:
        if (made := self._once.made) is not None:
            return made
        # Credentials may be asked for by then, of whoever gives this machine its role.
        kept: _Kept = self._deadline.connected(lambda: _Kept(self._once.had()))
        return kept.client


@dataclass(frozen=True, slots=True)
class _Kept:
    """A client; one that comes too late is kept for the next time."""

    client: Any

    def close(self) -> None:
        """Nobody waits for it now."""


def _hurried(make: Callable[[], Any], deadline: Deadline) -> Any:
    made = make()
    _hurry(made._endpoint.http_session, deadline)
    return made


def _hurry(session: Any, deadline: Deadline) -> None:
    """Have all waits of a client's connections end with the time of their thread."""
    pools = session._pool_classes_by_scheme
    for scheme, pool in list(pools.items()):
        kind = connecting_in_time(pool.ConnectionCls, deadline)
        pools[scheme] = type(pool.__name__, (pool,), {"ConnectionCls": kind})
