"""Which version of a subject events are written by: the newest that can be, of the same message.

A schema is somebody else's, so the newest may be one that nobody can write by. A file of Protobuf
has messages, and the first one is written; a newer file may have another one first, which who reads
the old one would take for it. So what is written is the message of the oldest version that is
there, by the newest version that has it first. All of that a registry knows: a gateway that starts
anew comes to the same version as one that has run for a month, and whoever means to write another
message deletes the versions that have the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from headrace.errors import (
    ConfigError,
    RegistryUnavailable,
    SchemaUnanswered,
    TargetMissing,
    words_of,
)
from headrace.formats.framing import prefix_of
from headrace.gateway.subject_writers import EventWriter, writer_of
from headrace.ports import NumberedSchemas, RegisteredSchema

#: versions that are looked at from either end; each takes a question, and may take a while
_MOST_LOOKS = 20


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema that events are written by."""

    id: int
    #: what stands before each of them
    prefix: bytes
    writer: EventWriter


@dataclass(slots=True)
class Looks:
    """Looks at the versions of one subject. For one thread."""

    #: by id, what came of schemas that were looked at the last time, or why events are not written
    seen: dict[int, KnownSchema | str] = field(default_factory=dict)
    #: and their ids, by version: a version that the registry has no answer to goes on as it was
    ids: dict[int, int] = field(default_factory=dict)

    def newest_usable(
        self, registry: NumberedSchemas, subject: str, numbers: Sequence[int]
    ) -> tuple[KnownSchema, str]:
        """The version that is written by, and what is wrong with a newer one; empty: nothing.

        Args:
            registry: is asked for versions, from both ends.
            subject: whose versions these are.
            numbers: of those that are there, the oldest first.

        Raises:
            ConfigError: events cannot be written by any.
            RegistryUnavailable: nobody answers, or there is no answer to the oldest version, whose
                message might be another one.
        """
        look = _Look(registry, subject, self)
        try:
            return _found(look, numbers)
        except RegistryUnavailable:
            look.seen, look.ids = self.seen | look.seen, self.ids | look.ids
            raise
        finally:
            self.seen, self.ids = look.seen, look.ids


@dataclass(slots=True)
class _Look:
    """One look, with what came of it."""

    registry: NumberedSchemas
    subject: str
    before: Looks
    seen: dict[int, KnownSchema | str] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)
    #: by id, what may be gone the next time
    troubles: dict[int, str] = field(default_factory=dict)
    #: why the registry had no answer to what goes on as it was
    unanswered: str = ""

    def at(self, numbers: Iterable[int]) -> Iterator[KnownSchema | str | SchemaUnanswered]:
        """What comes of versions, or why none is there to be written by."""
        for number in islice(numbers, _MOST_LOOKS):
            try:
                found = self.registry.version(self.subject, number)
            except TargetMissing as error:
                yield str(error)
            except SchemaUnanswered as error:
                yield self._once(number, error) or error
            else:
                self.ids[number] = found.id
                yield self._made(found)

    def _once(self, number: int, error: SchemaUnanswered) -> KnownSchema | str | None:
        """What came of a version before; an id never has another schema."""
        id_ = self.before.ids.get(number, -1)
        known = self.before.seen.get(id_)
        if known is not None:
            self.ids[number], self.seen[id_] = id_, known
            self.unanswered = self.unanswered or str(error)
        return known

    def _made(self, found: RegisteredSchema) -> KnownSchema | str:
        known = self.seen.get(found.id) or self.before.seen.get(found.id)
        if known is None and found.id in self.troubles:
            return self.troubles[found.id]
        try:
            self.seen[found.id] = known or _of(found)
        except BaseException as error:  # a schema is somebody else's, whatever it breaks
            told = f"schema {found.id} cannot be used: {words_of(error)}"
            return self.troubles.setdefault(found.id, told)
        return self.seen[found.id]


def _found(look: _Look, numbers: Sequence[int]) -> tuple[KnownSchema, str]:
    oldest = None
    for found in look.at(numbers):
        if isinstance(found, SchemaUnanswered):
            raise found
        if isinstance(found, KnownSchema):
            oldest = found
            break
    told = ""
    for found in look.at(reversed(numbers)):
        trouble = _unlike(found, oldest or found) if isinstance(found, KnownSchema) else str(found)
        if not trouble and isinstance(found, KnownSchema):
            return found, told or look.unanswered
        told = told or trouble
    if oldest is None:
        raise ConfigError(told)
    return oldest, told


def _unlike(found: KnownSchema, oldest: KnownSchema) -> str:
    """What is wrong with it where another message was written before."""
    ours, theirs = found.writer.message, oldest.writer.message
    if ours == theirs:
        return ""
    return (
        f"schema {found.id}: its first message is {ours or 'none'}, and {theirs or 'none'} was "
        "written: put that first, or delete the versions that have it first"
    )


def _of(found: RegisteredSchema) -> KnownSchema | str:
    try:
        return KnownSchema(found.id, prefix_of(found.id), writer_of(found.schema))
    except ConfigError as error:
        return f"schema {found.id}: {error}"
