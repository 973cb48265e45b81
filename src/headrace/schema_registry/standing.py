"""What holds for a subject now, and which of its versions is meant: from what was seen of it."""

from __future__ import annotations

from headrace.ports.schema_subjects import SubjectSeen, SubjectVersion
from headrace.schema_registry import refusals
from headrace.schema_registry.rules.compatibility import DEFAULT_LEVEL, Level
from headrace.schema_registry.wanted import LATEST

DEFAULT_MODE = "READWRITE"
#: schemas come with the numbers that they have elsewhere
IMPORT = "IMPORT"


def level_of(seen: SubjectSeen) -> Level:
    """What a subject asks of a new version."""
    return Level(seen.compatibility or seen.global_compatibility or DEFAULT_LEVEL)


def mode_of(seen: SubjectSeen) -> str:
    """Whether versions of a subject may come and go."""
    if seen.global_mode == "READONLY_OVERRIDE":
        return "READONLY"
    return seen.mode or seen.global_mode or DEFAULT_MODE


def normalizes(seen: SubjectSeen) -> bool:
    """Whether the order of members does not count in a subject, if nobody says."""
    return (seen.normalize or seen.global_normalize) == "true"


def refuse_read_only(seen: SubjectSeen) -> None:
    """Refuse a change of a subject that may only be read."""
    if mode_of(seen).startswith("READONLY"):
        raise refusals.not_permitted(f"Subject {seen.subject} is in read-only mode")


def version_in(seen: SubjectSeen, version: int, *, deleted: bool = False) -> SubjectVersion:
    """A version by its number, or the latest one.

    Raises:
        Refusal: there is none.
    """
    if not (seen.versions if deleted else seen.alive):
        raise refusals.no_subject(seen.subject)
    if version == LATEST:
        return (seen.alive or seen.versions)[-1]
    found = next((known for known in seen.versions if known.version == version), None)
    if found is None:
        raise refusals.no_version(version)
    if found.deleted and not deleted:
        raise refusals.softly_deleted(seen.subject, version)
    return found
