"""Types of events whose schema is a subject of a registry: looked at beside the requests.

A schema in a registry changes while the gateway runs, is written by somebody else, and the registry
may be away. No request is to wait for any of that. So a thread asks for it when the gateway starts
and every half minute after; what it found is there for the next request, as a whole. One that is
not there, or that nobody can write by, changes nothing: the one before goes on, and it is told in
the log, by ``/readyz`` and by a metric. Without any yet, events of the type are refused with 503
until there is one, which is asked for more often, and those of other types are not concerned.

Where a version is named it never changes, so it is looked for until it is found. Here nothing is
told to senders, and no event is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from headrace.errors import ConfigError, HeadraceError, words_of
from headrace.formats.framing import prefix_of
from headrace.gateway.subject_writers import EventWriter, writer_of
from headrace.ports import NumberedSchemas, RegisteredSchema
from headrace.process.daemon_threads import DaemonThreads

log = structlog.get_logger(__name__)

#: a schema that is missing altogether is asked for so often, if not more often
_UNKNOWN_S = 2.0


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema that events are written by."""

    id: int
    #: what stands before each of them
    prefix: bytes
    writer: EventWriter


@dataclass(slots=True, eq=False)
class Subject:
    """A subject, and what is known of it. Written by one thread, and read by all."""

    name: str
    #: None: whichever is the newest
    version: int | None = None
    #: replaced as a whole; None: there never was one
    known: KnownSchema | None = None
    #: why the last look was of no use; empty: it was
    trouble: str = field(default="", repr=False)

    def look(self, registry: NumberedSchemas) -> None:
        """Ask what it is now; whatever is wrong with that is told, and kept as trouble."""
        if self.known is not None and self.version is not None:
            return
        try:
            found = registry.version(self.name, self.version)
            if self.known is None or found.id != self.known.id:
                self.known = self._followed(_usable(found))
                log.info("events are written by a schema", subject=self.name, schema_id=found.id)
        except HeadraceError as error:
            self._troubled(str(error))
        except (
            BaseException
        ) as error:  # a schema is somebody else's: whatever it broke, all goes on
            self._troubled(f"its newest schema cannot be used: {words_of(error)}")
        else:
            self.trouble = ""

    def _followed(self, newer: KnownSchema) -> KnownSchema:
        """A newer one, unless who reads the message that was written would read another one."""
        before = newer if self.known is None else self.known
        if newer.writer.message != before.writer.message:
            raise ConfigError(
                f"schema {newer.id}: its first message is {newer.writer.message}, and "
                f"{before.writer.message} was written: put that first"
            )
        return newer

    def _troubled(self, told: str) -> None:
        if told != self.trouble:
            log.warning(
                "the schema of events cannot be had",
                subject=self.name,
                error=told,
                meanwhile="events are refused with 503"
                if self.known is None
                else f"events are written by schema {self.known.id}, as before",
            )
        self.trouble = told


def _usable(found: RegisteredSchema) -> KnownSchema:
    try:
        writer = writer_of(found.schema)
    except ConfigError as error:
        raise ConfigError(f"schema {found.id}: {error}") from error
    return KnownSchema(found.id, prefix_of(found.id), writer)


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
