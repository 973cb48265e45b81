"""A schema as somebody sends it, and what that somebody sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.ports.schema_subjects import SchemaReference
from headrace.ports.schemas import SchemaKind

#: stands for the number of the newest version
LATEST = -1


@dataclass(frozen=True, slots=True)
class Sight:
    """Whose request it is, as far as a registry has to know."""

    tenant: str | None
    sees: Callable[[str], bool]
    #: whether it gives schemas their numbers, while they are imported
    may_number: bool
    #: it sees all there is
    sees_all: bool = False
    #: whose turn at the judges it waits for, see ``Caller``; None: nobody's
    held_as: str | None = None
    #: of a key of no tenant for some subjects: which, see ``headrace.model.credentials.names``
    pattern: str | None = None
    #: of a tenant: after which subjects are named that it sees, and those that it registers under
    seen_topics: Callable[[], frozenset[str]] = frozenset
    sent_topics: Callable[[], frozenset[str]] = frozenset

    def topics(self) -> frozenset[str] | None:
        """After which subjects are named that may be shown; None: all may."""
        return None if self.tenant is None else self.seen_topics()


EVERYTHING = Sight(None, lambda _: True, may_number=True, sees_all=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A schema as somebody sends it."""

    kind: SchemaKind
    text: str
    references: tuple[SchemaReference, ...] = ()
    normalize: bool = False
    #: the numbers that it has elsewhere; None: it is given some here
    id: int | None = None
    version: int | None = None
