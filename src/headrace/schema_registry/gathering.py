"""What one request reads of schemas besides its own: what it refers to, and versions before it.

Each reference is a look-up in the store and may lead to others, and a level may ask for all
versions before, each with references of its own. None of this is bounded by the size of a request.
So all that one request gathers has one time and one size. What is too much is refused; what takes
too long is told as something that passes, since a slow store is. Nothing has been changed by then.

How long judges have looked is kept here too: a request that is judged again, since something
changed, has one deadline for all.

A look-up that is under way is not cut off: how long one may take is the store's to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from headrace.ports.schema_subjects import (
    KeptSchema,
    SchemaReference,
    SchemaSubjects,
    SubjectVersion,
)
from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry import refusals
from headrace.schema_registry.refusals import Refusal
from headrace.schema_registry.rules.texts import Compared
from headrace.schema_registry.turns import Looked
from headrace.schema_registry.wanted import EVERYTHING, LATEST, Sight, Wanted

MOST_REFERENCES = 100
#: in all texts that one request has looked at
MOST_CHARACTERS = 16_000_000
#: seconds that the store may take for all of it
MOST_S = 5.0
_MOST_STEPS = 20
_ROWS_AT_ONCE = 10
#: subject and version
_Place = tuple[str, int]


class Gathering:
    """What one request gathers; for one thread."""

    def __init__(
        self, subjects: SchemaSubjects, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Nothing is gathered yet."""
        self._subjects = subjects
        self._clock = clock
        self._spent_s = 0.0
        self.looked = Looked()
        self._characters = 0
        self._known: dict[_Place, KeptSchema] = {}

    def again(self) -> None:
        """Begin once more, since something has changed; the time that is spent is spent."""
        self._characters = 0
        self._known.clear()

    def numbered(self, wanted: Wanted, sight: Sight) -> Wanted:
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

    def written(self, wanted: Wanted, sight: Sight) -> WrittenSchema:
        """A schema with the texts of all that it refers to.

        Raises:
            Refusal: something that it refers to is not there, or it is too much.
        """
        if len(wanted.references) > MOST_REFERENCES:
            raise refusals.bad_schema(f"it has more than {MOST_REFERENCES} references")
        self._count(wanted.text)
        found: dict[str, str] = {}
        self._gather(wanted, sight, found, {}, ())
        return WrittenSchema(wanted.kind, wanted.text, tuple(found.items()))

    def ids_of(self, references: Sequence[SchemaReference]) -> tuple[int, ...]:
        """Ids of what was gathered as being referred to."""
        return tuple(
            self._known[reference.subject, reference.version].id for reference in references
        )

    def compared(self, versions: Sequence[SubjectVersion]) -> list[Compared]:
        """Versions with all that they refer to."""
        found: list[Compared] = []
        for start in range(0, len(versions), _ROWS_AT_ONCE):
            some = versions[start : start + _ROWS_AT_ONCE]
            with self._looking():
                kept = self._subjects.schemas([version.id for version in some])
            found += [
                Compared(version.version, self.written(_wanted(kept[version.id]), EVERYTHING))
                for version in some
                if version.id in kept
            ]
        return found

    def _gather(
        self,
        wanted: Wanted,
        sight: Sight,
        found: dict[str, str],
        met: dict[_Place, Wanted],
        way: tuple[_Place, ...],
    ) -> None:
        """Gather texts by name; each version once, however many ways lead to it."""
        if len(way) > _MOST_STEPS:
            raise refusals.bad_schema(f"references go on for more than {_MOST_STEPS} steps")
        for reference in wanted.references:
            place = reference.subject, reference.version
            if place in way:
                raise refusals.bad_schema(f"reference {reference.name} leads to itself")
            # Whoever met it already by another way may still not be one who sees it.
            other = met.get(place) if sight.sees(reference.subject) else None
            if other is None:
                other = met[place] = self._referred(reference, wanted.kind, sight)
                self._gather(other, EVERYTHING, found, met, (*way, place))
            if reference.name not in found:
                self._count(other.text)
            if found.setdefault(reference.name, other.text) != other.text:
                raise refusals.bad_schema(
                    f"it refers to two texts by the name {reference.name!r}; nobody could say "
                    "which is meant"
                )
            if max(len(found), len(met)) > MOST_REFERENCES:
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
        place = reference.subject, reference.version
        kept = self._known.get(place) or self._kept(place)
        if kept is None:
            raise missing
        self._known[place] = kept
        if kept.kind is not kind:
            raise refusals.bad_schema(f"reference {reference.name!r} is of another schema type")
        return _wanted(kept)

    def _kept(self, place: _Place) -> KeptSchema | None:
        subject, number = place
        with self._looking():
            versions = self._subjects.seen(subject).versions
            found = next((version for version in versions if version.version == number), None)
            return None if found is None else self._subjects.schema(found.id)

    def _latest(self, subject: str) -> int:
        with self._looking():
            alive = self._subjects.seen(subject).alive
        return alive[-1].version if alive else LATEST

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """A look-up in the store, if there is time for one more."""
        if self._spent_s >= MOST_S:
            raise Refusal(
                503, 50002, f"the store takes more than {MOST_S:g} s for what is referred to"
            )
        since_s = self._clock()
        try:
            yield
        finally:
            self._spent_s += self._clock() - since_s

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            raise refusals.bad_schema(
                f"with what it refers to and what it is held against it comes to more than "
                f"{MOST_CHARACTERS} characters"
            )


def _wanted(kept: KeptSchema) -> Wanted:
    return Wanted(kept.kind, kept.text, kept.references)
