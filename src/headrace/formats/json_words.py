"""What the words of an object of a JSON Schema cost that are no objects themselves.

The unit is what an object costs that compares a type. Numbers are compared by all of their
digits, each with each of a list, and our own words (``formats/json_keywords``) are called from
elsewhere. Names and ``true`` cost little, but a text of a megabyte has a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from headrace.formats.json_keywords import KEYWORDS

#: what has names of others in it, where anything else has words of JSON Schema
BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies")
#: the same, and what has lists of names by name
_LISTED = (*BY_NAME, "dependentRequired")
#: objects without them that take as long
_DEAR = dict.fromkeys(KEYWORDS, 50)
#: words that compare a number, and objects that take as long: an integer, and another number
_COMPARED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "const")
_INTEGER, _OTHER = 10, 50
#: a number within what is compared as a whole
_NUMBER = 8
#: names, texts and booleans that cost as much as an object
_LIGHT = 4


def cost_of(node: Mapping[str, Any]) -> int:
    """What the words of an object cost, beside itself and the objects in it."""
    words = sum(_DEAR[name] for name in node.keys() & _DEAR.keys())
    words += sum(_compared(node[name]) for name in _COMPARED if name in node)
    listed = node.get("enum")
    words += _OTHER if isinstance(listed, list) and any(map(_compared, listed)) else 0
    return words + _members(listed) + _members([node.get("const")]) + _light(node) // _LIGHT


def _compared(said: object) -> int:
    """What it costs to compare values with this, where it is a number."""
    if not _is_number(said):
        return 0
    return _INTEGER if isinstance(said, int) else _OTHER


def _is_number(said: object) -> bool:
    return isinstance(said, int | float | Decimal) and not isinstance(said, bool)


def _members(listed: object) -> int:
    """What stands in a list, at any depth: values that are compared as a whole, and numbers."""
    count, todo = 0, [listed]
    while todo:
        value = todo.pop()
        inner = list(value.values()) if isinstance(value, Mapping) else value
        if isinstance(inner, list):
            held = [one for one in inner if isinstance(one, list | Mapping)]
            count += sum(1 + len(one) for one in held)
            count += _NUMBER * sum(map(_is_number, inner))
            todo += held
    return count


def _light(node: Mapping[str, Any]) -> int:
    """What stands in lists, and by name, and is no object."""
    lists = [value for value in node.values() if isinstance(value, list)]
    for name in _LISTED:
        by_name = node.get(name)
        if isinstance(by_name, Mapping):
            inner = list(by_name.values())
            lists += [inner, *(one for one in inner if isinstance(one, list))]
    return sum(not isinstance(one, Mapping) for listed in lists for one in listed)
