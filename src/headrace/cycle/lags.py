"""Answers for operators that need both the store and Kafka: lag, seek targets, and a health check.

The driver does not need these, so they are asked only when a person asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from headrace.cycle.bucket_log import BucketLog
from headrace.cycle.described import as_known, described
from headrace.cycle.whole_positions import odd, placeless
from headrace.errors import ConfigError, LeaderUnknown, Temporary, UnknownName
from headrace.model.buckets import (
    bucket_of,
    by_whole_lane,
    follows_others,
    of_parts,
    parts_of,
    replaced,
    share_of,
    whole_lane,
)
from headrace.model.lane_names import in_order, meant, spoken, taken_apart
from headrace.model.lineage import Lineage, Parent, closed, ends_in
from headrace.model.places import OPEN, UNKNOWN, Place, Places, read_place
from headrace.model.second_division import divided_twice
from headrace.model.starting import usual
from headrace.model.streams import PassedRange, Position, State, Stream, StreamId, lineage_of
from headrace.model.topic_lists import (
    is_another,
    is_away,
    missing_of,
    others,
    reads_several,
    topic_of_lane,
    topics_read,
)
from headrace.ports import STILL_TO_COME, Log, Registry, Store, TopicInfo

#: offsets by lane
_Offsets = Mapping[str, Place]
#: an offset as a person types it
_NUMBER = re.compile("-?[0-9]+")
#: of what cannot be understood, so many characters are shown
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class StreamLag:
    """One stream with its positions, and how far the log is ahead of them."""

    stream: Stream
    #: active only if tenant and stream both are
    state: State
    #: next offset by lane
    positions: Mapping[str, Place]
    #: end of the log by lane; one that cannot be asked now is left out
    ends: Mapping[str, Place]
    starts: Mapping[str, Place]
    #: None: it is not there, or Kafka was not asked
    topic: TopicInfo | None
    #: where a rerun ends, by lane; one that is over ends nowhere, and has nothing to read
    until: Mapping[str, Place] | None = None
    #: None: no log was asked
    places: Places | None = None
    #: what its lanes follow
    parents: Lineage = field(default_factory=dict)
    #: what lanes passed over right before where they read next
    passed_ranges: Mapping[str, PassedRange] = field(default_factory=dict)

    @property
    def waits_for(self) -> dict[str, list[str]]:
        """Lanes that are not read yet, each with those that have to be done before."""
        waits = closed(self.parents, self.positions)
        return {lane: in_order(parent.lane for parent in waits[lane]) for lane in in_order(waits)}

    @property
    def lag_records(self) -> int | None:
        """Offsets between positions and ends, a rerun's own; None if not all of it is known.

        Without a topic there is none. Of a lane without a leader nobody knows the end, and
        most of what waits may be there.
        """
        if self.topic is None or self.places is None:
            return None
        lanes = set(self.topic.lanes)
        if self.until is not None:
            lanes &= self.until.keys()
        begins = {**self.starts, **self.positions}
        if self.untold or self.odd:
            return None
        if not lanes <= self.ends.keys() & begins.keys():
            return None
        divided_at = replaced(self.parents)
        lasts = {lane: min(self._last(lane), divided_at.get(lane, OPEN)) for lane in lanes}
        found = ((lane, last, begins[lane]) for lane, last in lasts.items())
        between = self.places.between
        return share_of({lane: between(*ends) or 0 for lane, *ends in found if ends[0] > ends[1]})

    @property
    def is_guess(self) -> bool:
        """Whether its lag is one: of what is between two places nobody knows what a bucket has."""
        return any(parts_of(lane) > 1 for lane in (*self.positions, *(self.until or ())))

    @property
    def untold(self) -> list[str]:
        """Lanes of which only reading tells where they end."""
        return untold(self.ends)

    @property
    def odd(self) -> list[str]:
        """What cannot be of its positions, whatever its log says of them."""
        if self.topic is None or not self.is_guess:
            return []
        return odd(self.stream, self.topic, self.positions, self.parents, self.until)

    def _last(self, lane: str) -> Place:
        end = self.ends[lane]
        return end if self.until is None else min(end, self.until[lane])

    def faults(self) -> list[str]:
        """What cannot be: each a sentence. Empty when store and Kafka agree."""
        if self.state is State.REMOVED:
            return []
        if self.topic is None:
            return [f"topic {self.stream.topic} is not there"] if self.positions else []
        found, ends = [], ends_in(self.parents)
        other = others(self.stream.topic_id, self.topic.topic_id)
        if other:
            again = ", ".join(sorted(filter(None, other))) or self.stream.topic
            found.append(f"topic {again} was deleted and made again")
        missing = missing_of(self.stream.topic, self.topic.lanes, self.topic.topic_id)
        found += [
            f"{'topic ' if taken_apart(one) is None else ''}{one} is not there" for one in missing
        ]
        for lane in in_order(self.positions):
            position, start, end = self.positions[lane], self.starts.get(lane), self.ends.get(lane)
            told = spoken(lane, self.stream.topic)
            if is_away(lane, self.stream.topic, missing):
                continue
            if lane not in self.topic.lanes:
                if lane in ends and position >= ends[lane]:
                    continue  # it is done, and its log lists it no more
                of = topic_of_lane(lane, self.stream.topic)
                found.append(f"{spoken(lane)} of {of} is gone")
            elif start is not None and position < start:
                found.append(f"{told}: offsets {position}..{start} were deleted")
            elif end is not None and position > end:
                found.append(f"{told}: position {position} is past the end {end}")
        return found + self.odd


def lags(
    store: Store,
    log: Log | None,
    wanted: Callable[[Stream, State], bool] = lambda stream, state: True,
) -> list[StreamLag]:
    """Streams with what Kafka says of their topics now.

    Args:
        store: knows the streams.
        log: is asked about the topics of those that are wanted, and of no others; None: Kafka is
            asked nothing, and no lag is known.
        wanted: whether a stream is, in the state that it and its tenant are in together.
    """
    found = store.registry.streams()
    # After the streams: somebody may just now be added.
    tenants = {tenant.name: tenant.state for tenant in store.registry.tenants()}
    states = {stream.id: _effective(tenants[stream.id.tenant], stream.state) for stream in found}
    streams = [stream for stream in found if wanted(stream, states[stream.id])]
    known, ends, starts = _of_log(log, {stream.topic for stream in streams})
    until = {deployment.use_case: deployment.until for deployment in store.registry.deployments()}
    positions: dict[StreamId, dict[str, Place]] = {}
    parents: dict[StreamId, dict[str, tuple[Parent, ...]]] = {}
    ranges: dict[StreamId, dict[str, PassedRange]] = {}
    for position in store.progress.load_positions():
        stream_id, lane = position.lane.stream, position.lane.name
        positions.setdefault(stream_id, {})[lane] = position.next_offset
        if position.parents:
            parents.setdefault(stream_id, {})[lane] = position.parents
        if position.passed_range is not None:
            ranges.setdefault(stream_id, {})[lane] = position.passed_range
    infos = {
        stream.id: _divided(_known(stream, known), positions.get(stream.id, {}))
        for stream in streams
    }
    return [
        StreamLag(
            stream=stream,
            state=states[stream.id],
            positions=positions.get(stream.id, {}),
            ends=_of_topic(ends, infos[stream.id]),
            starts=_of_topic(starts, infos[stream.id]),
            topic=infos[stream.id],
            until=until.get(stream.id.use_case),
            places=None if log is None else log.of(stream.topic).places,
            parents=parents.get(stream.id, {}),
            passed_ranges=ranges.get(stream.id, {}),
        )
        for stream in streams
    ]


def _of_log(
    log: Log | None, topics: Collection[str]
) -> tuple[Mapping[str, TopicInfo], _Offsets, _Offsets]:
    """Topics, and where their lanes end and start."""
    if log is None:
        return {}, {}, {}
    known = described(log, topics)
    asked = [lane for info in known.values() for lane in info.lanes]
    told = [
        lane for topic, info in known.items() if log.of(topic).tells_starts for lane in info.lanes
    ]
    return known, log.end_offsets(asked), log.start_offsets(told)


def _known(stream: Stream, known: Mapping[str, TopicInfo]) -> TopicInfo | None:
    info = known.get(stream.topic)
    return None if info is None else as_known(stream, info)


def _effective(tenant: State, stream: State) -> State:
    return tenant if tenant is not State.ACTIVE else stream


def _of_topic(offsets: _Offsets, info: TopicInfo | None) -> _Offsets:
    whole = {lane: whole_lane(lane) for lane in info.lanes} if info else {}
    return {lane: offsets[of] for lane, of in whole.items() if of in offsets}


def _divided(
    info: TopicInfo | None, lanes: Collection[str], gone: Collection[str] = ()
) -> TopicInfo | None:
    """What a log says of a topic, with lanes as a stream has them; without those that are gone."""
    if info is None or not any("#" in name for name in lanes):
        return info
    of = by_whole_lane(name for name in lanes if name not in gone)
    names = tuple(name for lane in info.lanes for name in of.get(lane, [lane]))
    return replace(info, lanes=names, parents=of_parts(info.parents, of))


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
        raise UnknownName(f"there is no stream {stream}; 'headrace streams list' shows them")
    # The topic first: of one that is made again meanwhile the id is not that of the offsets.
    lineage = lineage_of(positions)
    lanes = [one.lane.name for one in positions]
    gone = {*replaced(lineage), *divided_twice(lanes, lineage)}
    info = topic_now(log, found)
    ends = {known.use_case: known.until for known in registry.deployments()}
    until = ends.get(stream.use_case)
    if info is not None and any(map(bucket_of, (*lanes, *(until or ())))):
        lanes += placeless(positions, info, until)  # to be sent to one
    info = _divided(info, lanes, gone)
    asked, log = info.lanes if info else (), BucketLog(log)
    starts = _of_all(log.start_offsets(asked), asked)
    places = log.of(found.topic).places
    return StreamLog(found, info, starts, _of_all(log.end_offsets(asked), asked), places)


def topic_now(log: Log, stream: Stream) -> TopicInfo | None:
    """What a log says now of what a stream reads; None: it is not there."""
    return _known(stream, described(log, [stream.topic]))


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


def _of_all(offsets: _Offsets, asked: Sequence[str]) -> dict[str, Place]:
    """Offsets by lane, of all that were asked for."""
    silent = [lane for lane in asked if lane not in offsets]
    if silent:
        raise LeaderUnknown(
            f"{', '.join(silent)}: no broker answers for these lanes now; nothing was done, "
            "try again when they have a leader"
        )
    return {lane: offsets[lane] for lane in asked}


def untold(ends: Mapping[str, Place]) -> list[str]:
    """Lanes whose log does not say where they end."""
    return in_order(lane for lane, end in ends.items() if end == OPEN)


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
        raise ConfigError(f"offsets look like {form}; this is {_shown(text)}") from exc


def _topics(of: StreamLog) -> tuple[str, ...]:
    return topics_read(of.stream.topic, None if of.topic is None else of.topic.topic_id)


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a key that is there twice nobody knows which was meant.

    Raises:
        ConfigError: there is one.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ConfigError(f"{_shown(key)} is named twice")
        found[key] = value
    return found


def _place(text: str) -> Place:
    """A place as a person typed it, who may have written it in another way, as ``007``.

    Raises:
        ConfigError: it is wider than that of any log.
    """
    try:
        return UNKNOWN if text.startswith("-") else read_place(text.lstrip("0") or "0")
    except ValueError as exc:
        raise ConfigError(f"no log has a place as wide as {_shown(text)}") from exc


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _timestamp_s(text: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ConfigError(
            f"{_shown(text)!r} is neither earliest, latest, an offset, nor a time such as "
            "2026-05-17T10:05:00+00:00"
        ) from exc
    if when.tzinfo is None:
        raise ConfigError(f"{text} names no time zone: say {when.isoformat()}+00:00 for UTC")
    return when.timestamp()
