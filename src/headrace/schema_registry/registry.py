"""What a registry does: register, look up, delete, set; whoever asks, by whatever way.

A registration is judged on what there is of its subject, and done only if that is still so; else
it is judged again. So two processes that register the same at once come to one version, and none
gets past a check by being quick. A commit whose answer was lost is settled in the same way: the
next round finds the version that it made, or makes it.

Who may do what is decided before (``access``); which subjects a caller sees comes in as ``Sight``,
since a reference must not lead to what its author may not read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from headrace.errors import OutcomeUnknown, SchemaReferred
from headrace.ports.schema_subjects import (
    KeptSchema,
    SchemaReference,
    SchemaSubjects,
    SubjectSeen,
    SubjectVersion,
)
from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry import refusals
from headrace.schema_registry.judges import Judges
from headrace.schema_registry.refusals import Refusal
from headrace.schema_registry.rules.compatibility import DEFAULT_LEVEL, Level
from headrace.schema_registry.rules.texts import BadSchema, Compared, Form
from headrace.schema_registry.sameness import Content, content_of

MOST_REFERENCES = 100
_MOST_STEPS = 20
_ROUNDS = 30
_FORMS_KEPT = 500
_KEPT_CHARACTERS = 32_768
DEFAULT_MODE = "READWRITE"
LATEST = -1
#: subject and version
_Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sight:
    """Whose request it is, as far as a registry has to know."""

    tenant: str | None
    sees: Callable[[str], bool]


EVERYTHING = Sight(None, lambda _: True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A schema as somebody sends it."""

    kind: SchemaKind
    text: str
    references: tuple[SchemaReference, ...] = ()
    normalize: bool = False


