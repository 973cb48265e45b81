"""What the log is asked when lanes begin, and where they begin by that.

A stream begins once: when its lanes get their first places, or, where an operator wants no more
than what comes, when it is sure that its topic is not there. From then on what `startingOffsets`
says is over: a topic or a lane that comes later was not there to be passed over, and is read from
its beginning. All first lanes begin in one transaction, under the epoch of who asked, and only if
nobody was faster; so what came between look and write is read, whoever dies in between.

What was said, held against a log, is in ``policies/starting.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.board import HeldStream
from headrace.cycle.described import Listed, described
from headrace.cycle.lineage import has_begun
from headrace.cycle.missing_topics import without_topics
from headrace.model.lineage import Lineage
from headrace.model.places import OPEN, Place
from headrace.model.records import LaneStart
from headrace.model.starting import AtPlaces, Edge, SinceTime, Starting, read_starting
from headrace.model.streams import State
from headrace.model.topic_lists import as_said, missing_of
from headrace.policies.starting import Edges, first_places, is_earliest, too_early, unnamed
from headrace.ports import STILL_TO_COME, Log, TopicInfo

NO_END = (
    "startingOffsets: its log does not say where its lanes end, so nobody knows where to begin; "
    "deploy the use case with startingOffsets earliest"
)


class SeenTopic(NamedTuple):
    """A stream whose topic is looked at, as it was when that was asked."""

    held: HeldStream
    info: TopicInfo
    mark: tuple[object, ...]


class NewLanes(NamedTuple):
    """A stream with lanes that have no position yet."""

    seen: SeenTopic
    lanes: list[str]


@dataclass(slots=True)
class _Wanted:
    """Lanes that a log is asked about."""

    starts: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    #: by seconds since 1970
    then: dict[float, list[str]] = field(default_factory=dict)


class Told(NamedTuple):
    """What a log says of new lanes."""

    starts: Mapping[str, Place]
    ends: Mapping[str, Place]
    then: Mapping[float, Mapping[str, Place]]
    #: of which topics these are, asked after that
    again: Mapping[str, TopicInfo | None]

    def edges(self, starting: Starting) -> Edges:
        """What is needed of it for a stream."""
        at_s = starting.at_s if isinstance(starting, SinceTime) else None
        return Edges(self.starts, self.ends, {} if at_s is None else self.then.get(at_s, {}))


def starting_of(held: HeldStream) -> Starting:
    """Where new lanes of a stream begin; what was said holds only for those that it begins with."""
    if has_begun(held) or held.deployment.until is not None:
        return Edge.EARLIEST
    return read_starting(held.deployment.starting_offsets)


def begins_whole(held: HeldStream, info: TopicInfo) -> bool:
    """Whether its first lanes all get their places together.

    One that got its place later would count as added, and begin at its beginning; and of what it
    follows there would be no telling what was there before the stream, and what was lost.
    """
    return not is_earliest(starting_of(held)) or (bool(info.parents) and not has_begun(held))


def begins_without_topic(held: HeldStream, now_s: float) -> bool:
    """Whether a stream begins now, should its topic not be there: all that comes is to be read.

    Offsets of partitions are said of a topic that is there.
    """
    if held.state is State.REMOVED:
        return False
    starting = starting_of(held)
    is_said = is_earliest(starting) or isinstance(starting, AtPlaces)
    return not is_said and too_early(starting, now_s) is None


def without_topic(held: HeldStream) -> LaneStart:
    """That it begins so."""
    return LaneStart(held.stream.id, None, {}, epoch=held.epoch, begins=True)


def waits_to_begin(held: HeldStream, info: TopicInfo, now_s: float) -> str | None:
    """Why a stream cannot begin, whatever its log says of places; None if nothing is known."""
    starting = starting_of(held)
    missing = missing_of(held.reads, info.lanes, info.topic_id)
    if missing and not is_earliest(starting):
        # One that came later would be read from its beginning, whatever was said.
        return f"startingOffsets wait for all that it reads: {without_topics(held.stream, missing)}"
    return too_early(starting, now_s) or unnamed(starting, _names(held, info), info.lanes)


def places_of(new: NewLanes, told: Told) -> dict[str, Place] | str:
    """Where new lanes begin, those left out that the log cannot tell of now; or why they cannot."""
    held = new.seen.held
    began = _began(new)
    if began is not None:
        return began
    starting, topics = starting_of(held), _names(held, new.seen.info)
    if reason := unnamed(starting, topics, new.lanes):
        return reason  # somebody has deployed it otherwise meanwhile
    found = first_places(starting, topics, new.lanes, told.edges(starting))
    if not isinstance(found, str) and OPEN in found.values():
        return NO_END
    return found


def start_of(new: NewLanes, first: Mapping[str, Place], parents: Lineage) -> LaneStart:
    """The first places of lanes, as they are written down."""
    held, info, _ = new.seen
    known, begins = held.stream.topic_id, not is_earliest(starting_of(held))
    return LaneStart(
        held.stream.id, info.topic_id, first, known, parents, held.epoch, begins=begins
    )


def wanted_of(fresh: Iterable[NewLanes]) -> _Wanted:
    """Which edges of new lanes are wanted."""
    wanted = _Wanted()
    for new in fresh:
        if _began(new) is not None:
            continue
        (held, *_), names = new
        starting = starting_of(held)
        if isinstance(starting, SinceTime):
            wanted.then.setdefault(starting.at_s, []).extend(names)
        if starting is Edge.EARLIEST or isinstance(starting, AtPlaces):
            wanted.starts += names
        if starting is Edge.LATEST or isinstance(starting, AtPlaces):
            wanted.ends += names
    return wanted


def asked(wanted: _Wanted, names: Sequence[str], listed: Listed, log: Log) -> Told:
    """Asked in a thread; and once more of which topics these are."""
    starts = log.start_offsets(wanted.starts) if wanted.starts else {}
    ends = log.end_offsets(wanted.ends) if wanted.ends else {}
    if hidden := [lane for lane, end in ends.items() if end == OPEN]:
        told = {lane: end for lane, end in ends.items() if end != OPEN}
        ends = told | log.offsets_at(hidden, STILL_TO_COME)
    then = {at_s: log.offsets_at(lanes, at_s) for at_s, lanes in wanted.then.items()}
    known = described(log, names, listed)
    return Told(starts, ends, then, {name: known.get(name) for name in names})


def _began(new: NewLanes) -> dict[str, Place] | None:
    """Where lanes began that came to a stream, if their log says that of all of them.

    What was in them and is gone is lost; what it begins with is its beginning, whatever is gone.
    """
    (held, info, _), names = new
    if not has_begun(held) or held.deployment.until is not None:
        return None
    found = {name: info.beginnings[name] for name in names if name in info.beginnings}
    return found if len(found) == len(names) else None


def _names(held: HeldStream, info: TopicInfo) -> dict[str, str]:
    return as_said(held.stream.topic, held.deployment.topic, info.topic_id)
