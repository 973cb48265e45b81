"""Whether the topic that a log tells of is the stream's, another one, or one that it left.

A broker that has not heard yet that a topic was made again answers with the id of the one before.
A stream that believed one such answer would be sent back, by ``data_loss: skip``, to the beginning
of a topic that is no more, and then once more to that of the one that is; with ``fail`` a person
would be called for nothing. So another id has to be told by every answer for a while, and one that
a stream had before is never gone to by a driver: ids are not given twice, so only a person can know
of a log that is again what it was, as after a failover and back. Nor does a stream go there that
was removed and added again; the topic that it had last may be the one that there is.

A stream that begins has no other id to compare with. Its lanes get their first places if a second
answer, after these were asked, is of the same topic and the same lanes as the first; so do lanes
that come later. What two answers of the same mistaken broker say is taken.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from headrace.board import HeldStream
from headrace.model.buckets import by_whole_lane
from headrace.model.streams import Stream
from headrace.model.topic_lists import id_of_list, ids_in, others, reads_several
from headrace.policies.data_loss import LIST_PATIENCE_S, seen_short
from headrace.ports import TopicInfo

#: what a person does about it who knows better
IF_IT_IS: Final = (
    "If the log is that one again, as after a failover and back, suspend the stream, seek it, and "
    "resume it"
)


def doubted_id(held: HeldStream, info: TopicInfo, asked_s: float, now_s: float) -> str | None:
    """Why nothing is decided by what a log tells now; None if it is of the topic that there is.

    Args:
        held: has what was told before.
        info: what its log says.
        asked_s: monotonic second at which it was asked.
        now_s: monotonic.
    """
    stream = held.stream
    if stream.has_left(info.topic_id):
        return f"{told_as_left(stream, info)}. {IF_IT_IS}"
    other = others(stream.topic_id, info.topic_id)
    if not other:
        held.another = None
        return None
    told = ids_in(info.topic_id)
    # Topics that come to a pattern meanwhile make it no other answer.
    another = id_of_list({topic: told[topic] for topic in other})
    held.another = seen_short(held.another, another, asked_s, now_s, LIST_PATIENCE_S)
    if held.another.lasts(LIST_PATIENCE_S):
        return None
    return (
        f"{made_again(stream, info, other, 'has another id')}; one "
        "broker that has not heard of a change says so as well, so it is asked for "
        f"{LIST_PATIENCE_S:g} s before the topic counts as made again"
    )


def told_as_left(stream: Stream, info: TopicInfo) -> str:
    """What is said of an answer that is of a topic which a stream left."""
    was, told = ids_in(stream.topic_id), ids_in(info.topic_id)
    several = reads_several(stream.topic)
    those = [
        f"topic {topic if several else stream.topic} is told to be one that was deleted and made "
        f"again since (id {told[topic]}{f', now {was[topic]}' if topic in was else ''})"
        for topic in sorted(stream.topics_left(info.topic_id))
    ]
    return f"{', '.join(those)}; a broker that has not heard of it says so"


def made_again(stream: Stream, info: TopicInfo, other: Collection[str], what: str) -> str:
    """What is said of topics of which others are there now, as `others` has them."""
    if not reads_several(stream.topic):
        return f"topic {stream.topic} {what} (id {stream.topic_id}, now {info.topic_id})"
    was, now = ids_in(stream.topic_id), ids_in(info.topic_id)
    return ", ".join(
        f"topic {topic} {what} (id {was[topic]}, now {now[topic]})" for topic in sorted(other)
    )


def is_the_same(one: TopicInfo, other: TopicInfo | None) -> bool:
    """Whether two answers are of the same topic, and of the same lanes, divided or not."""
    if other is None or one.topic_id != other.topic_id:
        return False
    return [*by_whole_lane(one.lanes)] == [*by_whole_lane(other.lanes)]