class SchemaRegistry:
    """A registry on a store. Safe in several threads."""

    def __init__(self, subjects: SchemaSubjects, judges: Judges) -> None:
        """Take where schemas are kept, and who looks at them."""
        self.subjects = subjects
        self._judges = judges
        self._forms = _Forms()

    def register(self, subject: str, wanted: Wanted, sight: Sight) -> SubjectVersion:
        """The version that a schema has under a subject, made if need be.

        Raises:
            Refusal: it is no schema, incompatible, or not permitted now.
        """
        wanted = self._numbered(wanted, sight)
        for _ in range(_ROUNDS):
            try:
                made = self._tried(subject, wanted, sight)
            except OutcomeUnknown:
                continue
            if made is not None:
                return made
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
        content = self._content(subject, self._numbered(wanted, sight), sight)
        ids = self._ids_of(content)
        found = [version for version in versions if version.id in ids]
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
        wanted = self._numbered(wanted, sight)
        self._content(subject, wanted, sight)
        level = level_of(seen)
        among = level.among(seen.alive) if against is None else against
        return self._faults(wanted, among, level, sight)

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

    def serialized(self, kept: KeptSchema, sight: Sight) -> bytes:
        """The descriptor of a Protobuf schema; whoever asks waits for a judge of its own."""
        wanted = Wanted(kept.kind, kept.text, kept.references)
        return self._form(self._written(wanted, EVERYTHING), sight).serialized

    def _tried(self, subject: str, wanted: Wanted, sight: Sight) -> SubjectVersion | None:
        seen = self.subjects.seen(subject)
        content = self._content(subject, wanted, sight)
        ids = self._ids_of(content)
        same = [version for version in seen.alive if version.id in ids]
        if same:
            return same[-1]
        refuse_read_only(seen)
        level = level_of(seen)
        faults = self._faults(wanted, level.among(seen.alive), level, sight)
        if faults:
            raise refusals.incompatible(subject, faults)
        return self.subjects.register(seen, content.new)

    def _deleted(self, seen: SubjectSeen, numbers: Sequence[int], *, permanent: bool) -> bool:
        refuse_read_only(seen)
        try:
            return self.subjects.delete(seen, numbers, permanent=permanent)
        except SchemaReferred as error:
            raise Refusal(
                422, 42206, f"One or more references exist to the schema: {error}"
            ) from error

    def _ids_of(self, content: Content) -> set[int]:
        """The ids of the schemas that have this content already."""
        found = map(self.subjects.schema_of_digest, content.digests)
        return {kept.id for kept in found if kept is not None}

    def _content(self, subject: str, wanted: Wanted, sight: Sight) -> Content:
        """What a schema says, as it is kept.

        Raises:
            Refusal: it is none.
        """
        form = self._form(self._written(wanted, sight), sight)
        text = form.normalized if wanted.normalize else form.canonical
        return content_of(subject, wanted.kind, wanted.text, wanted.references, text)

    def _form(self, written: WrittenSchema, sight: Sight) -> Form:
        found = self._forms.get(written)
        if found is None:
            try:
                found = self._judges.form(written, sight.tenant)
            except BadSchema as error:
                raise refusals.bad_schema(str(error)) from error
            self._forms.put(written, found)
        return found

    def _faults(
        self, wanted: Wanted, among: Sequence[SubjectVersion], level: Level, sight: Sight
    ) -> list[str]:
        if not among or level is Level.NONE:
            return []
        kept = self.subjects.schemas([version.id for version in among])
        before = [
            Compared(version.version, self._of_kept(kept[version.id]))
            for version in among
            if version.id in kept
        ]
        try:
            return self._judges.faults(self._written(wanted, sight), before, level, sight.tenant)
        except BadSchema as error:
            return [f"it cannot be judged, so it counts as incompatible: {error}"]

    def _of_kept(self, kept: KeptSchema) -> WrittenSchema:
        return self._written(Wanted(kept.kind, kept.text, kept.references), EVERYTHING)

    def _written(self, wanted: Wanted, sight: Sight) -> WrittenSchema:
        """A schema with the texts of all that it refers to.

        Raises:
            Refusal: something that it refers to is not there.
        """
        if len(wanted.references) > MOST_REFERENCES:
            raise refusals.bad_schema(f"it has more than {MOST_REFERENCES} references")
        found: dict[str, str] = {}
        self._gather(wanted, sight, found, {}, ())
        return WrittenSchema(wanted.kind, wanted.text, tuple(found.items()))

    def _gather(
        self,
        wanted: Wanted,
        sight: Sight,
        found: dict[str, str],
        known: dict[_Place, Wanted],
        way: tuple[_Place, ...],
    ) -> None:
        """Gather texts by name; each version once, however many ways lead to it."""
        if len(way) > _MOST_STEPS:
            raise refusals.bad_schema(f"references go on for more than {_MOST_STEPS} steps")
        for reference in wanted.references:
            place = reference.subject, reference.version
            if place in way:
                raise refusals.bad_schema(f"reference {reference.name} leads to itself")
            # Whoever knows it already by another way may still not be one who sees it.
            other = known.get(place) if sight.sees(reference.subject) else None
            if other is None:
                other = known[place] = self._referred(reference, wanted.kind, sight)
                self._gather(other, EVERYTHING, found, known, (*way, place))
            if found.setdefault(reference.name, other.text) != other.text:
                raise refusals.bad_schema(
                    f"it refers to two texts by the name {reference.name!r}; nobody could say "
                    "which is meant"
                )
            if max(len(found), len(known)) > MOST_REFERENCES:
                raise refusals.bad_schema(
                    f"it refers to more than {MOST_REFERENCES} schemas in all"
                )

    def _referred(self, reference: SchemaReference, kind: SchemaKind, sight: Sight) -> Wanted:
        missing = refusals.bad_schema(
            f"it refers to version {reference.version} of {reference.subject} as "
            f"{reference.name!r}, which is not there"
        )
        if not sight.sees(reference.subject):
            raise missing
        seen = self.subjects.seen(reference.subject)
        place = [found for found in seen.versions if found.version == reference.version]
        kept = self.subjects.schema(place[0].id) if place else None
        if kept is None:
            raise missing
        if kept.kind is not kind:
            raise refusals.bad_schema(f"reference {reference.name!r} is of another schema type")
        return Wanted(kept.kind, kept.text, kept.references)

    def _numbered(self, wanted: Wanted, sight: Sight) -> Wanted:
        """With the numbers of the versions that are referred to as the latest.

        What its author does not see stays as it is, and is refused as what is not there.
        """
        if len(wanted.references) > MOST_REFERENCES:
            return wanted
        references = tuple(
            reference._replace(version=self._latest(reference.subject))
            if reference.version == LATEST and sight.sees(reference.subject)
            else reference
            for reference in wanted.references
        )
        return replace(wanted, references=references)

    def _latest(self, subject: str) -> int:
        alive = self.subjects.seen(subject).alive
        return alive[-1].version if alive else LATEST


class _Forms:
    """What schemas came to before: clients ask for the same ones again and again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[WrittenSchema, Form] = OrderedDict()
        self._lock = Lock()

    def get(self, written: WrittenSchema) -> Form | None:
        with self._lock:
            found = self._kept.get(written)
            if found is not None:
                self._kept.move_to_end(written)
            return found

    def put(self, written: WrittenSchema, form: Form) -> None:
        size = len(written.text) + sum(len(text) for _, text in written.references)
        if size > _KEPT_CHARACTERS:
            return
        with self._lock:
            self._kept[written] = form
            if len(self._kept) > _FORMS_KEPT:
                self._kept.popitem(last=False)


def level_of(seen: SubjectSeen) -> Level:
    """What a subject asks of a new version."""
    return Level(seen.compatibility or seen.global_compatibility or DEFAULT_LEVEL)


def mode_of(seen: SubjectSeen) -> str:
    """Whether versions of a subject may come and go."""
    if seen.global_mode == "READONLY_OVERRIDE":
        return "READONLY"
    return seen.mode or seen.global_mode or DEFAULT_MODE


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
