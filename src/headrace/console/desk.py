"""What every route works with, made once for the app."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import anyio
from fastapi import Depends, Request, Response

from headrace.console.watcher import Watcher
from headrace.doors.problems import Problem
from headrace.operating.tools import Tools
from headrace.ports import Clock, Store


@dataclass(frozen=True)
class Desk:
    """The parts of the control API."""

    store: Store
    tools: Tools
    #: what keys are made with
    secret: bytes = field(repr=False)
    clock: Clock
    watcher: Watcher
    #: decisions that talk to Kafka at the same time; they may take long
    at_kafka: anyio.CapacityLimiter
    #: the cookie goes over TLS alone
    secure_cookie: bool = False

    async def with_kafka(self, decide: Callable[[], Response]) -> Response:
        """Make a decision that talks to Kafka, in a thread of its own.

        Raises:
            Problem: 503, as many as may run at once are running.
        """
        if self.at_kafka.available_tokens < 1:
            raise Problem(
                503,
                "busy",
                "as many decisions that need Kafka as can run at once are running; try again soon",
                headers={"Retry-After": "5"},
            )
        return await anyio.to_thread.run_sync(decide, limiter=self.at_kafka)


def desk_of(request: Request) -> Desk:
    """The desk of the app that was asked."""
    desk = request.app.state.desk
    assert isinstance(desk, Desk), "the app was made with a desk"
    return desk


AtDesk = Annotated[Desk, Depends(desk_of)]
