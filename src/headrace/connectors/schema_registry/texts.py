"""A schema as a registry tells it, and the order of all that it refers to.

A text may name others by subject and version, and they others again. Whoever parses it needs what
is named first. A registry should hold no ring of them and no chain without end, but it is somebody
else's. So both are refused, and so is one name for two texts: nobody could say which is meant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.errors import RegistryUnavailable
from headrace.ports import SchemaKind, WrittenSchema

_MOST_DEEP, _MOST_TEXTS = 32, 1_000
#: of all that one schema refers to
MOST_CHARACTERS = 32_000_000
#: of a schema that is kept, besides its texts
_EACH_BYTES = 500


class NotFoundError(Exception):
    """The registry answered that there is none."""


class ReferencesError(Exception):
    """What a schema refers to cannot be put in an order."""


class Referred(NamedTuple):
    """Where a text is that another one names."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a registry, and what it names."""

    kind: SchemaKind
    text: str
    #: name in the text -> where that is
    references: tuple[tuple[str, Referred], ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Document:
        """Read an answer.

        Raises:
            RegistryUnavailable: it is no answer of a registry, so somebody else answers.
            ReferencesError: it is of a kind that nobody here knows.
        """
        kind, text = told.get("schemaType") or "AVRO", told.get("schema")
        if not isinstance(text, str):
            raise RegistryUnavailable("what answers for the schema registry tells no schema")
        if kind not in list(SchemaKind):
            raise ReferencesError(f"it is of kind {kind}, and known are {', '.join(SchemaKind)}")
        try:
            named = tuple(
                (_whole(one["name"]), Referred(_whole(one["subject"]), int(one["version"])))
                for one in told.get("references") or ()
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RegistryUnavailable(
                f"what answers for the schema registry tells no references: {error!r}"
            ) from error
        return cls(SchemaKind(kind), text, named)


def _whole(told: object) -> str:
    """A text that can be sent; JSON also has halves of characters."""
    text = str(told)
    text.encode()
    return text


@dataclass(slots=True)
class _Walk:
    fetch: Callable[[Referred], Document]
    found: dict[str, str] = field(default_factory=dict)
    done: set[Referred] = field(default_factory=set)
    characters: int = 0

    def visit(self, document: Document, above: tuple[Referred, ...]) -> None:
        for name, referred in document.references:
            if referred in above:
                raise ReferencesError(f"what it refers to refers back to {referred.subject}")
            if len(above) >= _MOST_DEEP or len(self.found) >= _MOST_TEXTS:
                raise ReferencesError("it refers to more than anybody means to")
            inner = self.fetch(referred)
            if referred not in self.done:
                self.characters += len(inner.text)
                if self.characters > MOST_CHARACTERS:
                    raise ReferencesError(f"it refers to more than {MOST_CHARACTERS} characters")
                self.visit(inner, (*above, referred))
                self.done.add(referred)
            if self.found.setdefault(name, inner.text) != inner.text:
                raise ReferencesError(f"it refers to two texts by the name {name}")


def in_order(
    document: Document, fetch: Callable[[Referred], Document]
) -> tuple[tuple[str, str], ...]:
    """Name and text of all that a schema refers to; what refers comes later.

    Raises:
        ReferencesError: there is no such order, or no end.
    """
    walk = _Walk(fetch)
    walk.visit(document, ())
    return tuple(walk.found.items())


def size_in_memory(schema: WrittenSchema) -> int:
    """What a schema takes in memory."""
    texts = [schema.text, *(text for pair in schema.references for text in pair)]
    return _EACH_BYTES + sum(map(sys.getsizeof, texts))
