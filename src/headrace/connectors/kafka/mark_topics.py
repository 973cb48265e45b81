"""At which partition a Kafka transaction leaves behind how far a lane has come.

Such marks are offsets of a group, and brokers keep offsets of partitions that are there, and of
nothing else. Of a lane of Kafka it is the lane's own. A shard of a stream has none, so there is a
topic of ours for its stream, ``headrace.marks.6.clicks.acme.visits`` for ``clicks:acme.visits``,
with a partition for each number of a shard up to the highest. Nothing is ever in it, and its place,
which no offset has room for, is told beside the offset (`sink_transaction_line.py`). The number in
its name is how long that of the connection is, so that no two streams have one topic.

The topic is made, and gets more partitions, when a shard is first written for: an operator that
has not to know of it does not forget it. A stream whose shards have been split so often that it
would take very many partitions is refused, and holds up no other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Final

from headrace.connectors.kafka.partitions import TopicPartition, partition_of
from headrace.connectors.kafka.sink_transaction_line import TransactionLine
from headrace.connectors.kafka.topic_shapes import as_of_a_sink
from headrace.connectors.kafka.topics import ungrown_topics, unmakable_topics
from headrace.errors import HeadraceError, SinkUnavailable, TargetMissing
from headrace.model.streams import Slice
from headrace.model.topic_names import connection_of, own_name
from headrace.ports import Effect

_OURS: Final = "headrace.marks."
#: of the number of a shard, since brokers pay for each partition
MOST_SHARDS: Final = 5_000
#: everybody in the bin waits
_MAKE_S: Final = 5.0
_LOOK_S: Final = 0.05


def mark_of(piece: Slice) -> TopicPartition:
    """Where is told how far a slice has come.

    Raises:
        TopicMissing: its lane is neither a partition nor a shard.
    """
    lane = partition_of(piece)
    connection = connection_of(lane.topic)
    if connection is None:
        return lane
    return lane._replace(topic=f"{_OURS}{len(connection)}.{connection}.{own_name(lane.topic)}")


def parked_in(lane: TopicPartition) -> int:
    """In which partition of a topic is parked what comes of a marked lane, however wide that is.

    Records of a key go on in another shard after a split or a merge, and must come behind those
    that are parked: so what is parked of shards is in one partition.
    """
    return 0 if _is_ours(lane) else lane.partition


def unmarkable(
    line: TransactionLine, config: Mapping[str, str], effects: Mapping[int, Effect]
) -> dict[int, HeadraceError]:
    """See that all lanes of effects have partitions to be marked at; why, for each of which not.

    Args:
        line: to Kafka.
        config: properties of clients that make topics there.
        effects: by number.

    Raises:
        SinkUnavailable: no broker answers.
    """
    lanes = {index: {*map(mark_of, effect.slices)} for index, effect in effects.items()}
    troubles = _troubles(line, config, set().union(*lanes.values()))
    found = {index: min(own & troubles.keys(), default=None) for index, own in lanes.items()}
    return {index: troubles[lane] for index, lane in found.items() if lane is not None}


def _troubles(
    line: TransactionLine, config: Mapping[str, str], lanes: Collection[TopicPartition]
) -> dict[TopicPartition, HeadraceError]:
    ours = [lane for lane in lanes if _is_ours(lane)]
    found: dict[TopicPartition, HeadraceError] = {
        lane: TargetMissing(
            f"shard {lane.partition}: its number is over {MOST_SHARDS - 1}, and what was sent of "
            f"it to Kafka exactly once would need as many partitions of topic {lane.topic}; read "
            "a stream that was made anew, or write at-least-once"
        )
        for lane in ours
        if lane.partition >= MOST_SHARDS
    }
    narrow = dict[str, int]()
    for topic, number in ours:
        if line.marked.get(topic, 0) <= number < MOST_SHARDS:
            narrow[topic] = max(number + 1, narrow.get(topic, 0))
    if narrow:
        troubles = _widened(line, config, narrow)
        found |= {lane: troubles[lane.topic] for lane in ours if lane.topic in troubles}
    return found


def _widened(
    line: TransactionLine, config: Mapping[str, str], narrow: Mapping[str, int]
) -> dict[str, HeadraceError]:
    there = line.widths()
    missing = {topic: count for topic, count in narrow.items() if topic not in there}
    short = {topic: count for topic, count in narrow.items() if 0 < there.get(topic, 0) < count}
    troubles = as_of_a_sink(
        {
            **(unmakable_topics(config, missing, _MAKE_S) if missing else {}),
            **(ungrown_topics(config, short, _MAKE_S) if short else {}),
        }
    )
    late, give_up_s = narrow.keys() - troubles.keys(), time.monotonic() + _MAKE_S
    while True:
        line.marked |= {topic: there[topic] for topic in late if topic in there}
        late = {topic for topic in late if line.marked.get(topic, 0) < narrow[topic]}
        if not late or time.monotonic() > give_up_s:
            break
        line.producer.poll(_LOOK_S)
        there = line.widths()
    why = "it was made and is not there yet"
    return troubles | {topic: SinkUnavailable(f"topic {topic}: {why}") for topic in late}


def _is_ours(lane: TopicPartition) -> bool:
    return lane.topic.startswith(_OURS)
