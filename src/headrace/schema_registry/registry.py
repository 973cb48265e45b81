"""What a registry does: register, look up, delete, set; whoever asks, by whatever way.

A registration is judged on what there is of its subject, and done only if that is still so; else
it is judged again. So two processes that register the same at once come to one version, and none
gets past a check by being quick. A commit whose answer was lost is settled in the same way: the
next round finds the version that it made, or makes it.

Who may do what is decided before (``access``); which subjects a caller sees comes in as ``Sight``,
since a reference must not lead to what its author may not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.errors import OutcomeUnknown, SchemaReferred, SchemasFull
from headrace.ports.schema_subjects import (
    KeptSchema,
    SchemaSubjects,
    SubjectSeen,
    SubjectSetting,
    SubjectVersion,
)
from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry import refusals
from headrace.schema_registry.forms import KnownForms
from headrace.schema_registry.gathering import Gathering
from headrace.schema_registry.importing import given_numbers, imported, refuse_unnumbered
from headrace.schema_registry.judges import Judges
from headrace.schema_registry.refusals import Incompatible, Refusal
from headrace.schema_registry.rooms import RoomLimits
from headrace.schema_registry.rules.compatibility import Level
from headrace.schema_registry.rules.texts import BadSchema, Form
from headrace.schema_registry.sameness import Content, content_of
from headrace.schema_registry.standing import (
    level_of,
    normalizes,
    refuse_read_only,
    version_in,
)
from headrace.schema_registry.wanted import EVERYTHING, LATEST, Sight, Wanted

_ROUNDS = 30


class SchemaRegistry:
    """A registry on a store. Safe in several threads."""

    def __init__(
        self, subjects: SchemaSubjects, judges: Judges, limits: RoomLimits | None = None
    ) -> None:
        """Take where schemas are kept, who looks at them, and how much is kept; None: all."""
        self.subjects = subjects
        self._judges = judges
        self._limits = limits
        self._forms = KnownForms()

    def register(self, subject: str, wanted: Wanted, sight: Sight) -> SubjectVersion:
        """The version that a schema has under a subject, made if need be.

        Raises:
            Refusal: it is no schema, incompatible, or not permitted now.
        """
        gathering = Gathering(self.subjects)
        wanted = gathering.numbered(wanted, sight)
        for _ in range(_ROUNDS):
            try:
                made = self._tried(subject, wanted, sight, gathering)
            except OutcomeUnknown:
                made = None
            except SchemasFull as error:
                raise refusals.full(str(error)) from error
            if made is not None:
                return made
            gathering.again()
        raise Refusal(503, 50002, f"too many change {subject} at the same time; try again")

    def find(
        self, subject: str, wanted: Wanted, sight: Sight, *, deleted: bool = False
    ) -> SubjectVersion:
        """The newest version of a subject that has this schema.

        Raises:
            Refusal: there is none.
        """
        seen = self.subjects.seen(subject)
        versions = seen.versions if deleted else seen.alive
        if not versions:
            raise refusals.no_subject(subject)
        gathering = Gathering(self.subjects)
        content = self._content(seen, gathering.numbered(wanted, sight), sight, gathering)
        found = self._same(versions, content)
        if not found:
            raise refusals.no_schema()
        return found[-1]

    def faults(
        self,
        subject: str,
        wanted: Wanted,
        sight: Sight,
        against: Sequence[SubjectVersion] | None = None,
    ) -> list[str]:
        """What a schema would break; nothing is registered.

        Args:
            subject: under which it would be registered.
            wanted: the schema.
            sight: whose request it is.
            against: hold it against these, in place of those that the subject's level says.
        """
        seen = self.subjects.seen(subject)
        gathering = Gathering(self.subjects)
        wanted = gathering.numbered(wanted, sight)
        self._content(seen, wanted, sight, gathering)
        level = level_of(seen)
        among = level.among(seen.alive) if against is None else against
        return self._faults(wanted, among, level, sight, gathering)

    def delete(self, subject: str, *, permanent: bool) -> list[int]:
        """Delete a subject, softly or for good; the versions that are gone with it.

        Raises:
            Refusal: it is not there, deleted already, or referred to.
        """
        for _ in range(_ROUNDS):
            seen = self.subjects.seen(subject)
            if not seen.versions:
                raise refusals.no_subject(subject)
            if not permanent and not seen.alive:
                raise refusals.softly_deleted(subject)
            if permanent and seen.alive:
                raise refusals.not_softly_deleted(subject)
            numbers = [found.version for found in (seen.versions if permanent else seen.alive)]
            if self._deleted(seen, numbers, permanent=permanent):
                return numbers
        raise Refusal(503, 50002, f"too many change {subject} at the same time; try again")

    def delete_version(self, subject: str, version: int, *, permanent: bool) -> int:
        """Delete one version, softly or for good; its number.

        Raises:
            Refusal: it is not there, deleted already, or referred to.
        """
        for _ in range(_ROUNDS):
            seen = self.subjects.seen(subject)
            if not seen.versions or not (seen.alive or permanent or version != LATEST):
                raise refusals.no_subject(subject)
            found = version_in(seen, version, deleted=True)
            if not permanent and found.deleted:
                raise refusals.softly_deleted(subject, found.version)
            if permanent and not found.deleted:
                raise refusals.not_softly_deleted(subject, found.version)
            if self._deleted(seen, [found.version], permanent=permanent):
                return found.version
        raise Refusal(503, 50002, f"too many change {subject} at the same time; try again")

    def set_for(
        self,
        subject: str | None,
        values: Mapping[SubjectSetting, str | None],
        sight: Sight,
        *,
        only_if_empty: bool = False,
    ) -> bool:
        """Set what holds for a subject, or for all; False if it has versions and must not.

        Raises:
            Refusal: more is set than the caller's tenant has room for.
        """
        rooms = self._limits.of_settings(sight) if self._limits is not None else ()
        try:
            return self.subjects.set_for(subject, values, only_if_empty=only_if_empty, rooms=rooms)
        except SchemasFull as error:
            raise refusals.full_of_settings(str(error)) from error

    def serialized(self, kept: KeptSchema, sight: Sight) -> bytes:
        """The descriptor of a Protobuf schema; whoever asks waits for a judge of its own."""
        wanted = Wanted(kept.kind, kept.text, kept.references)
        gathering = Gathering(self.subjects)
        return self._form(gathering.written(wanted, EVERYTHING), sight, gathering).serialized

    def _tried(
        self, subject: str, wanted: Wanted, sight: Sight, gathering: Gathering
    ) -> SubjectVersion | None:
        seen = self.subjects.seen(subject)
        given = given_numbers(seen, wanted, sight)
        content = self._content(seen, wanted, sight, gathering)
        rooms = self._limits.of(subject, sight) if self._limits is not None else ()
        if given is not None:
            return imported(self.subjects, seen, content, given, rooms)
        same = self._same(seen.alive, content)
        if same:
            return same[-1]
        refuse_read_only(seen)
        refuse_unnumbered(seen, sight)
        level = level_of(seen)
        faults = self._faults(wanted, level.among(seen.alive), level, sight, gathering)
        if faults:
            raise Incompatible(subject, faults)
        return self.subjects.register(seen, content.new, None, rooms)

    def _deleted(self, seen: SubjectSeen, numbers: Sequence[int], *, permanent: bool) -> bool:
        refuse_read_only(seen)
        try:
            return self.subjects.delete(seen, numbers, permanent=permanent)
        except SchemaReferred as error:
            raise Refusal(
                422, 42206, f"One or more references exist to the schema: {error}"
            ) from error

    def _same(self, versions: Sequence[SubjectVersion], content: Content) -> list[SubjectVersion]:
        """Those of some versions that have this content."""
        ids = self.subjects.ids_of(content.digests)
        found = [version for version in versions if version.id in ids]
        if found or not versions:
            return found
        # What was imported beside the same under another id is known by its id as well.
        ids = self.subjects.ids_of([content.of_id(id_) for id_ in {v.id for v in versions}])
        return [version for version in versions if version.id in ids]

    def _content(
        self, seen: SubjectSeen, wanted: Wanted, sight: Sight, gathering: Gathering
    ) -> Content:
        """What a schema says, as it is kept.

        Raises:
            Refusal: it is none.
        """
        form = self._form(gathering.written(wanted, sight), sight, gathering)
        is_normal = wanted.normalize or normalizes(seen)
        text = form.normalized if is_normal else form.canonical
        content = content_of(seen.subject, wanted.kind, wanted.text, wanted.references, text)
        return content.judged_with(gathering.ids_of(wanted.references))

    def _form(self, written: WrittenSchema, sight: Sight, gathering: Gathering) -> Form:
        found = self._forms.get(written)
        if found is None:
            try:
                found = self._judges.form(written, sight.held_as, gathering.looked)
            except BadSchema as error:
                raise refusals.bad_schema(str(error)) from error
            self._forms.put(written, found)
        return found

    def _faults(
        self,
        wanted: Wanted,
        among: Sequence[SubjectVersion],
        level: Level,
        sight: Sight,
        gathering: Gathering,
    ) -> list[str]:
        if not among or level is Level.NONE:
            return []
        before = gathering.compared(among)
        try:
            written = gathering.written(wanted, sight)
            return self._judges.faults(written, before, level, sight.held_as, gathering.looked)
        except BadSchema as error:
            return [f"it cannot be judged, so it counts as incompatible: {error}"]
