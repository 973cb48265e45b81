"""What a log says of what a stream reads, be it one topic or a list.

A log knows topics. Of a list (`model/topic_lists.py`) each is asked for, and what is there of them
is told as if it were one: their ids together, and the lanes that the list has of each. A topic
that is not there is left out, and so holds up no other; only if none of a list is there, the list
is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from headrace.model.streams import Stream
from headrace.model.topic_lists import (
    id_of_list,
    is_list,
    lanes_in,
    topics_of,
    with_known,
)
from headrace.ports import Log, TopicInfo


def described(log: Log, names: Collection[str]) -> dict[str, TopicInfo]:
    """What is there of topics and of lists, each under its name; see ``Log.topics``."""
    if not any(map(is_list, names)):
        return log.topics(names)
    known = log.topics(_all_topics(names))
    found = {name: known[name] for name in names if name in known}
    lists = {name: _together(name, known) for name in names if is_list(name)}
    return found | {name: info for name, info in lists.items() if info is not None}


def absent(log: Log, names: Collection[str]) -> Collection[str]:
    """Topics that are surely not there, and lists of which none is; see ``Log.absent``."""
    if not any(map(is_list, names)):
        return log.absent(names)
    gone = set(log.absent(_all_topics(names)))
    return [name for name in names if gone.issuperset(topics_of(name))]


def as_known(stream: Stream, info: TopicInfo) -> TopicInfo:
    """The same, with the ids of a list's topics that the stream knows and that are not there."""
    topic_id = with_known(stream.topic_id, info.topic_id)
    return info if topic_id == info.topic_id else replace(info, topic_id=topic_id)


def _all_topics(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(topic for name in names for topic in topics_of(name)))


def _together(name: str, known: dict[str, TopicInfo]) -> TopicInfo | None:
    wanted = lanes_in(name)
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
    ids = {topic: one.topic_id for topic, one in there.items()}
    return TopicInfo(id_of_list(ids), lanes, parents)
