"""Places that a person names, as the offsets of a stream's lanes that its log holds.

Somebody types ``earliest``, a time, an offset, or some of Spark's JSON. What is meant is decided by
what the log has now: a place that it does not hold, a lane that it does not have, or one that is
named twice is refused, before anything is done.

What it means to go there, and whether it may be, is `operating/seeking.py`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.cycle.bucket_log import BucketLog
from headrace.cycle.lags import topic_now, untold, with_buckets
from headrace.cycle.whole_positions import placeless
from headrace.errors import ConfigError, LeaderUnknown, Temporary, no_stream
from headrace.model.buckets import bucket_of, by_whole_lane, follows_others, replaced, whole_lane
from headrace.model.lane_names import in_order, meant, spoken, taken_apart
from headrace.model.places import OPEN, UNKNOWN, Place, Places, read_place
from headrace.model.second_division import divided_twice
from headrace.model.starting import each_once, shown, usual
from headrace.model.streams import Position, Stream, StreamId, lineage_of
from headrace.model.topic_lists import is_another, is_away, missing_of, reads_several, topics_read
from headrace.ports import STILL_TO_COME, Log, Registry, TopicInfo

#: an offset as a person types it
_NUMBER = re.compile("-?[0-9]+")


@dataclass(frozen=True, slots=True)
class StreamLog:
    """What a stream can be sought in."""

    stream: Stream
    #: described before the offsets were asked; None if it is not there
    topic: TopicInfo | None
    #: where the log starts and ends, by lane and in their order
    starts: dict[str, Place]
    ends: dict[str, Place]
    places: Places


def stream_log(
    registry: Registry, log: Log, stream: StreamId, positions: Collection[Position] = ()
) -> StreamLog:
    """The topic of a stream, and where it starts and ends.

    Args:
        registry: knows the stream.
        log: knows its topic.
        stream: which it is.
        positions: where it is; what of its lanes is divided otherwise by now is left out, and a
            lane that is so in two ways at once is whole. Buckets that are missing are there.

    Raises:
        UnknownName: there is no such stream.
        LeaderUnknown: of one of its lanes nobody knows; what was decided without it would
            leave it out.
    """
    found = next((known for known in registry.streams() if known.id == stream), None)
    if found is None:
        raise no_stream(str(stream))
    # The topic first: of one that is made again meanwhile the id is not that of the offsets.
    lineage = lineage_of(positions)
    lanes = [one.lane.name for one in positions]
    gone = {*replaced(lineage), *divided_twice(lanes, lineage)}
    info = topic_now(log, found)
    ends = {known.use_case: known.until for known in registry.deployments()}
    until = ends.get(stream.use_case)
    if info is not None and any(map(bucket_of, (*lanes, *(until or ())))):
        lanes += placeless(positions, info, until)  # to be sent to one
    info = with_buckets(info, lanes, gone)
    asked, log = info.lanes if info else (), BucketLog(log)
    starts = _of_all(log.start_offsets(asked), asked)
    places = log.of(found.topic).places
    return StreamLog(found, info, starts, _of_all(log.end_offsets(asked), asked), places)


def check_listed(of: StreamLog, positions: Collection[Position]) -> None:
    """Refuse what would be decided by a list without lanes that were read: it was not whole.

    A topic keeps its lanes for as long as it is the same one, if none of them follows others; into
    what they are divided its list does not say.

    Raises:
        Temporary: the list is without one.
    """
    if of.topic is None or is_another(of.stream.topic_id, of.topic.topic_id):
        return
    if of.topic.parents or follows_others({one.lane.name: one.parents for one in positions}):
        return
    away = missing_of(of.stream.topic, of.topic.lanes, of.topic.topic_id)
    names = (one.lane.name for one in positions)
    read = by_whole_lane(name for name in names if not is_away(name, of.stream.topic, away))
    if missing := in_order(read.keys() - by_whole_lane(of.topic.lanes).keys()):
        lanes = ", ".join(missing)
        raise Temporary(
            f"{lanes}: read before, and not in the list of {of.stream.topic} that a broker gave "
            "now. The topic is the same one, and none of these goes, so that list was "
            "not whole; nothing was done, try again. If the topic was made again, it is told with "
            "another id as soon as all brokers have heard"
        )


def _of_all(offsets: Mapping[str, Place], asked: Sequence[str]) -> dict[str, Place]:
    """Offsets by lane, of all that were asked for."""
    silent = [lane for lane in asked if lane not in offsets]
    if silent:
        raise LeaderUnknown(
            f"{', '.join(silent)}: no broker answers for these lanes now; nothing was done, "
            "try again when they have a leader"
        )
    return {lane: offsets[lane] for lane in asked}


def seek_target(log: Log, of: StreamLog, to: str) -> dict[str, Place]:
    """Offsets by lane for what a person typed.

    Args:
        log: knows which offsets a time means.
        of: the stream to seek.
        to: ``earliest``, ``latest``, an ISO time, these by Kinesis' own names, one offset, or
            Spark's JSON form with -2 and -1; what is given up in it (`given_up`) is left out.

    Raises:
        ConfigError: ``to`` cannot be understood, or is outside what the log holds.
        LeaderUnknown: of one of its lanes nobody knows what was where at that time.
    """
    to = usual(to)
    if to == "earliest":
        return of.starts
    if to == "latest":
        return _told(_latest(BucketLog(log), of), of)
    if to.lstrip().startswith("{"):
        return seek_offsets(of, _from_json(to, of))
    if _NUMBER.fullmatch(to):
        return seek_offsets(of, dict.fromkeys(of.starts, _place(to)))
    asked = list(of.starts)
    return _told(_of_all(BucketLog(log).offsets_at(asked, _timestamp_s(to)), asked), of)


def given_up(of: StreamLog, to: str) -> list[str]:
    """Topics and partitions that a person gives up: ``null`` in Spark's form, of several topics.

    Args:
        of: the stream to seek.
        to: what a person typed, as `seek_target` has understood it.
    """
    if not (reads_several(of.stream.topic) and to.lstrip().startswith("{")):
        return []
    return [name for name, lanes in json.loads(to).items() if lanes is None]


def _latest(log: Log, of: StreamLog) -> dict[str, Place]:
    """Where lanes end; of those whose ends only reading tells, where what is to come begins."""
    return of.ends | log.offsets_at(untold(of.ends), STILL_TO_COME)


def _told(offsets: dict[str, Place], of: StreamLog) -> dict[str, Place]:
    """Offsets by lane, none of which is an end that only reading tells."""
    if lanes := untold(offsets):
        raise ConfigError(
            f"only reading tells where {', '.join(lanes)} of {of.stream.topic} ends; name places, "
            "or a time that records came after, instead of the end"
        )
    return offsets


def seek_offsets(of: StreamLog, wanted: Mapping[str, Place]) -> dict[str, Place]:
    """The offsets by lane themselves, if the log holds them.

    Args:
        of: the stream to seek.
        wanted: offsets by the names of lanes, or by their numbers in the stream's topic.

    Raises:
        ConfigError: an offset is outside what the log holds, or a lane is named twice.
    """
    found: dict[str, Place] = {}
    named = [(lane, offset) for text, offset in wanted.items() for lane in _meant(text, of)]
    for lane, offset in named:
        if lane not in of.starts:
            raise ConfigError(f"{of.stream.topic} has no {_spoken(lane, of.stream.topic)}")
        if lane in found:
            raise ConfigError(f"{lane} is named twice")
        if offset == OPEN:
            _told(of.ends, of)
        if not of.starts[lane] <= offset <= of.ends.get(lane, UNKNOWN):
            raise ConfigError(
                f"{lane} holds offsets {of.starts[lane]} to {of.ends.get(lane)}; {offset} is not "
                "among them"
            )
        found[lane] = offset
    return found


def _meant(text: str, of: StreamLog, topic: str | None = None) -> list[str]:
    """The lanes that a person means: all buckets of a partition by its number, in a topic."""
    lane = meant(text, topic or of.stream.topic, of.starts)
    parts = [name for name in of.starts if whole_lane(name) == lane]
    return parts if parts and lane not in of.starts else [lane]


def _spoken(lane: str, topic: str) -> str:
    """A lane as a person may have said it, also one of another topic."""
    found = taken_apart(whole_lane(lane))
    told = spoken(lane)
    return told if found is None or found.topic == topic else f"{told} of {found.topic}"


def _from_json(text: str, of: StreamLog) -> dict[str, Place]:
    topic, special = of.stream.topic, {"-2": of.starts, "-1": of.ends}
    try:
        said = json.loads(text, object_pairs_hook=_each_once)
        wanted = said if reads_several(topic) else {topic: said[topic]}
        named = [
            (name, str(at))
            for of_topic, lanes in wanted.items()
            if lanes is not None or not reads_several(topic)
            for lane, at in lanes.items()
            for name in _meant(lane, of, of_topic)
        ]
        return {
            lane: special[at].get(lane, UNKNOWN) if at in special else read_place(at)
            for lane, at in _each_once(named).items()
        }
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as exc:
        form = json.dumps({(*_topics(of), topic)[0]: {"0": 23}})
        raise ConfigError(f"offsets look like {form}; this is {shown(text)}") from exc


def _topics(of: StreamLog) -> tuple[str, ...]:
    return topics_read(of.stream.topic, None if of.topic is None else of.topic.topic_id)


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """As `each_once`, with an error that is told as it is.

    Raises:
        ConfigError: a key is there twice.
    """
    try:
        return each_once(pairs)
    except ValueError as exc:
        raise ConfigError(str(exc)) from None


def _place(text: str) -> Place:
    """A place as a person typed it, who may have written it in another way, as ``007``.

    Raises:
        ConfigError: it is wider than that of any log.
    """
    try:
        return UNKNOWN if text.startswith("-") else read_place(text.lstrip("0") or "0")
    except ValueError as exc:
        raise ConfigError(f"no log has a place as wide as {shown(text)}") from exc


def _timestamp_s(text: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ConfigError(
            f"{shown(text)!r} is neither earliest, latest, an offset, nor a time such as "
            "2026-05-17T10:05:00+00:00"
        ) from exc
    if when.tzinfo is None:
        raise ConfigError(f"{text} names no time zone: say {when.isoformat()}+00:00 for UTC")
    return when.timestamp()
