"""JSON as text that is checked, kept as it came, and never too deep.

A consumer is to find the bytes that were sent. A single event and a line of NDJSON are kept as they
are; what is inside of something else is parsed and written anew. That is quick, and right for every
value but one: a number with more digits than a double holds would come out as another. So where
such a number may be, a slower parser keeps numbers as they were written. Where an event is written
as something else than its text, what the parser made of it is all that is left; so there a name
that an object has twice is refused.

Depth is bounded because whoever reads records later may use a parser that is not. What a text is
made of is bounded because it is parsed in one go, which no thread interrupts: an array or a member
takes twenty times as long as a byte of text. It is counted by the marks ``[``, ``{`` and ``:``,
those within strings too, since to look closer would take as long as to parse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from headrace.gateway.events import EventFault, RequestRefused

#: digits and dots as 0, all else but exponents as a space; a regular expression takes forty times
#: as long
_KINDS_OF_BYTES = {**dict.fromkeys("0123456789.", "0"), **dict.fromkeys("eE", "e")}
_DIGITS = bytes(ord(_KINDS_OF_BYTES.get(chr(byte), " ")) for byte in range(256))
_TOO_DEEP = "there are too many levels of JSON"
#: what a double may not hold
_LONG_NUMBER, _LONG_WITH_EXPONENT = b"0" * 17, b"0" * 16 + b"e"
#: a number that may be too small for one
_TINY = re.compile(rb"[0-9][eE]-[0-9]{3}")
#: what stands before the colon behind a name
_BEFORE_COLONS = (b'":', b" :", b"\n:", b"\t:", b"\r:")
#: an integer of more digits takes long to be one
_MOST_DIGITS = 400
_MOST_NAME = 100
_HOLDERS = (dict, list)


def parsed(text: bytes, most_parts: int) -> Any:
    """The value of a JSON text; ``RequestRefused`` says where it is wrong."""
    crowded = too_many_parts(text, most_parts)
    if crowded is not None:
        raise RequestRefused(crowded)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise RequestRefused(bad_json(exc)) from exc


def too_many_parts(text: bytes, most: int) -> EventFault | None:
    """The fault of a text of more arrays, objects and members than are parsed in one go."""
    if len(text) <= most:
        return None
    parts = text.count(b"[") + text.count(b"{") + text.count(b":")
    if parts <= most:
        return None
    said = f"{parts} of [, {{ and : in one JSON text, and it may have {most}; send lines (NDJSON)"
    return EventFault(413, "too-many-parts", f"{said}, or several requests")


def values_in(text: bytes) -> int:
    """How many values a JSON text holds at most: the marks in its strings are counted too."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def bad_json(exc: orjson.JSONDecodeError) -> EventFault:
    """The fault of a text that is no JSON."""
    return EventFault(
        400, "bad-json", f"this is not JSON: {exc.msg}, line {exc.lineno}, column {exc.colno}"
    )


def faithful(text: bytes, value: Any) -> Any:
    """A parsed value that ``orjson.dumps`` writes with every number as it was in the text."""
    if not has_long_number(text):
        return value
    try:
        return json.loads(text, parse_int=_as_written, parse_float=_as_written)
    except RecursionError as exc:
        raise RequestRefused(EventFault(422, "too-deep", _TOO_DEEP)) from exc


def has_long_number(text: bytes) -> bool:
    """Whether a number may be in a text that a double does not hold."""
    kinds = text.translate(_DIGITS)
    if _LONG_NUMBER in kinds or _LONG_WITH_EXPONENT in kinds:
        return True
    return (b"e-" in text or b"E-" in text) and _TINY.search(text) is not None


def exact(text: bytes, value: Any) -> Any:
    """A parsed value, with a ``Decimal`` for each number that a double may not hold.

    It has been looked at how deep the text is.
    """
    if not has_long_number(text):
        return value
    return json.loads(text, parse_int=_integer, parse_float=_decimal)


def with_numbers_as_texts(text: bytes) -> Any:
    """The value of a text, with each number as it is written; its depth has been looked at."""
    return json.loads(text, parse_int=str, parse_float=str)


def number_of_its_own(number: str, found: float) -> bytes:
    """A number that was read as a double, in a form that no other number has.

    Args:
        number: as it is written.
        found: the double.

    Returns:
        As JSON writes the double, if that is the number; a whole one always as it is written.
    """
    is_whole = number.removeprefix("-").isdigit()
    is_same = not is_whole and _decimal(number) == Decimal(repr(found))
    return orjson.dumps(found) if is_same else number.encode()


def _integer(number: str) -> int | Decimal:
    return int(number) if len(number) <= _MOST_DIGITS else Decimal(number)


def _decimal(number: str) -> Decimal:
    try:
        return Decimal(number)
    except InvalidOperation:  # its exponent is of a size that nothing has
        return Decimal("NaN")


def named_twice(text: bytes, value: Any) -> EventFault | None:
    """The fault of a text in which an object has a name twice: parsers keep one of the two."""
    if sum(map(text.count, _BEFORE_COLONS)) == _members(value):
        return None
    try:
        json.loads(text, object_pairs_hook=_once)
    except _TwiceError as twice:
        told = f"an object has the name {str(twice)[:_MOST_NAME]!r} twice"
        return EventFault(400, "bad-json", f"{told}: nobody knows which value is meant")
    except RecursionError:
        return EventFault(422, "too-deep", _TOO_DEEP)
    return None


class _TwiceError(Exception):
    """An object has a name twice."""


def _once(members: Sequence[tuple[str, Any]]) -> None:
    names = set[str]()
    for name, _ in members:
        if name in names:
            raise _TwiceError(name)
        names.add(name)


def _members(value: Any) -> int:
    """How many members all objects of a value have."""
    count, todo = 0, [value]
    for inner in todo:  # grows meanwhile
        if isinstance(inner, dict):
            count += len(inner)
            todo += [child for child in inner.values() if type(child) in _HOLDERS]
        elif isinstance(inner, list):
            todo += [child for child in inner if type(child) in _HOLDERS]
    return count


def _as_written(number: str) -> orjson.Fragment:
    # A function of Python, so that other threads get their turn in between.
    return orjson.Fragment(number)


def written(value: Any) -> bytes | EventFault:
    """A value as JSON text; a fault where it has more levels than can be written (254)."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # What was parsed can be written, but for its depth.
        return EventFault(422, "too-deep", _TOO_DEEP)


def is_deeper(text: bytes, value: Any, limit: int) -> bool:
    """Whether more than ``limit`` arrays and objects are inside one another."""
    if text.count(b"{") + text.count(b"[") <= limit:
        return False
    level, depth = [value], 0
    while level:
        inner = [value for value in level if isinstance(value, dict | list)]
        depth += bool(inner)
        if depth > limit:
            return True
        level = [
            child
            for container in inner
            for child in (container.values() if isinstance(container, dict) else container)
        ]
    return False
