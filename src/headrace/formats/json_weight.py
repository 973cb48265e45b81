"""How much a JSON Schema asks of a value, where somebody else may write it.

References that lead to two others each, twenty times over, are a text of one kilobyte that is asked
a million times; and one that leads back to itself twice is asked twice as often at each level of a
value. Nothing interrupts a validator, so a schema of others is weighed before it is used: by the
objects in it, were each reference replaced by what it leads to, by their words
(``formats/json_words``), and by its patterns, which are asked of each character
(``formats/json_patterns``). What stands beside ``unevaluatedProperties`` or ``unevaluatedItems`` is
asked again for it, so a nest of them takes as much longer at each level.

What it weighs times what a value holds is how long that takes, and too much is refused as well.

A schema that leads back to itself has no weight, nor has one with a reference that is no pointer
into a document that we know, or with a name of its own (``$id``) for a part: what its references
mean is then another matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from headrace.errors import ConfigError
from headrace.formats.json_patterns import PatternSizes, check_size
from headrace.formats.json_words import BY_NAME, cost_of
from headrace.payload.json_pointers import pointed

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
#: what gives a part a name of its own, and what did in the oldest draft
_NAME, _NAME_BEFORE = "$id", "id"
_OLDEST = "draft-04"
#: what is there to be referred to
_KEPT = ("$defs", "definitions")
#: what looks at what others beside it have looked at, and so asks all of them again
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_AGAIN = 3
#: but not these: what they ask is asked of other values, by the names or places of which is known
#: that they were looked at
_APART = (
    *("properties", "patternProperties", "additionalProperties", "propertyNames"),
    *("prefixItems", "items", "additionalItems"),
)
_PATTERN = 10
#: of a schema of somebody who may want to keep others waiting
_MOST_PARTS = 10_000
#: its parts times the values of a text, and the KiB of its patterns times the bytes
_MOST_WORK, _MOST_MATCHED = 2_000_000, 4_000_000
#: so either takes half a second at most
_PART_S, _KIB_S = 250e-9, 125e-9


class Weight(NamedTuple):
    """What is asked of each value."""

    #: objects of the schema
    parts: int
    #: KiB of its patterns
    patterns: int

    def refusal(self, text: bytes) -> str:
        """Why a JSON text is not held against the schema; empty: it is."""
        values = values_of(text)
        if self.parts * values <= _MOST_WORK and self.patterns * len(text) <= _MOST_MATCHED:
            return ""
        return (
            f"it has {values} commas and colons and {len(text)} bytes, which is too much for "
            f"a schema of {self.parts} parts and {self.patterns} KiB of patterns"
        )

    def expected_s(self, values: int, size: int) -> float:
        """How long it takes at most to judge so many values in so many bytes."""
        return self.parts * values * _PART_S + self.patterns * size * _KIB_S


def values_of(text: bytes) -> int:
    """How many values a JSON text has, with the names, at most."""
    return 1 + text.count(b",") + text.count(b":")


def weighed(schema: Mapping[str, Any], others: Mapping[str, Any]) -> Weight:
    """The weight of a schema that is used; what it refers to is told by name.

    Raises:
        ConfigError: it has none, or too much.
    """
    weight = weight_of(schema, others, _MOST_PARTS, PatternSizes())
    if weight is None:
        raise ConfigError(
            f"a JSON Schema may have {_MOST_PARTS} parts, each as often as it is referred to, and "
            "three times as often for each unevaluatedProperties or unevaluatedItems around it; "
            "none may lead back to itself or have a $id of its own, and references are pointers "
            "(#/$defs/lead)"
        )
    check_size(weight.patterns)
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
    #: how often each is asked
    references: dict[_Place, int] = field(default_factory=dict)


def weight_of(
    schema: Mapping[str, Any],
    others: Mapping[str, Any],
    most: int,
    size_of: Callable[[str], int] = lambda _: 1,
) -> Weight | None:
    """The weight of a schema; None if it has none, or it has more than ``most`` parts.

    It takes no longer than to look at ``most`` objects. The schema, and what it refers to by name,
    are parsed. ``size_of`` tells what a pattern takes, and may refuse.
    """
    documents = {**others, "": schema}
    if any(map(_has_named_parts, documents.values())):
        return None
    try:
        parts = _parts(documents, most, size_of)
    except KeyError:
        return None
    return None if parts is None else _added_up(parts, _Place("", ""), most)


def _has_named_parts(document: object) -> bool:
    """Whether a part has a name, or the whole has one and refers to others by theirs."""
    if not isinstance(document, Mapping):
        return False
    name = _NAME_BEFORE if _OLDEST in str(document.get("$schema")) else _NAME
    whole, *rest = (part for part, _ in _objects(document, kept=True))
    if any(isinstance(part.get(name), str) for part in rest):
        return True
    refers = (str(part.get(word, "#")) for part in (whole, *rest) for word in _REFERENCES)
    return isinstance(whole.get(name), str) and not all(text.startswith("#") for text in refers)


def _parts(
    documents: Mapping[str, Any], most: int, size_of: Callable[[str], int]
) -> dict[_Place, _Part] | None:
    """All places that are referred to, from the schema on."""
    parts: dict[_Place, _Part] = {}
    todo, total = [_Place("", "")], 0
    while todo:
        place = todo.pop()
        if place in parts:
            continue
        parts[place] = part = _Part()
        for node, times in _objects(pointed(documents[place.document], place.pointer)):
            patterns = _patterns(node)
            part.parts += times * (1 + _PATTERN * len(patterns) + cost_of(node))
            if total + part.parts > most:
                return None
            part.patterns += times * sum(map(size_of, patterns))
            for led in _references(node, place.document):
                part.references[led] = part.references.get(led, 0) + times
        total += part.parts
        todo += part.references
    return parts


def _patterns(node: Mapping[str, Any]) -> list[str]:
    by_name = node.get("patternProperties")
    named = [*by_name] if isinstance(by_name, Mapping) else []
    own = node.get("pattern")
    return [*named, own] if isinstance(own, str) else named


def _references(node: Mapping[str, Any], document: str) -> list[_Place]:
    return [_led_to(str(node[name]), document) for name in _REFERENCES if name in node]


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
            led = [(weights[other], times) for other, times in part.references.items()]
            weights[place] = Weight(
                part.parts + sum(times * weight.parts for weight, times in led),
                part.patterns + sum(times * weight.patterns for weight, times in led),
            )
            if weights[place].parts > most:
                return None
        elif place in part.references or not open_.isdisjoint(part.references):
            return None
        else:
            open_.add(place)
            todo += part.references
    return weights[first]


def _objects(schema: object, *, kept: bool = False) -> Iterator[tuple[Mapping[str, Any], int]]:
    """All objects that are asked, and how often; with ``kept`` also those that only wait for it."""
    todo = [(schema, True, 1)]
    while todo:
        part, is_asked, times = todo.pop()
        if isinstance(part, list):
            todo += [(one, True, times) for one in part]
        elif isinstance(part, Mapping) and is_asked:
            again = times * (_AGAIN if any(word in part for word in _UNEVALUATED) else 1)
            yield part, again
            todo += [
                (value, name not in BY_NAME and name not in _KEPT, _times(name, times, again))
                for name, value in part.items()
                if kept or name not in _KEPT
            ]
        elif isinstance(part, Mapping):
            todo += [(one, True, times) for one in part.values()]


def _times(name: str, times: int, again: int) -> int:
    return times if name in _APART else again
