"""Answers for operators that need both the store and Kafka: lag, seek targets, and a health check.

The driver does not need these, so they are asked only when a person asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.errors import ConfigError, LeaderUnknown, UnknownName
from headrace.model.streams import State, Stream, StreamId
from headrace.ports import Log, Registry, Store, TopicInfo, TopicPartition

#: offsets by topic and partition
_OfTopics = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class StreamLag:
    """One stream with its positions, and how far the log is ahead of them."""

    stream: Stream
    #: active only if tenant and stream both are
    state: State
    #: next offset by partition
    positions: Mapping[int, int]
    #: end of the log by partition; a partition that cannot be asked now is left out
    ends: Mapping[int, int]
    starts: Mapping[int, int]
    #: None: it is not there, or Kafka was not asked
    topic: TopicInfo | None
    #: where a rerun ends, by partition; one that is over ends nowhere, and has nothing to read
    until: Mapping[int, int] | None = None

    @property
    def lag_records(self) -> int | None:
        """Offsets between positions and ends, a rerun's own; None if not all of it is known.

        Without a topic there is none. Of a partition without a leader nobody knows the end, and
        most of what waits may be there.
        """
        if self.topic is None:
            return None
        numbers = set(self.topic.partitions)
        if self.until is not None:
            numbers &= self.until.keys()
        begins = {**self.starts, **self.positions}
        if not numbers <= self.ends.keys() & begins.keys():
            return None
        return sum(max(0, self._last(number) - begins[number]) for number in numbers)

    def _last(self, number: int) -> int:
        end = self.ends[number]
        return end if self.until is None else min(end, self.until[number])

    def faults(self) -> list[str]:
        """What cannot be: each a sentence. Empty when store and Kafka agree."""
        if self.state is State.REMOVED:
            return []
        if self.topic is None:
            return [f"topic {self.stream.topic} is not there"] if self.positions else []
        found = []
        if self.stream.topic_id not in (None, self.topic.topic_id):
            found.append(f"topic {self.stream.topic} was deleted and made again")
        for number, position in sorted(self.positions.items()):
            start, end = self.starts.get(number), self.ends.get(number)
            if number not in self.topic.partitions:
                found.append(f"partition {number} of {self.stream.topic} is gone")
            elif start is not None and position < start:
                found.append(f"partition {number}: offsets {position} to {start - 1} were deleted")
            elif end is not None and position > end:
                found.append(f"partition {number}: position {position} is past the end {end}")
        return found


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
    positions: dict[StreamId, dict[int, int]] = {}
    for position in store.progress.load_positions():
        positions.setdefault(position.lane.stream, {})[position.lane.partition] = (
            position.next_offset
        )
    return [
        StreamLag(
            stream=stream,
            state=states[stream.id],
            positions=positions.get(stream.id, {}),
            ends=ends.get(stream.topic, {}),
            starts=starts.get(stream.topic, {}),
            topic=known.get(stream.topic),
            until=until.get(stream.id.use_case),
        )
        for stream in streams
    ]


def _of_log(
    log: Log | None, topics: Collection[str]
) -> tuple[Mapping[str, TopicInfo], _OfTopics, _OfTopics]:
    """Topics with their ends and starts, by topic."""
    if log is None:
        return {}, {}, {}
    known = log.topics(topics)
    asked = [
        TopicPartition(topic, number) for topic, info in known.items() for number in info.partitions
    ]
    return known, _by_topic(log.end_offsets(asked)), _by_topic(log.start_offsets(asked))


def _effective(tenant: State, stream: State) -> State:
    return tenant if tenant is not State.ACTIVE else stream


def _by_topic(offsets: Mapping[TopicPartition, int]) -> _OfTopics:
    found: dict[str, dict[int, int]] = {}
    for at, offset in offsets.items():
        found.setdefault(at.topic, {})[at.partition] = offset
    return found


@dataclass(frozen=True, slots=True)
class StreamLog:
    """What a stream can be sought in."""

    stream: Stream
    #: described before the offsets were asked; None if it is not there
    topic: TopicInfo | None
    #: where the log starts and ends, by partition
    starts: dict[int, int]
    ends: dict[int, int]


def stream_log(registry: Registry, log: Log, stream: StreamId) -> StreamLog:
    """The topic of a stream, and where it starts and ends.

    Raises:
        UnknownName: there is no such stream.
        LeaderUnknown: of one of its partitions nobody knows; what was decided without it would
            leave it out.
    """
    found = next((known for known in registry.streams() if known.id == stream), None)
    if found is None:
        raise UnknownName(f"there is no stream {stream}; 'headrace streams list' shows them")
    # The topic first: of one that is made again meanwhile the id is not that of the offsets.
    info = log.topics([found.topic]).get(found.topic)
    asked = [TopicPartition(found.topic, number) for number in info.partitions] if info else []
    starts = _of_all(log.start_offsets(asked), asked, found.topic)
    return StreamLog(found, info, starts, _of_all(log.end_offsets(asked), asked, found.topic))


def _of_all(
    offsets: Mapping[TopicPartition, int], asked: Sequence[TopicPartition], topic: str
) -> dict[int, int]:
    """Offsets of one topic by partition, of all that were asked for."""
    silent = [at.partition for at in asked if at not in offsets]
    if silent:
        raise LeaderUnknown(
            f"{topic}{silent}: no broker answers for these partitions now; nothing was done, try "
            "again when they have a leader"
        )
    return {at.partition: offset for at, offset in offsets.items()}


def seek_target(log: Log, of: StreamLog, to: str) -> dict[int, int]:
    """Offsets by partition for what a person typed.

    Args:
        log: knows which offsets a time means.
        of: the stream to seek.
        to: ``earliest``, ``latest``, an ISO time, one offset, or Spark's JSON form with -2 and -1.

    Raises:
        ConfigError: ``to`` cannot be understood, or is outside what the log holds.
        LeaderUnknown: of one of its partitions nobody knows what was where at that time.
    """
    if to == "earliest":
        return of.starts
    if to == "latest":
        return of.ends
    if to.lstrip().startswith("{"):
        return seek_offsets(of, _from_json(to, of))
    if to.lstrip("-").isdigit():
        return seek_offsets(of, dict.fromkeys(of.starts, int(to)))
    topic = of.stream.topic
    asked = [TopicPartition(topic, number) for number in of.starts]
    return _of_all(log.offsets_at(asked, _timestamp_s(to)), asked, topic)


def seek_offsets(of: StreamLog, wanted: Mapping[int, int]) -> dict[int, int]:
    """The offsets by partition themselves, if the log holds them.

    Raises:
        ConfigError: an offset is outside what the log holds.
    """
    for number, offset in wanted.items():
        if number not in of.starts:
            raise ConfigError(f"{of.stream.topic} has no partition {number}")
        if not of.starts[number] <= offset <= of.ends.get(number, -1):
            raise ConfigError(
                f"{of.stream.topic}[{number}] holds offsets {of.starts[number]} to "
                f"{of.ends.get(number)}; {offset} is not among them"
            )
    return dict(wanted)


def _from_json(text: str, of: StreamLog) -> dict[int, int]:
    topic = of.stream.topic
    try:
        offsets = {int(number): int(offset) for number, offset in json.loads(text)[topic].items()}
    except (ValueError, KeyError, AttributeError, TypeError) as exc:
        form = json.dumps({topic: {"0": 23}})
        raise ConfigError(f"offsets look like {form}; this is {text}") from exc
    special = {-2: of.starts, -1: of.ends}
    return {
        number: special[offset].get(number, offset) if offset in special else offset
        for number, offset in offsets.items()
    }


def _timestamp_s(text: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ConfigError(
            f"{text!r} is neither earliest, latest, an offset, nor a time such as "
            "2026-05-17T10:05:00+00:00"
        ) from exc
    if when.tzinfo is None:
        raise ConfigError(f"{text} names no time zone; add +00:00 for UTC")
    return when.timestamp()
