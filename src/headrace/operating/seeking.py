"""Setting where a stream reads next, also while it runs.

A seek to where the log is not would stop the stream, or lose what it meant to read again; so
offsets are looked at before the store is told. Lanes that a failure stopped go on.

Offsets mean something in one topic only. So the store is told the id of the topic they were looked
up in, and one that is made again before any driver has looked is found as it always is. Of a topic
that was made again no lane keeps an offset of the old one: all partitions are sought together, and
lanes of those it does not have would begin at the beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.cycle.lags import seek_offsets, seek_target, stream_log
from headrace.errors import ConfigError
from headrace.model.streams import Stream, StreamId
from headrace.ports import Log, Store, TopicInfo


def seek(store: Store, log: Log, stream: StreamId, to: str | Mapping[int, int]) -> dict[int, int]:
    """Let a stream read next at ``to``; return the offsets by partition.

    Args:
        store: knows the stream, and is told.
        log: knows the offsets.
        stream: the one to seek.
        to: what a person typed (see ``seek_target``), or offsets by partition.

    Raises:
        UnknownName: there is no such stream.
        ConfigError: ``to`` cannot be understood, the log does not hold it, the stream was removed,
            or its topic was made again and not all of it is sought.
    """
    of = stream_log(store, log, stream)
    offsets = seek_target(log, of, to) if isinstance(to, str) else seek_offsets(of, to)
    if not offsets or of.topic is None:
        raise ConfigError(f"stream {stream} has no partition to seek; is its topic there?")
    lanes = {each.lane.partition for each in store.load_positions([stream])}
    _check_whole(of.stream, of.topic, lanes & set(of.topic.partitions) - set(offsets))
    gone = dict.fromkeys(lanes - set(of.topic.partitions), 0)
    store.seek(stream, gone | offsets, of.topic.topic_id)
    return offsets


def _check_whole(stream: Stream, topic: TopicInfo, left: Collection[int]) -> None:
    if left and stream.topic_id not in (None, topic.topic_id):
        numbers = ", ".join(str(each) for each in sorted(left))
        raise ConfigError(
            f"topic {stream.topic} was deleted and made again; seek all of its partitions, "
            f"also {numbers}"
        )
