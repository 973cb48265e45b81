"""Schemas and subjects in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from headrace.errors import SchemaIdTaken, SchemaReferred
from headrace.ports.schema_subjects import (
    GivenNumbers,
    KeptSchema,
    NewSchema,
    Room,
    SubjectSeen,
    SubjectSetting,
    SubjectVersion,
    size_of,
)
from headrace.testing.memory_store.data import Data, alone


class MemorySchemaSubjects:
    """``headrace.ports.SchemaSubjects`` in memory."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._kept = data.schemas

    @alone
    def seen(self, subject: str) -> SubjectSeen:
        """What there is of a subject, and what is set for all."""
        settings = self._kept.settings
        return SubjectSeen(
            subject,
            tuple(version for version in self.versions(subject) if version.subject == subject),
            settings.get((subject, SubjectSetting.COMPATIBILITY)),
            settings.get((subject, SubjectSetting.MODE)),
            settings.get((subject, SubjectSetting.NORMALIZE)),
            settings.get((None, SubjectSetting.COMPATIBILITY)),
            settings.get((None, SubjectSetting.MODE)),
            settings.get((None, SubjectSetting.NORMALIZE)),
        )

    @alone
    def set_among(self, setting: SubjectSetting, prefix: str = "") -> dict[str | None, str]:
        """What is set for the subjects whose names begin so, and for all (None)."""
        found = {name: value for (name, of), value in self._kept.settings.items() if of is setting}
        return {
            name: value for name, value in found.items() if name is None or name.startswith(prefix)
        }

    @alone
    def register(
        self,
        seen: SubjectSeen,
        new: NewSchema,
        given: GivenNumbers | None = None,
        rooms: Sequence[Room] = (),
    ) -> SubjectVersion | None:
        """Keep a schema as the next version of a subject; None if it is not as it was seen."""
        kept = self._kept
        places = [(reference.subject, reference.version) for reference in new.references]
        are_there = all(place in kept.versions for place in places)
        if self.seen(seen.subject) != seen or not are_there:
            return None
        ids = tuple(kept.versions[place].id for place in places)
        if new.referred_ids not in (None, ids):
            return None
        self._refuse_full(seen.subject, new, rooms)
        id_ = kept.digests.get(new.digest)
        if id_ is None:
            id_ = kept.newest_id + 1 if given is None else given.id
            if id_ in kept.schemas:
                raise SchemaIdTaken(f"id {id_} is that of another schema")
            kept.newest_id = max(kept.newest_id, id_)
            kept.digests[new.digest] = id_
            kept.schemas[id_] = KeptSchema(id_, new.guid, new.kind, new.text, new.references)
        elif given is not None and id_ != given.id:
            return None
        number = seen.next_version if given is None else given.version or seen.next_version
        made = SubjectVersion(seen.subject, number, id_)
        kept.versions[seen.subject, number] = made
        return made

    @alone
    def delete(
        self, seen: SubjectSeen, versions: Sequence[int], *, permanent: bool = False
    ) -> bool:
        """Delete versions, softly or for good; False, and nothing done, if it is not as seen."""
        kept = self._kept
        if self.seen(seen.subject) != seen:
            return False
        for number in versions:
            leaving = versions if permanent else None
            if self._referring(seen.subject, number, leaving):
                raise SchemaReferred(f"version {number} of {seen.subject} is referred to")
        for number in versions:
            place = (seen.subject, number)
            if permanent:
                del kept.versions[place]
            else:
                kept.versions[place] = kept.versions[place]._replace(deleted=True)
        if permanent and {version.version for version in seen.versions} <= {*versions}:
            for setting in SubjectSetting:
                kept.settings.pop((seen.subject, setting), None)
        self._drop_unused()
        return True

    @alone
    def set_for(
        self,
        subject: str | None,
        values: Mapping[SubjectSetting, str | None],
        *,
        only_if_empty: bool = False,
        rooms: Sequence[Room] = (),
    ) -> bool:
        """Set, or take back with None, what holds for a subject, all at once; None: for all."""
        there = self._kept.versions.values()
        if only_if_empty and any(
            not found.deleted and subject in (None, found.subject) for found in there
        ):
            return False
        if subject is not None and any(value is not None for value in values.values()):
            self._refuse_settings(subject, rooms)
        for setting, value in values.items():
            self._kept.settings.pop((subject, setting), None)
            if value is not None:
                self._kept.settings[subject, setting] = value
        return True

    def schema(self, id_: int) -> KeptSchema | None:
        """The schema of an id."""
        return self._kept.schemas.get(id_)

    @alone
    def schemas(self, ids: Sequence[int]) -> dict[int, KeptSchema]:
        """The schemas of some ids, those that there are."""
        return {id_: self._kept.schemas[id_] for id_ in ids if id_ in self._kept.schemas}

    @alone
    def schema_of_guid(self, guid: UUID) -> KeptSchema | None:
        """The schema of a GUID."""
        return next((kept for kept in self._kept.schemas.values() if kept.guid == guid), None)

    @alone
    def ids_of(self, digests: Sequence[bytes]) -> set[int]:
        """The ids of the schemas that have one of these digests."""
        return {self._kept.digests[digest] for digest in digests if digest in self._kept.digests}

    def newest_id(self) -> int:
        """The highest id that was ever given."""
        return self._kept.newest_id

    @alone
    def versions(
        self, prefix: str = "", topics: Collection[str] | None = None
    ) -> list[SubjectVersion]:
        """All versions of the subjects whose names begin so, by name and version."""
        begins = None if topics is None else tuple(f"{topic}-" for topic in topics)
        return [
            version
            for version in sorted(self._kept.versions.values())
            if version.subject.startswith(prefix)
            and (begins is None or version.subject.startswith(begins))
        ]

    @alone
    def versions_of(self, id_: int, topics: Collection[str] | None = None) -> list[SubjectVersion]:
        """The versions that have a schema, by name and version, softly deleted ones too."""
        return [version for version in self.versions("", topics) if version.id == id_]

    @alone
    def referring(
        self, subject: str, version: int, topics: Collection[str] | None = None
    ) -> list[SubjectVersion]:
        """The versions that have a schema which refers to a version, by name and version."""
        ids = {*self._referring(subject, version, None)}
        return [found for found in self.versions("", topics) if found.id in ids]

    def _refuse_full(self, subject: str, new: NewSchema, rooms: Sequence[Room]) -> None:
        for room in rooms:
            ids = [
                version.id
                for version in self._kept.versions.values()
                if room.counts(version.subject, subject)
            ]
            kept = (self._kept.schemas[id_] for id_ in ids)
            held = sum(size_of(schema.text, schema.references) for schema in kept)
            room.refuse(len(ids) + 1, held + new.size)

    def _refuse_settings(self, subject: str, rooms: Sequence[Room]) -> None:
        names = {name for name, _ in self._kept.settings if name is not None}
        for room in rooms:
            if subject not in names:
                room.refuse_settings(sum(room.counts(name, subject) for name in names) + 1)

    def _referring(self, subject: str, version: int, leaving: Sequence[int] | None) -> list[int]:
        """Those of versions that are not deleted; with ``leaving``, of all that do not leave."""
        leave = {(subject, number) for number in leaving or ()}
        counting = {
            found.id
            for place, found in self._kept.versions.items()
            if (not found.deleted if leaving is None else place not in leave)
        }
        return sorted(
            kept.id
            for kept in self._kept.schemas.values()
            if kept.id in counting
            and any(name[1:] == (subject, version) for name in kept.references)
        )

    def _drop_unused(self) -> None:
        used = {version.id for version in self._kept.versions.values()}
        for digest, id_ in [*self._kept.digests.items()]:
            if id_ not in used:
                del self._kept.digests[digest], self._kept.schemas[id_]
