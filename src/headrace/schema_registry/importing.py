"""Schemas that come with their numbers, out of another registry: the mode IMPORT.

Records carry the id of a schema for as long as they are kept. So whoever moves here brings the ids
and versions along, while the mode of a subject, or of all, is IMPORT. Nothing is held against the
versions before: it was, elsewhere. Numbers are an operator's alone: one that is taken cannot be
given again, and to ask for one says whether somebody has it. What is there already is answered as
ever to whoever gives no number: serializers register before each first record, also meanwhile.

Elsewhere two ids may be one schema here, since what makes two schemas one differs. Both ids have to
stay, so the second is kept under a digest of its own. A number that is taken is never given to
another schema; who has a version already is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from headrace.errors import SchemaIdTaken
from headrace.ports.schema_subjects import (
    GivenNumbers,
    NewSchema,
    Room,
    SchemaSubjects,
    SubjectSeen,
    SubjectVersion,
)
from headrace.schema_registry import refusals
from headrace.schema_registry.refusals import Refusal
from headrace.schema_registry.sameness import Content
from headrace.schema_registry.standing import IMPORT, mode_of
from headrace.schema_registry.wanted import Sight, Wanted

#: the highest id, and version, that may be given; of 31 bits, the rest is for those that come after
MOST_GIVEN_ID = 2_000_000_000


def given_numbers(seen: SubjectSeen, wanted: Wanted, sight: Sight) -> GivenNumbers | None:
    """The numbers that a schema brings along; None: it brings none.

    Raises:
        Refusal: it may bring none, or lacks its id.
    """
    if wanted.id is None and wanted.version is None:
        return None
    name = f"Subject {seen.subject}"
    if mode_of(seen) != IMPORT:
        raise refusals.not_permitted(
            f"an id or a version is given, and {name} is not in import mode"
        )
    if wanted.id is None or not sight.may_number:
        raise _without_id(name, sight)
    if wanted.version is not None and wanted.version > MOST_GIVEN_ID:
        raise refusals.not_permitted(f"the highest version that may be imported is {MOST_GIVEN_ID}")
    if wanted.id > MOST_GIVEN_ID:
        raise refusals.not_permitted(f"the highest id that may be imported is {MOST_GIVEN_ID}")
    return GivenNumbers(wanted.id, wanted.version)


def refuse_unnumbered(seen: SubjectSeen, sight: Sight) -> None:
    """Refuse a new schema that brings no numbers where it has to."""
    if mode_of(seen) == IMPORT:
        raise _without_id(f"Subject {seen.subject}", sight)


def imported(
    subjects: SchemaSubjects,
    seen: SubjectSeen,
    content: Content,
    given: GivenNumbers,
    rooms: Sequence[Room] = (),
) -> SubjectVersion | None:
    """The version that an imported schema has; None: something changed meanwhile.

    Raises:
        Refusal: the id or the version is that of another schema.
        SchemasFull: there is no room for it.
    """
    kept = _kept_as(subjects, content, given.id)
    for version in seen.versions:
        is_meant = version.version == given.version
        is_same = kept.is_there and version.id == given.id and not version.deleted
        if is_same and (is_meant or given.version is None):
            return version
        if is_meant:
            raise refusals.not_permitted(
                f"version {version.version} of {seen.subject} is there already, with id "
                f"{version.id}{', softly deleted' if version.deleted else ''}"
            )
    try:
        return subjects.register(seen, kept.new, given, rooms)
    except SchemaIdTaken as error:
        raise refusals.not_permitted(f"Overwrite is not permitted: {error}") from error


def _without_id(name: str, sight: Sight) -> Refusal:
    if not sight.may_number:
        return refusals.denied(f"{name} is in import mode, and only an operator imports")
    return refusals.not_permitted(f"{name} is in import mode: give the id of the schema")


@dataclass(frozen=True, slots=True)
class _Kept:
    new: NewSchema
    #: whether it is there already, under the id
    is_there: bool


def _kept_as(subjects: SchemaSubjects, content: Content, id_: int) -> _Kept:
    """How an imported schema is kept under an id."""
    digest = content.of_id(id_)
    own = replace(content.new, digest=digest, guid=UUID(bytes=digest[:16], version=5))
    if id_ in subjects.ids_of([own.digest]):
        return _Kept(own, True)
    others = subjects.ids_of([content.new.digest])
    if id_ in others:
        return _Kept(content.new, True)
    return _Kept(own if others or content.is_of_subject else content.new, False)
