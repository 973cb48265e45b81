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

from headrace.errors import ConfigError, TargetMissing, words_of
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
            RegistryUnavailable: nobody answers.
        """
        before, self.seen = self.seen, {}

        def looked_at(some: Iterable[int]) -> Iterator[KnownSchema | str]:
            for number in islice(some, _MOST_LOOKS):
                try:
                    found = registry.version(subject, number)
                except TargetMissing as error:
                    yield str(error)
                    continue
                self.seen[found.id] = self.seen.get(found.id) or before.get(found.id) or _of(found)
                yield self.seen[found.id]

        oldest = next((one for one in looked_at(numbers) if isinstance(one, KnownSchema)), None)
        told = ""
        for found in looked_at(reversed(numbers)):
            trouble = found if isinstance(found, str) else _unlike(found, oldest or found)
            if not trouble and isinstance(found, KnownSchema):
                return found, told
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
    except BaseException as error:  # a schema is somebody else's, whatever it breaks
        return f"schema {found.id} cannot be used: {words_of(error)}"
