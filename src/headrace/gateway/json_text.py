"""JSON as text that is checked, kept as it came, and never too deep.

A consumer is to find the bytes that were sent. A single event and a line of NDJSON are kept as they
are; what is inside of something else is parsed and written anew. That is quick, and right for every
value but one: a number with more digits than a double holds would come out as another. So where
such a number may be, a slower parser keeps numbers as they were written.

Depth is bounded because whoever reads records later may use a parser that is not. What a text is
made of is bounded because it is parsed in one go, which no thread interrupts: an array or a member
takes twenty times as long as a byte of text. It is counted by the marks ``[``, ``{`` and ``:``,
those within strings too, since to look closer would take as long as to parse.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from headrace.gateway.events import EventFault, RequestRefused

#: digits and dots as 0, all else as a space; a regular expression takes forty times as long
_DIGITS = bytes(ord("0") if chr(byte) in "0123456789." else ord(" ") for byte in range(256))
_TOO_DEEP = "there are too many levels of JSON"
#: what a double may not hold
_LONG_NUMBER = b"0" * 17


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
    return _LONG_NUMBER in text.translate(_DIGITS)


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
