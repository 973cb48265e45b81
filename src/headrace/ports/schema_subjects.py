"""Schemas by id, and the subjects under which teams agree on them: what a schema registry keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from headrace.errors import SchemasFull
from headrace.model.credentials import names
from headrace.ports.schemas import SchemaKind


class SubjectSetting(StrEnum):
    """What is set for a subject, or for all that have no such setting of their own."""

    COMPATIBILITY = "compatibility"  #: what a new version is held against, and how
    MODE = "mode"  #: whether versions may come and go
    NORMALIZE = "normalize"  #: whether the order of members counts, if nobody says


class SchemaReference(NamedTuple):
    """How one schema names another: by the name in its text, and where the other is kept."""

    name: str
    subject: str
    version: int


def size_of(text: str, references: Sequence[SchemaReference]) -> int:
    """Bytes of a text, with the characters of the names of what it refers to."""
    named = sum(len(reference.name) + len(reference.subject) for reference in references)
    return len(text.encode("utf-8", "surrogatepass")) + named


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema that is to be kept."""

    kind: SchemaKind
    #: to the letter as it was sent
    text: str
    #: of kind, references and the canonical text: schemas that have the same are one
    digest: bytes
    guid: UUID
    references: tuple[SchemaReference, ...] = ()
    #: of each of these, the id that it had when the schema was judged; None: whatever it has
    referred_ids: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Bytes that it takes: its text, and the names of what it refers to."""
        return size_of(self.text, self.references)


@dataclass(frozen=True, slots=True)
class KeptSchema:
    """A schema that is kept."""

    #: above that of every schema that was ever kept before it, also of those that are gone; of an
    #: imported one what it was given
    id: int
    guid: UUID
    kind: SchemaKind
    text: str
    references: tuple[SchemaReference, ...] = ()


class GivenNumbers(NamedTuple):
    """What an imported schema is called by where it comes from; records carry the id already."""

    id: int
    #: None: the next one
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """How much some subjects may hold together."""

    #: what has it, "tenant", "subject" or "subjects" (of a key for these), and its name
    of: str
    name: str
    #: of texts, and of the names of what they refer to
    most_bytes: int
    most_versions: int
    #: subjects that are named after one of these count; None: the one that is registered under
    topics: frozenset[str] | None = None
    #: or subjects that are named so; see ``headrace.model.credentials.names``
    pattern: str | None = None

    def counts(self, subject: str, registered: str) -> bool:
        """Whether a subject counts for who registers under another one, or the same."""
        if self.pattern is not None:
            return names(self.pattern, subject)
        if self.topics is None:
            return subject == registered
        return subject.rpartition("-")[0] in self.topics

    def refuse(self, versions: int, size: int) -> None:
        """Refuse what would come to so many versions and bytes.

        Raises:
            SchemasFull: it is too much.
        """
        if versions > self.most_versions:
            raise SchemasFull(
                f"{self.of} {self.name} may have {self.most_versions} versions of schemas "
                f"({self._limit}_versions)"
            )
        if size > self.most_bytes:
            raise SchemasFull(
                f"{self.of} {self.name} may have {self.most_bytes} bytes of schemas "
                f"({self._limit}_bytes)"
            )

    def refuse_settings(self, subjects: int) -> None:
        """Refuse what would come to settings of so many subjects: no more than of versions.

        Raises:
            SchemasFull: it is too much.
        """
        if subjects > self.most_versions:
            raise SchemasFull(
                f"{self.of} {self.name} may have settings of {self.most_versions} subjects "
                f"({self._limit}_versions)"
            )

    @property
    def _limit(self) -> str:
        """What the settings call it: some subjects have as much room as a tenant."""
        return "tenant" if self.pattern is not None else self.of


class SubjectVersion(NamedTuple):
    """One version of a subject."""

    subject: str
    version: int
    id: int
    #: softly: it is shown to who asks for it by name, counts for nothing, and can be looked up
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class SubjectSeen:
    """All that a decision about a subject rests on; the compare of its compare-and-set."""

    subject: str
    #: by version, those that are softly deleted too
    versions: tuple[SubjectVersion, ...] = ()
    #: the subject's own
    compatibility: str | None = None
    mode: str | None = None
    normalize: str | None = None
    #: that of all subjects which have none of their own
    global_compatibility: str | None = None
    global_mode: str | None = None
    global_normalize: str | None = None

    @property
    def alive(self) -> tuple[SubjectVersion, ...]:
        """The versions that are not deleted."""
        return tuple(version for version in self.versions if not version.deleted)

    @property
    def next_version(self) -> int:
        """The number that the next version has if nobody says; deleted ones count."""
        return max((version.version for version in self.versions), default=0) + 1


class SchemaSubjects(Protocol):
    """Schemas and subjects; a part of ``Store``.

    What may be registered is judged outside, on what was ``seen``, and done only if that is still
    so: of two who register at once one sees the other's version and judges again. Nothing here
    raises the revision, since no driver looks at it.
    """

    def seen(self, subject: str) -> SubjectSeen:
        """What there is of a subject; of one that nobody has, nothing but what is set for all."""

    def register(
        self,
        seen: SubjectSeen,
        new: NewSchema,
        given: GivenNumbers | None = None,
        rooms: Sequence[Room] = (),
    ) -> SubjectVersion | None:
        """Keep a schema as the next version of a subject; None if it is not as it was seen.

        A schema that is kept already, under whatever subject, keeps its id. The next version is one
        above the highest that the subject has, softly deleted ones too. None also if a version that
        it refers to is not there any more.

        With numbers that are given it is kept under these, and no later id is below; None also if
        it is kept already under another id.

        What is there in each room, softly deleted versions too, is counted in the same moment: of
        two who register at once the second finds the version of the first. A schema counts once
        for each version that has it.

        Raises:
            SchemaIdTaken: the given id is that of another schema; nothing was done.
            SchemasFull: it would be more than a room has; nothing was done.
        """

    def delete(
        self, seen: SubjectSeen, versions: Sequence[int], *, permanent: bool = False
    ) -> bool:
        """Delete versions, softly or for good; False, and nothing done, if it is not as seen.

        A schema of which no version is left is dropped with the last one, and its id never comes
        again. With the last version that is there at all the subject's own settings go too.
        For good is only what no schema refers to that stays, not even one that is softly deleted:
        the number may be given again, and that schema would come to mean something else.

        Raises:
            SchemaReferred: another schema refers to one of them; nothing was done.
        """

    def set_for(
        self,
        subject: str | None,
        values: Mapping[SubjectSetting, str | None],
        *,
        only_if_empty: bool = False,
        rooms: Sequence[Room] = (),
    ) -> bool:
        """Set what holds for a subject, all at once; None: for all. A value of None takes it back.

        With ``only_if_empty`` False, and nothing done, if the subject (None: any) has a version
        that is not deleted. Of each room the subjects are counted for which anything is set.

        Raises:
            SchemasFull: one more would be more than a room has; nothing was done.
        """

    def schema(self, id_: int) -> KeptSchema | None:
        """The schema of an id; None: there is none, or none any more."""

    def schemas(self, ids: Sequence[int]) -> dict[int, KeptSchema]:
        """The schemas of some ids, those that there are."""

    def schema_of_guid(self, guid: UUID) -> KeptSchema | None:
        """The schema of a GUID."""

    def ids_of(self, digests: Sequence[bytes]) -> set[int]:
        """The ids of the schemas that have one of these digests."""

    def newest_id(self) -> int:
        """The highest id that was ever given; 0: none was."""

    def versions(
        self, prefix: str = "", topics: Collection[str] | None = None
    ) -> list[SubjectVersion]:
        """All versions of the subjects whose names begin so, by name and version.

        With topics only of subjects that are named after one: ``<topic>-`` and something behind.
        """

    def versions_of(self, id_: int, topics: Collection[str] | None = None) -> list[SubjectVersion]:
        """The versions that have a schema, by name and version, softly deleted ones too.

        With topics as ``versions``: what many have is not read for one of them.
        """

    def referring(
        self, subject: str, version: int, topics: Collection[str] | None = None
    ) -> list[SubjectVersion]:
        """The versions that have a schema which refers to a version, by name and version.

        Softly deleted ones too, where their schema has one that is not. Topics as in ``versions``.
        """
