"""Schemas as they go into a judgement, and what is said of one that is none."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.errors import ConfigError
from headrace.ports.schemas import SchemaKind, WrittenSchema

#: arrays, objects and members of one text; who reads records has to read them all
MOST_PARTS = 50_000
#: arrays and objects inside one another
MOST_LEVELS = 64


class BadSchema(ConfigError):
    """A text is no schema, or refers to what is not there; says where."""


@dataclass(frozen=True, slots=True)
class Form:
    """A schema that was read: the texts by which it is told whether two are the same."""

    #: without what is only layout; two of one canonical text are one schema
    canonical: str
    #: the same, in an order of its own where the order means nothing
    normalized: str
    #: of Protobuf: the descriptor of the file as bytes, by its name in its own pool
    serialized: bytes = b""


def json_of(text: str, number: Callable[[str], Any] = float) -> Any:
    """The value of a JSON text; ``number`` reads what has a point or an exponent.

    Raises:
        BadSchema: it is none, has too many levels or parts, or a name twice in one object.
    """
    parts = text.count("[") + text.count("{") + text.count(":")
    if parts > MOST_PARTS:
        raise BadSchema(f"it has {parts} of [, {{ and :, and may have {MOST_PARTS}")
    try:
        value = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=number
        )
    except RecursionError as exc:
        raise BadSchema(f"more than {MOST_LEVELS} levels are inside one another") from exc
    except json.JSONDecodeError as exc:
        raise BadSchema(
            f"it is not JSON: {exc.msg}, line {exc.lineno}, column {exc.colno}"
        ) from exc
    except ValueError as exc:
        raise BadSchema(f"it has a number that cannot be read: {exc}") from exc
    _check_levels(value)
    return value


def without_layout(text: str) -> tuple[str, str]:
    """A JSON text as it is without layout, and the same with the members of objects sorted.

    A number of more digits than Python keeps stays as it is written: with others than these it is
    another schema.

    Raises:
        BadSchema: as `json_of`.
    """
    # No text has its own digest in it, so nothing in it is taken for such a number.
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    value = json_of(text, lambda written: _number(written, mark))
    written_so = re.compile(f'"{mark}([^"]+)"')
    first, second = (written_so.sub(r"\1", json_text(value, sort=sort)) for sort in (False, True))
    return first, second


def _number(written: str, mark: str) -> float | str:
    found = float(written)
    try:
        is_exact = Decimal(written) == Decimal(repr(found))
    except InvalidOperation:
        is_exact = False
    return found if is_exact else f"{mark}{written}"


def json_text(value: Any, *, sort: bool) -> str:
    """A value as text without layout."""
    return json.dumps(value, separators=(",", ":"), sort_keys=sort, ensure_ascii=True)


def names_kind(kind: str) -> SchemaKind:
    """The kind of that name.

    Raises:
        BadSchema: there is none.
    """
    try:
        return SchemaKind(kind)
    except ValueError:
        there = ", ".join(SchemaKind)
        raise BadSchema(f"there is no schema type {kind[:40]!r}; there are {there}") from None


@dataclass(frozen=True, slots=True)
class Compared:
    """A version that a new schema is held against."""

    version: int
    schema: WrittenSchema


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, often in Counter(n for n, _ in pairs).items() if often > 1)
        raise BadSchema(f"an object has the name {twice[:60]!r} twice")
    return found


def _no_number(name: str) -> None:
    raise BadSchema(f"{name} is no number of JSON")


def _check_levels(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MOST_LEVELS + 1:
            raise BadSchema(f"more than {MOST_LEVELS} levels are inside one another")
        level = [
            child
            for part in level
            if isinstance(part, dict | list)
            for child in (part.values() if isinstance(part, dict) else part)
        ]
