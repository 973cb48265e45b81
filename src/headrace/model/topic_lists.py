"""What a stream reads: a topic, a list of topics and of partitions, or what a pattern matches.

Most streams read one topic. Where the activities of a tenant are in several, or a few partitions of
a topic are to be read and no others, a use case says a list, and its stream has the lanes of all of
them. A list is kept where the name of a topic is, as one text: its parts, in order, with commas
between, which no topic has in its name. ``impressions[3]``, as lanes are called, is a partition.

One topic of a list can be deleted and made again while the others stay. So the id of a list is that
of each of its topics, by name. A topic that a list did not have an id of before is none that was
made again; nor is one that is not there.

What a pattern matches (``topic_patterns.py``) has such an id as well, and its topics are known by
that alone.

Lists are of logs that number their lanes: of another name nobody knows the topic. Whether there are
such topics, only a log says.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from headrace.model.buckets import whole_lane
from headrace.model.lane_names import in_order, taken_apart
from headrace.model.topic_names import connection_of
from headrace.model.topic_patterns import is_pattern

_BETWEEN = ","
#: of a log's own id, where a stream reads one topic
_ONE = ""
#: as if all topics of a stream were others
ALL = frozenset({_ONE})
_REMEMBERED = 1 << 14
#: ids of a pattern may be of thousands of topics, and each that comes makes others
_IDS_REMEMBERED = 1 << 8


def listed(parts: Iterable[str]) -> str:
    """A list, as it is kept; of one topic its name.

    Raises:
        ValueError: nothing is in it, or something is in it twice; says what.
    """
    said = list(parts)
    if not said:
        raise ValueError("names no topic")
    wholes = {part for part in said if taken_apart(part) is None}
    for part in said:
        found = taken_apart(part)
        if said.count(part) > 1:
            raise ValueError(f"names {part} twice")
        if found is not None and found.topic in wholes:
            raise ValueError(f"names {found.topic}, and {part} besides, which is a part of it")
    return _BETWEEN.join(in_order(said))


def is_list(text: str) -> bool:
    """Whether a stream reads a list, and no whole topic."""
    if is_pattern(text):
        return False
    return _BETWEEN in text or taken_apart(text) is not None


def reads_several(text: str) -> bool:
    """Whether a stream reads a list, or what a pattern matches, and no one topic."""
    return is_pattern(text) or is_list(text)


def reads_topics(text: str) -> bool:
    """Whether a use case reads more than one topic, or what a pattern matches."""
    return is_pattern(text) or len(topics_of(text)) > 1


def parts_of(text: str) -> tuple[str, ...]:
    """Topics and partitions that a list names; of one topic that."""
    return tuple(text.split(_BETWEEN))


@lru_cache(_REMEMBERED)
def lanes_in(text: str) -> Mapping[str, frozenset[str]]:
    """The topics of a list, in order, each with the lanes that are read of it; empty: all."""
    found: dict[str, set[str]] = {}
    for part in parts_of(text):
        of = taken_apart(part)
        found.setdefault(part if of is None else of.topic, set()).update([part] if of else [])
    return {topic: frozenset(lanes) for topic, lanes in found.items()}


def topics_of(text: str) -> tuple[str, ...]:
    """The topics of a list, each once; of one topic that; a pattern names none."""
    if is_pattern(text):
        return ()
    return tuple(lanes_in(text)) if is_list(text) else (text,)


def topics_read(text: str, topic_id: str | None) -> tuple[str, ...]:
    """The topics that a stream reads; of a pattern those that it is of."""
    return tuple(ids_in(topic_id)) if is_pattern(text) else topics_of(text)


def as_said(text: str, template: str, topic_id: str | None) -> dict[str, str]:
    """The topics that a stream reads, each with how its use case says it.

    Whoever has the use case as it was before its list became longer knows the names alone.
    """
    read, said = topics_read(text, topic_id), topics_of(template)
    return dict(zip(read, said if len(said) == len(read) else read, strict=True))


def adds_to(text: str, before: str) -> bool:
    """Whether a list has all that another one has, so that what was read of that goes on.

    A topic alone is a list of one.
    """
    if not is_list(text) or is_pattern(before):
        return False
    if (connection_of(text) is None) != (connection_of(before) is None):
        return False
    now = lanes_in(text)
    return all(
        topic in now and (not now[topic] or (bool(lanes) and lanes <= now[topic]))
        for topic, lanes in lanes_in(before).items()
    )


def topic_of_lane(lane: str, text: str) -> str:
    """The topic that a lane of a stream is of.

    Args:
        lane: its name, also of a bucket.
        text: what its stream reads.
    """
    if not reads_several(text):
        return text
    found = taken_apart(whole_lane(lane))
    return text if found is None else found.topic


def missing_of(text: str, lanes: Collection[str], topic_id: str | None) -> list[str]:
    """Topics and partitions of a list that are not there; of one topic none.

    Args:
        text: what a stream reads.
        lanes: what its log lists.
        topic_id: with topics that were there before: those of a pattern are known by that alone.
    """
    if not reads_several(text):
        return []
    there = {whole_lane(lane) for lane in lanes}
    known = {topic_of_lane(lane, text) for lane in there} | there
    parts = topics_read(text, topic_id) if is_pattern(text) else parts_of(text)
    return [part for part in parts if part not in known]


def is_away(lane: str, text: str, missing: Collection[str]) -> bool:
    """Whether a lane is one of what is not there, as `missing_of` has it."""
    return bool(missing) and (whole_lane(lane) in missing or topic_of_lane(lane, text) in missing)


def part_of_lane(lane: str, text: str) -> str:
    """What a list or a pattern calls that which a lane is of: a topic, or a partition of one."""
    whole = whole_lane(lane)
    named = not is_pattern(text) and whole in parts_of(text)
    return whole if named else topic_of_lane(lane, text)


def id_without(topic_id: str, topics: Collection[str]) -> str:
    """The id of a list that has some of its topics no more."""
    return id_of_list({name: one for name, one in ids_in(topic_id).items() if name not in topics})


def id_of_list(ids: Mapping[str, str]) -> str:
    """The id of a list: those of its topics, by name."""
    return json.dumps(ids, sort_keys=True, separators=(",", ":"))


def ids_in(topic_id: str | None) -> Mapping[str, str]:
    """Ids by topic; of one topic its own, under no name."""
    if topic_id is None:
        return {}
    return _ids_of_list(topic_id) if topic_id.startswith("{") else {_ONE: topic_id}


@lru_cache(_IDS_REMEMBERED)
def _ids_of_list(topic_id: str) -> Mapping[str, str]:
    found: dict[str, str] = json.loads(topic_id)
    return found


def as_list_id(topic_id: str, before: str) -> str:
    """The id of a topic as that of a list, if a stream has read that topic alone until now."""
    return id_of_list({before: topic_id}) if _ONE in ids_in(topic_id) else topic_id


def with_known(was: str | None, now: str) -> str:
    """The id of what is there, and of topics of a list that were and are not now."""
    known = ids_in(was)
    if was in (None, now) or _ONE in known:
        return now
    return id_of_list({**known, **ids_in(now)})


def others(was: str | None, now: str | None) -> frozenset[str]:
    """Topics that are others than they were; of one topic something that is true of all lanes."""
    if was == now:
        return frozenset()
    before, after = ids_in(was), ids_in(now)
    return frozenset(
        topic for topic in before.keys() & after.keys() if before[topic] != after[topic]
    )


def is_another(was: str | None, now: str | None) -> bool:
    """Whether a topic has another id than a stream knows, where it knows one."""
    return bool(others(was, now))


def is_of(lane: str, topics: Collection[str]) -> bool:
    """Whether a lane is of one of the topics that are others, as `others` has them."""
    if not topics or _ONE in topics:
        return bool(topics)
    found = taken_apart(whole_lane(lane))
    return found is not None and found.topic in topics


def topics_left(topic_id: str, left: Iterable[str], stays: str | None) -> frozenset[str]:
    """The topics of it that a stream has left, and has not now; of one topic as `others` has it.

    Args:
        topic_id: what a log tells.
        left: ids that the stream had.
        stays: the one that it has, or may have still.
    """
    had = list(left)
    # A topic of a list that it has no id of now may be the one that it had last.
    stay = {**(ids_in(had[-1]) if had else {}), **ids_in(stays)}
    gone = {item for one in had for item in ids_in(one).items()} - stay.items()
    return frozenset(name for name, one in ids_in(topic_id).items() if (name, one) in gone)
