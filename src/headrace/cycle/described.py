"""What a log says of what a stream reads, be it one topic, a list, or what a pattern matches.

A log knows topics. Of a pattern those are asked for that match, of all that there are. Of a list
(`model/topic_lists.py`) each is asked for, and what is there of them is told as if it were one:
their ids together, and the lanes that the list has of each. A topic that is not there is left out,
and so holds up no other; only if none of a list is there, the list is not.

To list all topics of a cluster takes long where they are many. A driver looks at patterns in each
second, so it keeps the list for some (`KeptList`), one for all who want it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from headrace.board import HeldStream
from headrace.errors import BrokerUnavailable
from headrace.model.streams import Stream
from headrace.model.topic_lists import (
    id_of_list,
    ids_in,
    is_list,
    is_of,
    lanes_in,
    reads_several,
    topic_of_lane,
    with_known,
)
from headrace.model.topic_patterns import by_tenant, is_pattern, matching, pattern_of
from headrace.ports import Log, TopicInfo

#: topics, each with the lanes that are read of it; empty: all
_Wanted = Mapping[str, frozenset[str]]
_EVERY = frozenset[str]()
#: tells all topics that there are
Listed = Callable[[Log], Collection[str]]


@dataclass(slots=True)
class KeptList:
    """All topics that there are, as they were told last; for one thread at a time."""

    names: Collection[str] = ()
    _asked_s: float = -math.inf

    def within(self, most_s: float, now_s: float) -> Listed:
        """Asks for a list that is no older than so many seconds."""
        return partial(self._told, most_s, now_s)

    def _told(self, most_s: float, now_s: float, log: Log) -> Collection[str]:
        if now_s - self._asked_s > most_s:
            self.names, self._asked_s = log.all_topics(), now_s
        return self.names


def all_topics(log: Log) -> Collection[str]:
    """By a list that is asked for now."""
    return log.all_topics()


def described(
    log: Log, names: Collection[str], listed: Listed = all_topics
) -> dict[str, TopicInfo]:
    """What is there of topics, lists and patterns, each under its name; see ``Log.topics``.

    Where nobody tells which topics there are, patterns are left out as if nothing matched: all
    others are told.

    Args:
        log: is asked.
        names: what streams read.
        listed: tells all topics that there are.
    """
    if not any(map(reads_several, names)):
        return log.topics(names)
    wanted = _wanted(names, log, listed)
    known = log.topics(_topics(wanted.values())) if wanted else {}
    found = {name: known[name] for name in wanted if name in known}
    several = {name: _together(of, known) for name, of in wanted.items() if reads_several(name)}
    return found | {name: info for name, info in several.items() if info is not None}


def absent(log: Log, names: Collection[str], listed: Listed = all_topics) -> Collection[str]:
    """Topics that are surely not there, and lists and patterns of which none is.

    ``listed`` is as for `described`.
    """
    if not any(map(reads_several, names)):
        return log.absent(names)
    wanted = _wanted(names, log, listed)
    gone = set(log.absent(_topics(wanted.values()))) if wanted else set()
    return [name for name, of in wanted.items() if gone.issuperset(of)]


def as_known(stream: Stream, info: TopicInfo) -> TopicInfo:
    """The same, with the ids of a list's topics that the stream knows and that are not there."""
    topic_id = with_known(stream.topic_id, info.topic_id)
    return info if topic_id == info.topic_id else replace(info, topic_id=topic_id)


def as_taken(held: HeldStream, info: TopicInfo) -> TopicInfo | None:
    """What is there besides what only a longer list names, which another version is to handle."""
    if held.reads == held.stream.topic:
        return info
    mine = lanes_in(held.reads)
    of = {name: topic_of_lane(name, held.stream.topic) for name in info.lanes}
    lanes = tuple(
        name for name, topic in of.items() if name in held.lanes or _is_named(name, mine.get(topic))
    )
    topics = {*mine, *(of[name] for name in lanes)}
    ids = {topic: one for topic, one in ids_in(info.topic_id).items() if topic in topics}
    return replace(info, topic_id=id_of_list(ids), lanes=lanes) if ids else None


def _is_named(lane: str, lanes: Collection[str] | None) -> bool:
    return lanes is not None and (not lanes or lane in lanes)


def without(info: TopicInfo, topics: Collection[str]) -> TopicInfo | None:
    """What is there of a pattern besides some of its topics; None: nothing."""
    if not topics:
        return info
    ids = {topic: one for topic, one in ids_in(info.topic_id).items() if topic not in topics}
    lanes = tuple(name for name in info.lanes if not is_of(name, topics))
    return replace(info, topic_id=id_of_list(ids), lanes=lanes) if ids else None


def _wanted(names: Collection[str], log: Log, listed: Listed) -> dict[str, _Wanted]:
    patterns = {pattern_of(name) for name in names if is_pattern(name)}
    try:
        there = listed(log) if patterns else ()
    except BrokerUnavailable:
        return {name: _wanted_of(name, {}) for name in names if not is_pattern(name)}
    found = {pattern: by_tenant(pattern, there) for pattern in patterns}
    return {name: _wanted_of(name, found) for name in names}


def _wanted_of(name: str, found: Mapping[str, Mapping[str, Collection[str]]]) -> _Wanted:
    if is_pattern(name):
        return dict.fromkeys(matching(name, found[pattern_of(name)]), _EVERY)
    return lanes_in(name) if is_list(name) else {name: _EVERY}


def _topics(wanted: Iterable[_Wanted]) -> list[str]:
    return list(dict.fromkeys(topic for of in wanted for topic in of))


def _together(wanted: _Wanted, known: Mapping[str, TopicInfo]) -> TopicInfo | None:
    there = {topic: known[topic] for topic in wanted if topic in known}
    if not there:
        return None
    lanes = tuple(
        lane
        for topic, info in there.items()
        for lane in info.lanes
        if not wanted[topic] or lane in wanted[topic]
    )
    parents = {
        lane: of for info in there.values() for lane, of in info.parents.items() if lane in lanes
    }
    begin = {lane: at for info in there.values() for lane, at in info.beginnings.items()}
    ids = {topic: one.topic_id for topic, one in there.items()}
    trouble = "; ".join(info.trouble for info in there.values() if info.trouble)
    return TopicInfo(id_of_list(ids), lanes, parents, begin, trouble)
