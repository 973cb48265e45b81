"""The first places of a stream's lanes, when it begins: what an operator said, held against a log.

An offset that the log does not have would be a choice of ours in the place of theirs: Kafka's
clients then go where ``auto.offset.reset`` says, and records are read twice or never. So a stream
begins only where all that was said of it is true, and else waits and says what is not.

Lanes that come later are none that were said anything of: they begin at their beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from headrace.model.buckets import whole_lane
from headrace.model.lane_names import in_order, meant, said, taken_apart
from headrace.model.places import OPEN, Place
from headrace.model.some_names import some_of
from headrace.model.starting import AtPlaces, Edge, SinceTime, Starting

#: of lanes that something is wrong with, so many are named
_SHOWN = 3


class Edges(NamedTuple):
    """What a log says of lanes; one that it cannot tell of now is left out."""

    starts: Mapping[str, Place]
    ends: Mapping[str, Place]
    #: of a time
    then: Mapping[str, Place]


def is_earliest(starting: Starting) -> bool:
    """Whether lanes begin where they would if they came later."""
    return starting is Edge.EARLIEST


def too_early(starting: Starting, now_s: float) -> str | None:
    """Why it is no time to begin yet; None if it is."""
    if isinstance(starting, SinceTime) and starting.at_s > now_s:
        return f"startingOffsets {starting.text} is still to come; it begins then"
    return None


def unnamed(starting: Starting, topics: Mapping[str, str], lanes: Collection[str]) -> str | None:
    """What offsets for each lane leave out of topics, or name and they do not have.

    Args:
        starting: what an operator said.
        topics: what the stream's topics are called, each with how its use case says it.
        lanes: that are read of them.

    Returns:
        why the stream cannot begin; None if it can.
    """
    if not isinstance(starting, AtPlaces):
        return None
    wholes = {whole_lane(name) for name in lanes}
    found = (_unnamed(starting, topic, topics, wholes) for topic in topics)
    return next((reason for reason in found if reason is not None), None)


def _unnamed(
    starting: AtPlaces, topic: str, topics: Mapping[str, str], lanes: Collection[str]
) -> str | None:
    """The same of one of them."""
    said_of = _said_of(starting, topic, topics[topic])
    if not said_of:
        return f"startingOffsets name no offset of {topic}; add it, or say earliest or latest"
    wholes = {name for name in lanes if len(topics) == 1 or _is_of(name, topic)}
    named = {meant(text, topic, wholes) for text in said_of}
    if len(named) < len(said_of):
        return f"startingOffsets name a partition of {topic} twice"
    strange, missing = in_order(named - wholes), in_order(wholes - named)
    if strange:
        has = f"which has {len(wholes)} of them" if wholes else "which has none"
        return f"startingOffsets name {_some(strange, topic)} of {topic}, {has}"
    if missing:
        return f"startingOffsets name no offset of {_some(missing, topic)} of {topic}"
    return None


def first_places(
    starting: Starting, topics: Mapping[str, str], lanes: Sequence[str], edges: Edges
) -> dict[str, Place] | str:
    """Where lanes begin, those left out that the log cannot tell of now; or why they cannot.

    Args:
        starting: what an operator said, of which nothing is unnamed.
        topics: as for ``unnamed``.
        lanes: those that begin, all of them at once.
        edges: what the log says of them.
    """
    if isinstance(starting, SinceTime):
        return {name: edges.then[name] for name in lanes if name in edges.then}
    if isinstance(starting, Edge):
        edge = edges.starts if starting is Edge.EARLIEST else edges.ends
        return {name: edge[name] for name in lanes if name in edge}
    named = _by_lane(starting, topics, {whole_lane(name) for name in lanes})
    known = [name for name in lanes if name in edges.starts and name in edges.ends]
    found = {name: _place(named[whole_lane(name)], name, edges) for name in known}
    wrong = [name for name in known if not _holds(edges, name, found[name])]
    if wrong:
        name = in_order(wrong)[0]
        more = f" ({len(wrong) - 1} more are like that)" if len(wrong) > 1 else ""
        return (
            f"startingOffsets begin {name} at {found[name]}, and it holds {edges.starts[name]} to "
            f"{edges.ends[name]}{more}"
        )
    return found


def _holds(edges: Edges, name: str, at: Place) -> bool:
    """Whether somebody can begin there; who does not tell the end tells nothing of a place."""
    return edges.starts[name] <= at <= edges.ends[name] != OPEN


def _place(said_of: Place | Edge, name: str, edges: Edges) -> Place:
    if said_of is Edge.EARLIEST:
        return edges.starts[name]
    return edges.ends[name] if said_of is Edge.LATEST else said_of


def _by_lane(
    starting: AtPlaces, topics: Mapping[str, str], lanes: Collection[str]
) -> dict[str, Place | Edge]:
    return {
        meant(text, topic, lanes): at
        for topic, template in topics.items()
        for text, at in _said_of(starting, topic, template).items()
    }


def _said_of(starting: AtPlaces, topic: str, template: str) -> Mapping[str, Place | Edge]:
    """What was said of a topic, by its name rather than as its use case says it."""
    return starting.topics.get(topic) or starting.topics.get(template, {})


def _is_of(lane: str, topic: str) -> bool:
    found = taken_apart(lane)
    return found is not None and found.topic == topic


def _some(names: Sequence[str], topic: str) -> str:
    shown = some_of([said(name, topic) for name in names], _SHOWN)
    return f"partition {shown}" if len(names) == 1 else f"partitions {shown}"
