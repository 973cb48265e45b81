"""How much a JSON Schema asks of a value, where somebody else may write it.

References that lead to two others each, twenty times over, are a text of one kilobyte that is asked
a million times; and one that leads back to itself twice is asked twice as often at each level of a
value. Nothing interrupts a validator, so a schema of others is weighed before it is used: by the
objects in it, were each reference replaced by what it leads to, and by its patterns, which are
asked of each character. What our own words cost (``formats/json_keywords``), numbers that are
compared by all of their digits, and values that are compared as a whole, is more.

What it weighs times what a value holds is how long that takes, and too much is refused as well.

A schema that leads back to itself has no weight, nor has one with a reference that is no pointer
into a document that we know, or with a name of its own (``$id``) for a part: what its references
mean is then another matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import unquote

from headrace.errors import ConfigError
from headrace.formats.json_keywords import KEYWORDS
from headrace.payload.json_pointers import pointed

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
#: what gives a part a name of its own, and what did in the oldest draft
_NAME, _NAME_BEFORE = "$id", "id"
_OLDEST = "draft-04"
#: what is there to be referred to
_KEPT = ("$defs", "definitions")
#: what has names of others in it, where anything else has words of JSON Schema
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies")
#: objects without them that take as long
_DEAR = dict.fromkeys(KEYWORDS, 50)
#: words that compare a number, and objects that take as long: an integer, and another number
_COMPARED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "const")
_INTEGER, _OTHER = 10, 50
_PATTERN = 10
#: of a schema of somebody who may want to keep others waiting
_MOST_PARTS = 10_000
#: its parts times the values of a text: less than half a second
_MOST_WORK = 2_000_000
#: its patterns times the bytes of a text: the slowest take five microseconds each
_MOST_MATCHED = 200_000


class Weight(NamedTuple):
    """What is asked of each value."""

    #: objects of the schema
    parts: int
    #: of these, patterns
    patterns: int

    def refusal(self, text: bytes) -> str:
        """Why a JSON text is not held against the schema; empty: it is."""
        values = 1 + text.count(b",") + text.count(b":")
        if self.parts * values <= _MOST_WORK and self.patterns * len(text) <= _MOST_MATCHED:
            return ""
        return (
            f"it has {values} commas and colons and {len(text)} bytes, which is too much for "
            f"a schema of {self.parts} parts and {self.patterns} patterns"
        )


def weighed(schema: Mapping[str, Any], others: Mapping[str, Any]) -> Weight:
    """The weight of a schema that is used; what it refers to is told by name.

    Raises:
        ConfigError: it has none, or too much.
    """
    weight = weight_of(schema, others, _MOST_PARTS)
    if weight is None:
        raise ConfigError(
            f"a JSON Schema may have {_MOST_PARTS} parts, each as often as it is referred to; none "
            "may lead back to itself or have a $id of its own, and references are pointers "
            "(#/$defs/lead)"
        )
    return weight


class _Place(NamedTuple):
    """A part of a document that something refers to."""

    document: str
    pointer: str


@dataclass(slots=True)
class _Part:
    """What stands at a place."""

    parts: int = 0
    patterns: int = 0
    #: each as often as it stands there
    references: list[_Place] = field(default_factory=list)


def weight_of(schema: Mapping[str, Any], others: Mapping[str, Any], most: int) -> Weight | None:
    """The weight of a schema; None if it has none, or it has more than ``most`` parts.

    It takes no longer than to look at ``most`` objects. The schema, and what it refers to by name,
    are parsed.
    """
    documents = {**others, "": schema}
    if any(map(_has_named_parts, documents.values())):
        return None
    try:
        parts = _parts(documents, most)
    except KeyError:
        return None
    return None if parts is None else _added_up(parts, _Place("", ""), most)


def _has_named_parts(document: object) -> bool:
    """Whether a part has a name, or the whole has one and refers to others by theirs."""
    if not isinstance(document, Mapping):
        return False
    name = _NAME_BEFORE if _OLDEST in str(document.get("$schema")) else _NAME
    whole, *rest = _objects(document, kept=True)
    if any(isinstance(part.get(name), str) for part in rest):
        return True
    refers = (str(part.get(word, "#")) for part in (whole, *rest) for word in _REFERENCES)
    return isinstance(whole.get(name), str) and not all(text.startswith("#") for text in refers)


def _parts(documents: Mapping[str, Any], most: int) -> dict[_Place, _Part] | None:
    """All places that are referred to, from the schema on."""
    parts: dict[_Place, _Part] = {}
    todo, total = [_Place("", "")], 0
    while todo:
        place = todo.pop()
        if place in parts:
            continue
        parts[place] = part = _Part()
        for node in _objects(pointed(documents[place.document], place.pointer)):
            patterns = len(node.get("patternProperties") or ()) + ("pattern" in node)
            part.patterns += patterns
            part.parts += 1 + _PATTERN * patterns + _dear(node)
            if total + part.parts > most:
                return None
            part.references += [
                _led_to(str(node[name]), place.document) for name in _REFERENCES if name in node
            ]
        total += part.parts
        todo += part.references
    return parts


def _dear(node: Mapping[str, Any]) -> int:
    """What the words of an object cost that are no schemas."""
    words = sum(_DEAR[name] for name in node.keys() & _DEAR.keys())
    words += sum(_compared(node[name]) for name in _COMPARED if name in node)
    listed = node.get("enum")
    words += _OTHER if isinstance(listed, list) and any(map(_compared, listed)) else 0
    return words + _members([node.get("enum"), [node.get("const")]])


def _compared(said: object) -> int:
    """What it costs to compare values with this, where it is a number."""
    if isinstance(said, bool) or not isinstance(said, int | float | Decimal):
        return 0
    return _INTEGER if isinstance(said, int) else _OTHER


def _members(lists: list[object]) -> int:
    """What stands in lists and objects, themselves in these lists, that are compared as a whole."""
    count, todo = 0, lists
    while todo:
        value = todo.pop()
        inner = list(value.values()) if isinstance(value, Mapping) else value
        if isinstance(inner, list):
            held = [one for one in inner if isinstance(one, list | Mapping)]
            count += sum(1 + len(one) for one in held)
            todo += held
    return count


def _led_to(text: str, document: str) -> _Place:
    name, _, within = text.partition("#")
    return _Place(name or document, unquote(within))


def _added_up(parts: Mapping[_Place, _Part], first: _Place, most: int) -> Weight | None:
    """The weight of a part with all that it leads to; None where that has no end."""
    weights: dict[_Place, Weight] = {}
    open_: set[_Place] = set()
    todo = [first]
    while todo:
        place = todo[-1]
        part = parts[place]
        if place in weights:
            todo.pop()
        elif place in open_:
            open_.remove(place)
            led = [weights[reference] for reference in part.references]
            weights[place] = Weight(
                part.parts + sum(weight.parts for weight in led),
                part.patterns + sum(weight.patterns for weight in led),
            )
            if weights[place].parts > most:
                return None
        elif not open_.isdisjoint(part.references) or place in part.references:
            return None
        else:
            open_.add(place)
            todo += part.references
    return weights[first]


def _objects(schema: object, *, kept: bool = False) -> Iterator[Mapping[str, Any]]:
    """All objects that are asked; with ``kept`` also those that only wait to be referred to."""
    todo = [(schema, True)]
    while todo:
        part, is_asked = todo.pop()
        if isinstance(part, list):
            todo += [(one, True) for one in part]
        elif isinstance(part, Mapping) and is_asked:
            yield part
            todo += [
                (value, name not in _BY_NAME and name not in _KEPT)
                for name, value in part.items()
                if kept or name not in _KEPT
            ]
        elif isinstance(part, Mapping):
            todo += [(one, True) for one in part.values()]
