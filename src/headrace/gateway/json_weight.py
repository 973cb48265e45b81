"""How much a JSON Schema asks of each value, where somebody else may write it.

References that lead to two others each, twenty times over, are a text of one kilobyte that is asked
a million times; and one that leads back to itself twice is asked twice as often at each level of a
value. Nothing interrupts a validator, so a schema of others is weighed before it is used: by the
objects in it, were each reference replaced by what it leads to. What our own words cost
(``formats/json_keywords``), and patterns, is more.

A schema that leads back to itself has no weight, nor has one with a reference that is no pointer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from headrace.formats.json_keywords import KEYWORDS
from headrace.payload.json_pointers import pointed

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
#: what is there to be referred to
_KEPT = ("$defs", "definitions")
#: what has names of others in it, where anything else has words of JSON Schema
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies")
#: objects without them that take as long
_DEAR = {**dict.fromkeys(KEYWORDS, 50), "pattern": 10, "patternProperties": 10}


class _Place(NamedTuple):
    """A part of a document that something refers to."""

    document: str
    pointer: str


@dataclass(slots=True)
class _Part:
    """What stands at a place."""

    weight: int = 0
    #: each as often as it stands there
    references: list[_Place] = field(default_factory=list)


def weight_of(schema: Mapping[str, Any], others: Mapping[str, Any], most: int) -> int | None:
    """The weight of a schema; None if it has none, or it is more than ``most``.

    It takes no longer than to look at ``most`` objects. The schema, and what it refers to by name,
    are parsed.
    """
    try:
        parts = _parts({**others, "": schema}, most)
    except KeyError:
        return None
    return None if parts is None else _added_up(parts, _Place("", ""), most)


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
            part.weight += 1 + sum(_DEAR[name] for name in node.keys() & _DEAR.keys())
            if total + part.weight > most:
                return None
            part.references += [
                _led_to(str(node[name]), place.document) for name in _REFERENCES if name in node
            ]
        total += part.weight
        todo += part.references
    return parts


def _led_to(text: str, document: str) -> _Place:
    name, _, within = text.partition("#")
    return _Place(name or document, unquote(within))


def _added_up(parts: Mapping[_Place, _Part], first: _Place, most: int) -> int | None:
    """The weight of a part with all that it leads to; None where that has no end."""
    weights: dict[_Place, int] = {}
    open_: set[_Place] = set()
    todo = [first]
    while todo:
        place = todo[-1]
        references = parts[place].references
        if place in weights:
            todo.pop()
        elif place in open_:
            open_.remove(place)
            weights[place] = parts[place].weight + sum(weights[led] for led in references)
            if weights[place] > most:
                return None
        elif not open_.isdisjoint(references) or place in references:
            return None
        else:
            open_.add(place)
            todo += references
    return weights[first]


def _objects(schema: object) -> Iterator[Mapping[str, Any]]:
    """All objects that are asked, without those that only wait to be referred to."""
    todo = [(schema, True)]
    while todo:
        part, is_asked = todo.pop()
        if isinstance(part, list):
            todo += [(one, True) for one in part]
        elif isinstance(part, Mapping) and is_asked:
            yield part
            todo += [
                (value, name not in _BY_NAME) for name, value in part.items() if name not in _KEPT
            ]
        elif isinstance(part, Mapping):
            todo += [(one, True) for one in part.values()]
