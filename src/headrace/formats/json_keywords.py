"""Two words of JSON Schema, told so that no event takes long by them.

The validator tells ``uniqueItems`` by a hash that many integers from 2^53 on share, and then
compares each with each; and ``multipleOf`` by a fraction that has as many digits as a number's
exponent says. A hundred kilobytes of such numbers would take seconds, which no thread interrupts.

So here an item is told from others by its text, written in one way, and a multiple by a remainder
that is reckoned without writing out any power of ten. What they mean is what JSON Schema says:
numbers are compared by their value, so 1 is 1.0, and ``true`` is no number; and what a number is
worth is what its digits say, so 0.07 is seven times 0.01. A decimal has all of its digits; beside
decimals no other number has a point, but for zero.

Both are called for each value that they are asked of, which costs a microsecond or two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import orjson

#: integers that a text of orjson may have
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**64 - 1
#: what is written in one way as it is
_SHORT = frozenset({str, int, bool, type(None)})


class UniqueItems:
    """``uniqueItems``: no two of an array are equal."""

    def __init__(self, _schema: Mapping[str, Any], value: bool, _path: list[str | int]) -> None:
        self._asked = value

    def validate(self, items: Any) -> None:
        """Raise ``ValueError`` where two are."""
        if not self._asked or not isinstance(items, list):
            return
        if len(set(_told_apart(items))) < len(items):
            raise ValueError("two of its items are equal")


class MultipleOf:
    """``multipleOf``: a number divided by this one is an integer."""

    def __init__(
        self, _schema: Mapping[str, Any], value: float | Decimal, _path: list[str | int]
    ) -> None:
        self._said = value
        self._digits, self._power = _of_ten(value)

    def validate(self, number: Any) -> None:
        """Raise ``ValueError`` where it is not."""
        if not isinstance(number, int | float | Decimal) or isinstance(number, bool):
            return
        digits, power = _of_ten(number)
        more = power - self._power
        if more >= 0:
            left = digits * pow(10, more, self._digits) % self._digits
        else:
            left = digits % (self._digits * 10**-more)
        if left:
            raise ValueError(f"{number} is not a multiple of {self._said}")


#: by the name that a schema has for them
KEYWORDS: Mapping[str, type] = {"uniqueItems": UniqueItems, "multipleOf": MultipleOf}


def _told_apart(items: list[Any]) -> Iterable[str | bytes]:
    """For each item a text, which two have if they are equal, and only then."""
    kinds = set(map(type, items))
    if kinds == {str}:
        return items
    return map(_short if kinds <= _SHORT else _written, items)


def _short(item: str | bool | int | None) -> bytes:
    try:
        return orjson.dumps(item)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits
        return _written(item)


def _written(item: Any) -> bytes:
    try:
        return orjson.dumps(_whole(item), option=orjson.OPT_SORT_KEYS)
    except (RecursionError, orjson.JSONEncodeError) as exc:
        raise ValueError("its items have too many levels to be compared") from exc


def _whole(value: Any) -> Any:
    """A value in which each number that could be an integer is one, and others have one text."""
    match value:
        case float() if value.is_integer() and _LEAST_INTEGER <= value <= _MOST_INTEGER:
            return int(value)
        case Decimal():
            return _written_out(value)
        case int() if not _LEAST_INTEGER <= value <= _MOST_INTEGER:
            return _written_out(Decimal(value))
        case list():
            return [_whole(inner) for inner in value]
        case dict():
            return {name: _whole(inner) for name, inner in value.items()}
    return value


def _written_out(number: Decimal) -> orjson.Fragment:
    """All digits that a number needs: an integer has no point, and no other ends with a zero."""
    text = f"{number:f}"
    return orjson.Fragment((text.rstrip("0").rstrip(".") if "." in text else text).encode())


def _of_ten(number: float | Decimal) -> tuple[int, int]:
    """A number as its digits and a power of ten: 0.07 is 7 and -2."""
    if isinstance(number, int):
        return number, 0
    text = f"{number:e}" if isinstance(number, Decimal) else repr(number)
    written, _, power = text.partition("e")
    whole, _, parts = written.partition(".")
    return int(whole + parts), int(power or 0) - len(parts)
