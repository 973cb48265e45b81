"""Types of events whose schema is a subject of a registry: looked at beside the requests.

A schema in a registry changes while the gateway runs, is written by somebody else, and the registry
may be away. No request is to wait for any of that. So a thread asks for it when the gateway starts
and every half minute after; what it found is there for the next request, as a whole. While the
registry is away the schema before goes on, and so it does where nobody can write by a newer one
(``usable_versions``); it is told in the log, by ``/readyz`` and by a metric. Where there is none,
not yet or not any more, events of the type are refused with 503 until there is one, which is asked
for more often, and those of other types are not concerned.

Here nothing is told to senders, and no event is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from headrace.errors import ConfigError, HeadraceError, words_of
from headrace.gateway.usable_versions import KnownSchema, Looks
from headrace.ports import NumberedSchemas
from headrace.process.daemon_threads import DaemonThreads

log = structlog.get_logger(__name__)

#: a schema that is missing altogether is asked for so often, if not more often
_UNKNOWN_S = 2.0


@dataclass(slots=True, eq=False)
class Subject:
    """A subject, and what is known of it. Written by one thread, and read by all."""

    name: str
    #: None: whichever is the newest
    version: int | None = None
    #: replaced as a whole; None: there is none
    known: KnownSchema | None = None
    #: why the last look was of no use; empty: it was
    trouble: str = field(default="", repr=False)
    _looks: Looks = field(default_factory=Looks, repr=False)

    def look(self, registry: NumberedSchemas) -> None:
        """Ask what it is now; whatever is wrong with that is told, and kept as trouble."""
        try:
            told = self._looked(registry)
        except HeadraceError as error:
            told = str(error)
        except BaseException as error:  # whatever broke, all goes on
            told = f"its schemas cannot be looked at: {words_of(error)}"
        if told:
            self._warn(told)
        self.trouble = told

    def _looked(self, registry: NumberedSchemas) -> str:
        """Follow what is there; what is wrong with something newer."""
        numbers = registry.numbers(self.name)
        if self.version is not None:
            numbers = [number for number in numbers if number == self.version]
        if not numbers:
            # Nobody could read what would go on to be written once its id is gone.
            self.known = None
            return f"subject {self.name} has no version {self.version or 'at all'}"
        try:
            found, told = self._looks.newest_usable(registry, self.name, numbers)
        except ConfigError:
            # What was written by is none of them, so it is gone as well.
            self.known = None
            raise
        if self.known is None or found.id != self.known.id:
            self.known = found
            log.info("events are written by a schema", subject=self.name, schema_id=found.id)
        return told

    def _warn(self, told: str) -> None:
        if told == self.trouble:
            return
        log.warning(
            "the schema of events cannot be had",
            subject=self.name,
            error=told,
            meanwhile="events are refused with 503"
            if self.known is None
            else f"events are written by schema {self.known.id}, as before",
        )


@asynccontextmanager
async def looking(
    subjects: Iterable[Subject], registry: NumberedSchemas, every_s: float
) -> AsyncIterator[None]:
    """Ask as long as the application runs; a thread that hangs is left behind."""
    task = asyncio.create_task(_look(list(subjects), registry, every_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _look(subjects: list[Subject], registry: NumberedSchemas, every_s: float) -> None:
    threads = DaemonThreads(1, "subjects")
    while True:
        for subject in subjects:
            await asyncio.wrap_future(threads.submit(subject.look, registry))
        is_unknown = any(subject.known is None for subject in subjects)
        await asyncio.sleep(min(every_s, _UNKNOWN_S) if is_unknown else every_s)


def troubles_of(subjects: Mapping[str, Subject]) -> dict[str, str]:
    """By type of event, what is told to anybody who asks; it names no server."""
    return {
        name: "no schema is known yet, so its events are refused"
        if subject.known is None
        else "the newest schema cannot be had, so the one before is used"
        for name, subject in subjects.items()
        if subject.trouble or subject.known is None
    }
