"""Which schema an id is that records of a stream carry, in the words of people.

A record names the schema of its writer by a number. Who looks at a stream wants the subject and the
version instead. Our own schema registry keeps both in the store, so they are read there, and no
registry is waited for. It is asked for the subject of the stream's own topic and for no other: one
text has one number wherever it is registered, and whose else it is is nobody's business.

Where writers use another registry, or another naming of subjects, the id alone is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.statistics import WriterFigures
from headrace.ports import SchemaSubjects
from headrace.telemetry.writers import KEPT_S

#: version by subject, and by id of its schema as records carry it
KnownVersions = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class SchemaSeen:
    """A schema that records of the last hour were written by."""

    column: str
    #: None: all those beyond the newest few, together
    schema_id: str | None
    #: None: nobody knows
    subject: str | None
    version: int | None
    records: int
    first_at_s: float
    last_at_s: float


def known_versions(subjects: SchemaSubjects, topic: str | None = None) -> KnownVersions:
    """What our own registry has under the subjects of a topic; None: of all."""
    prefix = "" if topic is None else f"{topic}-"
    return {(found.subject, str(found.id)): found.version for found in subjects.versions(prefix)}


def schemas_seen(
    known: KnownVersions, topic: str, writers: Iterable[WriterFigures], now_s: float
) -> list[SchemaSeen]:
    """By which schemas records of a topic were written, the newest first.

    What a driver told long ago is left out as far as it is over.
    """
    found = []
    for writer in writers:
        if writer.last_at_s > now_s - KEPT_S:
            subject = f"{topic}-{writer.column}"
            version = known.get((subject, writer.schema_id))
            found.append(
                SchemaSeen(
                    writer.column,
                    writer.schema_id or None,
                    None if version is None else subject,
                    version,
                    writer.records,
                    writer.first_at_s,
                    writer.last_at_s,
                )
            )
    return found
