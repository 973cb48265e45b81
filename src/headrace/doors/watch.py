"""Says once that what stands behind a door does not answer, and once that it does again.

A door comes up without it and refuses meanwhile, which tells those who call. Whoever started it
looks at the log, so somebody has to ask also while nobody calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from headrace.doors.outage import Outage
from headrace.errors import HeadraceError

log = structlog.get_logger(__name__)

_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Backend:
    """Something that stands behind a door."""

    name: str
    #: whether it answers; an error of Headrace is a no
    ask: Callable[[], Awaitable[bool]]
    #: what the door does while it does not
    meanwhile: str


@asynccontextmanager
async def watching(*behind: Backend, every_s: float = _EVERY_S) -> AsyncIterator[None]:
    """Ask as long as the application runs."""
    tasks = [asyncio.create_task(_watch(server, every_s)) for server in behind]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(backend: Backend, every_s: float) -> None:
    outage = Outage()
    while True:
        trouble = await _trouble(backend)
        if trouble is None:
            if outage.ends():
                log.info("what stands behind a door answers again", server=backend.name)
        elif outage.begins():
            log.warning(
                "what stands behind a door does not answer",
                server=backend.name,
                meanwhile=backend.meanwhile,
                error=trouble,
            )
        await asyncio.sleep(every_s)


async def _trouble(backend: Backend) -> str | None:
    """What is known of why it does not answer; None if it does."""
    try:
        return None if await backend.ask() else "no answer"
    except HeadraceError as error:
        return str(error)
