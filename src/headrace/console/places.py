"""Who may make a decision that talks to Kafka, which may take minutes.

Each holds a thread and clients of Kafka, so there are few at a time. One tenant that asks often is
not to have them all, and not even all tenants together are to keep an operator from helping: a
tenant has one at a time, and the last place is an operator's. Nobody waits in line; whoever finds
no place is told to come again.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from fastapi import Response

from headrace.doors.problems import Problem
from headrace.model.credentials import Caller

_RETRY_S = 5


class Places:
    """Places for such decisions. For one event loop."""

    def __init__(self, most: int) -> None:
        """Take how many run at the same time."""
        self._most = most
        self._threads = anyio.CapacityLimiter(most)
        #: whose decisions run; None is an operator's
        self._running: list[str | None] = []

    async def decide(self, caller: Caller, decide: Callable[[], Response]) -> Response:
        """Make a decision in a thread of its own.

        Raises:
            Problem: 503, as many as may run at once are running.
        """
        tenant = caller.tenant
        if tenant is not None and tenant in self._running:
            raise _busy(f"a decision of {tenant} that needs Kafka is running")
        if len(self._running) >= self._most - (tenant is not None):
            raise _busy("as many decisions that need Kafka as can run at once are running")
        self._running.append(tenant)
        try:
            return await anyio.to_thread.run_sync(decide, limiter=self._threads)
        finally:
            self._running.remove(tenant)


def _busy(why: str) -> Problem:
    headers = {"Retry-After": str(_RETRY_S)}
    return Problem(503, "busy", f"{why}; try again soon", headers=headers)
