"""Where a stream begins that nobody has begun yet, as an operator says it.

Spark's words are known to those who come from there: ``earliest``, ``latest``, or JSON with an
offset for each partition, in which -2 is the earliest and -1 the latest. A time is what most mean
who would count offsets. Those of Kinesis are known as well: ``TRIM_HORIZON``, ``LATEST``, and
``AT_TIMESTAMP`` with a time behind it. They hold once, when the lanes of a stream get their first
places.

What they come to in a log is decided in ``policies/starting.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from headrace.model.places import Place, read_place

#: of what cannot be understood, so many characters are shown
_SHOWN = 200
_FORM = '{"visits": {"0": 23, "1": -2, "2": -1}}'
_WORDS = f"earliest, latest, a time such as 2026-05-17T10:05:00+00:00, or offsets such as {_FORM}"


class Edge(StrEnum):
    """One end of a lane."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class SinceTime:
    """At the first record that is not older; where there is none, at the end."""

    #: seconds since 1970
    at_s: float
    #: as it was written
    text: str


@dataclass(frozen=True, slots=True)
class AtPlaces:
    """At a place for each lane, by topic and what people call the lane."""

    topics: Mapping[str, Mapping[str, Place | Edge]]


Starting = Edge | SinceTime | AtPlaces

_EDGES = {-2: Edge.EARLIEST, -1: Edge.LATEST}
_OTHER_WORDS = {"TRIM_HORIZON": "earliest", "LATEST": "latest"}
_AT_TIMESTAMP = "AT_TIMESTAMP "


def usual(text: str) -> str:
    """What somebody said in the words of Kinesis, in ours; any other as it is."""
    if text.startswith(_AT_TIMESTAMP):
        return text.removeprefix(_AT_TIMESTAMP).strip()
    return _OTHER_WORDS.get(text, text)


@lru_cache(1 << 10)
def read_starting(text: str) -> Starting:
    """What somebody wrote.

    Raises:
        ValueError: it is nothing of that; says what is.
    """
    text = usual(text)
    if text in tuple(Edge):
        return Edge(text)
    if text.lstrip().startswith("{"):
        return _places(text)
    try:
        when = datetime.fromisoformat(text)
        at_s = when.timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"say {_WORDS}; this is {shown(text)}") from None
    if when.tzinfo is None:
        raise ValueError(f"{text} names no time zone: say {when.isoformat()}+00:00 for UTC")
    return SinceTime(at_s, text)


def _places(text: str) -> AtPlaces:
    try:
        said = json.loads(text, object_pairs_hook=each_once)
        topics = {
            topic: {lane: _place(at) for lane, at in lanes.items()} for topic, lanes in said.items()
        }
    except (TypeError, AttributeError, RecursionError, json.JSONDecodeError):
        raise ValueError(f"offsets look like {_FORM}; this is {shown(text)}") from None
    empty = next((topic for topic, lanes in topics.items() if not lanes), None)
    if empty is not None or not topics:
        raise ValueError(f"offsets look like {_FORM}; this names no partition: {shown(text)}")
    return AtPlaces(topics)


def _place(at: Any) -> Place | Edge:
    if not isinstance(at, int | str) or isinstance(at, bool):
        raise TypeError(at)
    if at in _EDGES:
        return _EDGES[at]
    return read_place(str(at))


def each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a key that is there twice nobody knows which was meant.

    Raises:
        ValueError: there is one.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{shown(key)} is named twice")
        found[key] = value
    return found


def shown(text: str) -> str:
    """What somebody typed, cut to what a sentence has room for."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
