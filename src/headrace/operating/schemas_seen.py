"""Which schema an id is that records of a stream carry, in the words of people.

A record names the schema of its writer by a number. Who looks at a stream wants the subject and the
version instead. Our own schema registry keeps both in the store, so they are read there, and no
registry is waited for. It is asked for the subject of the stream's own topic, and then for the one
that is named so without the tenant, by which a gateway writes the events of all tenants. For no
other: one text has one number wherever it is registered, and whose else it is is nobody's business.

Where drivers ask another registry, whose ids are others, or writers have another naming of
subjects, the id alone is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

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


def named_after(read: Sequence[str], tenant: str, topics: Collection[str]) -> tuple[str, ...]:
    """What subjects are named after that records of a tenant's topic may be written by.

    Args:
        read: topics, such as acme.visits.
        tenant: whose it is.
        topics: of all streams: what is named after one of these is somebody's own.
    """
    shared = (one.removeprefix(f"{tenant}.") for one in read)
    return (*read, *(one for one in shared if one not in topics and one not in read))


def known_versions(subjects: SchemaSubjects, names: Iterable[str] | None = None) -> KnownVersions:
    """What our own registry has under the subjects of such names; None: of all."""
    prefixes = [""] if names is None else [f"{name}-" for name in names]
    found = chain.from_iterable(map(subjects.versions, prefixes))
    return {(one.subject, str(one.id)): one.version for one in found}


def schemas_seen(
    known: KnownVersions, names: Sequence[str], writers: Iterable[WriterFigures], now_s: float
) -> list[SchemaSeen]:
    """By which schemas records of a topic were written, the newest first; see ``named_after``.

    What a driver told long ago is left out as far as it is over.
    """
    found = []
    for writer in writers:
        if writer.last_at_s > now_s - KEPT_S:
            places = [(f"{name}-{writer.column}", writer.schema_id) for name in names]
            place = next((place for place in places if place in known), None)
            found.append(
                SchemaSeen(
                    writer.column,
                    writer.schema_id or None,
                    None if place is None else place[0],
                    None if place is None else known[place],
                    writer.records,
                    writer.first_at_s,
                    writer.last_at_s,
                )
            )
    return found
